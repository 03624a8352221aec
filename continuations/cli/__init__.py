"""The command line: `continuations start | waiting | show | approve | ...`.

A command exits with one of these codes:

    0    done: the run finished or is suspended, or the decision, message, signal,
         event or cancel request is recorded
    1    `start`, `resume` and others: the run failed
         `cancel`: the run had already ended in another way
         `doctor`: an object is damaged and was not repaired
         `rewind --plan`: the run cannot go back to the version
         `copy`: a run was not copied
    2    the command line is invalid, the application cannot be loaded, or the extra
         `cli` is not installed
    4    another process holds the claim on the run: try later, or pass `--wait-if-busy`
         `copy`: a run went on meanwhile, or a worker holds it: copy again
    5    any other error of the library; its text is on standard error
    130  Ctrl-C. `start` and `resume` complete the calls in progress and suspend the run
    143  SIGTERM, in the same way

Any other exception prints a traceback, and the exit code is 1.

Results go to standard output, errors and notes to standard error.
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
    """Run one command line.

    Args:
        arguments: The words after the program's name; by default those of `sys.argv`.

    Returns:
        The exit code, see the module's documentation.
    """
    try:
        # Imported here, because the extra `cli` may not be installed.
        from continuations.cli.program import run_command  # noqa: PLC0415

        return run_command(arguments)
    except KeyboardInterrupt:
        return INTERRUPTED
    except ModuleNotFoundError as error:
        package = (error.name or "").partition(".")[0]
        if package not in ("typer", "rich"):
            raise
        text = (
            f"The command line needs the package {package}, which is not installed. "
            "Run: pip install 'typer<0.29' rich"
        )
        print(text, file=sys.stderr)  # noqa: T201 - a command line prints
        return USAGE_ERROR
