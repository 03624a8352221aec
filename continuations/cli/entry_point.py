"""The door of the command line: every error becomes one line and an exit code."""

from __future__ import annotations

import io
import sys
from typing import TYPE_CHECKING

import typer
from typer.main import get_command

from continuations.cli import BUSY, LIBRARY_ERROR, USAGE_ERROR
from continuations.cli.commands import app
from continuations.cli.errors import UsageError
from continuations.errors import ContinuationsError, RunBusy, StaleRun
from continuations.present.escaping import escape_invisible

if TYPE_CHECKING:
    from collections.abc import Sequence


def run_command(arguments: Sequence[str] | None) -> int:
    """Run one command; returns its exit code."""
    _escape_unprintable()
    given = None if arguments is None else list(arguments)
    try:
        # Not app(): that would put a hook of typer's on every exception.
        get_command(app)(given, prog_name="continuations")
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else 0
    except UsageError as error:
        _print_error(str(error))
        return USAGE_ERROR
    except ContinuationsError as error:
        _print_error(_error_text(error))
        return BUSY if isinstance(error, RunBusy | StaleRun) else LIBRARY_ERROR
    return 0


def _error_text(error: ContinuationsError) -> str:
    # Of a run that was given no id, this is the only place that tells it.
    text, run_id = str(error), error.run_id
    about = f" (run {run_id})" if run_id is not None and run_id not in text else ""
    return f"{type(error).__name__}: {text}{about}"


def _print_error(text: str) -> None:
    typer.echo(escape_invisible(text), err=True)


def _escape_unprintable() -> None:
    # A terminal that cannot show a character gets its escape, not an exception.
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
