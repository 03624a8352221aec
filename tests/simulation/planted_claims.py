"""Faults of claims: who may move a run on, and for how long."""

# A fault reaches into the room that it spoils.
# pyright: reportPrivateUsage=false

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from continuations.engine import journal, worker
from continuations.engine.journal import StoreJournal
from continuations.engine.worker import Worker
from continuations.errors import StaleRun
from continuations.ledger import claims
from continuations.ledger.claims import Lease
from tests.simulation.planted_circumstances import (
    clocks_differ_and_workers_dawdle,
    giving_up_takes_long,
)
from tests.simulation.planted_fault import Swap, fault, faults_in

if TYPE_CHECKING:
    from datetime import datetime

    from continuations.core.run import RunRow, Status
    from continuations.core.table import Table
    from continuations.ledger.arrivals import Arrivals
    from continuations.ledger.objects import Objects
    from continuations.wire.records import Cancellation
    from tests.simulation.planted_fault import Swaps


# Claims ---------------------------------------------------------------------


@fault(
    "A claim that still lasts is taken over.",
    "started_once",
    "finished_never_again",
    "turn_asked_once",
    "same_end",
)
def a_live_claim_is_taken_over() -> Swaps:
    def check_free(_run: RunRow, _now: datetime) -> None:
        return

    yield Swap(claims, "check_free", check_free)


@fault(
    "Calls begin without a look at the clock.",
    "frozen_starts_nothing",
)
def the_clock_is_not_looked_at() -> Swaps:
    yield Swap(Lease, "allows_a_call", property(lambda _: True))


@fault(
    "A claim is never renewed, and the work goes on after it.",
    "frozen_starts_nothing",
)
def a_claim_is_never_renewed() -> Swaps:
    yield Swap(Lease, "allows_a_call", property(lambda _: True))
    yield Swap(StoreJournal, "seconds_to_renewal", None)


@fault(
    "A claim is renewed without a look whether its commit won.",
    "frozen_starts_nothing",
    "turn_asked_once",
    "started_once",
    "finished_never_again",
)
def a_claim_is_renewed_without_a_check() -> Swaps:
    real = StoreJournal.commit

    async def commit(
        self: StoreJournal, table: Table, *, progressed: bool
    ) -> Cancellation | None:
        lease = Lease.beginning_now(self._ports.clock, self._length)
        try:
            return await real(self, table, progressed=progressed)
        except StaleRun:
            if self._lease is None:
                raise
            self._lease = lease
            return None

    yield Swap(StoreJournal, "commit", commit)


@fault(
    "A claim is measured from when its reply came, not from before it was sent.",
    "frozen_starts_nothing",
)
def a_claim_is_measured_from_its_reply() -> Swaps:
    real = StoreJournal.commit

    async def commit(
        self: StoreJournal, table: Table, *, progressed: bool
    ) -> Cancellation | None:
        cancellation = await real(self, table, progressed=progressed)
        self._lease = Lease.beginning_now(self._ports.clock, self._length)
        return cancellation

    yield Swap(StoreJournal, "commit", commit)


@fault(
    "A claim is used to its last moment, though clocks differ.",
    "frozen_starts_nothing",
    under=clocks_differ_and_workers_dawdle,
)
def a_claim_is_used_to_its_last_moment() -> Swaps:
    yield Swap(Lease, "allows_a_call", property(lambda lease: lease.left > 0))


@fault(
    "A worker whose clock is wrong claims all the same.",
    "frozen_starts_nothing",
    "expired_in_time",
)
def a_wrong_clock_is_not_refused() -> Swaps:
    def check_clock(*_: object) -> None:
        return

    yield Swap(claims, "check_clock", check_clock)


@fault(
    "What came guards a claim, whatever the store's time is.",
    "expired_in_time",
    "frozen_starts_nothing",
)
def what_came_guards_a_claim_by_any_clock() -> Swaps:
    real = StoreJournal.prepare

    async def prepare(self: StoreJournal) -> None:
        self._markers = self._markers or self._standing
        await real(self)

    yield Swap(StoreJournal, "prepare", prepare)


@fault(
    "Attempts are not counted.",
    "nobody_stranded",
)
def attempts_are_not_counted() -> Swaps:
    def next_attempt(_run: RunRow) -> int:
        return 1

    yield Swap(claims, "next_attempt", next_attempt)


@fault(
    "Progress does not set the count of attempts back.",
    "given_up_in_vain_only",
)
def progress_does_not_count() -> Swaps:
    real = StoreJournal.commit

    async def commit(
        self: StoreJournal, table: Table, *, progressed: bool
    ) -> Cancellation | None:
        del progressed
        return await real(self, table, progressed=False)

    yield Swap(StoreJournal, "commit", commit)


@fault(
    "A run that suspends keeps its claim.",
    "same_end",
    "nobody_stranded",
)
def a_suspended_run_keeps_its_claim() -> Swaps:
    real = claims.released

    def released(table: Table, status: Status = "suspended") -> Table:
        let_go = real(table, status)
        return replace(let_go, run=replace(let_go.run, claim=table.run.claim))

    yield Swap(claims, "released", released)


@fault(
    "Who loses the number of the last version tells its outcome all the same.",
    "told_after_kept",
    "listed_is_open",
    "one_line",
)
def an_outcome_is_told_without_its_version() -> Swaps:
    real = StoreJournal.finish

    async def finish(self: StoreJournal, table: Table) -> None:
        try:
            await real(self, table)
        except StaleRun:
            assert self.loaded is not None
            self.loaded = replace(self.loaded, table=claims.released(table))

    yield Swap(StoreJournal, "finish", finish)


@fault(
    "Who works on a run does not look whether it was cancelled.",
    "cancelled_soon",
)
def a_cancellation_is_not_looked_at() -> Swaps:
    async def nothing(_objects: Objects, _run_id: str) -> None:
        return None

    yield Swap(journal, "read_cancellation", nothing)
    yield Swap(worker, "read_cancellation", nothing)


@fault(
    "Waits are closed as cancelled before the claim of who gives the run up.",
    "cancelled_with_its_run",
    under=giving_up_takes_long,
)
def waits_are_closed_before_giving_up_is_claimed() -> Swaps:
    real = Worker._taken_in

    async def taken_in(
        self: Worker, table: Table, arrived: Arrivals, kept: StoreJournal
    ) -> Table:
        claim, most = table.run.claim, self.settings.max_attempts
        if arrived.cancellation is None and claim and claim.attempt >= most:
            return await self._given_up(table, claim.attempt)
        return await real(self, table, arrived, kept)

    yield Swap(Worker, "_taken_in", taken_in)


FAULTS = faults_in(globals())
