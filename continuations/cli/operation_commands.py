"""The commands that follow from the table of operations: one row, one command.

A command of a row makes the call of the runner that the HTTP API makes, and `--json`
prints the same form. Its arguments and options are the parameters of the method. A
function of this module prints the result as text, and its docstring is the help. A row
without such a function has a command too, which prints each member of the form.
"""

from __future__ import annotations

import inspect
from functools import partial
from inspect import Parameter
from typing import TYPE_CHECKING, Any, NamedTuple

import typer

from continuations.cli import FAILED, options
from continuations.cli.command import (
    Command,
    CommandFunction,
    Words,
    described,
    help_and_words,
    option,
    words_of,
)
from continuations.cli.output import write_note
from continuations.core import jsontext
from continuations.core.visible_text import escape_invisible
from continuations.engine.runner.async_runner import AsyncRunner
from continuations.engine.sync import portal
from continuations.present.times import counted
from continuations.serve.operation_calls import FORMS, TextsViewer
from continuations.serve.operations import OPERATIONS, Operation
from continuations.wire.fields import readable_time
from continuations.wire.report import to_json

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from continuations import Runner
    from continuations.results import KeptGrant, UntakenSignal

_MAX_DATA_CHARS = 200
# The JSON forms that are printed as the list that they have.
_LISTS = {"grant_list": "grants", "signal_list": "signals"}


class Done(NamedTuple):
    """The result of a command, with its arguments and options.

    Attributes:
        run: The id of the run, escaped; "" without one.
        given: The arguments and options, by the names of the method's parameters.
        result: The result of the method.
    """

    run: str
    given: Mapping[str, Any]
    result: Any


# Texts --------------------------------------------------------------------------


def grants(done: Done) -> Iterator[str]:
    """List the grants of a run that have not ended. Needs no agent code."""
    kept: Sequence[KeptGrant] = done.result
    if not kept:
        write_note(f"{done.run} has no grants.")
    for grant in kept:
        until = (
            "the end of the run" if grant.until is None else readable_time(grant.until)
        )
        by = "" if grant.by is None else f" by {escape_invisible(grant.by)}"
        yield f"{grant.id}{', revoked' if grant.revoked else ''}"
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
    untaken: Sequence[UntakenSignal] = done.result
    if not untaken:
        write_note(f"{done.run} has no signal that no wait has taken.")
        return
    for each in untaken:
        by = "" if each.by is None else f" by {escape_invisible(each.by)}"
        data = each.data_json
        if len(data) > _MAX_DATA_CHARS:
            data = f"{data[:_MAX_DATA_CHARS]}… ({len(data)} characters; --json has all)"
        yield f"{each.number}  {escape_invisible(each.name)}"
        yield f"  sent{by} at {readable_time(each.at)}"
        yield f"  data: {escape_invisible(data)}"
    yield f"next: continuations drop-signals {done.run} --name NAME"


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


def publish(done: Done) -> Iterator[str]:
    """Publish an event for all waiting runs. Needs no agent code.

    The event ends each wait of this name and key. A wait that is opened within 24 hours
    takes the event too.

    Arguments and options:
        name (NAME): The name of the event, as the tool passes it to wait_for().
        data (JSON): The data, as JSON.
        key (KEY): The key that wait_for() has; default: none.
        id (ID): Your id of the event: a repeated command publishes one event.
    """
    event, run_ids = done.result.id, done.result.run_ids
    runs = counted(len(run_ids), "run")
    yield f"event {event} is published; it ended waits of {runs}"
    for run_id in run_ids:
        yield escape_invisible(f"  {run_id}")
    if run_ids:
        yield "next: continuations sweep"


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
    "publish": publish,
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

# Other parameters have the words of a function above, or of the method's docstring.
_WORDS = """
    run_id (RUN): The id of a run.
    reason (TEXT): Why. It is recorded.
    text (TEXT): The message.
"""
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
# The sender is known, and a connection cannot be typed.
_NOT_TYPED = ("self", "by", "door", "connection")


def _method(operation: Operation) -> str:
    """Return the name of the method, also if HTTP calls it in a function of its own."""
    return operation.call or operation.id


