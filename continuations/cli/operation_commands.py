"""The commands that follow from the table of operations: one row, one command.

A command of a row makes the call of the runner that the HTTP API makes, and `--json`
prints the same form. Its arguments and options are the parameters of the method. A
function of this module prints the result as text, and its docstring is the help. A row
without such a function has a command too, which prints each member of the form.
"""

from __future__ import annotations

import inspect
import re
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from continuations.cli import FAILED
from continuations.cli.command import Command, CommandFunction
from continuations.cli.options import (
    By,
    Files,
    MessageText,
    RunId,
    Why,
    input_with_files,
    parse_json_value,
    resolve_actor,
    write_actor_note,
)
from continuations.cli.output import write_note
from continuations.core import jsontext
from continuations.core.rows.decisions import Door
from continuations.core.visible_text import escape_invisible
from continuations.engine.ports import SystemClock
from continuations.engine.runner.async_runner import AsyncRunner
from continuations.engine.sync import portal
from continuations.present.times import counted
from continuations.serve.operation_calls import (
    FORMS,
    Sender,
    TextsViewer,
    arguments_of,
    positional_names,
)
from continuations.serve.operations import OPERATIONS
from continuations.wire.fields import readable_time

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from continuations import Runner
    from continuations.results import KeptGrant, UntakenSignal
    from continuations.serve.operations import Operation

_MAX_DATA_CHARS = 200
# The JSON forms that are printed as the list that they have.
_LISTS = {"grant_list": "grants", "signal_list": "signals"}


class Done(NamedTuple):
    """The result of a command, with its arguments and options.

    Attributes:
        run: The id of the run, escaped.
        given: The arguments and options, by the names of the method's parameters.
        result: The result of the method.
    """

    run: str
    given: Mapping[str, Any]
    result: Any


# Texts --------------------------------------------------------------------------


def grants(done: Done) -> Iterator[str]:
    """List the grants of a run that have not ended. Needs no agent code."""
    if not done.result:
        write_note(f"{done.run} has no grants.")
    for grant in done.result:
        yield from _grant_lines(grant)


def _grant_lines(grant: KeptGrant) -> Iterator[str]:
    until = "the end of the run" if grant.until is None else readable_time(grant.until)
    by = "" if grant.by is None else f" by {escape_invisible(grant.by)}"
    revoked = ", revoked" if grant.revoked else ""
    yield f"{grant.id}{revoked}"
    yield f"  path: {escape_invisible(' > '.join(grant.path))}"
    yield f"  arguments: {escape_invisible(grant.arguments_json or 'any')}"
    yield f"  given{by} at {readable_time(grant.at)}, until {until}"


def revoke(done: Done) -> Iterator[str]:
    """End a grant of a run. Needs no agent code.

    A process that works on the run now may use the grant until it stops. From the next
    resume or sweep on, the grant approves nothing.
    """
    grant = escape_invisible(done.given["grant"])
    yield f"{done.run}: grant {grant} ends at the next claim"


def signals(done: Done) -> Iterator[str]:
    """List the signals that no wait of a run has taken. Needs no agent code."""
    if not done.result:
        write_note(f"{done.run} has no signal that no wait has taken.")
        return
    for signal in done.result:
        yield from _signal_lines(signal)
    yield f"next: continuations drop-signals {done.run} --name NAME"


def _signal_lines(signal: UntakenSignal) -> Iterator[str]:
    by = "" if signal.by is None else f" by {escape_invisible(signal.by)}"
    data = signal.data_json
    if len(data) > _MAX_DATA_CHARS:
        data = f"{data[:_MAX_DATA_CHARS]}… ({len(data)} characters; --json has all)"
    yield f"{signal.number}  {escape_invisible(signal.name)}"
    yield f"  sent{by} at {readable_time(signal.at)}"
    yield f"  data: {escape_invisible(data)}"


def drop_signals(done: Done) -> Iterator[str]:
    """Drop the signals that no wait of a run has taken. Needs no agent code.

    Without --name, all of them are dropped. A signal that comes later is kept.
    """
    if done.result:
        yield f"{done.run}: {counted(done.result, 'signal')} dropped"
    else:
        yield f"{done.run}: has no such signal; nothing was changed"


