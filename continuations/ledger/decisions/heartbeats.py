"""Heartbeats: another system says that its job is in progress, and gets more time.

A heartbeat is a slot of the wait with the new deadline. The marker of this deadline is
created first. So a heartbeat and the expiry of a wait compete for one slot.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from continuations.core.rows.decisions import Decision
from continuations.core.rows.slots import Slot
from continuations.errors import DecisionRefused
from continuations.ledger import layout
from continuations.ledger.arrivals import wait_slots
from continuations.ledger.arrivals.recorded_decisions import read_decision
from continuations.ledger.decision_errors import closed_wait_error, late_error
from continuations.ledger.decisions import decisions
from continuations.value_class import replace
from continuations.wire.fields import whole_milliseconds

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import timedelta

    from continuations.core.rows.waits import Wait
    from continuations.ledger.objects import Objects
    from continuations.ledger.store_clock import StoreClock

_FAILURE = "got no heartbeat"
# A heartbeat that moves the deadline by less than this part of it writes nothing: each
# slot is a key in the listing of the run.
_LEAST_PART = 10


async def extend_deadline(
    objects: Objects,
    wait_id: str,
    extend: timedelta,
    *,
    clock: StoreClock,
    new_ulid: Callable[[], str],
    by: str | None,
) -> Wait:
    """Move the deadline of a job's wait; return the wait with its newest deadline.

    A deadline never moves to an earlier time. A crash leaves the deadline moved or not,
    and a sweep deletes the marker that is left.

    Raises:
        DecisionRefused: The wait is not one of a job.
        WaitNotFound, AlreadyDecided, WaitExpired, Cancelled: The wait is not open.
        Corrupt, FormatError: A slot cannot be read.
        StoreError: The deadline may or may not be moved.
    """
    opened = await decisions.find_open_wait(objects, wait_id)
    recorded = await read_decision(objects, wait_id)
    if recorded is not None:
        raise closed_wait_error(recorded, _FAILURE)
    assert opened is not None  # noqa: S101 - it is open or decided
    if not opened.rules.is_extendable:
        msg = (
            f"wait {wait_id} {_FAILURE}: its kind is {opened.kind}, and only a job of "
            "another system sends heartbeats. Decide the wait."
        )
        raise DecisionRefused(msg, run_id=opened.run_id, wait_id=wait_id)
    if opened.deadline is None:
        return opened  # it has no deadline, or its tool has not returned
    prefix = layout.slots_prefix(wait_id)
    keys = [each async for piece in clock.all_keys(objects, prefix) for each in piece]
    current = await wait_slots.follow_keys(objects, opened, keys)
    await clock.learn(objects, opened.run_id, new_ulid())
    while not isinstance(current, Decision):
        now = clock.now()
        deadline = whole_milliseconds(now + extend)
        if current.deadline is None:
            return current
        if now > current.deadline:
            raise late_error(current, _FAILURE)
        if deadline < current.deadline + extend / _LEAST_PART:
            return current
        slot = Slot.of(opened, "extend", new_ulid(), now)
        slot = replace(slot, deadline=deadline, by=by)
        after = await wait_slots.move_deadline(objects, current, slot)
        if not isinstance(after, Decision) and after.deadline == deadline:
            await wait_slots.delete_marker_of(objects, current)
        current = after
    recorded = await decisions.record_decision(objects, current)
    raise closed_wait_error(recorded, _FAILURE)
