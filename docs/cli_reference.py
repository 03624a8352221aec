"""Write the page of the command line from its help: `python docs/cli_reference.py`.

docs/reference/cli.md is the output of this script; a test compares them.
"""

from __future__ import annotations

import io
import os
import sys
from contextlib import redirect_stdout

from continuations.cli import main

HEAD = """\
# Command line

The extra `cli` installs it. `python -m continuations` is the same program. These variables of the environment replace options: `CONTINUATIONS_APP`,
`CONTINUATIONS_STORE`, `CONTINUATIONS_CONTEXT` and `CONTINUATIONS_BY`.

`--json` prints one line of JSON, in the forms of `docs/schemas/continuations.schema.json`.
Errors stay text on standard error; the exit code tells them apart.

Ctrl-C or SIGTERM while `start` or `resume` works on a run:

| signal | effect |
|---|---|
| the first | Nothing new begins. Tools in progress are completed. A model call is given up after 5 s. The run is suspended, and any process can resume it at once. |
| the second | The command stops at once. If a tool was in progress, the run stays claimed for the rest of its claim, and the outcome of a tool that may not be repeated is unknown. |

The exit code is 130 after Ctrl-C and 143 after SIGTERM. In `chat`, the first Ctrl-C has the same effect on the reply, and
the chat goes on: Enter continues the reply, and `/stop` gives it up. At the prompt, Ctrl-C leaves the chat.

Completion:

```sh
eval "$(continuations completion bash)"   # in ~/.bashrc
eval "$(continuations completion zsh)"    # in ~/.zshrc, after compinit
continuations completion fish | source    # in ~/.config/fish/config.fish
```
"""  # noqa: E501 - a row of a Markdown table is one line
ENVIRONMENT = {"COLUMNS": "100", "NO_COLOR": "1", "TERM": "dumb"}


def help_text(*command: str) -> str:
    """Return the help of the program, or of one of its commands."""
    printed = io.StringIO()
    with redirect_stdout(printed):
        main([*command, "--help"])
    lines = (line.rstrip() for line in printed.getvalue().strip().splitlines())
    return "\n".join(lines)


def page() -> str:
    """Return the whole page."""
    overview = help_text()
    listed = overview.split("Commands:\n")[1].split("\n\n")[0]
    commands = [
        line.split()[0]
        for line in listed.splitlines()
        if line.startswith("  ") and line[2] != " "
    ]
    parts = [HEAD, "```text", overview, "```"]
    for command in commands:
        parts += ["", f"## {command}", "", "```text", help_text(command), "```"]
    return "\n".join(parts) + "\n"


if __name__ == "__main__":
    os.environ.update(ENVIRONMENT)
    sys.stdout.write(page())
