"""Run one command: every error becomes one line and an exit code."""

from __future__ import annotations

import errno
import io
import os
import sys
from copy import copy
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from typer.main import get_command

from continuations.cli import BUSY, LIBRARY_ERROR, USAGE_ERROR
from continuations.cli.options import UsageError
from continuations.cli.output import keep_places, with_places, write_note
from continuations.cli.program import program
from continuations.errors import ContinuationsError, RunBusy, StaleRun

if TYPE_CHECKING:
    from collections.abc import Sequence


# A disk without room, or above a quota.
_FULL = (errno.ENOSPC, errno.EDQUOT)


def run_command(arguments: Sequence[str] | None) -> int:
    """Run one command and return its exit code."""
    _open_closed_streams()
    _escape_unprintable()
    words = None if arguments is None else list(arguments)
    keep_places(list(map(str, sys.argv[1:] if words is None else words)))
    try:
        if arguments is None:
            _check_encoding(sys.argv[1:])
        # Not program(): that installs typer's hook for every exception.
        _command(_only_command(words))(words, prog_name="continuations")
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else 0
    except UsageError as error:
        write_note(with_places(f"Error: {error}"))
        return USAGE_ERROR
    except ContinuationsError as error:
        write_note(with_places(_error_text(error)))
        return BUSY if isinstance(error, RunBusy | StaleRun) else LIBRARY_ERROR
    except OSError as error:
        if error.errno not in _FULL:
            raise
        write_note(f"Error: the output was not written: {error.strerror}. Make room.")
        return LIBRARY_ERROR
    return 0


def _open_closed_streams() -> None:
    """Replace the standard streams that the parent process closed."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            stream = Path(os.devnull).open(mode, encoding="utf-8")  # noqa: SIM115 - it stays
            setattr(sys, name, stream)


def _check_encoding(words: Sequence[str]) -> None:
    """Raise `UsageError` for a word with bytes that the encoding does not have.

    Python keeps such bytes as lone surrogates, and no other process could read them.
    """
    for word in words:
        try:
            word.encode()
        except UnicodeEncodeError:
            encoding = sys.getfilesystemencoding()
            msg = (
                f"{word[:60]!r} is not text in the encoding {encoding}. Nothing was "
                "done. Use a UTF-8 locale or set PYTHONUTF8=1."
            )
            raise UsageError(msg) from None


def _only_command(words: Sequence[str] | None) -> str | None:
    """Return the subcommand of a command line; `None` if it needs all of them."""
    first = next(iter(sys.argv[1:] if words is None else words), None)
    names = {each.name for each in program.registered_commands}
    # `completion` prints a script that has every subcommand.
    return first if first in names - {"completion"} else None


@cache
def _command(name: str | None) -> Any:
    """Return the program, with one subcommand or all, which take 40 ms to build."""
    if name is None:
        return get_command(program)
    only = copy(program)
    only.registered_commands = [
        each for each in program.registered_commands if each.name == name
    ]
    return get_command(only)


def _error_text(error: ContinuationsError) -> str:
    # If the user gave no run id, no other output names the run.
    text, run_id = str(error), error.run_id
    about = f" (run {run_id})" if run_id is not None and run_id not in text else ""
    return f"{type(error).__name__}: {text}{about}"


def _escape_unprintable() -> None:
    # A character that the terminal's encoding lacks is escaped and raises no error.
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
