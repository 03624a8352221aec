"""Bugs of versions: the create that must fail, and replies that were lost."""

# A mutant replaces private functions.
# pyright: reportPrivateUsage=false

from __future__ import annotations

import asyncio
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from continuations.core.rows.draft import Draft
from continuations.core.rows.frames import MessageLog
from continuations.engine.journal.journal import StoreJournal
from continuations.errors import Inconclusive, StaleRun, StoreUnavailable
from continuations.ledger import markers
from continuations.ledger.arrivals import inbox
from continuations.ledger.arrivals.arrivals import Arrivals
from continuations.ledger.claims import Lease
from continuations.ledger.objects import AlreadyExists, Objects
from continuations.ledger.repair import doctor
from continuations.ledger.versions import (
    LoadedVersion,
    RebuiltVersion,
    Together,
    Versions,
)
from tests.simulation.decisions.laws import one_decision
from tests.simulation.mutants.conditions import (
    old_results_are_truncated,
    workers_send,
)
from tests.simulation.mutants.mutant import mutant, mutants_in, patch
from tests.simulation.protocol.laws_of_effects import (
    finished_never_runs_again,
    model_reads_committed_messages,
    started_once,
    turn_asked_once,
)
from tests.simulation.protocol.laws_of_endings import no_run_stranded
from tests.simulation.protocol.laws_of_runs import (
    each_message_once,
    no_foreign_errors,
    notified_after_commit,
    versions_are_linear,
)
from tests.simulation.sim_environment import SimStore

if TYPE_CHECKING:
    from datetime import datetime

    from continuations.core.messages import Message
    from continuations.core.rows.state import RunState
    from continuations.ledger.layout import Marker
    from continuations.ledger.repair.integrity import IntegrityReport
    from continuations.wire.arrivals import InboxMessage
    from tests.simulation.mutants.mutant import Patches

_TWO_HISTORIES = (versions_are_linear, started_once, finished_never_runs_again)


def _is_version(key: str) -> bool:
    return "/v/" in key


# A number is taken once -------------------------------------------------------------


@mutant("A version overwrites the one that has its number.", breaks=_TWO_HISTORIES)
def a_version_is_overwritten() -> Patches:
    original = Objects.create

    async def create(self: Objects, key: str, body: bytes) -> datetime | None:
        try:
            return await original(self, key, body)
        except AlreadyExists:
            if not _is_version(key):
                raise
        await self.delete(key)
        return await original(self, key, body)

    yield patch(Objects.create, create)


@mutant(
    "A listing tells whether a number is free; then the version is written anyway.",
    breaks=_TWO_HISTORIES,
)
def free_number_is_checked_by_a_listing() -> Patches:
    original = Objects.create

    async def create(self: Objects, key: str, body: bytes) -> datetime | None:
        if not _is_version(key):
            return await original(self, key, body)
        if await self.keys(key, limit=1):
            raise AlreadyExists(key)
        await asyncio.sleep(0)
        await self.delete(key)
        with suppress(AlreadyExists):
            return await original(self, key, body)
        return None

    yield patch(Objects.create, create)


@mutant(
    "A worker that lost a number takes the next one and does not read the run again.",
    breaks=_TWO_HISTORIES,
)
def stale_worker_takes_the_next_number() -> Patches:
    original = Versions.append

    async def append(
        self: Versions,
        previous: LoadedVersion | None,
        state: RunState,
        *,
        at: datetime,
        marker_keys: tuple[str, ...] = (),
        may_be_stored: bool = False,
        together: Together | None = None,
    ) -> LoadedVersion:
        append_to = partial(
            original,
            self,
            at=at,
            marker_keys=marker_keys,
            may_be_stored=may_be_stored,
            together=together,
        )
        try:
            return await append_to(previous, state)
        except StaleRun:
            return await append_to(await self.load_newest(), state)

    yield patch(Versions.append, append)


@mutant(
    "A version counts from another root than its base.",
    breaks=(no_foreign_errors, no_run_stranded),
)
def a_run_changes_its_tree() -> Patches:
    original = Versions.append

    async def append(
        self: Versions,
        previous: LoadedVersion | None,
        state: RunState,
        *,
        at: datetime,
        marker_keys: tuple[str, ...] = (),
        may_be_stored: bool = False,
        together: Together | None = None,
    ) -> LoadedVersion:
        if previous is not None:
            tree = replace(previous.tree, root=previous.number)
            previous = replace(previous, tree=tree)
        return await original(
            self,
            previous,
            state,
            at=at,
            marker_keys=marker_keys,
            may_be_stored=may_be_stored,
            together=together,
        )

    yield patch(Versions.append, append)


@mutant(
    "A worker that lost the number of its claim works anyway.",
    breaks=(started_once, finished_never_runs_again, turn_asked_once),
)
def stale_worker_goes_on() -> Patches:
    original = StoreJournal.commit

    async def commit(
        self: StoreJournal, state: RunState, *, progressed: bool
    ) -> Arrivals:
        try:
            return await original(self, state, progressed=progressed)
        except StaleRun:
            if self._lease is not None:
                raise
            clock = self._ports.clock
            self._lease = Lease.start_now(clock, self._lease_seconds)
            return Arrivals()

    yield patch(StoreJournal.commit, commit)


