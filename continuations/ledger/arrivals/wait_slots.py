"""Read and append the slots of a wait: votes, extensions, escalation and expiry.

`core/rows/slots.py` says what a sequence of slots means. This module keeps the order of
requests: the marker of a new deadline precedes its slot, and a process that reads slots
that end a wait records its decision.
"""

from __future__ import annotations

from asyncio import gather
from contextlib import suppress
from datetime import timedelta
from typing import TYPE_CHECKING, cast

from continuations.core.rows.decisions import Decision, Escalate
from continuations.core.rows.slots import (
    Slot,
    after_slot,
    after_slots,
    find_repeated_vote,
    objection_to,
)
from continuations.errors import Corrupt, InvalidInput, StoreError
from continuations.ledger import layout, markers
from continuations.ledger.decision_errors import refused_error
from continuations.ledger.objects import AlreadyExists, NotFound
from continuations.value_class import replace
from continuations.wire.arrivals import SLOT
from continuations.wire.fields import whole_milliseconds

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Collection, Iterable
    from datetime import datetime

    from continuations.core.rows.quorum import Vote
    from continuations.core.rows.state import RunState
    from continuations.core.rows.waits import Wait
    from continuations.ledger.objects import Objects

    GroupsOf = Callable[[str], Awaitable[tuple[str, ...]]]


async def follow(objects: Objects, wait: Wait) -> Wait | Decision:
    """Return a wait as its slots left it, or the decision that they made.

    This is one listing, and one read for each slot. The decision is not recorded yet.

    Raises:
        Corrupt: A slot is damaged or missing.
        FormatError: A slot has a newer format.
    """
    prefix = layout.slots_prefix(wait.id)
    keys = [key async for key in objects.all_keys(prefix)]
    return await follow_keys(objects, wait, keys)


async def follow_keys(
    objects: Objects, wait: Wait, keys: Iterable[str]
) -> Wait | Decision:
    """Return a wait as slots left it whose keys are at hand; see `follow`."""
    parsed = (layout.parse_slot_key(key, wait.run_id) for key in keys)
    last = max((each[1] for each in parsed if each and each[0] == wait.id), default=0)
    # A wait without votes has only deadlines, and its last slot has the newest one.
    first = 1 if wait.takes_votes else max(last, 1)
    reads = (_read_listed(objects, wait, n) for n in range(first, last + 1))
    return after_slots(wait, await gather(*reads))


async def follow_by_number(objects: Objects, wait: Wait) -> Wait | Decision:
    """Return what `follow` returns, by reads alone: one more than there are slots."""
    try:
        first = await read(objects, wait, 1)
    except NotFound:
        return wait
    return await _follow_from(objects, wait, first)


async def with_followed_waits(objects: Objects, state: RunState) -> RunState:
    """Return a run for people, whose open waits are as their slots left them.

    A wait that its slots have ended is returned as it was: no decision is recorded.
    """
    followed = [wait for wait in state.waits.values() if wait.has_slots]
    after = await gather(*(follow(objects, wait) for wait in followed))
    current = {each.id: each for each in after if not isinstance(each, Decision)}
    return replace(state, waits={**state.waits, **current}) if current else state


async def append(objects: Objects, wait: Wait, slot: Slot) -> Wait | Decision:
    """Create the next slot of a wait; return the wait after it, or its decision.

    `wait` is what `follow` returned. Its next number may be taken meanwhile. Then
    nothing is created, and the wait is returned as the other slots left it: compare
    `last_slot`. The id of the slot must be new. A crash leaves the slot created or not.

    Raises:
        Corrupt, FormatError: Another slot cannot be read.
        StoreError: The slot may or may not be created.
    """
    slot = replace(slot, number=wait.last_slot + 1, at=whole_milliseconds(slot.at))
    key = layout.slot_key(wait.id, slot.number)
    try:
        await objects.create(key, SLOT.encode(slot, wait.run_id))
    except AlreadyExists:
        # The reply to an earlier try of this create may be lost.
        existing = await _read_listed(objects, wait, slot.number)
        if existing.id != slot.id:
            return await _follow_from(objects, wait, existing)
    return after_slot(wait, slot)


async def move_deadline(objects: Objects, wait: Wait, slot: Slot) -> Wait | Decision:
    """Append a slot with a new deadline, after the marker of this deadline.

    A deadline never moves to an earlier time: then nothing is created. The marker of
    the old deadline stays; `delete_marker_of` removes it. If the number of the slot was
    taken, the new marker is deleted again.
    """
    if wait.deadline is None or slot.deadline is None or slot.deadline <= wait.deadline:
        return wait
    marker = markers.deadline_marker(replace(wait, deadline=slot.deadline))
    assert marker is not None  # noqa: S101 - the slot has a deadline
    await markers.create(objects, marker)
    after = await append(objects, wait, slot)
    is_ours = not isinstance(after, Decision) and after.deadline == slot.deadline
    if not is_ours:
        await objects.delete(marker.key)
    return after


async def delete_marker_of(objects: Objects, wait: Wait) -> None:
    """Delete the marker of a deadline that a later slot has replaced."""
    marker = markers.deadline_marker(wait)
    if marker is not None:
        await objects.delete(marker.key)


