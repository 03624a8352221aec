"""Faults of markers, and of what must be done in which order around a version."""

# A fault reaches into the room that it spoils.
# pyright: reportPrivateUsage=false

from __future__ import annotations

from contextlib import suppress
from types import SimpleNamespace
from typing import TYPE_CHECKING

from continuations.core.run import ENDED_STATUSES
from continuations.engine import publishing, sweeping
from continuations.engine.journal import StoreJournal
from continuations.engine.worker import Worker
from continuations.errors import RunNotFound
from continuations.ledger import decisions as deciding
from continuations.ledger import inbox, layout, markers, waits
from continuations.ledger.objects import Objects
from tests.simulation.mutants.conditions import (
    canceller_dies,
    two_cancellers_die,
)
from tests.simulation.mutants.mutant import (
    Patch,
    mutant,
    mutants_in,
    patches_everywhere,
)

if TYPE_CHECKING:
    from collections.abc import Iterable

    from continuations.core.decisions import Decision
    from continuations.core.state import RunState
    from continuations.core.waits import Wait
    from continuations.engine.ports import Ports
    from continuations.ledger.arrivals import Arrivals
    from continuations.ledger.layout import Marker
    from continuations.wire.records import CancelRequest
    from tests.simulation.mutants.mutant import Patches


async def _make_no_marker(_objects: Objects, _marker: Marker) -> None:
    return None


# Markers come before what they guard ----------------------------------------


@mutant("A claim has no guard.", "no_run_stranded")
def a_claim_has_no_guard() -> Patches:
    async def ensure_guarded(_self: StoreJournal) -> None:
        return

    yield Patch(StoreJournal, "ensure_guarded", ensure_guarded)


@mutant("The guard of a claim is made after the claim.", "no_run_stranded")
def a_guard_is_made_after_its_claim() -> Patches:
    guard, look = StoreJournal.ensure_guarded, StoreJournal._check_still_newest

    async def ensure_guarded(_self: StoreJournal) -> None:
        return

    async def check_newest(self: StoreJournal) -> CancelRequest | None:
        await guard(self)
        return await look(self)

    yield Patch(StoreJournal, "ensure_guarded", ensure_guarded)
    yield Patch(StoreJournal, "_check_still_newest", check_newest)


@mutant(
    "The markers of what came go when the run is claimed, which they guard.",
    "no_run_stranded",
)
def arrival_markers_are_deleted_by_the_claim() -> Patches:
    real = StoreJournal._check_still_newest

    async def check_newest(self: StoreJournal) -> CancelRequest | None:
        for key in self._arrival_markers:
            await self._objects.delete(key)
        return await real(self)

    yield Patch(StoreJournal, "_check_still_newest", check_newest)


@mutant("The marker of a decision is made after the decision.", "no_run_stranded")
def a_marker_is_made_after_its_decision() -> Patches:
    real = deciding.record_decision
    named = SimpleNamespace(for_decision=markers.for_decision, make=_make_no_marker)

    async def settle(objects: Objects, wanted: Decision) -> Decision:
        stands = await real(objects, wanted)
        if wanted.marker is not None:
            await objects.create(wanted.marker, b"")
        return stands

    yield Patch(deciding, "markers", named)
    yield Patch(deciding, "settle", settle)


@mutant("A decision has no marker.", "no_run_stranded")
def a_decision_has_no_marker() -> Patches:
    named = SimpleNamespace(for_decision=markers.for_decision, make=_make_no_marker)
    yield Patch(deciding, "markers", named)


@mutant(
    "A cancellation has no marker.",
    "no_run_stranded",
    condition=canceller_dies,
)
def a_cancellation_has_no_marker() -> Patches:
    named = SimpleNamespace(
        for_inbox_message=markers.for_inbox_message,
        for_cancel_request=markers.for_cancel_request,
        make=_make_no_marker,
    )
    yield Patch(inbox, "markers", named)


@mutant("Deadlines have no marker.", "no_run_stranded")
def a_deadline_has_no_marker() -> Patches:
    async def publish(objects: Objects, new: Iterable[Wait]) -> None:
        await waits.create(objects, new)

    yield from patches_everywhere(publishing.publish_waits, publish)


# Markers go when nothing that they stand for is open ------------------------


