"""The typer program: its commands, and how one of them runs.

Every error of a command becomes one line and an exit code.
"""

from __future__ import annotations

import errno
import io
import os
import sys
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.main import get_command

import continuations
from continuations.cli import BUSY, LIBRARY_ERROR, USAGE_ERROR
from continuations.cli.options import UsageError
from continuations.cli.output import keep_places, with_places, write_note
from continuations.errors import ContinuationsError, RunBusy, StaleRun

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

COMMANDS: Mapping[str, str] = {
    "start": "run_commands",
    "chat": "chat_commands",
    "inbox": "inspect_commands",
    "waiting": "inspect_commands",
    "runs": "inspect_commands",
    "show": "inspect_commands",
    "watch": "past_commands",
    "history": "past_commands",
    "diff": "past_commands",
    "audit": "inspect_commands",
    "approve": "decide_commands",
    "deny": "decide_commands",
    "answer": "decide_commands",
    "fail": "decide_commands",
    "decide": "decide_commands",
    "grants": "operation_commands",
    "revoke": "operation_commands",
    "resume": "run_commands",
    "send": "operation_commands",
    "post": "chat_commands",
    "signal": "operation_commands",
    "signals": "operation_commands",
    "drop-signals": "operation_commands",
    "publish": "operation_commands",
    "heartbeat": "decide_commands",
    "wake": "operation_commands",
    "pause": "operation_commands",
    "unpause": "operation_commands",
    "cancel": "operation_commands",
    "fork": "past_commands",
    "rewind": "past_commands",
    "adopt": "run_commands",
    "drift": "run_commands",
    "sweep": "run_commands",
    "serve": "serve_commands",
    "ui": "serve_commands",
    "mcp": "serve_commands",
    "migrate": "store_commands",
    "erase": "store_commands",
    "prune": "store_commands",
    "copy": "store_commands",
    "doctor": "store_commands",
    "completion": "completion",
}
"""The commands in the order of the help, and the module that has each.

A command line loads the module of its command, and no other. `operation_commands` has
the commands of the table of operations.
"""

# In an epilog, \b tells click to keep the lines as they are.
_EPILOG = """\b
Example:
  export CONTINUATIONS_STORE=sqlite:runs.db
  continuations start "Pay Jane" --run-id jane-1 --app payroll:agent
  continuations waiting
  continuations approve WAIT
  continuations resume jane-1 --app payroll:agent

\b
Exit codes:
  0    the run finished or is suspended, or the decision, message, signal, event
       or cancel request is recorded
  1    the run failed, the doctor found damage, `drift` found a run that the code
       does not accept, `rewind --plan` that the run cannot go back, `prune` could
       not erase a run, or `copy` could not copy one
  2    the command line is invalid, or the application cannot be loaded
  4    another process holds the claim on the run, or `copy` found a run that went on
  5    any other error, such as a store whose folder or file is missing (start, chat,
       post, publish, adopt and copy make it); with `decide`, a decision was not
       recorded
  130  Ctrl-C; `start` and `resume` suspend the run first
  143  SIGTERM, in the same way
"""

# A disk without room, or above a quota.
_FULL = (errno.ENOSPC, errno.EDQUOT)


# A negative number is a value for `answer` and not an option.
_SETTINGS = {"answer": {"ignore_unknown_options": True}}


def program(names: Iterable[str] = COMMANDS) -> typer.Typer:
    """Return the program with some of its commands, by default all."""
    made = typer.Typer(
        help="Start, inspect, decide and resume runs of durable agents. A run that "
        "waits needs no process: any machine that reaches its store can continue it.",
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
    made.callback()(_root)
    for name in names:
        made.command(name, context_settings=_SETTINGS.get(name))(_function(name))
    return made


def _function(name: str) -> Callable[..., None]:
    """Return the function of a command."""
    module = import_module(f"continuations.cli.{COMMANDS[name]}")
    named: Mapping[str, Callable[..., None]] = getattr(module, "COMMANDS", vars(module))
    return named[name]


def _print_version(requested: bool) -> None:
    if requested:
        typer.echo(continuations.__version__)
        raise typer.Exit


def _root(
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


def run_command(arguments: Sequence[str] | None) -> int:
    """Run one command and return its exit code."""
    _open_closed_streams()
    _escape_unprintable()
    words = sys.argv[1:] if arguments is None else [*map(str, arguments)]
    keep_places(words)
    first = words[0] if words else None
    try:
        if arguments is None:
            _check_encoding(words)
        built = _built(first if first in COMMANDS else None)
        # Not program()(): that installs typer's hook for every exception. On Windows,
        # click expands the patterns of a command line that it reads itself.
        built(None if arguments is None else words, prog_name="continuations")
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
            raise UsageError(
                f"{word[:60]!r} is not text in the encoding {encoding}. Nothing was "
                "done. Use a UTF-8 locale or set PYTHONUTF8=1."
            ) from None


@cache
def _built(name: str | None) -> Any:
    """Return the program, with one subcommand or all, which take 40 ms to build."""
    return get_command(program(COMMANDS if name is None else [name]))


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
