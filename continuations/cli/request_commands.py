"""The commands that send a request to a run: send, cancel."""

from __future__ import annotations

from typing import Annotated

import typer

from continuations.cli import FAILED, json_output
from continuations.cli.application import runner_without_agents
from continuations.cli.decision_input import (
    check_run_id,
    resolve_actor,
    write_actor_note,
)
from continuations.cli.json_output import write_json
from continuations.cli.options import App, By, Json, RunId, StoreUrl
from continuations.cli.output import write_lines
from continuations.present.escaping import escape_invisible

# typer reads the annotations when it runs.
# ruff: noqa: TC001


def send(
    run: RunId,
    text: Annotated[str, typer.Argument(metavar="TEXT", help="The message.")],
    *,
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
    number = runner_without_agents(app, store).send(run, text, by=actor.name)
    write_actor_note(actor)
    if json:
        write_json({"run_id": run, "number": number})
        return
    name = escape_invisible(run)
    write_lines([f"{name}: message {number} is recorded"])
    write_lines([f"next: continuations resume {name}"])


def cancel(
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
    """End a run and all its open waits. Needs no agent code."""
    check_run_id(run, command="cancel")
    actor = resolve_actor(by)
    runner = runner_without_agents(app, store)
    state = runner.cancel(run, reason=reason, by=actor.name)
    name = escape_invisible(run)
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
    write_lines([f"{name}: {result}"])
