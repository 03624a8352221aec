"""Markers: keys, sorted by due time, that say "look at this run at this time".

A marker is created before the object that it guards. So after a crash at any point, a
sweep that follows only markers finds the run. A marker is deleted when the thing that
it guards is no longer open.
"""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

from continuations.ledger import layout
from continuations.ledger.layout import Marker
from continuations.ledger.objects import AlreadyExists
from continuations.value_class import dataclass, replace
from continuations.wire.fields import to_milliseconds

if TYPE_CHECKING:
    from datetime import datetime

    from continuations.core.rows.run import RunRow
    from continuations.core.rows.state import RunState
    from continuations.core.rows.waits import Wait
    from continuations.ledger.event_keys import EventMarker
    from continuations.ledger.objects import Objects
    from continuations.ledger.store_clock import StoreClock

# The first retry of a run that cannot continue comes after this time, each further one
# after twice the time. So a model that is down, or a run that was never created, costs
# little.
FIRST_RETRY_DELAY = timedelta(minutes=1)
MAX_RETRY_DELAY = timedelta(days=1)
# A start creates the marker of its run, and then version 1.
_START_DELAY = timedelta(seconds=2)
# People are reminded of one wait so often.
MAX_REMINDERS = 3


def guard(run_id: str, number: int, due: datetime | None, nonce: str) -> Marker:
    """Return the marker for a version; `due` is the end of its claim, if it claims."""
    return _new_marker(run_id, "g", str(number), due, nonce)


def for_decision(wait_id: str, nonce: str) -> Marker:
    """Return the marker for a decision that will be recorded; it is due now."""
    name = layout.parse_wait_id(wait_id)
    return _new_marker(name.run_id, "d", name.ulid, None, nonce)


def deadline_marker(wait: Wait) -> Marker | None:
    """Return the marker for the deadline of a wait, or `None` without a deadline.

    It depends on the wait alone. So every process that creates it creates the same key.
    """
    if wait.deadline is None:
        return None
    name = layout.parse_wait_id(wait.id)
    return _new_marker(name.run_id, "e", name.ulid, wait.deadline, name.ulid)


def reminder_marker(wait: Wait, number: int) -> Marker | None:
    """Return the marker of a reminder, `None` if the wait has no such reminder.

    It depends on the wait and the number alone, as the marker of the deadline.
    """
    if not wait.remind_after or not 1 <= number <= MAX_REMINDERS:
        return None
    name = layout.parse_wait_id(wait.id)
    try:
        due = wait.created_at + timedelta(seconds=wait.remind_after * number)
    except OverflowError:  # after the year 9999
        return None
    return _new_marker(name.run_id, "n", name.ulid, due, name.ulid)


def reminder_number(wait: Wait, now: datetime) -> int:
    """Return which reminder of a wait is due; a late sweep leaves earlier ones out."""
    passed = (now - wait.created_at) // timedelta(seconds=wait.remind_after)
    return max(1, min(passed, MAX_REMINDERS))


def first_markers(wait: Wait) -> list[Marker]:
    """Return the markers of a new wait: its deadline and its first reminder."""
    return [*filter(None, (deadline_marker(wait), reminder_marker(wait, 1)))]


def last_markers(wait: Wait) -> list[Marker]:
    """Return the markers that a wait may have when it ends."""
    numbers = range(1, MAX_REMINDERS + 1) if wait.remind_after else ()
    reminders = (reminder_marker(wait, number) for number in numbers)
    return [*filter(None, (deadline_marker(wait), *reminders))]


def for_arrival(run_id: str, reason: str, number: int, nonce: str) -> Marker:
    """Return the marker for a message, signal or request to come; it is due now."""
    return _new_marker(run_id, reason, str(number), None, nonce)


def for_release(run_id: str, number: int, nonce: str) -> Marker:
    """Return the marker for a version that is released although it can continue.

    It is due now. After an error, `postpone` replaces it by a later one.
    """
    return _new_marker(run_id, "r", str(number), None, nonce)


def for_cancel_request(run_id: str, nonce: str) -> Marker:
    """Return the marker for a cancel request that will be recorded; it is due now."""
    return _new_marker(run_id, "c", "0", None, nonce)


def _new_marker(
    run_id: str, reason: str, target: str, due: datetime | None, nonce: str
) -> Marker:
    due_ms = layout.DUE_NOW if due is None else to_milliseconds(due)
    return Marker(due_ms, reason, target, nonce[-layout.NONCE_LENGTH :], run_id)


async def create(objects: Objects, marker: Marker) -> datetime | None:
    """Create a marker; return the store's time, or `None`.

    A marker that exists is the same marker, because its body is empty.
    """
    return await create_key(objects, marker.key)


async def create_key(objects: Objects, key: str) -> datetime | None:
    """Create the marker with a key; return the store's time, or `None`."""
    try:
        return await objects.create(key, b"")
    except AlreadyExists:
        return None


async def create_with_time(objects: Objects, marker: Marker) -> datetime | None:
    """Create a marker; return the store's time of it, or `None`.

    With a store that does not return its time from a create, but can tell when a key
    was created, this costs one more request.
    """
    time = await create(objects, marker)
    return time or await objects.created_at(marker.key)


