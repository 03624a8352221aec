"""Bugs of clocks, of runs whose code raises, and of releases after an error."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from continuations.core.rows.run import RunRow
from continuations.core.rows.state import RunState
from continuations.engine.journal.journal import StoreJournal
from continuations.engine.journal.publishing import Publisher
from continuations.engine.sweep import sweeping
from continuations.engine.sweep.sweeping import RunSweep, Sweeper, SweepResult
from continuations.ledger import claims, markers
from continuations.ledger.arrivals.arrivals import Arrivals
from continuations.ledger.decisions import decisions
from continuations.ledger.index.misdated_markers import redate_misdated
from continuations.ledger.layout import Marker
from continuations.ledger.store_clock import StoreClock
from continuations.wire.fields import to_milliseconds
from tests.simulation.families import THREADS
from tests.simulation.mutants.conditions import starters_die_late
from tests.simulation.mutants.mutant import (
    Original,
    Patches,
    gives_back,
    mutant,
    patch,
    returns,
    skip,
)
from tests.simulation.processes import current_process

# Situations -------------------------------------------------------------------------


def dates_are_never_checked() -> Patches:
    """No sweep looks for markers that are dated too late."""
    yield returns(redate_misdated, 0)


def some_sweepers_trust_their_clocks() -> Patches:
    """Sweepers with a wrong clock trust it."""

    def observe(original: Original) -> None:
        if not current_process().clock_offset:
            original()

    yield patch(StoreClock.observe, observe)


def starters_die_late_and_dates_are_never_checked() -> Patches:
    """Both situations together."""
    yield from starters_die_late()
    yield from dates_are_never_checked()


def starters_die_late_and_some_sweepers_trust_their_clocks() -> Patches:
    """Both situations together."""
    yield from starters_die_late()
    yield from some_sweepers_trust_their_clocks()


# Clocks -----------------------------------------------------------------------------


@mutant("no_run_stranded", condition=starters_die_late_and_dates_are_never_checked)
def sweeps_trust_their_own_clock() -> Patches:
    """A sweep dates markers by the clock of its machine."""
    yield skip(StoreClock.observe)


@mutant("no_run_stranded", condition=dates_are_never_checked)
def now_is_dated_by_a_clock() -> Patches:
    """A marker that means now is dated by the clock of its maker."""

    def new_marker(
        run_id: str, reason: str, target: str, due: datetime | None, nonce: str
    ) -> Marker:
        due_ms = to_milliseconds(due or current_process().now())
        return Marker(due_ms, reason, target, nonce[-8:], run_id)

    yield patch(markers._new_marker, new_marker)


@mutant(
    "no_run_stranded", condition=starters_die_late_and_some_sweepers_trust_their_clocks
)
def misdated_markers_are_not_found() -> Patches:
    """A marker that a wrong clock dated too late is never found."""
    yield from dates_are_never_checked()


@mutant("only_able_workers_postpone")
def own_errors_postpone_a_run() -> Patches:
    """A sweep postpones a run for all others because of its own wrong clock."""
    yield returns(sweeping._is_of_this_process, value=False)


@mutant("approval_not_too_old_for_the_store")
def decisions_trust_the_deciders_clock() -> Patches:
    """A decision has the time of its decider's clock."""
    yield gives_back(decisions._time_of_record, "now")


# Runs whose code raises -------------------------------------------------------------


@mutant("no_run_stranded")
def a_poison_run_ends_the_sweep() -> Patches:
    """A sweep looks at one run after the other, and an exception of one ends it."""

    async def sweep(self: Sweeper) -> SweepResult:
        due = (await self.due_runs()).markers_by_run
        for run_id in sorted(due):
            await self.try_run(run_id, due[run_id])
        return SweepResult(runs_checked=len(due))

    def report_of_error(original: Original, error: BaseException) -> Any:
        report = original()
        if report.error is not None and report.error.__cause__ is error:
            raise error
        return report

    yield patch(sweeping._report_of_error, report_of_error)
    yield patch(Sweeper.sweep, sweep)


# Releases and repairs ---------------------------------------------------------------


@mutant("no_run_stranded")
def waits_of_an_unfinished_run_are_not_published() -> Patches:
    """A worker that stops before its run suspends does not publish the new waits."""

    async def release_unfinished(
        self: Publisher,
        journal: StoreJournal,
        state: RunState,
        arrived: Arrivals,
        retry_now: bool,
    ) -> None:
        await journal.make_retry_marker(now=retry_now)
        await journal.commit_and_release(state)
        await self.delete_markers(journal, arrived, ())

    yield patch(Publisher.release_unfinished, release_unfinished)


@mutant("listed_waits_are_open", "no_run_stranded")
def leftover_markers_are_deleted_without_a_repair() -> Patches:
    """A sweep deletes the markers of a process that died after its version, and does
    not repair the wait objects."""

    async def repair(self: RunSweep, due_markers: list[Marker]) -> None:
        newest = await self.worker.versions.load_newest()
        if newest.state.run.claim is None:
            await self._delete_unneeded(due_markers, newest)

    yield patch(RunSweep._repair, repair)


@mutant("no_foreign_errors", family=THREADS)
def a_slow_clock_makes_a_claim_endless() -> Patches:
    """A machine with a slow clock waits for the end of a claim that ended long ago."""

    async def check_free(self: StoreClock, run: RunRow) -> None:
        claims.check_free(run, self.now())

    yield patch(StoreClock.check_free, check_free)
