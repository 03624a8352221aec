"""The typer program: its help text and its commands in the order of the help."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

import continuations
from continuations.cli.adopt_command import adopt
from continuations.cli.chat_command import chat
from continuations.cli.completion import completion
from continuations.cli.decide_commands import answer, approve, decide, deny, fail
from continuations.cli.drift_command import drift
from continuations.cli.erase_commands import erase, prune
from continuations.cli.inbox_command import inbox
from continuations.cli.inspect_commands import audit, doctor, runs, show, waiting
from continuations.cli.operation_commands import COMMANDS
from continuations.cli.past_commands import diff, fork, history, rewind, watch
from continuations.cli.request_commands import heartbeat, post, publish
from continuations.cli.run_commands import resume, start, sweep
from continuations.cli.serve_commands import serve, ui

if TYPE_CHECKING:
    from collections.abc import Callable

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
    publish,
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
            commands[each.__name__.replace("_", "-")] = each
    # An operation that has no place in the order comes last.
    return {**commands, **COMMANDS}


for _name, _command in _named().items():
    program.command(_name, context_settings=_SETTINGS.get(_name))(_command)