@mutant(
    "All creates of a process have one maker's id, so that the object of one task "
    "counts as a success for every other task.",
    breaks=(*_TWO_HISTORIES, one_decision),
)
def all_creates_of_a_process_share_one_maker_id() -> Patches:
    original = SimStore.create

    def create(
        self: SimStore, key: str, body: bytes, maker: tuple[str, int], at: float
    ) -> datetime:
        return original(self, key, body, (maker[0], 0), at)

    yield patch(SimStore.create, create)


@mutant(
    "An object that exists counts as an earlier create of this process.",
    breaks=(*_TWO_HISTORIES, one_decision),
)
def existing_object_counts_as_own_create() -> Patches:
    original = Objects.create

    async def create(self: Objects, key: str, body: bytes) -> datetime | None:
        with suppress(AlreadyExists):
            return await original(self, key, body)
        return None

    yield patch(Objects.create, create)


# Lost replies -----------------------------------------------------------------------


@mutant(
    "A create whose reply was lost counts as a success.",
    breaks=(
        notified_after_commit,
        started_once,
        one_decision,
        versions_are_linear,
        no_run_stranded,
    ),
)
def lost_reply_counts_as_success() -> Patches:
    original = Objects.create

    async def create(self: Objects, key: str, body: bytes) -> datetime | None:
        with suppress(Inconclusive):
            return await original(self, key, body)
        return None

    yield patch(Objects.create, create)


@mutant(
    "A commit whose reply was lost counts as a failure, and the work continues.",
    breaks=(started_once, finished_never_runs_again, turn_asked_once),
)
def lost_reply_counts_as_failure() -> Patches:
    original = StoreJournal.commit

    async def commit(
        self: StoreJournal, state: RunState, *, progressed: bool
    ) -> Arrivals:
        lease = Lease.start_now(self._ports.clock, self._lease_seconds)
        try:
            return await original(self, state, progressed=progressed)
        except (Inconclusive, StoreUnavailable):
            self._lease = lease
            return Arrivals()

    yield patch(StoreJournal.commit, commit)


@mutant(
    "After a lost reply the newest version counts as this worker's own.",
    breaks=_TWO_HISTORIES,
)
def newest_version_counts_as_own_after_a_lost_reply() -> Patches:
    original = Versions.append

    async def append(
        self: Versions,
        previous: LoadedVersion | None,
        state: RunState,
        *,
        at: datetime,
        marker_keys: tuple[str, ...] = (),
        may_be_stored: bool = False,
        together: Together | None = None,
    ) -> LoadedVersion:
        try:
            return await original(
                self,
                previous,
                state,
                at=at,
                marker_keys=marker_keys,
                may_be_stored=may_be_stored,
                together=together,
            )
        except (Inconclusive, StoreUnavailable):
            newest = await self.load_newest()
        last = newest.chain[-1]
        own = RebuiltVersion(last.number, state, last.digest)
        return replace(newest, state=state, chain=(*newest.chain[:-1], own))

    yield patch(Versions.append, append)


@mutant(
    "A message whose reply was lost is posted again under the next number.",
    breaks=(each_message_once,),
    condition=workers_send,
)
def a_message_whose_reply_was_lost_is_posted_again() -> Patches:
    original = inbox.post

    async def post(
        objects: Objects, run_id: str, message: InboxMessage, last_read: int = 0
    ) -> InboxMessage:
        try:
            return await original(objects, run_id, message, last_read)
        except (Inconclusive, StoreUnavailable):
            return await original(objects, run_id, message, last_read)

    yield patch(inbox.post, post)


@mutant(
    "A marker that could not be created is ignored.",
    breaks=(no_run_stranded,),
)
def failed_marker_create_is_ignored() -> Patches:
    original = markers.create

    async def create(objects: Objects, marker: Marker) -> datetime | None:
        with suppress(Inconclusive, StoreUnavailable):
            return await original(objects, marker)
        return None

    yield patch(markers.create, create)


# Logs -------------------------------------------------------------------------------


@mutant(
    "A rewritten log keeps its id, so that a delta keeps the old messages.",
    breaks=(model_reads_committed_messages,),
    condition=old_results_are_truncated,
)
def a_log_id_is_used_again_after_a_rewrite() -> Patches:
    original = Draft.start_log

    def start_log(self: Draft, frame_id: str, messages: tuple[Message, ...]) -> None:
        old = self.logs.get(frame_id)
        if old is None:
            original(self, frame_id, messages)
        else:
            self.put_log(frame_id, MessageLog(old.id, messages))

    yield patch(Draft.start_log, start_log)


# Repairs ----------------------------------------------------------------------------


@mutant(
    "A repair gives up whole versions above one that the store did not return.",
    breaks=(turn_asked_once, started_once, finished_never_runs_again),
)
def a_version_that_was_not_read_counts_as_lost() -> Patches:
    original = doctor._check_repairable

    def check_repairable(report: IntegrityReport) -> None:
        read = tuple(each for each in report.findings if each.kind != "unread")
        original(replace(report, findings=read))

    yield patch(doctor._check_repairable, check_repairable)


MUTANTS = mutants_in(globals())
