"""Faults of versions: the fence, and replies that were lost."""

# A fault reaches into the room that it spoils.
# pyright: reportPrivateUsage=false

from __future__ import annotations

import asyncio
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING

from continuations.core.draft import Draft
from continuations.core.frames import Log
from continuations.engine.journal import StoreJournal
from continuations.errors import Inconclusive, StaleRun, StoreUnavailable
from continuations.ledger import inbox, markers
from continuations.ledger.claims import Lease
from continuations.ledger.objects import AlreadyExists, Objects
from continuations.ledger.versions import Loaded, Step, Versions
from tests.simulation.planted_circumstances import old_results_are_cut
from tests.simulation.planted_fault import Swap, fault, faults_in
from tests.simulation.world import SimStore

if TYPE_CHECKING:
    from datetime import datetime

    from continuations.core.messages import Message
    from continuations.core.table import Table
    from continuations.ledger.layout import Marker
    from continuations.wire.records import Cancellation, Letter
    from tests.simulation.planted_fault import Swaps


def _is_version(key: str) -> bool:
    return "/v/" in key


# The fence ------------------------------------------------------------------


@fault(
    "A create of a version overwrites the one that has its number.",
    "one_line",
    "started_once",
    "finished_never_again",
)
def a_version_is_overwritten() -> Swaps:
    real = Objects.create

    async def create(self: Objects, key: str, body: bytes) -> datetime | None:
        try:
            return await real(self, key, body)
        except AlreadyExists:
            if not _is_version(key):
                raise
        await self.delete(key)
        return await real(self, key, body)

    yield Swap(Objects, "create", create)


@fault(
    "Whether a number is free is asked by a listing; then it is simply written.",
    "one_line",
    "started_once",
    "finished_never_again",
)
def a_listing_says_whether_a_number_is_free() -> Swaps:
    real = Objects.create

    async def create(self: Objects, key: str, body: bytes) -> datetime | None:
        if not _is_version(key):
            return await real(self, key, body)
        if await self.keys(key, limit=1):
            raise AlreadyExists(key)
        await asyncio.sleep(0)
        await self.delete(key)
        with suppress(AlreadyExists):
            return await real(self, key, body)
        return None

    yield Swap(Objects, "create", create)


@fault(
    "Who lost a number takes the next one with what it holds, and does not read again.",
    "one_line",
    "started_once",
    "finished_never_again",
)
def a_loser_takes_the_next_number() -> Swaps:
    real = Versions.append

    async def append(
        self: Versions,
        before: Loaded | None,
        table: Table,
        *,
        at: datetime,
        markers: tuple[str, ...] = (),
    ) -> Loaded:
        try:
            return await real(self, before, table, at=at, markers=markers)
        except StaleRun:
            newest = await self.newest()
            return await real(self, newest, table, at=at, markers=markers)

    yield Swap(Versions, "append", append)


@fault(
    "Who lost the number of a claim goes on all the same.",
    "started_once",
    "finished_never_again",
    "turn_asked_once",
)
def a_loser_goes_on() -> Swaps:
    real = StoreJournal.commit

    async def commit(
        self: StoreJournal, table: Table, *, progressed: bool
    ) -> Cancellation | None:
        try:
            return await real(self, table, progressed=progressed)
        except StaleRun:
            if self._lease is not None:
                raise
            clock = self._ports.clock
            self._lease = Lease.beginning_now(clock, self._length)
            return None

    yield Swap(StoreJournal, "commit", commit)


@fault(
    "A process has one maker's id, so that what one of its tasks created looks like "
    "a success to all of them.",
    "one_line",
    "started_once",
    "finished_never_again",
    "one_decision",
)
def a_process_has_one_makers_id() -> Swaps:
    real = SimStore.create

    def create(
        self: SimStore, key: str, body: bytes, maker: tuple[str, int], at: float
    ) -> datetime:
        return real(self, key, body, (maker[0], 0), at)

    yield Swap(SimStore, "create", create)


