"""The command that gives a job of another system more time."""

from __future__ import annotations

from typing import Annotated

import typer

from continuations.cli.application import runner_without_agents
from continuations.cli.decision_input import (
    check_wait_id,
    resolve_actor,
    write_actor_note,
)
from continuations.cli.json_output import write_json
from continuations.cli.options import App, By, Json, StoreUrl, WaitId
from continuations.cli.output import write_lines
from continuations.core.visible_text import escape_invisible
from continuations.wire.report import utc_text

# typer reads the annotations when it runs.
# ruff: noqa: TC001


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