def send(done: Done) -> Iterator[str]:
    """Send a user message to a run. Needs no agent code.

    The root agent reads the message before its next turn, at the next resume or sweep.
    """
    yield f"{done.run}: message {done.result} is recorded"
    yield f"next: continuations resume {done.run}"


def signal(done: Done) -> Iterator[str]:
    """Send a signal to a run: it ends a wait for an event. Needs no agent code.

    The oldest wait of this name takes the signal at the next resume or sweep. Without
    such a wait, the signal is kept.
    """
    yield f"{done.run}: signal {done.result} is recorded"
    yield f"next: continuations resume {done.run}"


def wake(done: Done) -> Iterator[str]:
    """Let the next resume or sweep ask the models that a run waits for.

    Without this command, they are asked when their next attempt is due. Needs no agent
    code.
    """
    if not done.result:
        yield f"{done.run}: waits for no model; nothing was changed"
        return
    yield f"{done.run}: ended {counted(done.result, 'wait')} for a model"
    yield f"next: continuations resume {done.run}"


def pause(done: Done) -> Iterator[str]:
    """Pause a run until `unpause`. Needs no agent code.

    Calls and model turns in progress are completed; nothing else begins.
    """
    result = "paused"
    if done.result.status == "running":
        result = (
            "pause recorded; the process that holds the claim stops at its next commit"
        )
    yield f"{done.run}: {result}"
    yield f"next: continuations unpause {done.run}"


def unpause(done: Done) -> Iterator[str]:
    """End a pause of a run, and the waits that suspend_when opened.

    Needs no agent code.
    """
    yield f"{done.run}: the pause is ended"
    yield f"next: continuations resume {done.run}"


def cancel(done: Done) -> Iterator[str]:
    """End a run and all its open waits, or one call. Needs no agent code."""
    call, status = done.given["call"], done.result.status
    if call is not None:
        yield f"{done.run}: cancel of call {escape_invisible(call)} is recorded"
        yield f"next: continuations resume {done.run}"
    elif _came_too_late(done):
        yield f"{done.run}: already {status}; nothing was cancelled"
    elif status == "cancelled":
        yield f"{done.run}: cancelled"
    elif status == "suspended":
        recorded = "cancel request recorded; a worker tells its jobs, then ends it"
        yield f"{done.run}: {recorded}"
        yield f"next: continuations resume {done.run}"
    else:
        yield (
            f"{done.run}: cancel request recorded; the process that holds the claim "
            "stops at its next commit"
        )


def _came_too_late(done: Done) -> bool:
    is_whole_run = done.given["call"] is None
    return is_whole_run and done.result.status in ("finished", "failed")


_TEXTS: Mapping[str, Callable[[Done], Iterator[str]]] = {
    "cancel": cancel,
    "drop_signals": drop_signals,
    "grants": grants,
    "pause": pause,
    "revoke": revoke,
    "send": send,
    "signal": signal,
    "signals": signals,
    "unpause": unpause,
    "wake": wake,
}
# By the name of the method: whether nothing was recorded, so that the exit code is 1.
_FAILED: Mapping[str, Callable[[Done], bool]] = {"cancel": _came_too_late}


# Arguments and options ----------------------------------------------------------

Parameter = inspect.Parameter
# Other parameters have the words of the method's docstring.
_PARAMETERS: Mapping[str, Any] = {"run_id": RunId, "reason": Why, "text": MessageText}
# By the first part of an annotation: the type of an option. The command reads JSON.
_TYPES: Mapping[str, type] = {
    "Any": str,
    "UserText": str,
    "bool": bool,
    "float": float,
    "int": int,
    "str": str,
}
_WITH_FILES = "UserText"


def _own_parameters(operation: Operation) -> dict[str, Parameter]:
    """Return the parameters of the method that are no facts about the sender."""
    method = getattr(AsyncRunner, operation.call)
    return {
        name: each
        for name, each in inspect.signature(method).parameters.items()
        if name not in ("self", "by", "door")
    }


def _command_parameter(operation: Operation, own: Parameter) -> Parameter:
    """Return the argument or option of a command for a parameter of the method."""
    annotation = _PARAMETERS.get(own.name) or _described(operation, own)
    default = own.default
    if own.annotation == "Any" and default is not Parameter.empty:
        default = jsontext.dump(default)
    return _option(own.name, annotation, default=default)