@fault(
    "Any process takes an object that is already there for its own earlier try.",
    "one_line",
    "started_once",
    "finished_never_again",
    "one_decision",
)
def already_there_is_taken_for_ones_own() -> Swaps:
    real = Objects.create

    async def create(self: Objects, key: str, body: bytes) -> datetime | None:
        with suppress(AlreadyExists):
            return await real(self, key, body)
        return None

    yield Swap(Objects, "create", create)


# Lost replies ---------------------------------------------------------------


@fault(
    "A create whose reply was lost is taken for a success.",
    "told_after_kept",
    "started_once",
    "one_decision",
    "one_line",
    "nobody_stranded",
)
def a_lost_reply_is_taken_for_a_yes() -> Swaps:
    real = Objects.create

    async def create(self: Objects, key: str, body: bytes) -> datetime | None:
        with suppress(Inconclusive):
            return await real(self, key, body)
        return None

    yield Swap(Objects, "create", create)


@fault(
    "A commit whose reply was lost is taken for a failure, and the work goes on.",
    "started_once",
    "finished_never_again",
    "turn_asked_once",
)
def a_lost_reply_is_taken_for_a_no() -> Swaps:
    real = StoreJournal.commit

    async def commit(
        self: StoreJournal, table: Table, *, progressed: bool
    ) -> Cancellation | None:
        lease = Lease.beginning_now(self._ports.clock, self._length)
        try:
            return await real(self, table, progressed=progressed)
        except (Inconclusive, StoreUnavailable):
            self._lease = lease
            return None

    yield Swap(StoreJournal, "commit", commit)


@fault(
    "After a lost reply the newest version is taken for one's own, whoever made it.",
    "one_line",
    "started_once",
    "finished_never_again",
)
def after_a_lost_reply_the_newest_is_ones_own() -> Swaps:
    real = Versions.append

    async def append(
        self: Versions,
        before: Loaded | None,
        table: Table,
        *,
        at: datetime,
        markers: tuple[str, ...] = (),
    ) -> Loaded:
        try:
            return await real(self, before, table, at=at, markers=markers)
        except (Inconclusive, StoreUnavailable):
            there = await self.newest()
        last = there.steps[-1]
        steps = (*there.steps[:-1], Step(last.number, table, last.digest))
        return replace(there, table=table, steps=steps)

    yield Swap(Versions, "append", append)


@fault(
    "A message whose reply was lost is posted once more, under the next number.",
    "each_message_once",
)
def a_message_whose_reply_was_lost_is_posted_again() -> Swaps:
    real = inbox.post

    async def post(objects: Objects, run_id: str, letter: Letter) -> Letter:
        try:
            return await real(objects, run_id, letter)
        except (Inconclusive, StoreUnavailable):
            return await real(objects, run_id, letter)

    yield Swap(inbox, "post", post)


@fault(
    "A marker whose create failed is done without.",
    "nobody_stranded",
)
def a_marker_that_failed_is_done_without() -> Swaps:
    real = markers.make

    async def make(objects: Objects, marker: Marker) -> datetime | None:
        with suppress(Inconclusive, StoreUnavailable):
            return await real(objects, marker)
        return None

    yield Swap(markers, "make", make)


# Logs -----------------------------------------------------------------------


@fault(
    "A log that is rewritten keeps its id, so that a delta keeps what it said before.",
    "asked_after_kept",
    under=old_results_are_cut,
)
def a_log_id_is_used_again_after_a_rewrite() -> Swaps:
    real = Draft.new_log

    def new_log(self: Draft, frame_id: str, messages: tuple[Message, ...]) -> None:
        old = self.logs.get(frame_id)
        if old is None:
            real(self, frame_id, messages)
        else:
            self.logs = {**self.logs, frame_id: Log(old.id, messages)}

    yield Swap(Draft, "new_log", new_log)


FAULTS = faults_in(globals())
