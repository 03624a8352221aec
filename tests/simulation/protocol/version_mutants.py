"""Bugs of versions: the create that must fail, and replies that were lost."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from dataclasses import replace
from typing import Any

from continuations.core.messages import Message
from continuations.core.rows.frames import MessageLog
from continuations.core.rows.state import Draft, RunState
from continuations.engine.journal.journal import StoreJournal
from continuations.errors import Inconclusive, StaleRun, StoreUnavailable
from continuations.ledger import markers
from continuations.ledger.arrivals import inbox
from continuations.ledger.arrivals.arrivals import Arrivals
from continuations.ledger.claims import Lease
from continuations.ledger.objects import AlreadyExists, Objects
from continuations.ledger.repair import doctor
from continuations.ledger.repair.integrity import IntegrityReport
from continuations.ledger.versions import LoadedVersion, RebuiltVersion, Versions
from tests.simulation.mutants.conditions import old_results_are_truncated, workers_send
from tests.simulation.mutants.mutant import Original, Patches, mutant, patch
from tests.simulation.sim_environment import SimStore

_TWO_HISTORIES = ("versions_are_linear", "started_once", "finished_never_runs_again")


def _is_version(key: str) -> bool:
    return "/v/" in key


# A number is taken once -------------------------------------------------------------


@mutant(*_TWO_HISTORIES)
def a_version_is_overwritten() -> Patches:
    """A version overwrites the one that has its number."""

    async def create(original: Original, self: Objects, key: str) -> Any:
        try:
            return await original()
        except AlreadyExists:
            if not _is_version(key):
                raise
        await self.delete(key)
        return await original()

    yield patch(Objects.create, create)


@mutant(*_TWO_HISTORIES)
def free_number_is_checked_by_a_listing() -> Patches:
    """A listing tells whether a number is free; then the version is written anyway."""

    async def create(original: Original, self: Objects, key: str) -> Any:
        if not _is_version(key):
            return await original()
        if await self.keys(key, limit=1):
            raise AlreadyExists(key)
        await asyncio.sleep(0)
        await self.delete(key)
        with suppress(AlreadyExists):
            return await original()
        return None

    yield patch(Objects.create, create)


@mutant(*_TWO_HISTORIES)
def stale_worker_takes_the_next_number() -> Patches:
    """A worker that lost a number takes the next one and does not read the run
    again."""

    async def append(original: Original, self: Versions) -> Any:
        try:
            return await original()
        except StaleRun:
            return await original(previous=await self.load_newest())

    yield patch(Versions.append, append)


@mutant("no_foreign_errors", "no_run_stranded")
def a_run_changes_its_tree() -> Patches:
    """A version counts from another root than its base."""

    async def append(original: Original, previous: LoadedVersion | None) -> Any:
        if previous is not None:
            tree = replace(previous.tree, root=previous.number)
            previous = replace(previous, tree=tree)
        return await original(previous=previous)

    yield patch(Versions.append, append)


@mutant("started_once", "finished_never_runs_again", "turn_asked_once")
def stale_worker_goes_on() -> Patches:
    """A worker that lost the number of its claim works anyway."""

    async def commit(original: Original, self: StoreJournal) -> Any:
        try:
            return await original()
        except StaleRun:
            if self._lease is not None:
                raise
            clock = self._ports.clock
            self._lease = Lease.start_now(clock, self._lease_seconds)
            return Arrivals()

    yield patch(StoreJournal.commit, commit)


@mutant(*_TWO_HISTORIES, "one_decision")
def all_creates_of_a_process_share_one_maker_id() -> Patches:
    """All creates of a process have one maker's id, so that the object of one task
    counts as a success for every other task."""

    def create(original: Original, maker: tuple[str, int]) -> Any:
        return original(maker=(maker[0], 0))

    yield patch(SimStore.create, create)


@mutant(*_TWO_HISTORIES, "one_decision")
def existing_object_counts_as_own_create() -> Patches:
    """An object that exists counts as an earlier create of this process."""

    async def create(original: Original) -> Any:
        with suppress(AlreadyExists):
            return await original()
        return None

    yield patch(Objects.create, create)


# Lost replies -----------------------------------------------------------------------


@mutant(
    "notified_after_commit",
    "started_once",
    "one_decision",
    "versions_are_linear",
    "no_run_stranded",
)
def lost_reply_counts_as_success() -> Patches:
    """A create whose reply was lost counts as a success."""

    async def create(original: Original) -> Any:
        with suppress(Inconclusive):
            return await original()
        return None

    yield patch(Objects.create, create)


@mutant("started_once", "finished_never_runs_again", "turn_asked_once")
def lost_reply_counts_as_failure() -> Patches:
    """A commit whose reply was lost counts as a failure, and the work continues."""

    async def commit(original: Original, self: StoreJournal) -> Any:
        lease = Lease.start_now(self._ports.clock, self._lease_seconds)
        try:
            return await original()
        except (Inconclusive, StoreUnavailable):
            self._lease = lease
            return Arrivals()

    yield patch(StoreJournal.commit, commit)


@mutant(*_TWO_HISTORIES)
def newest_version_counts_as_own_after_a_lost_reply() -> Patches:
    """After a lost reply the newest version counts as this worker's own."""

    async def append(original: Original, self: Versions, state: RunState) -> Any:
        try:
            return await original()
        except (Inconclusive, StoreUnavailable):
            newest = await self.load_newest()
        last = newest.chain[-1]
        own = RebuiltVersion(last.number, state, last.digest)
        return replace(newest, state=state, chain=(*newest.chain[:-1], own))

    yield patch(Versions.append, append)


@mutant("each_message_once", condition=workers_send)
def a_message_whose_reply_was_lost_is_posted_again() -> Patches:
    """A message whose reply was lost is posted again under the next number."""

    async def post(original: Original) -> Any:
        try:
            return await original()
        except (Inconclusive, StoreUnavailable):
            return await original()

    yield patch(inbox.post, post)


@mutant("no_run_stranded")
def failed_marker_create_is_ignored() -> Patches:
    """A marker that could not be created is ignored."""

    async def create(original: Original) -> Any:
        with suppress(Inconclusive, StoreUnavailable):
            return await original()
        return None

    yield patch(markers.create, create)


# Logs -------------------------------------------------------------------------------


@mutant("model_reads_committed_messages", condition=old_results_are_truncated)
def a_log_id_is_used_again_after_a_rewrite() -> Patches:
    """A rewritten log keeps its id, so that a delta keeps the old messages."""

    def start_log(
        original: Original, self: Draft, frame_id: str, messages: tuple[Message, ...]
    ) -> None:
        old = self.logs.get(frame_id)
        if old is None:
            original()
        else:
            self.put_log(frame_id, MessageLog(old.id, messages))

    yield patch(Draft.start_log, start_log)


# Repairs ----------------------------------------------------------------------------


@mutant("turn_asked_once", "started_once", "finished_never_runs_again")
def a_version_that_was_not_read_counts_as_lost() -> Patches:
    """A repair gives up whole versions above one that the store did not return."""

    def check_repairable(original: Original, report: IntegrityReport) -> None:
        read = tuple(each for each in report.findings if each.kind != "unread")
        original(report=replace(report, findings=read))

    yield patch(doctor._check_repairable, check_repairable)
