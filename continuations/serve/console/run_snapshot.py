"""The data of the pages of one run, read at one place of the run.

A place is the newest version and the arrivals. Both only grow, so its cursor is the
same in each process, and another cursor means that something has changed.
"""

from __future__ import annotations

from asyncio import gather
from dataclasses import field
from typing import TYPE_CHECKING

from continuations.core.messages import Detail, Message, shown_message
from continuations.core.reading.withheld_texts import shown_window
from continuations.engine.events.past_reading import read_window
from continuations.errors import ContinuationsError
from continuations.ledger import layout
from continuations.ledger.arrivals.arrival_logs import MESSAGES
from continuations.ledger.objects import Objects, gather_all
from continuations.ledger.versions import Versions
from continuations.value_class import dataclass, replace

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from continuations.core.reading.run_past import VersionWindow
    from continuations.core.rows.waits import Wait
    from continuations.engine.runner.async_runner import AsyncRunner
    from continuations.wire.arrivals import InboxMessage

# The pages name the votes of so many waits, and show so many unread messages.
_MAX_VOTED_WAITS, _MAX_UNREAD = 10, 20


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
        unread: Messages that the run has not read yet.
    """

    cursor: str = ""
    window: VersionWindow
    decided: Collection[str] = ()
    votes: Mapping[str, str] = field(default_factory=dict[str, str])
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
    return RunSnapshot(
        cursor=place.cursor,
        window=window,
        decided=decided,
        votes=await _votes(runner, window, decided),
        unread=tuple(each for each in messages if each is not None),
    )


async def _votes(
    runner: AsyncRunner, window: VersionWindow, decided: Collection[str]
) -> dict[str, str]:
    """Return how many votes each open wait has that takes votes."""
    voted = [
        wait
        for wait in window.state.waits.values()
        if wait.takes_votes and wait.id not in decided
    ]
    texts = await gather(
        *(_vote_text(runner, wait) for wait in voted[:_MAX_VOTED_WAITS])
    )
    return {wait.id: text for wait, text in zip(voted, texts, strict=False) if text}


async def _vote_text(runner: AsyncRunner, wait: Wait) -> str:
    try:
        known = await runner.wait(wait.id)
    except ContinuationsError:
        return ""  # it was decided meanwhile
    return f"{len(known.votes)} of {known.votes_needed} votes"
