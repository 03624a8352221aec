"""The commands that send a request to a run: send, signal, wake, pause, cancel."""

from __future__ import annotations

from typing import Annotated

import typer

from continuations.cli import FAILED, json_output
from continuations.cli.application import runner_without_agents
from continuations.cli.decision_input import (
    check_run_id,
    parse_json_value,
    resolve_actor,
    write_actor_note,
)
from continuations.cli.file_options import input_with_files
from continuations.cli.json_output import write_json
from continuations.cli.options import App, By, Files, Json, RunId, StoreUrl
from continuations.cli.output import write_lines
from continuations.core.visible_text import escape_invisible
from continuations.present.times import counted

# typer reads the annotations when it runs.
# ruff: noqa: TC001


MessageId = Annotated[
    str | None,
    typer.Option(
        "--id",
        metavar="ID",
        help="Your id of the message: a repeated command sends one message.",
    ),
]


def send(
    run: RunId,
    text: Annotated[str, typer.Argument(metavar="TEXT", help="The message.")],
    *,
    file: Files = None,
    message_id: MessageId = None,
    by: By = None,
    json: Json = False,
    app: App = None,
    store: StoreUrl = None,
) -> None:
    """Send a user message to a run. Needs no agent code.

    The root agent reads the message before its next turn, at the next resume or sweep.
    """
    check_run_id(run, command="send")
    actor = resolve_actor(by)
    message = input_with_files(text, file or [])
    runner = runner_without_agents(app, store)
    number = runner.send(run, message, by=actor.name, id=message_id)
    write_actor_note(actor)
    _write_recorded(run, "message", number, json=json)


def post(  # noqa: PLR0913 - one parameter for each option
    agent: Annotated[
        str, typer.Argument(metavar="AGENT", help="The agent of the conversation.")
    ],
    text: Annotated[str, typer.Argument(metavar="TEXT", help="The message.")],
    *,
    key: Annotated[
        str, typer.Option(metavar="KEY", help="Names the conversation, as for `chat`.")
    ],
    file: Files = None,
    message_id: MessageId = None,
    by: By = None,
    json: Json = False,
    app: App = None,
    store: StoreUrl = None,
) -> None:
    """Post a message to a conversation, and do not wait. Needs no agent code.

    The first message begins the conversation. A worker that has the agent replies.
    """
    actor = resolve_actor(by)
    message = input_with_files(text, file or [])
    runner = runner_without_agents(app, store, may_be_first=True)
    thread = runner.thread(agent, key=key)
    ticket = thread.post(message, by=actor.name, id=message_id, door=actor.door)
    write_actor_note(actor)
    _write_recorded(ticket.run_id, "message", ticket.number, json=json)


def signal(
    run: RunId,
    name: Annotated[
        str,
        typer.Argument(
            metavar="NAME",
            help="The name of the event, as the tool passes it to wait_for().",
        ),
    ],
    *,
    data: Annotated[
        str, typer.Option(metavar="JSON", help="The data, as JSON.")
    ] = "null",
    signal_id: Annotated[
        str | None,
        typer.Option(
            "--id",
            metavar="ID",
            help="Your id of the signal: a repeated command sends one signal.",
        ),
    ] = None,
    by: By = None,
    json: Json = False,
    app: App = None,
    store: StoreUrl = None,
) -> None:
    """Send a signal to a run: it ends a wait for an event. Needs no agent code.

    The oldest wait of this name takes the signal at the next resume or sweep. Without
    such a wait, the signal is kept.
    """
    check_run_id(run, command="signal")
    value = parse_json_value(data, name="--data", hint="Write a text in quotes.")
    actor = resolve_actor(by)
    number = runner_without_agents(app, store).signal(
        run, name, value, by=actor.name, id=signal_id, door=actor.door
    )
    write_actor_note(actor)
    _write_recorded(run, "signal", number, json=json)


def _write_recorded(run: str, what: str, number: int, *, json: bool) -> None:
    if json:
        write_json({"run_id": run, "number": number})
        return
    name = escape_invisible(run)
    write_lines([f"{name}: {what} {number} is recorded"])
    write_lines([f"next: continuations resume {name}"])