@mutant(
    "A sweep removes a guard whose number is taken, though the run is worked on.",
    "no_run_stranded",
)
def a_renewed_claim_loses_its_guard() -> Patches:
    real = sweeping._RunSweep.process

    async def at(self: sweeping._RunSweep, found: list[Marker]) -> object:
        with suppress(RunNotFound):
            number = await self.worker.versions.newest_number()
            for marker in found:
                if marker.kind == "g" and int(marker.target) <= number:
                    await self.objects.delete(marker.key)
        return await real(self, found)

    yield Patch(sweeping._RunSweep, "process", at)


@mutant(
    "A sweep removes the markers of a run that is not there yet, or cannot go on.",
    "no_run_stranded",
)
def markers_of_a_blocked_run_are_deleted() -> Patches:
    async def redate(objects: Objects, _ports: Ports, found: list[Marker]) -> None:
        for marker in found:
            await objects.delete(marker.key)

    yield Patch(sweeping, "_postpone", redate)


@mutant(
    "A sweep removes the old marker before it makes the later one.",
    "no_run_stranded",
)
def old_marker_is_deleted_before_the_new_one_exists() -> Patches:
    real = sweeping._postpone

    async def redate(objects: Objects, ports: Ports, found: list[Marker]) -> None:
        for marker in found:
            await objects.delete(marker.key)
        await real(objects, ports, found)

    yield Patch(sweeping, "_postpone", redate)


@mutant(
    "A sweep removes the markers that it found before it looks at their run.",
    "no_run_stranded",
)
def markers_are_deleted_before_the_run_is_read() -> Patches:
    real = sweeping._RunSweep.process

    async def at(self: sweeping._RunSweep, found: list[Marker]) -> object:
        for marker in found:
            await self.objects.delete(marker.key)
        return await real(self, found)

    yield Patch(sweeping._RunSweep, "process", at)


@mutant(
    "The markers go before the version that suspends the run is committed.",
    "no_run_stranded",
)
def markers_are_deleted_before_the_version() -> Patches:
    real = Worker._commit_and_publish

    async def keep(
        self: Worker,
        journal: StoreJournal,
        before: RunState,
        state: RunState,
        arrived: Arrivals,
    ) -> Arrivals:
        await self._delete_markers(journal, arrived, ())
        return await real(self, journal, before, state, arrived)

    yield Patch(Worker, "_commit_and_publish", keep)


@mutant(
    "Who suspends a run removes every marker of it, also those just made.",
    "no_run_stranded",
)
def all_markers_of_a_run_are_removed() -> Patches:
    async def clear(
        self: Worker, journal: StoreJournal, arrived: Arrivals, over: object
    ) -> None:
        del journal, arrived, over
        async for key in self.objects.all_keys(layout.MARKERS_PREFIX):
            if key.endswith(f"@{self.run_id}"):
                await self.objects.delete(key)

    yield Patch(Worker, "_delete_markers", clear)


@mutant(
    "Who comes second with a decision removes the marker of the first.",
    "no_run_stranded",
)
def a_second_decider_removes_the_first_ones_marker() -> Patches:
    real = deciding.record_decision

    async def settle(objects: Objects, wanted: Decision) -> Decision:
        stands = await real(objects, wanted)
        if stands.id != wanted.id and stands.marker is not None:
            await objects.delete(stands.marker)
        return stands

    yield Patch(deciding, "settle", settle)


@mutant("Who lost a claim removes the guard of the winner.", "no_run_stranded")
def stale_worker_deletes_the_winners_guard() -> Patches:
    async def drop_guard(self: StoreJournal) -> None:
        run_id = self._versions.run_id
        async for key in self._objects.all_keys(layout.MARKERS_PREFIX):
            marker = layout.parse_marker(key)
            if marker is not None and (marker.kind, marker.run_id) == ("g", run_id):
                await self._objects.delete(key)

    yield Patch(StoreJournal, "_delete_guard", drop_guard)


@mutant(
    "The guard of a run goes with the claim; what was decided is not looked at again.",
    "no_run_stranded",
)
def due_decision_is_not_read() -> Patches:
    def wakes(_table: RunState, _arrived: Arrivals) -> bool:
        return False

    yield from patches_everywhere(publishing.arrivals_unblock, wakes)


# What a version names comes after it ----------------------------------------


