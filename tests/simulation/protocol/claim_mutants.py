"""Bugs of claims: which worker may advance a run, and for how long."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from continuations.core.rows.state import RunState
from continuations.engine.journal import journal
from continuations.engine.journal.journal import StoreJournal
from continuations.engine.requests import run_requests
from continuations.engine.worker.worker import Worker
from continuations.errors import StaleRun
from continuations.ledger import claims
from continuations.ledger.arrivals.arrivals import Arrivals, read_cancel_request
from continuations.ledger.claims import Lease
from tests.simulation.mutants.conditions import (
    clocks_differ_and_workers_freeze,
    giving_up_is_slow,
)
from tests.simulation.mutants.mutant import (
    Original,
    Patches,
    mutant,
    patch,
    returns,
    skip,
)


@mutant(
    "started_once",
    "finished_never_runs_again",
    "turn_asked_once",
    "same_end_as_uninterrupted",
)
def a_live_claim_is_taken_over() -> Patches:
    """A claim that has not ended is taken over."""
    yield skip(claims.check_free)


@mutant("nothing_starts_without_claim")
def clock_is_not_checked() -> Patches:
    """A call starts without a check of the time that is left of the claim."""
    yield returns(Lease.can_start_action, value=True)


@mutant("nothing_starts_without_claim")
def a_claim_is_never_renewed() -> Patches:
    """A claim is never renewed, and work continues after its end."""
    yield returns(Lease.can_start_action, value=True)
    yield skip(StoreJournal.seconds_to_renewal)


@mutant(
    "nothing_starts_without_claim",
    "turn_asked_once",
    "started_once",
    "finished_never_runs_again",
)
def a_claim_is_renewed_without_a_check() -> Patches:
    """A claim is renewed although its commit lost."""

    async def commit(original: Original, self: StoreJournal) -> Any:
        lease = Lease.start_now(self._ports.clock, self._lease_seconds)
        try:
            return await original()
        except StaleRun:
            if self._lease is None:
                raise
            self._lease = lease
            return Arrivals()

    yield patch(StoreJournal.commit, commit)


@mutant("nothing_starts_without_claim")
def a_claim_is_measured_from_its_reply() -> Patches:
    """A claim is measured from its reply, not from before its request."""

    async def commit(original: Original, self: StoreJournal) -> Any:
        asked = await original()
        self._lease = Lease.start_now(self._ports.clock, self._lease_seconds)
        return asked

    yield patch(StoreJournal.commit, commit)


@mutant("nothing_starts_without_claim", condition=clocks_differ_and_workers_freeze)
def a_claim_is_used_to_its_last_moment() -> Patches:
    """A claim is used to its last moment, although clocks differ."""

    def can_start_action(self: Lease) -> bool:
        return self.seconds_left > 0

    yield patch(Lease.can_start_action, can_start_action)


@mutant("not_expired_early")
def a_wrong_clock_is_not_refused() -> Patches:
    """A worker whose clock is wrong claims the run anyway."""
    yield skip(claims.check_clock)


@mutant("not_expired_early", "nothing_starts_without_claim", "no_run_stranded")
def arrivals_guard_a_claim_with_a_wrong_clock() -> Patches:
    """Arrivals guard a claim, so that no guard tells the store's time."""

    async def ensure_guarded(original: Original, self: StoreJournal) -> None:
        self._guarding_markers = self._guarding_markers or self._arrival_markers
        await original()

    yield patch(StoreJournal.ensure_guarded, ensure_guarded)


@mutant("no_run_stranded")
def attempts_are_not_counted() -> Patches:
    """Attempts are not counted."""
    yield returns(claims.next_attempt, 1)


@mutant("gives_up_only_without_progress")
def progress_does_not_reset_attempts() -> Patches:
    """Progress does not reset the number of attempts."""

    async def commit(original: Original) -> Any:
        return await original(progressed=False)

    yield patch(StoreJournal.commit, commit)


@mutant("same_end_as_uninterrupted", "no_run_stranded")
def a_suspended_run_keeps_its_claim() -> Patches:
    """A run keeps its claim while it is suspended."""

    def released(original: Original, state: RunState) -> Any:
        without_claim = original()
        run = replace(without_claim.run, claim=state.run.claim)
        return replace(without_claim, run=run)

    yield patch(claims.released, released)


@mutant("notified_after_commit", "listed_waits_are_open", "versions_are_linear")
def outcome_is_returned_without_its_version() -> Patches:
    """A worker that loses the number of the last version returns its outcome anyway."""

    async def commit_and_release(
        original: Original, self: StoreJournal, state: RunState
    ) -> None:
        try:
            await original()
        except StaleRun:
            assert self.loaded is not None
            self.loaded = replace(self.loaded, state=claims.released(state))

    yield patch(StoreJournal.commit_and_release, commit_and_release)


@mutant("cancellation_noticed_soon")
def cancellation_is_not_checked() -> Patches:
    """A worker does not check whether its run was cancelled."""
    yield skip(read_cancel_request, only_in=(journal, run_requests))


@mutant("cancelled_with_its_run", condition=giving_up_is_slow)
def waits_are_closed_before_giving_up_is_claimed() -> Patches:
    """A worker that gives a run up closes its waits before it has a claim."""

    async def apply_arrivals(
        original: Original,
        self: Worker,
        state: RunState,
        arrived: Arrivals,
        journal: StoreJournal,
    ) -> Any:
        claim, max_attempts = state.run.claim, self.options.max_attempts
        if arrived.cancel_request is None and claim and claim.attempt >= max_attempts:
            return await self._ender(state, journal).end_after_attempts(
                state, claim.attempt
            )
        return await original()

    yield patch(Worker._apply_arrivals, apply_arrivals)
