"""The commands that send something to a store: post, publish, heartbeat."""

from __future__ import annotations

from typing import Annotated

import typer

from continuations.cli.application import runner_without_agents
from continuations.cli.decision_input import (
    check_wait_id,
    parse_json_value,
    resolve_actor,
    write_actor_note,
)
from continuations.cli.options import (
    App,
    By,
    Files,
    Json,
    MessageText,
    StoreUrl,
    WaitId,
    input_with_files,
)
from continuations.cli.output import write_json, write_lines
from continuations.core.visible_text import escape_invisible
from continuations.present.times import counted
from continuations.wire.report import to_json, utc_text

MessageId = Annotated[
    str | None,
    typer.Option(
        "--id",
        metavar="ID",
        help="Your id of the message: a repeated command sends one message.",
    ),
]


def post(  # noqa: PLR0913 - one parameter for each option
    agent: Annotated[
        str, typer.Argument(metavar="AGENT", help="The agent of the conversation.")
    ],
    text: MessageText,
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
    if json:
        write_json({"run_id": ticket.run_id, "number": ticket.number})
        return
    name = escape_invisible(ticket.run_id)
    write_lines([f"{name}: message {ticket.number} is recorded"])
    write_lines([f"next: continuations resume {name}"])


def publish(
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
    key: Annotated[
        str | None,
        typer.Option(metavar="KEY", help="The key that wait_for() has; default: none."),
    ] = None,
    event_id: Annotated[
        str | None,
        typer.Option(
            "--id",
            metavar="ID",
            help="Your id of the event: a repeated command publishes one event.",
        ),
    ] = None,
    by: By = None,
    json: Json = False,
    app: App = None,
    store: StoreUrl = None,
) -> None:
    """Publish an event for all waiting runs. Needs no agent code.

    The event ends each wait of this name and key. A wait that is opened within 24 hours
    takes the event too.
    """
    value = parse_json_value(data, name="--data", hint="Write a text in quotes.")
    actor = resolve_actor(by)
    publication = runner_without_agents(app, store, may_be_first=True).publish(
        name, value, key=key, by=actor.name, id=event_id, door=actor.door
    )
    write_actor_note(actor)
    if json:
        write_json(to_json(publication))
        return
    count = len(publication.run_ids)
    runs = counted(count, "run")
    write_lines([f"event {publication.id} is published; it ended waits of {runs}"])
    write_lines(escape_invisible(f"  {run_id}") for run_id in publication.run_ids)
    if count:
        write_lines(["next: continuations sweep"])


def heartbeat(
    wait: WaitId,
    *,
    extend: Annotated[
        float,
        typer.Option(metavar="SECONDS", help="Seconds from now to the new deadline."),
    ],
    by: By = None,
    json: Json = False,
    app: App = None,
    store: StoreUrl = None,
) -> None:
    """Say that a job of another system is in progress: its wait gets more time.

    A deadline never moves to an earlier time. Needs no agent code.
    """
    runner = runner_without_agents(app, store)
    check_wait_id(runner, wait)
    actor = resolve_actor(by)
    extended = runner.heartbeat(wait, extend=extend, by=actor.name)
    write_actor_note(actor)
    deadline = None if extended.deadline is None else utc_text(extended.deadline)
    if json:
        write_json({"status": "extended", "deadline": deadline})
        return
    shown = "it has no deadline" if deadline is None else f"the deadline is {deadline}"
    write_lines([f"{escape_invisible(extended.id)}: {shown}"])
