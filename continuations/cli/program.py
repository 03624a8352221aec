"""The typer program, and how one command runs.

The commands stand in the order of the help. Every error of a command becomes one line
and an exit code.
"""

from __future__ import annotations

import errno
import io
import os
import sys
from copy import copy
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.main import get_command

import continuations
from continuations.cli import BUSY, LIBRARY_ERROR, USAGE_ERROR
from continuations.cli.chat_commands import chat, post
from continuations.cli.completion import completion
from continuations.cli.decide_commands import (
    answer,
    approve,
    decide,
    deny,
    fail,
    heartbeat,
)
from continuations.cli.inspect_commands import audit, inbox, runs, show, waiting
from continuations.cli.operation_commands import COMMANDS
from continuations.cli.options import UsageError
from continuations.cli.output import keep_places, with_places, write_note
from continuations.cli.past_commands import diff, fork, history, rewind, watch
from continuations.cli.run_commands import adopt, drift, resume, start, sweep
from continuations.cli.serve_commands import serve, ui
from continuations.cli.store_commands import doctor, erase, prune
from continuations.errors import ContinuationsError, RunBusy, StaleRun

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

# In an epilog, \b tells click to keep the lines as they are.
_EPILOG = """\b
Example:
  export CONTINUATIONS_STORE=file:.runs
  continuations start "Pay Jane" --run-id jane-1 --app payroll:agent
  continuations waiting
  continuations approve WAIT
  continuations resume jane-1 --app payroll:agent

\b
Exit codes:
  0    the run finished or is suspended, or the decision, message, signal, event
       or cancel request is recorded
  1    the run failed, the doctor found damage, `drift` found a run that the code
       does not accept, `rewind --plan` that the run cannot go back, or `prune`
       could not erase a run
  2    the command line is invalid, or the application cannot be loaded
  4    another process holds the claim on the run
  5    any other error, such as a file: store whose folder does not exist (start, chat,
       post, publish and adopt make it); with `decide`, a decision was not recorded
  130  Ctrl-C; `start` and `resume` suspend the run first
  143  SIGTERM, in the same way
"""

# A disk without room, or above a quota.
_FULL = (errno.ENOSPC, errno.EDQUOT)


program = typer.Typer(
    help="Start, inspect, decide and resume runs of durable agents. A run that waits "
    "needs no process: any machine that reaches its store can continue it.",
    epilog=_EPILOG,
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={
        "help_option_names": ["-h", "--help"],
        "max_content_width": 100,
    },
)


def _print_version(requested: bool) -> None:
    if requested:
        typer.echo(continuations.__version__)
        raise typer.Exit


@program.callback()
def root(
    *,
    version: Annotated[
        bool,
        typer.Option(
            "--version",
            callback=_print_version,
            is_eager=True,
            help="Print the version and exit.",
        ),
    ] = False,
) -> None:
    """Accept the options that come before the command."""


# A negative number is a value for `answer` and not an option.
_SETTINGS = {"answer": {"ignore_unknown_options": True}}
# A name stands for the command of an operation.
_IN_ORDER: tuple[Callable[..., None] | str, ...] = (
    start,
    chat,
    inbox,
    waiting,
    runs,
    show,
    watch,
    history,
    diff,
    audit,
    approve,
    deny,
    answer,
    fail,
    decide,
    "grants",
    "revoke",
    resume,
    "send",
    post,
    "signal",
    "signals",
    "drop-signals",
    "publish",
    heartbeat,
    "wake",
    "pause",
    "unpause",
    "cancel",
    fork,
    rewind,
    adopt,
    drift,
    sweep,
    serve,
    ui,
    erase,
    prune,
    doctor,
    completion,
)


def _named() -> dict[str, Callable[..., None]]:
    """Return the commands by their names, in the order of the help."""
    commands: dict[str, Callable[..., None]] = {}
    for each in _IN_ORDER:
        if isinstance(each, str):
            commands[each] = COMMANDS[each]
        else:
            commands[each.__name__] = each
    # An operation that has no place in the order comes last.
    return {**commands, **COMMANDS}


for _name, _command in _named().items():
    program.command(_name, context_settings=_SETTINGS.get(_name))(_command)


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
        _built(_only_command(words))(words, prog_name="continuations")
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
def _built(name: str | None) -> Any:
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