def _own_parameters(operation: Operation) -> list[Parameter]:
    """Return the parameters of the method that are no facts about the sender."""
    signature = inspect.signature(getattr(AsyncRunner, _method(operation)))
    parameters = signature.parameters.values()
    return [each for each in parameters if each.name not in _NOT_TYPED]


def _parameters(operation: Operation, section: str) -> Iterator[Parameter]:
    """Yield the arguments and options of a command, without the common ones."""
    shared = words_of(options.SHARED_WORDS)
    method = inspect.getdoc(getattr(AsyncRunner, _method(operation)))
    words = words_of(f"{method}\n{_WORDS}\n{section}")
    for own in _own_parameters(operation):
        about = words.get(own.name, Words())
        if about.metavar is None and own.annotation != "bool":
            metavar = "JSON" if own.annotation == "Any" else own.name.upper()
            about = about._replace(metavar=metavar)
        yield described(_command_parameter(own), {own.name: about})
        if own.annotation == _WITH_FILES:
            yield described(option("file", list[str] | None), shared)
    if operation.sender:
        yield described(option("by", str | None), shared)


def _command_parameter(own: Parameter) -> Parameter:
    """Return a parameter of the method as an argument or option of the command."""
    kind: Any = _TYPES[own.annotation.partition(" ")[0]]
    if own.default is Parameter.empty:
        return own.replace(annotation=kind)
    if own.annotation == "Any":
        return option(own.name, kind, jsontext.dump(own.default))
    return option(own.name, kind | None if own.default is None else kind, own.default)


# The command --------------------------------------------------------------------


def _given(operation: Operation, values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values of the method's own parameters."""
    given: dict[str, Any] = {}
    for own in _own_parameters(operation):
        value = values[own.name]
        if own.annotation == "Any":
            name = f"--{own.name}"
            value = options.parse_json_value(
                value, name=name, hint="Write a text in quotes."
            )
        elif own.annotation == _WITH_FILES:
            value = options.input_with_files(value, values["file"] or [])
        given[own.name] = value
    return given


def _run(operation: Operation, command: Command, **values: Any) -> None:
    """Make the call of an operation, and print its result."""
    given, method = _given(operation, values), _method(operation)
    actor = options.resolve_actor(values["by"]) if operation.sender else None
    sender: dict[str, Any] = {} if actor is None else {"by": actor.name}
    if actor is not None and "door" in operation.sender:
        sender["door"] = actor.door
    runner = command.runner(may_be_first=operation.works_without_folder)
    result = getattr(runner, method)(**given, **sender)
    done = Done(escape_invisible(given.get("run_id", "")), given, result)
    has_failed = method in _FAILED and _FAILED[method](done)
    if actor is not None and not has_failed:
        options.write_actor_note(actor)
    form = partial(_form, operation, runner, done)
    text = _TEXTS.get(method)
    command.write(form, _member_lines(form) if text is None else text(done))
    if has_failed:
        raise typer.Exit(FAILED)


def _form(operation: Operation, runner: Runner, done: Done) -> Any:
    if operation.form not in FORMS:
        return to_json(done.result)
    viewer = TextsViewer(runner.async_runner, path_params=done.given)
    shown = FORMS[operation.form](viewer, done.given["run_id"], done.result)
    form = portal.run_until_complete(shown)
    return form[_LISTS[operation.form]] if operation.form in _LISTS else form


def _member_lines(form: Callable[[], Any]) -> Iterator[str]:
    for name, value in form().items():
        yield f"{name}: {escape_invisible(jsontext.dump(value))}"


def command_of(operation: Operation) -> CommandFunction:
    """Return the function of a command; its parameters are those of the method."""
    text = _TEXTS.get(_method(operation))
    docstring = (
        f"{operation.summary}. Needs no agent code." if text is None else text.__doc__
    )
    help_text, section = help_and_words(docstring)
    run = partial(_run, operation)
    parameters = partial(_parameters, operation, section)
    return CommandFunction(operation.command, help_text, run, parameters)


COMMANDS: Mapping[str, CommandFunction] = {
    each.command: command_of(each) for each in OPERATIONS if each.command
}
"""The commands by their names."""
