"""The commands about signals that no wait has taken: signals, drop-signals."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from continuations.cli.application import runner_without_agents
from continuations.cli.decision_input import (
    check_run_id,
    resolve_actor,
    write_actor_note,
)
from continuations.cli.json_output import write_json
from continuations.cli.options import App, By, Json, RunId, StoreUrl
from continuations.cli.output import write_lines, write_note
from continuations.core.visible_text import escape_invisible
from continuations.present.times import counted
from continuations.wire.fields import readable_time
from continuations.wire.report import to_json

if TYPE_CHECKING:
    from continuations.results import UntakenSignal

# typer reads the annotations when it runs.
# ruff: noqa: TC001

_MAX_DATA_CHARS = 200


def signals(
    run: RunId, *, json: Json = False, app: App = None, store: StoreUrl = None
) -> None:
    """List the signals that no wait of a run has taken. Needs no agent code."""
    check_run_id(run, command="signals")
    found = runner_without_agents(app, store).signals(run)
    if json:
        write_json(to_json(found))
        return
    name = escape_invisible(run)
    if not found:
        write_note(f"{name} has no signal that no wait has taken.")
        return
    for signal in found:
        write_lines(_signal_lines(signal))
    write_lines([f"next: continuations drop-signals {name} --name NAME"])


def _signal_lines(signal: UntakenSignal) -> list[str]:
    by = "" if signal.by is None else f" by {escape_invisible(signal.by)}"
    data = signal.data_json
    if len(data) > _MAX_DATA_CHARS:
        data = f"{data[:_MAX_DATA_CHARS]}… ({len(data)} characters; --json has all)"
    return [
        f"{signal.number}  {escape_invisible(signal.name)}",
        f"  sent{by} at {readable_time(signal.at)}",
        f"  data: {escape_invisible(data)}",
    ]


def drop_signals(
    run: RunId,
    *,
    name: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Drop only the signals with this name."),
    ] = None,
    reason: Annotated[
        str | None, typer.Option(metavar="TEXT", help="Why. It is recorded.")
    ] = None,
    by: By = None,
    json: Json = False,
    app: App = None,
    store: StoreUrl = None,
) -> None:
    """Drop the signals that no wait of a run has taken. Needs no agent code.

    Without --name, all of them are dropped. A signal that comes later is kept.
    """
    check_run_id(run, command="drop-signals")
    actor = resolve_actor(by)
    dropped = runner_without_agents(app, store).drop_signals(
        run, name=name, reason=reason, by=actor.name, door=actor.door
    )
    write_actor_note(actor)
    if json:
        write_json({"run_id": run, "dropped": dropped})
        return
    shown = escape_invisible(run)
    if not dropped:
        write_lines([f"{shown}: has no such signal; nothing was changed"])
        return
    write_lines([f"{shown}: {counted(dropped, 'signal')} dropped"])
