"""The command that publishes an event."""

from __future__ import annotations

from typing import Annotated

import typer

from continuations.cli.application import runner_without_agents
from continuations.cli.decision_input import (
    parse_json_value,
    resolve_actor,
    write_actor_note,
)
from continuations.cli.json_output import write_json
from continuations.cli.options import App, By, Json, StoreUrl
from continuations.cli.output import write_lines
from continuations.core.visible_text import escape_invisible
from continuations.present.times import counted

# typer reads the annotations when it runs.
# ruff: noqa: TC001
from continuations.wire.report import to_json


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
