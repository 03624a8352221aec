"""The command line: `continuations start | waiting | show | approve | ...`.

It ends with one of these codes:

    0    done: the run finished, or stands and waits, or what was asked is recorded
    1    the run failed; of `cancel`: it had already ended another way; of `doctor`:
         something is damaged and was not repaired
    2    the command line is wrong: an option, the application, an ambiguous name
    4    another process holds the run: try later, or give `--wait-if-busy`
    5    any other error of the library; stderr names it
    130  Ctrl-C

What was asked for goes to standard output, errors and remarks to standard error.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

FAILED = 1
USAGE_ERROR = 2
BUSY = 4
LIBRARY_ERROR = 5
INTERRUPTED = 130


def main(arguments: Sequence[str] | None = None) -> int:
    """Do what a command line says; returns the code to exit with."""
    try:
        # The extra `cli` may not be installed; without it there is one line to say.
        from continuations.cli.entry_point import run_command  # noqa: PLC0415

        return run_command(arguments)
    except KeyboardInterrupt:
        return INTERRUPTED
    except ModuleNotFoundError as error:
        if error.name not in ("typer", "rich"):
            raise
        text = "The command line needs its extra: pip install 'continuations[cli]'"
        print(text, file=sys.stderr)  # noqa: T201 - a command line prints
        return USAGE_ERROR