@dataclass(frozen=True, slots=True)
class DueMarkers:
    """The markers that are due, and when the next one will be.

    Attributes:
        due: The due markers of runs, the oldest first.
        seconds_to_next: Time until the next marker is due, `None` without a marker.
        due_events: The due markers of published events, the oldest first.
    """

    due: tuple[Marker, ...]
    seconds_to_next: float | None
    due_events: tuple[EventMarker, ...] = ()


async def read_due(objects: Objects, clock: StoreClock) -> DueMarkers:
    """Return the markers that are due by the store's time, and when the next one is."""
    due: list[Marker] = []
    due_events: list[EventMarker] = []
    async for keys in clock.all_keys(objects, layout.MARKERS_PREFIX):
        now_ms = to_milliseconds(clock.now())
        for key in keys:
            marker = layout.parse_marker(key)
            event_marker = _parse_event_marker(key) if marker is None else None
            found = marker or event_marker
            if found is not None and found.due_ms > now_ms:
                seconds = (found.due_ms - now_ms) / 1000
                return DueMarkers(tuple(due), seconds, tuple(due_events))
            due += [marker] if marker else []
            due_events += [event_marker] if event_marker else []
    return DueMarkers(tuple(due), None, tuple(due_events))


def _parse_event_marker(key: str) -> EventMarker | None:
    from continuations.ledger import event_keys  # noqa: PLC0415 - few stores have events

    return event_keys.parse_event_marker(key)


async def list_expired(objects: Objects, clock: StoreClock) -> set[str]:
    """Return `{ulid}@{run}` of the waits whose deadline has passed, from markers.

    A sweep that cannot process a deadline dates its marker later. Such a deadline
    counts as passed too, but only if its marker is among the last that are read.
    """
    expired: set[str] = set()
    async for keys in clock.all_keys(objects, layout.MARKERS_PREFIX):
        now_ms = to_milliseconds(clock.now())
        for marker in filter(None, map(layout.parse_marker, keys)):
            was_due = layout.DUE_NOW < marker.due_ms < now_ms or marker.fruitless_looks
            if marker.reason == "e" and was_due:
                expired.add(f"{marker.target}@{marker.run_id}")
        if keys[-1] > layout.key_after_due_markers(now_ms):
            break
    return expired


async def postpone(
    objects: Objects, clock: StoreClock, marker: Marker, *, has_run: bool = True
) -> Marker:
    """Create a marker that is due later than another one, by the store's time.

    The first delay is a minute, and each further one is twice as long, up to a day. If
    the reply shows that this machine's clock is wrong, the marker is dated again.

    Args:
        objects: The store.
        clock: The store's time.
        marker: The marker that is due too early. The caller deletes it.
        has_run: Whether the run exists. Otherwise a process may be about to write its
            first version, so a marker that was due at once is due again soon.

    Returns:
        The new marker.
    """

    def postponed() -> Marker:
        if marker.due_ms == layout.DUE_NOW and not has_run:
            return replace(marker, due_ms=to_milliseconds(clock.now() + _START_DELAY))
        return marker.postponed(to_milliseconds(clock.now() + retry_delay(marker)))

    later = postponed()
    before = clock.correction
    await clock.create(objects, later.key)
    if abs(clock.correction - before) < FIRST_RETRY_DELAY / 4:
        return later
    corrected = postponed()
    await create(objects, corrected)
    if corrected.key != later.key:
        await objects.delete(later.key)
    return corrected


def retry_delay(marker: Marker) -> timedelta:
    """Return the delay before the next look; it doubles with each fruitless look."""
    doublings: int = 2**marker.fruitless_looks
    return min(FIRST_RETRY_DELAY * doublings, MAX_RETRY_DELAY)


def is_needed(marker: Marker, newest_number: int, state: RunState | None) -> bool:
    """Return whether the thing that a marker guards is open in the newest version.

    A guard is created before its version, and the process may stop in between. So a
    guard is needed until that version number exists.

    Args:
        marker: The marker.
        newest_number: The number of the newest version; 0 without one.
        state: The newest version, or `None` if the run has no version yet.
    """
    if state is None or state.run.has_ended:
        return state is None
    match marker.reason:
        case "g":
            return newest_number < int(marker.target) or state.run.status == "running"
        case "r":
            return newest_number <= int(marker.target)
        case "d" | "e" | "n":
            names = (f"-{marker.target}@" in wait for wait in state.waits)
            return any(names) or _is_awaited(state, marker.target)
        case "m" | "s" | "o":
            return _last_number(state.run, marker.reason) < int(marker.target)
        case _:
            return True


def _last_number(run: RunRow, reason: str) -> int:
    """Return the number of the last message, signal or request that a run took in."""
    if reason == "o":
        return run.last_operator_number
    return run.last_signal_number if reason == "s" else run.last_inbox_number


def _is_awaited(state: RunState, wait_ulid: str) -> bool:
    """Return whether a started call may open the wait with this ULID."""
    # Not needed to decide, and it loads the calls.
    from continuations.core.rows.state import early_wait_ulids  # noqa: PLC0415

    return wait_ulid in early_wait_ulids(state)
