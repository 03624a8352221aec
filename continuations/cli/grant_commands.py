"""The commands about the grants of a run: grants, revoke."""

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
from continuations.wire.fields import readable_time
from continuations.wire.report import to_json

if TYPE_CHECKING:
    from continuations.results import KeptGrant

# typer reads the annotations when it runs.
# ruff: noqa: TC001


def grants(
    run: RunId, *, json: Json = False, app: App = None, store: StoreUrl = None
) -> None:
    """List the grants of a run that have not ended. Needs no agent code."""
    check_run_id(run, command="grants")
    kept = runner_without_agents(app, store).grants(run)
    if json:
        write_json(to_json(kept))
        return
    if not kept:
        write_note(f"{escape_invisible(run)} has no grants.")
    for grant in kept:
        write_lines(_grant_lines(grant))


def _grant_lines(grant: KeptGrant) -> list[str]:
    until = "the end of the run" if grant.until is None else readable_time(grant.until)
    by = "" if grant.by is None else f" by {escape_invisible(grant.by)}"
    revoked = ", revoked" if grant.revoked else ""
    return [
        f"{grant.id}{revoked}",
        f"  path: {escape_invisible(' > '.join(grant.path))}",
        f"  arguments: {escape_invisible(grant.arguments_json or 'any')}",
        f"  given{by} at {readable_time(grant.at)}, until {until}",
    ]


def revoke(
    run: RunId,
    grant: Annotated[str, typer.Argument(metavar="GRANT", help="The id of the grant.")],
    *,
    reason: Annotated[
        str | None, typer.Option(metavar="TEXT", help="Why. It is recorded.")
    ] = None,
    by: By = None,
    json: Json = False,
    app: App = None,
    store: StoreUrl = None,
) -> None:
    """End a grant of a run. Needs no agent code.

    A process that works on the run now may use the grant until it stops. From the next
    resume or sweep on, the grant approves nothing.
    """
    check_run_id(run, command="revoke")
    actor = resolve_actor(by)
    runner = runner_without_agents(app, store)
    runner.revoke(run, grant, by=actor.name, reason=reason, door=actor.door)
    write_actor_note(actor)
    if json:
        write_json({"run_id": run, "grant": grant, "revoked": True})
        return
    name = escape_invisible(run)
    write_lines([f"{name}: grant {escape_invisible(grant)} ends at the next claim"])