def _described(operation: Operation, own: Parameter) -> Any:
    kind: Any = _TYPES[own.annotation.partition(" ")[0]]
    words = _words_of(operation.call, own.name)
    name = own.name.replace("_", "-")
    if own.name in positional_names(operation):
        return Annotated[kind, typer.Argument(metavar=name.upper(), help=words)]
    metavar = "JSON" if own.annotation == "Any" else name.upper()
    if own.default is None:
        kind = kind | None
    if kind is bool:
        flag = f"--{name}/--no-{name}" if own.default else f"--{name}"
        return Annotated[bool, typer.Option(flag, help=words)]
    return Annotated[kind, typer.Option(f"--{name}", metavar=metavar, help=words)]


def _words_of(method: str, parameter: str) -> str:
    """Return the words of a parameter in the docstring of a method."""
    text = inspect.getdoc(getattr(AsyncRunner, method)) or ""
    found = re.search(rf"^    {parameter}: (.*(?:\n {{8}}.*)*)", text, re.MULTILINE)
    return " ".join(found[1].split()) if found else ""


def _option(name: str, annotation: Any, *, default: Any = None) -> Parameter:
    kind = Parameter.KEYWORD_ONLY
    return Parameter(name, kind, default=default, annotation=annotation)


def _parameters(operation: Operation) -> list[Parameter]:
    """Return the arguments and options of a command, without the common ones."""
    parameters: list[Parameter] = []
    for own in _own_parameters(operation).values():
        parameters.append(_command_parameter(operation, own))
        if own.annotation == _WITH_FILES:
            parameters.append(_option("file", Files))
    if operation.sender:
        parameters.append(_option("by", By))
    return parameters


# The command --------------------------------------------------------------------


def _given(operation: Operation, values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values of the method's own parameters."""
    given: dict[str, Any] = {}
    for own in _own_parameters(operation).values():
        value = values[own.name]
        if own.annotation == "Any":
            name = f"--{own.name}"
            value = parse_json_value(value, name=name, hint="Write a text in quotes.")
        elif own.annotation == _WITH_FILES:
            value = input_with_files(value, values["file"] or [])
        given[own.name] = value
    return given


def _run(operation: Operation, command: Command, **values: Any) -> None:
    """Make the call of an operation, and print its result."""
    given = _given(operation, values)
    actor = resolve_actor(values["by"]) if operation.sender else None
    runner = command.runner_without_agents()
    sender = (
        Sender("", Door("cli")) if actor is None else Sender(actor.name, actor.door)
    )
    by_position, by_name = arguments_of(operation, given, sender)
    result = getattr(runner, operation.call)(*by_position, **by_name)
    done = Done(escape_invisible(given["run_id"]), given, result)
    has_failed = operation.call in _FAILED and _FAILED[operation.call](done)
    if actor is not None and not has_failed:
        write_actor_note(actor)
    form = partial(_form, operation, runner, done)
    text = _TEXTS.get(operation.call)
    command.write(form, _member_lines(form) if text is None else text(done))
    if has_failed:
        raise typer.Exit(FAILED)


def _form(operation: Operation, runner: Runner, done: Done) -> Any:
    viewer = TextsViewer(runner.async_runner, SystemClock(), done.given)
    shown = FORMS[operation.form](viewer, done.given["run_id"], done.result)
    form = portal.run_until_complete(shown)
    return form[_LISTS[operation.form]] if operation.form in _LISTS else form


def _member_lines(form: Callable[[], Any]) -> Iterator[str]:
    for name, value in form().items():
        yield f"{name}: {escape_invisible(jsontext.dump(value))}"


def command_of(operation: Operation) -> CommandFunction:
    """Return the function of a command; its parameters are those of the method."""
    text = _TEXTS.get(operation.call)
    words = (
        f"{operation.summary}. Needs no agent code." if text is None else text.__doc__
    )
    run, parameters = partial(_run, operation), partial(_parameters, operation)
    return CommandFunction(operation.command, words, run, parameters)


COMMANDS: Mapping[str, CommandFunction] = {
    each.command: command_of(each) for each in OPERATIONS if each.command
}
"""The commands by their names."""
