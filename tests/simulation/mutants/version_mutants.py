"""Faults of versions: the fence, and replies that were lost."""

# A fault reaches into the room that it spoils.
# pyright: reportPrivateUsage=false

from __future__ import annotations

import asyncio
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING

from continuations.core.draft import Draft
from continuations.core.frames import MessageLog
from continuations.engine.journal import StoreJournal
from continuations.errors import Inconclusive, StaleRun, StoreUnavailable
from continuations.ledger import inbox, markers
from continuations.ledger.claims import Lease
from continuations.ledger.objects import AlreadyExists, Objects
from continuations.ledger.versions import LoadedVersion, RebuiltVersion, Versions
from tests.simulation.mutants.conditions import old_results_are_truncated
from tests.simulation.mutants.mutant import Patch, mutant, mutants_in
from tests.simulation.sim_environment import SimStore

if TYPE_CHECKING:
    from datetime import datetime

    from continuations.core.messages import Message
    from continuations.core.state import RunState
    from continuations.ledger.layout import Marker
    from continuations.wire.records import CancelRequest, InboxMessage
    from tests.simulation.mutants.mutant import Patches


def _is_version(key: str) -> bool:
    return "/v/" in key


# The fence ------------------------------------------------------------------


@mutant(
    "A create of a version overwrites the one that has its number.",
    "versions_are_linear",
    "started_once",
    "finished_never_runs_again",
)
def a_version_is_overwritten() -> Patches:
    real = Objects.create

    async def create(self: Objects, key: str, body: bytes) -> datetime | None:
        try:
            return await real(self, key, body)
        except AlreadyExists:
            if not _is_version(key):
                raise
        await self.delete(key)
        return await real(self, key, body)

    yield Patch(Objects, "create", create)


@mutant(
    "Whether a number is free is asked by a listing; then it is simply written.",
    "versions_are_linear",
    "started_once",
    "finished_never_runs_again",
)
def free_number_is_checked_by_a_listing() -> Patches:
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

    yield Patch(Objects, "create", create)


@mutant(
    "Who lost a number takes the next one with what it holds, and does not read again.",
    "versions_are_linear",
    "started_once",
    "finished_never_runs_again",
)
def stale_worker_takes_the_next_number() -> Patches:
    real = Versions.append

    async def append(
        self: Versions,
        before: LoadedVersion | None,
        state: RunState,
        *,
        at: datetime,
        markers: tuple[str, ...] = (),
    ) -> LoadedVersion:
        try:
            return await real(self, before, state, at=at, marker_keys=markers)
        except StaleRun:
            newest = await self.load_newest()
            return await real(self, newest, state, at=at, marker_keys=markers)

    yield Patch(Versions, "append", append)


@mutant(
    "Who lost the number of a claim goes on all the same.",
    "started_once",
    "finished_never_runs_again",
    "turn_asked_once",
)
def stale_worker_goes_on() -> Patches:
    real = StoreJournal.commit

    async def commit(
        self: StoreJournal, state: RunState, *, progressed: bool
    ) -> CancelRequest | None:
        try:
            return await real(self, state, progressed=progressed)
        except StaleRun:
            if self._lease is not None:
                raise
            clock = self._ports.clock
            self._lease = Lease.start_now(clock, self._lease_seconds)
            return None

    yield Patch(StoreJournal, "commit", commit)


@mutant(
    "A process has one maker's id, so that what one of its tasks created looks like "
    "a success to all of them.",
    "versions_are_linear",
    "started_once",
    "finished_never_runs_again",
    "one_decision",
)
def all_creates_of_a_process_share_one_maker_id() -> Patches:
    real = SimStore.create

    def create(
        self: SimStore, key: str, body: bytes, maker: tuple[str, int], at: float
    ) -> datetime:
        return real(self, key, body, (maker[0], 0), at)

    yield Patch(SimStore, "create", create)


