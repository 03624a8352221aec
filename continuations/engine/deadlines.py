"""Deadlines of waits: whether they have passed, and expiry."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from continuations.ledger.decisions import close_wait

if TYPE_CHECKING:
    from datetime import datetime

    from continuations.core.decisions import Decision
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

    Returns the recorded decisions by wait id. A person's decision that was recorded
    first is returned instead of the expiry.
    """
    late = [wait for wait in state.waits.values() if is_past_deadline(wait, now)]
    closing = [
        close_wait(
            objects, wait, "expire", now=now, decision_id=ports.ids.new_ulid(now)
        )
        for wait in late
    ]
    decisions = await asyncio.gather(*closing)
    return {wait.id: each for wait, each in zip(late, decisions, strict=True)}
