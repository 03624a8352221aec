"""Several decisions in one request; each has a result of its own."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from continuations.core.decisions import Decision
from continuations.errors import AlreadyDecided
from continuations.ledger import layout
from continuations.present import json_forms
from continuations.present.requests import MAX_DECISIONS
from continuations.serve.http import (
    decision_bodies,
    problems,
    request_fields,
)
from continuations.serve.http.request_context import HTTP, RequestContext
from continuations.serve.http.request_response import Response, json_response

if TYPE_CHECKING:
    from continuations.core.quorum import Vote


async def decide_all(context: RequestContext) -> Response:
    """Record several decisions, each on its own, then wake the decided runs."""
    from continuations.engine.decision_batch import decide_each  # noqa: PLC0415 - rarely used

    posted = _posted_decisions(context)
    results = await decide_each(
        context.runner.decide,
        {wait_id: each.verdict for wait_id, each in posted.items()},
        HTTP,
        shown={wait_id: each.shown for wait_id, each in posted.items()},
    )
    decided = [key for key, each in results.items() if isinstance(each, Decision)]
    run_ids = dict.fromkeys(layout.parse_wait_id(key).run_id for key in decided)
    woken = {run_id: await context.wake(run_id) for run_id in run_ids}
    forms = [await _shown(context, *item, woken=woken) for item in results.items()]
    return json_response({"results": forms})


def _posted_decisions(
    context: RequestContext,
) -> dict[str, decision_bodies.PostedDecision]:
    items = request_fields.body(context)["decisions"]
    if not 1 <= len(items) <= MAX_DECISIONS:
        msg = f'"decisions" must be a list of 1 to {MAX_DECISIONS} decisions.'
        raise problems.malformed(msg)
    return decision_bodies.posted_decisions(items, context.identity)


async def _shown(
    context: RequestContext,
    wait_id: str,
    result: Decision | Vote | Exception,
    *,
    woken: dict[str, bool],
) -> dict[str, Any]:
    """Return the result of one decision, as far as the sender may view its run."""
    if isinstance(result, AlreadyDecided) and not await _may_view(context, wait_id):
        result = problems.decided_already()
    elif not isinstance(result, Exception) and not await _may_view(context, wait_id):
        return {"wait_id": wait_id, "recorded": True}
    return _result_json(context, wait_id, result, woken=woken)


async def _may_view(context: RequestContext, wait_id: str) -> bool:
    return await context.may("view", layout.parse_wait_id(wait_id).run_id)


def _result_json(
    context: RequestContext,
    wait_id: str,
    result: Decision | Vote | Exception,
    *,
    woken: dict[str, bool],
) -> dict[str, Any]:
    if isinstance(result, Exception):
        problem = problems.from_error(
            result, now=context.clock.now(), operation="POST /decisions"
        )
        return {"wait_id": wait_id, "problem": problem.body()}
    was_woken = isinstance(result, Decision)
    was_woken = was_woken and woken[layout.parse_wait_id(wait_id).run_id]
    return {"wait_id": wait_id, **json_forms.decide_json(result, woken=was_woken)}
