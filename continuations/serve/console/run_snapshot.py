"""The data of the pages of one run, read at one place of the run.

A place is the newest version and the arrivals. Both only grow, so its cursor is the
same in each process, and another cursor means that something has changed.
"""

from __future__ import annotations

from asyncio import gather
from dataclasses import field
from typing import TYPE_CHECKING, NamedTuple

from continuations.core.messages import Detail, Message, shown_message
from continuations.core.reading.run_stream import WaitOpened
from continuations.core.reading.withheld_texts import shown_window
from continuations.core.rows.decisions import Decision
from continuations.core.rows.slots import after_slot
from continuations.core.rows.waits import Wait, withheld
from continuations.engine.event_reading import read_window
from continuations.errors import ContinuationsError
from continuations.ledger import layout
from continuations.ledger.arrivals import wait_slots
from continuations.ledger.arrivals.arrival_logs import MESSAGES
from continuations.ledger.objects import NotFound, Objects, gather_all
from continuations.ledger.versions import Versions
from continuations.serve.pages.run_log import CountedSlot
from continuations.value_class import dataclass, replace

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from continuations.core.reading.run_past import VersionWindow
    from continuations.engine.runner.async_runner import AsyncRunner
    from continuations.wire.arrivals import InboxMessage

# The pages show the votes of so many waits, and so many unread messages.
_MAX_WAITS, _MAX_UNREAD = 20, 20


@dataclass(frozen=True, slots=True, kw_only=True)
class RunPlace:
    """How far a run is.

    Attributes:
        run_id: Id of the run.
        version: Number of its newest version.
        arrivals: The keys of its decisions, votes, messages and requests.
    """

    run_id: str
    version: int
    arrivals: tuple[str, ...]

    @property
    def cursor(self) -> str:
        """A text that changes with each version and each arrival."""
        return f"{self.version}.{len(self.arrivals)}"

    @property
    def decided(self) -> frozenset[str]:
        """Ids of the waits whose decision is recorded."""
        ids = (layout.decided_wait_id(key, self.run_id) for key in self.arrivals)
        return frozenset(each for each in ids if each is not None)

    def unread(self, after: int) -> list[int]:
        """Return the numbers of the messages after the last one that was read."""
        numbers = (MESSAGES.number_in(key) for key in self.arrivals)
        return sorted(each for each in numbers if each is not None and each > after)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunSnapshot:
    """The data of the pages of a run.

    Attributes:
        cursor: The cursor of its place; "" for an older version.
        window: Its last versions.
        decided: Ids of waits whose decision is recorded.
        votes: The votes of open waits, in words, by wait id.
        slots: The votes and other slots of its waits, the oldest first.
        unread: Messages that the run has not read yet.
    """

    cursor: str = ""
    window: VersionWindow
    decided: Collection[str] = ()
    votes: Mapping[str, str] = field(default_factory=dict[str, str])
    slots: tuple[CountedSlot, ...] = ()
    unread: tuple[InboxMessage, ...] = ()

    def shown(self, detail: Detail) -> RunSnapshot:
        """Return the same with the texts that a person may read."""
        if detail == "transcript":
            return self
        window = shown_window(self.window, detail)
        unread = tuple(_shown_message(each, detail) for each in self.unread)
        return replace(self, window=window, unread=unread)


def _shown_message(unread: InboxMessage, detail: Detail) -> InboxMessage:
    message = shown_message(unread.message.data, detail, of_sub_agent=False)
    return replace(unread, message=Message.from_mapping(message))


async def find_place(objects: Objects, run_id: str) -> RunPlace:
    """Return how far a run is: two listings.

    Raises:
        RunNotFound, RunErased: The store does not have the run.
        StoreError: The store failed.
    """
    versions = Versions(objects, run_id)
    number, arrivals = await gather(
        versions.newest_number(), _arrival_keys(objects, run_id)
    )
    if number == 0:
        raise versions.run_not_found_error()
    return RunPlace(run_id=run_id, version=number, arrivals=arrivals)


async def read_version(objects: Objects, run_id: str, version: int) -> RunSnapshot:
    """Read what the page of an older version shows, with the votes until then.

    Raises:
        RunNotFound, RunErased: The store does not have the run or the version.
        Corrupt, FormatError: A version or a decision cannot be read.
        StoreError: The store failed.
    """
    window, arrivals = await gather(
        read_window(objects, run_id, version=version), _arrival_keys(objects, run_id)
    )
    slots = await _read_slots(objects, window, arrivals)
    votes = _vote_texts(window, slots, ())
    return RunSnapshot(window=window, votes=votes, slots=slots.counted)