@mutant(
    "The objects of waits are made before the version that names them.",
    "listed_waits_are_open",
    "one_decision",
    "notified_after_commit",
)
def waits_are_listed_before_their_version() -> Patches:
    real = Worker._commit_and_publish

    async def keep(
        self: Worker,
        journal: StoreJournal,
        before: RunState,
        state: RunState,
        arrived: Arrivals,
    ) -> Arrivals:
        new = [wait for key, wait in state.waits.items() if key not in before.waits]
        await publishing.publish_waits(self.objects, new)
        return await real(self, journal, before, state, arrived)

    yield Patch(Worker, "_commit_and_publish", keep)


@mutant("People are told of a wait before it is kept.", "notified_after_commit")
def notification_precedes_the_version() -> Patches:
    real = Worker._commit_and_publish

    async def keep(
        self: Worker,
        journal: StoreJournal,
        before: RunState,
        state: RunState,
        arrived: Arrivals,
    ) -> Arrivals:
        new = [wait for key, wait in state.waits.items() if key not in before.waits]
        await publishing.notify_waits(self.ports.notify, new)
        return await real(self, journal, before, state, arrived)

    yield Patch(Worker, "_commit_and_publish", keep)


@mutant(
    "The object of a wait stays when the wait is over.",
    "listed_waits_are_open",
    "ended_run_leaves_no_keys",
)
def wait_object_is_not_deleted() -> Patches:
    real = Objects.delete

    async def delete(self: Objects, key: str) -> None:
        if not key.startswith(layout.WAITS_PREFIX):
            await real(self, key)

    yield Patch(Objects, "delete", delete)


@mutant(
    "A wait is announced again without a look whether it was decided meanwhile.",
    "listed_waits_are_open",
    "ended_run_leaves_no_keys",
)
def a_decided_wait_is_announced_again() -> Patches:
    async def nothing(_objects: Objects, _what: object) -> tuple[str, ...]:
        return ()

    yield Patch(waits, "recreate_missing", waits.create)
    yield Patch(sweeping, "list_decided_wait_ids", nothing)


@mutant(
    "A crash between the version and the objects of its waits is not mended.",
    "listed_waits_are_open",
    "no_run_stranded",
)
def missing_wait_objects_are_not_recreated() -> Patches:
    async def mend(objects: Objects, some: Iterable[Wait]) -> None:
        del objects, some

    async def nothing(_objects: Objects, _new: Iterable[Wait]) -> None:
        return

    yield Patch(waits, "recreate_missing", mend)
    yield Patch(sweeping, "publish_waits", nothing)


# Cancelling -----------------------------------------------------------------


async def _keep_waits_open(
    _self: Worker, before: RunState, after: RunState
) -> RunState:
    del before
    return after


@mutant(
    "The waits of a cancelled run are not closed.",
    "ended_by_its_decision",
    "ended_run_leaves_no_keys",
    "listed_waits_are_open",
    "one_decision",
    "refused_never_runs",
)
def waits_of_an_ended_run_stay_open() -> Patches:
    yield Patch(Worker, "_close_waits_if_ended", _keep_waits_open)


@mutant(
    "The waits of a cancelled run are closed after its end is committed.",
    "ended_by_its_decision",
    "ended_run_leaves_no_keys",
    "listed_waits_are_open",
    "one_decision",
    "refused_never_runs",
)
def waits_of_an_ended_run_are_closed_after_its_end() -> Patches:
    closing, real = Worker._close_waits_if_ended, Worker._commit_and_publish

    async def keep(
        self: Worker,
        journal: StoreJournal,
        before: RunState,
        state: RunState,
        arrived: Arrivals,
    ) -> Arrivals:
        came = await real(self, journal, before, state, arrived)
        if state.run.status in ENDED_STATUSES:
            await closing(self, before, state)
        return came

    yield Patch(Worker, "_close_waits_if_ended", _keep_waits_open)
    yield Patch(Worker, "_commit_and_publish", keep)


@mutant(
    "A second cancellation removes the marker of the first.",
    "no_run_stranded",
    condition=two_cancellers_die,
)
def a_second_cancellation_removes_the_first_ones_marker() -> Patches:
    real = inbox.record_cancel_request

    async def cancel(
        objects: Objects, run_id: str, wish: CancelRequest
    ) -> CancelRequest:
        first = await real(objects, run_id, wish)
        if first.id != wish.id and first.marker is not None:
            await objects.delete(first.marker)
        return first

    yield Patch(inbox, "record_cancel_request", cancel)


MUTANTS = mutants_in(globals())