def wake(
    run: RunId,
    *,
    by: By = None,
    json: Json = False,
    app: App = None,
    store: StoreUrl = None,
) -> None:
    """Let the next resume or sweep ask the models that a run waits for.

    Without this command, they are asked when their next attempt is due. Needs no agent
    code.
    """
    check_run_id(run, command="wake")
    actor = resolve_actor(by)
    runner = runner_without_agents(app, store)
    count = runner.wake(run, by=actor.name, door=actor.door)
    write_actor_note(actor)
    if json:
        write_json({"run_id": run, "waits": count})
        return
    name = escape_invisible(run)
    if not count:
        write_lines([f"{name}: waits for no model; nothing was changed"])
        return
    ended = f"{name}: ended {counted(count, 'wait')} for a model"
    write_lines([ended, f"next: continuations resume {name}"])


def pause(
    run: RunId,
    *,
    reason: Annotated[
        str | None, typer.Option(metavar="TEXT", help="Why. It is recorded.")
    ] = None,
    by: By = None,
    json: Json = False,
    app: App = None,
    store: StoreUrl = None,
) -> None:
    """Pause a run until `unpause`. Needs no agent code.

    Calls and model turns in progress are completed; nothing else begins.
    """
    check_run_id(run, command="pause")
    actor = resolve_actor(by)
    runner = runner_without_agents(app, store)
    state = runner.pause(run, reason=reason, by=actor.name, door=actor.door)
    write_actor_note(actor)
    if json:
        write_json(json_output.run_form(runner.store, state))
        return
    result = "paused"
    if state.status == "running":
        result = (
            "pause recorded; the process that holds the claim stops at its next commit"
        )
    name = escape_invisible(run)
    write_lines([f"{name}: {result}", f"next: continuations unpause {name}"])


def unpause(
    run: RunId,
    *,
    by: By = None,
    json: Json = False,
    app: App = None,
    store: StoreUrl = None,
) -> None:
    """End a pause of a run, and the waits that suspend_when opened.

    Needs no agent code.
    """
    check_run_id(run, command="unpause")
    actor = resolve_actor(by)
    runner = runner_without_agents(app, store)
    state = runner.unpause(run, by=actor.name, door=actor.door)
    write_actor_note(actor)
    if json:
        write_json(json_output.run_form(runner.store, state))
        return
    name = escape_invisible(run)
    ended = f"{name}: the pause is ended"
    write_lines([ended, f"next: continuations resume {name}"])


def cancel(
    run: RunId,
    *,
    call: Annotated[
        str | None,
        typer.Option(
            metavar="CALL",
            help="Cancel only this call and everything below it: its id, or its path "
            "such as boss/hr/transfer.",
        ),
    ] = None,
    reason: Annotated[
        str | None, typer.Option(metavar="TEXT", help="Why. It is recorded.")
    ] = None,
    by: By = None,
    json: Json = False,
    app: App = None,
    store: StoreUrl = None,
) -> None:
    """End a run and all its open waits, or one call. Needs no agent code."""
    check_run_id(run, command="cancel")
    actor = resolve_actor(by)
    runner = runner_without_agents(app, store)
    state = runner.cancel(run, call=call, reason=reason, by=actor.name, door=actor.door)
    name = escape_invisible(run)
    if call is not None:
        write_actor_note(actor)
        if json:
            write_json(json_output.run_form(runner.store, state))
        else:
            shown = escape_invisible(call)
            write_lines([f"{name}: cancel of call {shown} is recorded"])
            write_lines([f"next: continuations resume {name}"])
        return
    if json:
        write_json(json_output.run_form(runner.store, state))
    if state.status in ("finished", "failed"):
        if not json:
            write_lines([f"{name}: already {state.status}; nothing was cancelled"])
        raise typer.Exit(FAILED)
    write_actor_note(actor)
    if json:
        return
    result = "cancelled"
    if state.status != "cancelled":
        result = (
            "cancel request recorded; the process that holds the claim stops "
            "at its next commit"
        )
    if state.status == "suspended":
        result = "cancel request recorded; a worker tells its jobs, then ends it"
    write_lines([f"{name}: {result}"])
    if state.status == "suspended":
        write_lines([f"next: continuations resume {name}"])
