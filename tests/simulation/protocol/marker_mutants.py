"""Bugs of markers: missing, created too late or deleted too early."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from typing import Any

from continuations.core.rows.decisions import Decision
from continuations.core.rows.waits import Wait
from continuations.engine.arrivals import readiness
from continuations.engine.journal import publishing
from continuations.engine.journal.journal import StoreJournal
from continuations.engine.journal.publishing import Publisher
from continuations.engine.sweep.sweeping import RunSweep
from continuations.errors import RunNotFound
from continuations.ledger import layout, markers
from continuations.ledger.arrivals.arrivals import Arrivals
from continuations.ledger.decisions import decisions
from continuations.ledger.index import waits
from continuations.ledger.layout import Marker
from continuations.ledger.objects import Objects
from tests.simulation.mutants.conditions import canceller_dies, starters_die_late
from tests.simulation.mutants.mutant import (
    Original,
    Patches,
    mutant,
    patch,
    returns,
    skip,
)

_DECISION, _CANCEL_REQUEST, _PAUSE = "d", "c", "r"


def _no_marker_of_kind(kind: str) -> Patches:
    async def create(original: Original, marker: Marker) -> Any:
        return None if marker.reason == kind else await original()

    yield patch(markers.create, create)


# A marker precedes the object that it guards ----------------------------------------


@mutant("no_run_stranded")
def a_claim_has_no_guard() -> Patches:
    """A claim has no guard."""
    yield skip(StoreJournal.ensure_guarded)


@mutant("no_run_stranded")
def an_enqueued_run_has_no_marker() -> Patches:
    """A run is stored and not worked on, without a marker."""
    yield from _no_marker_of_kind(_PAUSE)


@mutant("no_run_stranded")
def a_guard_is_made_after_its_claim() -> Patches:
    """The guard of a claim is created after the claim."""
    create_guard = StoreJournal.ensure_guarded

    async def check_still_newest(original: Original, self: StoreJournal) -> Any:
        await create_guard(self)
        return await original()

    yield skip(StoreJournal.ensure_guarded)
    yield patch(StoreJournal._check_still_newest, check_still_newest)


@mutant("no_run_stranded")
def arrival_markers_are_deleted_by_the_claim() -> Patches:
    """A claim deletes the markers of the arrivals that it is made for."""

    async def check_still_newest(original: Original, self: StoreJournal) -> Any:
        for key in self._arrival_markers:
            await self._objects.delete(key)
        return await original()

    yield patch(StoreJournal._check_still_newest, check_still_newest)


@mutant("no_run_stranded")
def a_marker_is_made_after_its_decision() -> Patches:
    """The marker of a decision is created after the decision."""

    async def record_decision(
        original: Original, objects: Objects, proposed: Decision
    ) -> Any:
        recorded = await original()
        if proposed.marker is not None:
            await objects.create(proposed.marker, b"")
        return recorded

    yield from _no_marker_of_kind(_DECISION)
    yield patch(decisions.record_decision, record_decision)


@mutant("no_run_stranded")
def a_decision_has_no_marker() -> Patches:
    """A decision has no marker."""
    yield from _no_marker_of_kind(_DECISION)


@mutant("no_run_stranded", condition=canceller_dies)
def a_cancellation_has_no_marker() -> Patches:
    """A cancel request has no marker."""
    yield from _no_marker_of_kind(_CANCEL_REQUEST)


@mutant("no_run_stranded")
def a_deadline_has_no_marker() -> Patches:
    """Deadlines have no marker."""

    async def publish_waits(objects: Objects, new_waits: Iterable[Wait]) -> None:
        await waits.create(objects, new_waits)

    yield patch(publishing.publish_waits, publish_waits)


# A marker is deleted when its reason is gone ----------------------------------------


@mutant("no_run_stranded")
def a_renewed_claim_loses_its_guard() -> Patches:
    """A sweep deletes a guard whose number is taken, although a worker has the run."""

    async def process(
        original: Original, self: RunSweep, due_markers: list[Marker]
    ) -> Any:
        with suppress(RunNotFound):
            number = await self.worker.versions.newest_number()
            for marker in due_markers:
                if marker.reason == "g" and int(marker.target) <= number:
                    await self.objects.delete(marker.key)
        return await original()

    yield patch(RunSweep.process, process)


@mutant("no_run_stranded", condition=starters_die_late)
def markers_of_a_blocked_run_are_deleted() -> Patches:
    """A sweep deletes the markers of a run that does not exist yet or cannot
    advance."""

    async def postpone(self: RunSweep, due_markers: list[Marker]) -> None:
        for marker in due_markers:
            await self.objects.delete(marker.key)

    yield patch(RunSweep._postpone, postpone)


@mutant("no_run_stranded", condition=starters_die_late)
def old_marker_is_deleted_before_the_new_one_exists() -> Patches:
    """A sweep deletes the old marker before it creates the later one."""

    async def postpone(
        original: Original, self: RunSweep, due_markers: list[Marker]
    ) -> None:
        for marker in due_markers:
            await self.objects.delete(marker.key)
        await original()

    yield patch(RunSweep._postpone, postpone)


@mutant("no_run_stranded")
def markers_are_deleted_before_the_run_is_read() -> Patches:
    """A sweep deletes the due markers before it reads their run."""

    async def process(
        original: Original, self: RunSweep, due_markers: list[Marker]
    ) -> Any:
        for marker in due_markers:
            await self.objects.delete(marker.key)
        return await original()

    yield patch(RunSweep.process, process)


@mutant("no_run_stranded")
def markers_are_deleted_before_the_version() -> Patches:
    """The markers are deleted before the version that suspends the run is committed."""

    async def commit_and_publish(
        original: Original, self: Publisher, journal: StoreJournal, arrived: Arrivals
    ) -> Any:
        await self.delete_markers(journal, arrived, ())
        return await original()

    yield patch(Publisher.commit_and_publish, commit_and_publish)


@mutant("no_run_stranded")
def all_markers_of_a_run_are_removed() -> Patches:
    """A worker that suspends a run deletes all its markers, also the new ones."""

    async def delete_markers(self: Publisher, journal: StoreJournal) -> None:
        run_id = journal._versions.run_id
        async for key in self.objects.all_keys(layout.MARKERS_PREFIX):
            if key.endswith(f"@{run_id}"):
                await self.objects.delete(key)

    yield patch(Publisher.delete_markers, delete_markers)


@mutant("no_run_stranded")
def a_second_decider_removes_the_first_ones_marker() -> Patches:
    """The second decider deletes the marker of the first decision."""

    async def record_decision(
        original: Original, objects: Objects, proposed: Decision
    ) -> Any:
        recorded = await original()
        if recorded.id != proposed.id and recorded.marker is not None:
            await objects.delete(recorded.marker)
        return recorded

    yield patch(decisions.record_decision, record_decision)


@mutant("no_run_stranded")
def stale_worker_deletes_the_winners_guard() -> Patches:
    """A worker that lost a claim deletes the guard of the winner."""

    async def delete_guards(self: StoreJournal) -> None:
        run_id = self._versions.run_id
        async for key in self._objects.all_keys(layout.MARKERS_PREFIX):
            marker = layout.parse_marker(key)
            if marker is not None and (marker.reason, marker.run_id) == ("g", run_id):
                await self._objects.delete(key)

    yield patch(StoreJournal._delete_own_markers, delete_guards)


@mutant("no_run_stranded")
def due_decision_is_not_read() -> Patches:
    """The guard of a run is deleted with its claim, without a check for new
    decisions."""
    yield returns(readiness.arrivals_unblock, value=False)
