"""Deadlines of waits: whether they have passed, escalation and expiry."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from continuations.core.rows.decisions import Decision
from continuations.core.rows.waits import decision_on
from continuations.ledger.decisions.decisions import record_decision

if TYPE_CHECKING:
    from collections.abc import Iterable
    from datetime import datetime

    from continuations.core.rows.waits import Wait
    from continuations.engine.ports import Ports
    from continuations.ledger.objects import Objects


def is_past_deadline(wait: Wait, now: datetime) -> bool:
    """Return whether a wait's deadline has passed."""
    return wait.deadline is not None and now > wait.deadline


def late_waits(waits: Iterable[Wait], now: datetime) -> list[Wait]:
    """Return the waits whose deadline has passed; each as its slots left it."""
    return [wait for wait in waits if is_past_deadline(wait, now)]


async def pass_slot_deadlines(
    objects: Objects, waits: Iterable[Wait], ports: Ports, *, now: datetime
) -> tuple[dict[str, Decision], list[Wait]]:
    """Record what the passed deadlines of waits with slots do: expiry or escalation.

    Each takes effect with its slot. A slot that came first counts instead: a vote that
    ended the wait, or a later deadline.

    Returns:
        The recorded decisions by wait id, and the waits that were escalated.
    """
    late = [wait for wait in late_waits(waits, now) if wait.has_slots]
    if not late:
        return {}, []
    from continuations.ledger.arrivals import wait_slots  # noqa: PLC0415 - rarely needed

    after = await asyncio.gather(
        *(
            wait_slots.pass_deadline(
                objects, wait, now=now, slot_id=ports.ids.new_ulid(now)
            )
            for wait in late
        )
    )
    ended = (each for each in after if isinstance(each, Decision))
    decided = await asyncio.gather(*(record_decision(objects, each) for each in ended))
    moved = [
        each
        for wait, each in zip(late, after, strict=True)
        if not isinstance(each, Decision) and each.deadline != wait.deadline
    ]
    return {decision.wait_id: decision for decision in decided}, moved


async def expire_waits(
    objects: Objects, waits: Iterable[Wait], ports: Ports, *, now: datetime
) -> dict[str, Decision]:
    """Record the expiry of waits without slots whose deadline has passed.

    Returns the decisions by wait id. A person's decision that was recorded first is
    returned instead of the expiry. A wait that only the clock ends has no record.
    """
    late = [wait for wait in late_waits(waits, now) if not wait.has_slots]
    expiries = expiries_of(late, ports, now)
    recorded = [expiries[wait.id] for wait in late if wait.rules.has_object]
    first = await asyncio.gather(
        *(record_decision(objects, expiry) for expiry in recorded)
    )
    return {**expiries, **{decision.wait_id: decision for decision in first}}


def expiries_of(
    waits: Iterable[Wait], ports: Ports, now: datetime
) -> dict[str, Decision]:
    """Return the expiry of each open wait whose deadline has passed, by wait id."""
    return {
        wait.id: decision_on(wait, "expire", ports.ids.new_ulid(now), now)
        for wait in late_waits(waits, now)
    }