async def pass_deadline(
    objects: Objects, wait: Wait, *, now: datetime, slot_id: str
) -> Wait | Decision:
    """Create the slot of a deadline that has passed: escalation or expiry.

    `wait` is what `follow` returned. If other slots came first, they count: the wait is
    returned with a later deadline, or the decision that they made. A crash leaves the
    slot created or not, and the marker of the old deadline is due.

    A marker tells the store's time. So a wrong clock of this machine neither ends a
    wait early, nor sets a wrong deadline.
    """
    marker = markers.for_decision(wait.id, slot_id)
    told = await markers.create_with_time(objects, marker)
    now = whole_milliseconds(told or now)
    current: Wait | Decision = wait
    while not isinstance(current, Decision):
        if current.deadline is None or now <= current.deadline:
            break
        action = current.on_deadline
        if isinstance(action, Escalate):
            deadline = now + timedelta(seconds=action.within)
            slot = replace(Slot.of(wait, "escalate", slot_id, now), deadline=deadline)
            current = await move_deadline(objects, current, slot)
        else:
            expiry = Slot.of(wait, "expire", slot_id, now)
            current = await append(objects, current, expiry)
    # The marker of the deadline still guards the wait.
    await objects.delete(marker.key)
    return current


async def _follow_from(
    objects: Objects, wait: Wait, next_slot: Slot
) -> Wait | Decision:
    """Return a wait after slots that others appended; dense numbers are followed."""
    current = after_slot(wait, next_slot)
    while not isinstance(current, Decision):
        try:
            following = await read(objects, wait, current.last_slot + 1)
        except NotFound:
            break
        current = after_slot(current, following)
    return current


async def _read_listed(objects: Objects, wait: Wait, number: int) -> Slot:
    try:
        return await read(objects, wait, number)
    except NotFound:
        key = layout.slot_key(wait.id, number)
        msg = (
            f"{key} is missing, although a later one or a listing shows that it "
            "existed. Restore it from a backup."
        )
        raise Corrupt(msg, run_id=wait.run_id, wait_id=wait.id) from None


async def read(objects: Objects, wait: Wait, number: int) -> Slot:
    """Return a slot; raises `NotFound`, or `Corrupt` if it is another one."""
    key = layout.slot_key(wait.id, number)
    slot = SLOT.decode(await objects.read(key), key, wait.run_id)
    if (slot.wait_id, slot.number, slot.digest) != (wait.id, number, wait.digest):
        msg = (
            f"{key} is damaged: it contains slot {slot.number} of wait {slot.wait_id}, "
            "or was made for another call. It was not changed. Restore it from a "
            "backup, or cancel the run."
        )
        raise Corrupt(msg, run_id=wait.run_id, wait_id=wait.id)
    return slot


async def checked_voter(
    wait: Wait, proposed: Decision, groups_of: GroupsOf | None
) -> Decision:
    """Return a decision with the groups of its person, who may decide the wait.

    Raises `DecisionRefused` if the person may not, and what `groups_of` raises.
    """
    quorum = wait.quorum
    if quorum is None:
        return proposed
    name = proposed.by
    if name and quorum.needs_groups_of(name):
        if groups_of is not None:
            found = await groups_of(name)
            groups = tuple(sorted({*proposed.groups, *found}))
            proposed = replace(proposed, groups=groups)
        elif not proposed.groups:
            raise refused_error(
                wait,
                f"its approvers are groups, and the groups of {name} are not known",
                "Decide with a Runner(groups=...), or with an Identity with groups.",
            )
    objection = quorum.objection(name, proposed.groups)
    if objection is not None:
        raise refused_error(wait, objection.why, objection.next_step)
    return proposed


async def cast_vote(
    objects: Objects, wait: Wait, proposed: Decision
) -> Decision | Vote:
    """Append a vote; return it, or the decision that the slots of the wait made.

    The marker of the vote exists; it is deleted unless the vote ended the wait. The
    decision is not recorded yet. `wait` is what `wait_slots.follow` returned. To
    repeat a vote returns the first one. A crash leaves the vote appended or not; if it
    ended the wait, its marker makes a sweep record the decision.

    Raises:
        DecisionRefused: The vote does not count, for example because the person has
            voted, or is not an approver any more. Nothing was recorded.
    """
    current: Wait | Decision = wait
    while not isinstance(current, Decision):
        counted = find_repeated_vote(current, proposed)
        if counted is not None:
            await objects.delete(proposed.marker or "")
            return counted
        objection = objection_to(current, proposed)
        if objection is not None:
            await objects.delete(proposed.marker or "")
            raise refused_error(wait, objection.why, objection.next_step)
        slot = Slot.of(wait, "vote", proposed.id, proposed.at)
        current = await append(objects, current, replace(slot, vote=proposed))
    return current


async def delete_unneeded_markers(
    objects: Objects, wait: Wait, proposed: Decision, recorded: Decision
) -> None:
    """Delete the markers that a recorded decision makes unnecessary.

    No version names the marker of a deadline that a slot set. A sweep deletes what the
    store cannot delete now.
    """
    deadline = markers.deadline_marker(wait)
    # An expiry has no marker, and needs that of the deadline until a worker reads it.
    is_guarded = recorded.marker is not None
    keys = [deadline.key] if deadline is not None and is_guarded else []
    if proposed.marker is not None and recorded.marker != proposed.marker:
        keys.append(proposed.marker)
    for key in keys:
        with suppress(StoreError):
            await objects.delete(key)


def checked_groups(found: object) -> tuple[str, ...]:
    """Return what the application's `groups` function returned, as names of groups.

    Raises `InvalidInput` for anything but a collection of texts.
    """
    got = type(found).__name__
    if isinstance(found, list | tuple | set | frozenset):
        names = [*cast("Collection[object]", found)]
        if all(type(name) is str and name for name in names):
            return tuple(cast("list[str]", names))
    raise InvalidInput(
        "the groups function must return a list of names of groups, got "
        f"{got}. Return [] for a person without groups."
    )
