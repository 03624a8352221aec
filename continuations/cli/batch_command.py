"""The command that records several decisions: decide."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from continuations.cli import LIBRARY_ERROR
from continuations.cli.application import runner_without_agents
from continuations.cli.decision_input import (
    parse_arguments,
    resolve_actor,
    write_actor_note,
)
from continuations.cli.errors import UsageError
from continuations.cli.json_output import write_json
from continuations.cli.options import App, By, Json, StoreUrl
from continuations.cli.output import write_lines
from continuations.core import jsontext
from continuations.core.visible_text import escape_invisible
from continuations.present.json_forms import decide_json
from continuations.present.problems import find_problem_type

if TYPE_CHECKING:
    from continuations.results import Decision, Vote
    from continuations.serve.http.decision_bodies import PostedDecision

# typer reads the annotations when it runs.
# ruff: noqa: TC001


def decide(
    decisions: Annotated[
        str,
        typer.Argument(
            metavar="JSON|@FILE",
            help='A list such as [{"wait_id": WAIT, "decision": "approve"}].',
        ),
    ],
    *,
    by: By = None,
    json: Json = False,
    app: App = None,
    store: StoreUrl = None,
) -> None:
    """Decide several waits; each has a result of its own. Needs no agent code.

    The exit code is 5 if a decision was not recorded; the others are recorded.
    """
    actor = resolve_actor(by)
    posted = _posted(parse_arguments(decisions, name="DECISIONS"), actor.name)
    results = runner_without_agents(app, store).decide_all(
        {wait_id: each.verdict for wait_id, each in posted.items()},
        shown={wait_id: each.shown for wait_id, each in posted.items() if each.shown},
        door=actor.door,
    )
    if not all(isinstance(each, Exception) for each in results.values()):
        write_actor_note(actor)
    for wait_id, result in results.items():
        if json:
            write_json(_result_json(wait_id, result))
        else:
            write_lines([f"{escape_invisible(wait_id)}: {_result_text(result)}"])
    if any(isinstance(each, Exception) for each in results.values()):
        raise typer.Exit(LIBRARY_ERROR)


def _posted(items: Any, by: str) -> dict[str, PostedDecision]:
    # Imported here: no other command reads the bodies of the HTTP API.
    from continuations.serve.http import decision_bodies, problems  # noqa: PLC0415

    given = jsontext.as_array(items)
    if not given:
        msg = (
            'DECISIONS must be a JSON array of objects, each with a "wait_id". '
            "Correct the JSON."
        )
        raise UsageError(msg)
    try:
        return decision_bodies.posted_decisions(given, by)
    except problems.RequestRefused as error:
        why = (error.problem.detail or "").removesuffix(".")
        msg = f"DECISIONS is not valid: {why}. Correct the JSON."
        raise UsageError(msg) from None


def _result_text(result: Decision | Vote | Exception) -> str:
    if isinstance(result, Exception):
        return f"{type(result).__name__}: {escape_invisible(str(result))}"
    return f"{result.kind} is recorded"


def _result_json(wait_id: str, result: Decision | Vote | Exception) -> dict[str, Any]:
    if isinstance(result, Exception):
        problem = find_problem_type(type(result))
        return {"wait_id": wait_id, "error": problem.slug, "detail": str(result)}
    form = decide_json(result, woken=False)
    del form["woken"]
    return {"wait_id": wait_id, **form}
