"""Which published events and kept signals a wait takes, and how many are kept."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from continuations.core import jsontext
from continuations.core.rows.waits import Wait, waits_for_events
from continuations.core.ulid import RANDOM_BYTES, encode_ulid, milliseconds_of
from continuations.value_class import dataclass

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from continuations.core.operator_request import OperatorRequest
    from continuations.core.rows.run import KeptSignal
    from continuations.core.rows.state import RunState


# A wait takes an event that was published at most this long before it was opened.
LOOK_BACK = timedelta(days=1)
# Longer than `LOOK_BACK`: a worker may die after it has stored a wait, and before it
# has looked back. A later process then looks back.
KEPT_FOR = timedelta(days=2)
# A run remembers at most this many of the events that it took. Then its waits take
# nothing that is older than all of them.
MAX_TAKEN = 256
_MILLISECOND = timedelta(milliseconds=1)


def first_id_at(milliseconds: int) -> str:
    """Return a text that sorts before the ids of all events since a time."""
    return encode_ulid(max(milliseconds, 0), bytes(RANDOM_BYTES))


def with_event(taken: tuple[str, ...], event_id: str) -> tuple[str, ...]:
    """Return the events that a run has taken, with one more.

    Ids that are too old for every later wait are left out, and so are the oldest ids
    above `MAX_TAKEN`. Ids sort by time.
    """
    newest = max(event_id, *taken) if taken else event_id
    oldest = first_id_at(milliseconds_of(newest) - KEPT_FOR // _MILLISECOND)
    kept = (each for each in taken if each >= oldest and each != event_id)
    found = (*kept, event_id)
    if len(found) <= MAX_TAKEN:
        return found
    oldest = min(found)
    return tuple(each for each in found if each != oldest)


def may_take(taken: Collection[str], event_id: str) -> bool:
    """Return whether a run that took these events may take an event.

    A run that remembers no older events takes none of them again.
    """
    if event_id in taken:
        return False
    return len(taken) < MAX_TAKEN or event_id > min(taken)


def is_in_time(event_at: datetime, deadline: datetime | None) -> bool:
    """Return whether an event was published before the deadline of a wait."""
    return deadline is None or event_at <= deadline


def opened_and_closed(
    before: Mapping[str, Wait], after: Mapping[str, Wait]
) -> tuple[list[Wait], list[Wait]]:
    """Return the waits for events that a version opens, and those that it closes."""
    opened = [wait for key, wait in after.items() if key not in before]
    closed = [wait for key, wait in before.items() if key not in after]
    return waits_for_events(opened), waits_for_events(closed)


# Signals --------------------------------------------------------------------------

# `signal` is refused if more signals with its name are not taken.
MAX_KEPT_SIGNALS = 100
# Each version has the names of kept signals. Beyond this number, a run accepts only
# signals for which a wait is open.
MAX_KEPT_IN_ALL = 1000


def awaited_signals(state: RunState) -> list[KeptSignal]:
    """Return the kept signals that an open wait can take, the oldest first."""
    names = {wait.event for wait in state.waits.values()}
    return [signal for signal in state.run.signals if signal.name in names]


def waits_for(state: RunState, name: str) -> list[Wait]:
    """Return the open waits for a signal with this name, the oldest first."""
    waits = (wait for wait in state.waits.values() if wait.event == name)
    return sorted(waits, key=Wait.sort_key)


@dataclass(frozen=True, slots=True, kw_only=True)
class UntakenSignal:
    """A signal that no wait of a run has taken.

    Attributes:
        number: Number of the signal in its run.
        name: Name of the event.
        at: When it was recorded, in UTC.
        by: Person or program that sent it, or `None`.
        data_json: The data as JSON.
    """

    number: int
    name: str
    at: datetime
    by: str | None
    data_json: str

    @property
    def data(self) -> Any:
        """The data, as a new value."""
        return jsontext.parse(self.data_json)


def drops(request: OperatorRequest, number: int, name: str) -> bool:
    """Return whether a request drops the signal with a number and a name."""
    is_named = request.signal_name is None or request.signal_name == name
    return request.action == "drop" and number <= request.signal_number and is_named
