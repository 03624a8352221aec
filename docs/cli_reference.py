"""Write the page of the command line from its help: `python docs/cli_reference.py`.

docs/reference/cli.md is the output of this script; a test compares them.
"""

from __future__ import annotations

import io
import os
import re
import sys
from contextlib import redirect_stdout

from continuations.cli import main

HEAD = """\
# Command line

The extra `cli` installs it. `python -m continuations` is the same program.

| option | meaning | variable |
|---|---|---|
| `--store URL` | The store, for example `sqlite:PATH` or `s3://BUCKET/PREFIX`. Default: the store of the application, or `sqlite:runs.db` in this folder. | `CONTINUATIONS_STORE` |
| `--app MODULE:NAME` | Your code: a Runner, an AsyncRunner or an Agent in a module. | `CONTINUATIONS_APP` |
| `--by NAME` | The name of the person. The default is the user of this process. | `CONTINUATIONS_BY` |
| `--context MODULE:NAME` | The object that the tools get as `ctx.context`. If NAME is a function, the object is its result. | `CONTINUATIONS_CONTEXT` |
| `--json` | Print one line of JSON, in the forms of `docs/schemas/continuations.schema.json`. Errors stay text on standard error; the exit code tells them apart. | |

Below, the last line of each command names those of these options that it takes. A name in braces, such as {RUN}, is a required argument. RUN is the id of a run. WAIT is the id of a wait, as `waiting` lists it.

Ctrl-C or SIGTERM while `start` or `resume` works on a run:

| signal | effect |
|---|---|
| the first | Nothing new begins. Tools in progress are completed. A model call is given up after 5 s. The run is suspended, and any process can resume it at once. |
| the second | The command stops at once. If a tool was in progress, the run stays claimed for the rest of its claim, and the outcome of a tool that may not be repeated is unknown. |

The exit code is 130 after Ctrl-C and 143 after SIGTERM. In `chat`, the first Ctrl-C has the same effect on the reply, and
the chat goes on: Enter continues the reply, and `/stop` gives it up. At the prompt, Ctrl-C leaves the chat.
"""  # noqa: E501 - a row of a Markdown table is one line
ENVIRONMENT = {"COLUMNS": "100", "NO_COLOR": "1", "TERM": "dumb"}


# The options of the first table. A command that describes one in another way keeps it.
COMMON = {
    "--store": "The store, for example file:PATH or s3://BUCKET/PREFIX.",
    "--app": "Your code: a Runner, an AsyncRunner or an Agent in a module.",
    "--by": "The name of the person. Default: the user of this process.",
    "--context": (
        "The object that the tools get as ctx.context. If NAME is a function, the "
        "object is its result."
    ),
    "--json": "Print JSON.",
}
# The id of a run or a wait alone; the line of the usage has its name.
_PLAIN_ARGUMENTS = re.compile(
    r"\nArguments:\n"
    r"  (RUN  The id of a run|WAIT  The id of a wait, as `waiting` lists it)\."
    r"  \[required\]\n(?!  )"
)
_ENTRY = re.compile(r"\n(?=  -)")
_ENVIRONMENT_NAME = re.compile(r"\s*\[env\s+var:\s+\w+\]")


def help_text(*command: str) -> str:
    """Return the help of the program, or of one of its commands."""
    printed = io.StringIO()
    with redirect_stdout(printed):
        main([*command, "--help"])
    lines = (line.rstrip() for line in printed.getvalue().strip().splitlines())
    return "\n".join(lines)


def own_help(command: str) -> str:
    """Return the help of a command, with the names of its common options at the end."""
    usage, options = help_text(command).split("\nOptions:\n")
    kept: list[str] = []
    common: list[str] = []
    for entry in _ENTRY.split("\n" + options)[1:]:
        words = " ".join(_ENVIRONMENT_NAME.sub("", entry).split())
        option = words.split()[0]
        if option in COMMON and words.endswith(COMMON[option]):
            common.append(option)
        elif option != "-h,":
            kept.append(entry)
    usage = _PLAIN_ARGUMENTS.sub("", usage).rstrip()
    for obvious in ("Usage: ", " [OPTIONS]", "  [required]"):
        usage = usage.replace(obvious, "")
    lines = [usage]
    if kept:
        lines += ["", "Options:", *kept]
    if common:
        lines += ["", f"Common options: {', '.join(sorted(common))}"]
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
    before, _, after = overview.partition("Commands:\n")
    parts = [HEAD, "```text", before + after.partition("\n\n")[2], "```"]
    for command in commands:
        parts += ["", f"## {command}", "", "```text", own_help(command), "```"]
    return "\n".join(parts) + "\n"


if __name__ == "__main__":
    os.environ.update(ENVIRONMENT)
    sys.stdout.write(page())
