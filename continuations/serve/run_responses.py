"""The responses of HTTP and AWS Lambda about runs: the same JSON forms.

A version may contain waits that are decided since, so each report of a run with waits
costs one listing of its decisions.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

from continuations.ledger.arrivals.recorded_decisions import decided_wait_ids
from continuations.present import json_forms

if TYPE_CHECKING:
    from continuations.core.messages import Detail
    from continuations.engine.outcomes import Outcome, SendResult
    from continuations.engine.sweep.sweeping import SweepResult
    from continuations.ledger.claims import Clock
    from continuations.wire.continuation import Continuation
    from continuations_storage import Store

_log = logging.getLogger("continuations")


async def run_response(
    store: Store, clock: Clock, run: Continuation, detail: Detail
) -> dict[str, Any]:
    """Return a run as JSON values (`run`)."""
    decided = await decided_wait_ids(store, run)
    return json_forms.run_json(run, decided=decided, now=clock.now(), detail=detail)


async def outcome_response(
    store: Store, clock: Clock, outcome: Outcome, detail: Detail
) -> dict[str, Any]:
    """Return the outcome of a start or resume as JSON values (`outcome`)."""
    decided = await decided_wait_ids(store, outcome.continuation)
    return json_forms.outcome_json(
        outcome, decided=decided, now=clock.now(), detail=detail
    )


async def reply_response(
    store: Store,
    clock: Clock,
    result: SendResult[Any],
    number: int,
    detail: Detail,
) -> dict[str, Any]:
    """Return the result of a message as JSON values (`thread_reply`)."""
    run: Continuation | None = getattr(result, "continuation", None)
    decided = () if run is None else await decided_wait_ids(store, run)
    return json_forms.reply_json(
        result,
        run_id=result.run_id,
        number=number,
        now=clock.now(),
        decided=decided,
        detail=detail,
    )


async def thread_response(
    store: Store, clock: Clock, run: Continuation, detail: Detail
) -> dict[str, Any]:
    """Return a thread as JSON values (`thread`)."""
    decided = await decided_wait_ids(store, run)
    return json_forms.thread_json(run, decided=decided, now=clock.now(), detail=detail)


def sweep_response(result: SweepResult) -> dict[str, Any]:
    """Return the result of a sweep as JSON values (`sweep_result`); log its errors.

    The form has only the name of each problem. The text of an error may name keys,
    buckets and machines, so it goes to the log.
    """
    for run_id, error in result.errors.items():
        _log.warning("run %s cannot go on: %s: %s", run_id, type(error).__name__, error)
    return json_forms.sweep_result_json(result)