async def _arrival_keys(objects: Objects, run_id: str) -> tuple[str, ...]:
    prefix = layout.arrivals_prefix(run_id)
    return tuple([key async for key in objects.all_keys(prefix)])


async def read_snapshot(runner: AsyncRunner, place: RunPlace) -> RunSnapshot:
    """Read what the pages of a run show.

    Raises:
        RunNotFound, RunErased: The store does not have the run.
        Corrupt, FormatError: A version, decision or message cannot be read.
        StoreError: The store failed.
    """
    objects = Objects(runner.store)
    window = await read_window(objects, place.run_id)
    state, decided = window.state, place.decided
    unread = place.unread(state.run.last_inbox_number)[:_MAX_UNREAD]
    messages = await gather_all(
        MESSAGES.read_if_there(objects, place.run_id, number) for number in unread
    )
    slots = await _read_slots(objects, window, place.arrivals)
    return RunSnapshot(
        cursor=place.cursor,
        window=window,
        decided=decided,
        votes=_vote_texts(window, slots, decided),
        slots=slots.counted,
        unread=tuple(each for each in messages if each is not None),
    )


class _ReadSlots(NamedTuple):
    """The slots of some waits.

    Attributes:
        counted: Those that count, the oldest first.
        unread: Ids of waits that have slots which are not here.
    """

    counted: tuple[CountedSlot, ...]
    unread: Collection[str]


async def _read_slots(
    objects: Objects, window: VersionWindow, arrivals: Collection[str]
) -> _ReadSlots:
    """Return the votes and other slots of the waits of some versions.

    This is one read for each slot. If many waits have some, the newest open ones and
    then the newest of the other ones are read.

    Args:
        objects: The store.
        window: The versions. If they are older ones, later slots are left out.
        arrivals: The keys of everything that was sent to the run.
    """
    run_id, state = window.state.run.id, window.state
    waits = {
        event.wait.id: event.wait
        for version in window.versions
        for event in version.events
        if isinstance(event, WaitOpened)
    }
    waits |= {wait.id: withheld(wait) for wait in state.waits.values()}
    numbers: dict[str, list[int]] = {}
    for key in arrivals:
        wait_id, number = layout.parse_slot_key(key, run_id) or ("", 0)
        if wait_id in waits:
            numbers.setdefault(wait_id, []).append(number)
    chosen = sorted(
        numbers, key=lambda each: (each in state.waits, waits[each].created_at)
    )
    chosen = chosen[-_MAX_WAITS:]
    found = await gather(
        *(_counted(objects, waits[each], sorted(numbers[each])) for each in chosen)
    )
    last = None if window.is_newest else window.versions[-1].at
    slots = [each for some in found for each in some or ()]
    slots.sort(key=lambda each: each.slot.at)
    read = {each for each, some in zip(chosen, found, strict=True) if some is not None}
    return _ReadSlots(
        tuple(each for each in slots if last is None or each.slot.at <= last),
        numbers.keys() - read,
    )


async def _counted(
    objects: Objects, wait: Wait, numbers: Sequence[int]
) -> list[CountedSlot] | None:
    """Return the slots of a wait that count; `None` if one of them is damaged."""
    try:
        slots = await gather_all(
            wait_slots.read(objects, wait, number) for number in numbers
        )
    except (ContinuationsError, NotFound):
        return None
    counted: list[CountedSlot] = []
    for slot in slots:
        after = after_slot(wait, slot)
        if isinstance(after, Decision):
            counted.append(CountedSlot(slot, wait, len(wait.votes) + 1))
            break
        if (after.votes, after.deadline) != (wait.votes, wait.deadline):
            counted.append(CountedSlot(slot, after, len(after.votes)))
        wait = after
    return counted


def _vote_texts(
    window: VersionWindow, slots: _ReadSlots, decided: Collection[str]
) -> dict[str, str]:
    """Return how many votes each open wait has that takes votes, as far as known."""
    after = {each.wait.id: each.wait for each in slots.counted}
    return {
        wait.id: f"{len(known.votes)} of {known.votes_needed} votes"
        for wait in window.state.waits.values()
        if wait.takes_votes and wait.id not in decided and wait.id not in slots.unread
        for known in (after.get(wait.id, wait),)
    }