@mutant(
    "Any process takes an object that is already there for its own earlier try.",
    "versions_are_linear",
    "started_once",
    "finished_never_runs_again",
    "one_decision",
)
def existing_object_counts_as_own_create() -> Patches:
    real = Objects.create

    async def create(self: Objects, key: str, body: bytes) -> datetime | None:
        with suppress(AlreadyExists):
            return await real(self, key, body)
        return None

    yield Patch(Objects, "create", create)


# Lost replies ---------------------------------------------------------------


@mutant(
    "A create whose reply was lost is taken for a success.",
    "notified_after_commit",
    "started_once",
    "one_decision",
    "versions_are_linear",
    "no_run_stranded",
)
def lost_reply_counts_as_success() -> Patches:
    real = Objects.create

    async def create(self: Objects, key: str, body: bytes) -> datetime | None:
        with suppress(Inconclusive):
            return await real(self, key, body)
        return None

    yield Patch(Objects, "create", create)


@mutant(
    "A commit whose reply was lost is taken for a failure, and the work goes on.",
    "started_once",
    "finished_never_runs_again",
    "turn_asked_once",
)
def lost_reply_counts_as_failure() -> Patches:
    real = StoreJournal.commit

    async def commit(
        self: StoreJournal, state: RunState, *, progressed: bool
    ) -> CancelRequest | None:
        lease = Lease.start_now(self._ports.clock, self._lease_seconds)
        try:
            return await real(self, state, progressed=progressed)
        except (Inconclusive, StoreUnavailable):
            self._lease = lease
            return None

    yield Patch(StoreJournal, "commit", commit)


@mutant(
    "After a lost reply the newest version is taken for one's own, whoever made it.",
    "versions_are_linear",
    "started_once",
    "finished_never_runs_again",
)
def newest_version_counts_as_own_after_a_lost_reply() -> Patches:
    real = Versions.append

    async def append(
        self: Versions,
        before: LoadedVersion | None,
        state: RunState,
        *,
        at: datetime,
        markers: tuple[str, ...] = (),
    ) -> LoadedVersion:
        try:
            return await real(self, before, state, at=at, marker_keys=markers)
        except (Inconclusive, StoreUnavailable):
            there = await self.load_newest()
        last = there.chain[-1]
        steps = (*there.chain[:-1], RebuiltVersion(last.number, state, last.digest))
        return replace(there, state=state, chain=steps)

    yield Patch(Versions, "append", append)


@mutant(
    "A message whose reply was lost is posted once more, under the next number.",
    "each_message_once",
)
def a_message_whose_reply_was_lost_is_posted_again() -> Patches:
    real = inbox.post

    async def post(objects: Objects, run_id: str, letter: InboxMessage) -> InboxMessage:
        try:
            return await real(objects, run_id, letter)
        except (Inconclusive, StoreUnavailable):
            return await real(objects, run_id, letter)

    yield Patch(inbox, "post", post)


@mutant(
    "A marker whose create failed is done without.",
    "no_run_stranded",
)
def failed_marker_create_is_ignored() -> Patches:
    real = markers.create

    async def make(objects: Objects, marker: Marker) -> datetime | None:
        with suppress(Inconclusive, StoreUnavailable):
            return await real(objects, marker)
        return None

    yield Patch(markers, "create", make)


# Logs -----------------------------------------------------------------------


@mutant(
    "A log that is rewritten keeps its id, so that a delta keeps what it said before.",
    "model_reads_committed_messages",
    condition=old_results_are_truncated,
)
def a_log_id_is_used_again_after_a_rewrite() -> Patches:
    real = Draft.start_log

    def new_log(self: Draft, frame_id: str, messages: tuple[Message, ...]) -> None:
        old = self.logs.get(frame_id)
        if old is None:
            real(self, frame_id, messages)
        else:
            self.logs = {**self.logs, frame_id: MessageLog(old.id, messages)}

    yield Patch(Draft, "start_log", new_log)


MUTANTS = mutants_in(globals())
