"""Deadlines of waits: whether they have passed, and expiry."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from continuations.core.decisions import Decision
from continuations.ledger.decisions import record_decision

if TYPE_CHECKING:
    from datetime import datetime

    from continuations.core.state import RunState
    from continuations.core.waits import Wait
    from continuations.engine.ports import Ports
    from continuations.ledger.objects import Objects


def is_past_deadline(wait: Wait, now: datetime) -> bool:
    """Return whether a wait's deadline has passed."""
    return wait.deadline is not None and now > wait.deadline


def has_late_wait(state: RunState, now: datetime) -> bool:
    """Return whether the deadline of an open wait has passed."""
    return any(is_past_deadline(wait, now) for wait in state.waits.values())


async def expire_waits(
    objects: Objects, state: RunState, ports: Ports, *, now: datetime
) -> dict[str, Decision]:
    """Record the expiry of the open waits whose deadline has passed.

    Returns the decisions by wait id. A person's decision that was recorded first is
    returned instead of the expiry. A wait that only the clock ends has no record.
    """
    expiries = expiries_of(state, ports, now)
    recorded = [
        expiry
        for wait_id, expiry in expiries.items()
        if state.waits[wait_id].rules.has_object
    ]
    first = await asyncio.gather(
        *(record_decision(objects, expiry) for expiry in recorded)
    )
    return {**expiries, **{decision.wait_id: decision for decision in first}}


def expiries_of(state: RunState, ports: Ports, now: datetime) -> dict[str, Decision]:
    """Return the expiry of each open wait whose deadline has passed, by wait id."""
    return {
        wait.id: Decision(
            id=ports.ids.new_ulid(now),
            wait_id=wait.id,
            kind="expire",
            at=now,
            digest=wait.digest,
        )
        for wait in state.waits.values()
        if is_past_deadline(wait, now)
    }
