"""The person who closed a wait without a decision, as far as the store tells."""

from __future__ import annotations

from typing import TYPE_CHECKING

from continuations.ledger.arrivals import read_cancel_request
from continuations.ledger.objects import Objects
from continuations.ledger.recorded_decisions import read_decision
from continuations.serve.console.page import run_of_wait
from continuations.wire.fields import readable_time

if TYPE_CHECKING:
    from continuations.engine.async_runner import AsyncRunner


async def closing_facts(runner: AsyncRunner, wait_id: str) -> dict[str, str]:
    """Return who closed a wait, when and why, as far as the store tells.

    A request to cancel the run precedes all that it closes.
    """
    objects = Objects(runner.store)
    closed = await read_decision(objects, wait_id)
    if closed is None:
        return {}
    request = await read_cancel_request(objects, run_of_wait(wait_id))
    if request is not None and closed.by is None and request.at <= closed.at:
        facts = {
            "Cancelled by": request.by,
            "At": readable_time(request.at),
            "Reason": request.reason,
            "Through": request.door,
        }
    else:
        facts = {
            "Closed by": closed.by,
            "At": readable_time(closed.at),
            "Reason": closed.reason,
        }
    return {label: fact for label, fact in facts.items() if fact}
