"""The door of the command line: every error becomes one line and an exit code."""

from __future__ import annotations

import io
import sys
from typing import TYPE_CHECKING

import typer
from typer.main import get_command

from continuations.cli import BUSY, MISUSED, REFUSED
from continuations.cli.commands import app
from continuations.cli.misuse import Misuse
from continuations.engine.visible import visible
from continuations.errors import ContinuationsError, RunBusy, StaleRun

if TYPE_CHECKING:
    from collections.abc import Sequence


def run(arguments: Sequence[str] | None) -> int:
    """Run one command; returns its exit code."""
    _print_anything()
    given = None if arguments is None else list(arguments)
    try:
        # Not app(): that would put a hook of typer's on every exception.
        get_command(app)(given, prog_name="continuations")
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else 0
    except Misuse as error:
        _complain(str(error))
        return MISUSED
    except ContinuationsError as error:
        _complain(_told(error))
        return BUSY if isinstance(error, RunBusy | StaleRun) else REFUSED
    return 0


def _told(error: ContinuationsError) -> str:
    # Of a run that was given no id, this is the only place that tells it.
    text, run_id = str(error), error.run_id
    about = f" (run {run_id})" if run_id is not None and run_id not in text else ""
    return f"{type(error).__name__}: {text}{about}"


def _complain(text: str) -> None:
    typer.echo(visible(text), err=True)


def _print_anything() -> None:
    # A terminal that cannot show a character gets its escape, not an exception.
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
