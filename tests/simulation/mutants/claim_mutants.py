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
from tests.simulation.mutants.conditions import (
    clocks_differ_and_workers_freeze,
    giving_up_is_slow,
)
from tests.simulation.mutants.mutant import Patch, mutant, mutants_in

if TYPE_CHECKING:
    from datetime import datetime

    from continuations.core.run import RunRow, RunStatus
    from continuations.core.state import RunState
    from continuations.ledger.arrivals import Arrivals
    from continuations.ledger.objects import Objects
    from continuations.wire.records import CancelRequest
    from tests.simulation.mutants.mutant import Patches


# Claims ---------------------------------------------------------------------


@mutant(
    "A claim that still lasts is taken over.",
    "started_once",
    "finished_never_runs_again",
    "turn_asked_once",
    "same_end_as_uninterrupted",
)
def a_live_claim_is_taken_over() -> Patches:
    def check_free(_run: RunRow, _now: datetime) -> None:
        return

    yield Patch(claims, "check_free", check_free)


@mutant(
    "Calls begin without a look at the clock.",
    "nothing_starts_without_claim",
)
def clock_is_not_checked() -> Patches:
    yield Patch(Lease, "can_start_call", property(lambda _: True))


@mutant(
    "A claim is never renewed, and the work goes on after it.",
    "nothing_starts_without_claim",
)
def a_claim_is_never_renewed() -> Patches:
    yield Patch(Lease, "can_start_call", property(lambda _: True))
    yield Patch(StoreJournal, "seconds_to_renewal", None)


@mutant(
    "A claim is renewed without a look whether its commit won.",
    "nothing_starts_without_claim",
    "turn_asked_once",
    "started_once",
    "finished_never_runs_again",
)
def a_claim_is_renewed_without_a_check() -> Patches:
    real = StoreJournal.commit

    async def commit(
        self: StoreJournal, state: RunState, *, progressed: bool
    ) -> CancelRequest | None:
        lease = Lease.start_now(self._ports.clock, self._lease_seconds)
        try:
            return await real(self, state, progressed=progressed)
        except StaleRun:
            if self._lease is None:
                raise
            self._lease = lease
            return None

    yield Patch(StoreJournal, "commit", commit)


@mutant(
    "A claim is measured from when its reply came, not from before it was sent.",
    "nothing_starts_without_claim",
)
def a_claim_is_measured_from_its_reply() -> Patches:
    real = StoreJournal.commit

    async def commit(
        self: StoreJournal, state: RunState, *, progressed: bool
    ) -> CancelRequest | None:
        cancellation = await real(self, state, progressed=progressed)
        self._lease = Lease.start_now(self._ports.clock, self._lease_seconds)
        return cancellation

    yield Patch(StoreJournal, "commit", commit)


@mutant(
    "A claim is used to its last moment, though clocks differ.",
    "nothing_starts_without_claim",
    condition=clocks_differ_and_workers_freeze,
)
def a_claim_is_used_to_its_last_moment() -> Patches:
    yield Patch(Lease, "can_start_call", property(lambda lease: lease.left > 0))


@mutant(
    "A worker whose clock is wrong claims all the same.",
    "nothing_starts_without_claim",
    "not_expired_early",
)
def a_wrong_clock_is_not_refused() -> Patches:
    def check_clock(*_: object) -> None:
        return

    yield Patch(claims, "check_clock", check_clock)


@mutant(
    "What came guards a claim, whatever the store's time is.",
    "not_expired_early",
    "nothing_starts_without_claim",
)
def arrivals_guard_a_claim_with_a_wrong_clock() -> Patches:
    real = StoreJournal.ensure_guarded

    async def ensure_guarded(self: StoreJournal) -> None:
        self._guarding_markers = self._guarding_markers or self._arrival_markers
        await real(self)

    yield Patch(StoreJournal, "ensure_guarded", ensure_guarded)


@mutant(
    "Attempts are not counted.",
    "no_run_stranded",
)
def attempts_are_not_counted() -> Patches:
    def next_attempt(_run: RunRow) -> int:
        return 1

    yield Patch(claims, "next_attempt", next_attempt)


@mutant(
    "Progress does not set the count of attempts back.",
    "gives_up_only_without_progress",
)
def progress_does_not_reset_attempts() -> Patches:
    real = StoreJournal.commit

    async def commit(
        self: StoreJournal, state: RunState, *, progressed: bool
    ) -> CancelRequest | None:
        del progressed
        return await real(self, state, progressed=False)

    yield Patch(StoreJournal, "commit", commit)


@mutant(
    "A run that suspends keeps its claim.",
    "same_end_as_uninterrupted",
    "no_run_stranded",
)
def a_suspended_run_keeps_its_claim() -> Patches:
    real = claims.released

    def released(state: RunState, status: RunStatus = "suspended") -> RunState:
        let_go = real(state, status)
        return replace(let_go, run=replace(let_go.run, claim=state.run.claim))

    yield Patch(claims, "released", released)


@mutant(
    "Who loses the number of the last version tells its outcome all the same.",
    "notified_after_commit",
    "listed_waits_are_open",
    "versions_are_linear",
)
def outcome_is_returned_without_its_version() -> Patches:
    real = StoreJournal.commit_and_release

    async def finish(self: StoreJournal, state: RunState) -> None:
        try:
            await real(self, state)
        except StaleRun:
            assert self.loaded is not None
            self.loaded = replace(self.loaded, state=claims.released(state))

    yield Patch(StoreJournal, "commit_and_release", finish)


@mutant(
    "Who works on a run does not look whether it was cancelled.",
    "cancellation_noticed_soon",
)
def cancellation_is_not_checked() -> Patches:
    async def nothing(_objects: Objects, _run_id: str) -> None:
        return None

    yield Patch(journal, "read_cancel_request", nothing)
    yield Patch(worker, "read_cancel_request", nothing)


@mutant(
    "Waits are closed as cancelled before the claim of who gives the run up.",
    "cancelled_with_its_run",
    condition=giving_up_is_slow,
)
def waits_are_closed_before_giving_up_is_claimed() -> Patches:
    real = Worker._apply_arrivals

    async def taken_in(
        self: Worker, state: RunState, arrived: Arrivals, kept: StoreJournal
    ) -> RunState:
        claim, most = state.run.claim, self.options.max_attempts
        if arrived.cancel_request is None and claim and claim.attempt >= most:
            return await self._end_after_attempts(state, claim.attempt)
        return await real(self, state, arrived, kept)

    yield Patch(Worker, "_apply_arrivals", taken_in)


MUTANTS = mutants_in(globals())
