"""Faults of markers, and of what must be done in which order around a version."""

# A fault reaches into the room that it spoils.
# pyright: reportPrivateUsage=false

from __future__ import annotations

from contextlib import suppress
from types import SimpleNamespace
from typing import TYPE_CHECKING

from continuations.core.run import ENDED
from continuations.engine import standing, sweeping
from continuations.engine.journal import StoreJournal
from continuations.engine.worker import Worker
from continuations.errors import RunNotFound
from continuations.ledger import decide as deciding
from continuations.ledger import inbox, layout, markers, waits
from continuations.ledger.objects import Objects
from tests.simulation.planted_circumstances import (
    two_cancel_and_die,
    who_cancels_dies,
)
from tests.simulation.planted_fault import Swap, everywhere, fault, faults_in

if TYPE_CHECKING:
    from collections.abc import Iterable

    from continuations.core.decisions import Decision
    from continuations.core.table import Table
    from continuations.core.waits import Wait
    from continuations.engine.ports import Ports
    from continuations.ledger.arrivals import Arrivals
    from continuations.ledger.layout import Marker
    from continuations.wire.records import Cancellation
    from tests.simulation.planted_fault import Swaps


async def _no_marker(_objects: Objects, _marker: Marker) -> None:
    return None


# Markers come before what they guard ----------------------------------------


@fault("A claim has no guard.", "nobody_stranded")
def a_claim_has_no_guard() -> Swaps:
    async def prepare(_self: StoreJournal) -> None:
        return

    yield Swap(StoreJournal, "prepare", prepare)


@fault("The guard of a claim is made after the claim.", "nobody_stranded")
def a_guard_is_made_after_its_claim() -> Swaps:
    guard, look = StoreJournal.prepare, StoreJournal._check_newest

    async def prepare(_self: StoreJournal) -> None:
        return

    async def check_newest(self: StoreJournal) -> Cancellation | None:
        await guard(self)
        return await look(self)

    yield Swap(StoreJournal, "prepare", prepare)
    yield Swap(StoreJournal, "_check_newest", check_newest)


@fault(
    "The markers of what came go when the run is claimed, which they guard.",
    "nobody_stranded",
)
def what_guards_a_claim_goes_with_it() -> Swaps:
    real = StoreJournal._check_newest

    async def check_newest(self: StoreJournal) -> Cancellation | None:
        for key in self._standing:
            await self._objects.delete(key)
        return await real(self)

    yield Swap(StoreJournal, "_check_newest", check_newest)


@fault("The marker of a decision is made after the decision.", "nobody_stranded")
def a_marker_is_made_after_its_decision() -> Swaps:
    real = deciding.settle
    named = SimpleNamespace(of_decision=markers.of_decision, make=_no_marker)

    async def settle(objects: Objects, wanted: Decision) -> Decision:
        stands = await real(objects, wanted)
        if wanted.marker is not None:
            await objects.create(wanted.marker, b"")
        return stands

    yield Swap(deciding, "markers", named)
    yield Swap(deciding, "settle", settle)


@fault("A decision has no marker.", "nobody_stranded")
def a_decision_has_no_marker() -> Swaps:
    named = SimpleNamespace(of_decision=markers.of_decision, make=_no_marker)
    yield Swap(deciding, "markers", named)


@fault(
    "A cancellation has no marker.",
    "nobody_stranded",
    under=who_cancels_dies,
)
def a_cancellation_has_no_marker() -> Swaps:
    named = SimpleNamespace(
        of_letter=markers.of_letter,
        of_cancellation=markers.of_cancellation,
        make=_no_marker,
    )
    yield Swap(inbox, "markers", named)


@fault("Deadlines have no marker.", "nobody_stranded")
def a_deadline_has_no_marker() -> Swaps:
    async def publish(objects: Objects, new: Iterable[Wait]) -> None:
        await waits.announce(objects, new)

    yield from everywhere(standing.publish, publish)


# Markers go when nothing that they stand for is open ------------------------


@fault(
    "A sweep removes a guard whose number is taken, though the run is worked on.",
    "nobody_stranded",
)
def a_renewed_claim_loses_its_guard() -> Swaps:
    real = sweeping._Look.at

    async def at(self: sweeping._Look, found: list[Marker]) -> object:
        with suppress(RunNotFound):
            number = await self.worker.versions.newest_number()
            for marker in found:
                if marker.letter == "g" and int(marker.what) <= number:
                    await self.objects.delete(marker.key)
        return await real(self, found)

    yield Swap(sweeping._Look, "at", at)


@fault(
    "A sweep removes the markers of a run that is not there yet, or cannot go on.",
    "nobody_stranded",
)
def markers_of_a_run_in_trouble_are_removed() -> Swaps:
    async def redate(objects: Objects, _ports: Ports, found: list[Marker]) -> None:
        for marker in found:
            await objects.delete(marker.key)

    yield Swap(sweeping, "_redate", redate)


@fault(
    "A sweep removes the old marker before it makes the later one.",
    "nobody_stranded",
)
def a_marker_goes_before_the_later_one_is_there() -> Swaps:
    real = sweeping._redate

    async def redate(objects: Objects, ports: Ports, found: list[Marker]) -> None:
        for marker in found:
            await objects.delete(marker.key)
        await real(objects, ports, found)

    yield Swap(sweeping, "_redate", redate)


@fault(
    "A sweep removes the markers that it found before it looks at their run.",
    "nobody_stranded",
)
def markers_go_before_the_look() -> Swaps:
    real = sweeping._Look.at

    async def at(self: sweeping._Look, found: list[Marker]) -> object:
        for marker in found:
            await self.objects.delete(marker.key)
        return await real(self, found)

    yield Swap(sweeping._Look, "at", at)


@fault(
    "The markers go before the version that suspends the run is committed.",
    "nobody_stranded",
)
def markers_go_before_the_version() -> Swaps:
    real = Worker._keep

    async def keep(
        self: Worker,
        journal: StoreJournal,
        before: Table,
        table: Table,
        arrived: Arrivals,
    ) -> Arrivals:
        await self._clear(journal, arrived, ())
        return await real(self, journal, before, table, arrived)

    yield Swap(Worker, "_keep", keep)


@fault(
    "Who suspends a run removes every marker of it, also those just made.",
    "nobody_stranded",
)
def all_markers_of_a_run_are_removed() -> Swaps:
    async def clear(
        self: Worker, journal: StoreJournal, arrived: Arrivals, over: object
    ) -> None:
        del journal, arrived, over
        async for key in self.objects.all_keys(layout.MARKERS):
            if key.endswith(f"@{self.run_id}"):
                await self.objects.delete(key)

    yield Swap(Worker, "_clear", clear)


@fault(
    "Who comes second with a decision removes the marker of the first.",
    "nobody_stranded",
)
def a_second_decider_removes_the_first_ones_marker() -> Swaps:
    real = deciding.settle

    async def settle(objects: Objects, wanted: Decision) -> Decision:
        stands = await real(objects, wanted)
        if stands.id != wanted.id and stands.marker is not None:
            await objects.delete(stands.marker)
        return stands

    yield Swap(deciding, "settle", settle)


@fault("Who lost a claim removes the guard of the winner.", "nobody_stranded")
def a_loser_removes_the_winners_guard() -> Swaps:
    async def drop_guard(self: StoreJournal) -> None:
        run_id = self._versions.run_id
        async for key in self._objects.all_keys(layout.MARKERS):
            marker = layout.parse_marker(key)
            if marker is not None and (marker.letter, marker.run_id) == ("g", run_id):
                await self._objects.delete(key)

    yield Swap(StoreJournal, "_drop_guard", drop_guard)


@fault(
    "The guard of a run goes with the claim; what was decided is not looked at again.",
    "nobody_stranded",
)
def a_due_decision_is_not_looked_at() -> Swaps:
    def wakes(_table: Table, _arrived: Arrivals) -> bool:
        return False

    yield from everywhere(standing.wakes, wakes)


# What a version names comes after it ----------------------------------------


@fault(
    "The objects of waits are made before the version that names them.",
    "listed_is_open",
    "one_decision",
    "told_after_kept",
)
def waits_are_listed_before_their_version() -> Swaps:
    real = Worker._keep

    async def keep(
        self: Worker,
        journal: StoreJournal,
        before: Table,
        table: Table,
        arrived: Arrivals,
    ) -> Arrivals:
        new = [wait for key, wait in table.waits.items() if key not in before.waits]
        await standing.publish(self.objects, new)
        return await real(self, journal, before, table, arrived)

    yield Swap(Worker, "_keep", keep)


@fault("People are told of a wait before it is kept.", "told_after_kept")
def people_are_told_before_the_version() -> Swaps:
    real = Worker._keep

    async def keep(
        self: Worker,
        journal: StoreJournal,
        before: Table,
        table: Table,
        arrived: Arrivals,
    ) -> Arrivals:
        new = [wait for key, wait in table.waits.items() if key not in before.waits]
        await standing.tell(self.ports.notify, new)
        return await real(self, journal, before, table, arrived)

    yield Swap(Worker, "_keep", keep)


@fault(
    "The object of a wait stays when the wait is over.",
    "listed_is_open",
    "ended_is_clean",
)
def the_object_of_a_wait_stays() -> Swaps:
    real = Objects.delete

    async def delete(self: Objects, key: str) -> None:
        if not key.startswith(layout.WAITS):
            await real(self, key)

    yield Swap(Objects, "delete", delete)


@fault(
    "A wait is announced again without a look whether it was decided meanwhile.",
    "listed_is_open",
    "ended_is_clean",
)
def a_decided_wait_is_announced_again() -> Swaps:
    async def nothing(_objects: Objects, _what: object) -> tuple[str, ...]:
        return ()

    yield Swap(waits, "mend", waits.announce)
    yield Swap(sweeping, "decided_waits", nothing)


@fault(
    "A crash between the version and the objects of its waits is not mended.",
    "listed_is_open",
    "nobody_stranded",
)
def lost_wait_objects_are_not_made_again() -> Swaps:
    async def mend(objects: Objects, some: Iterable[Wait]) -> None:
        del objects, some

    async def nothing(_objects: Objects, _new: Iterable[Wait]) -> None:
        return

    yield Swap(waits, "mend", mend)
    yield Swap(sweeping, "publish", nothing)


# Cancelling -----------------------------------------------------------------


async def _left_open(_self: Worker, before: Table, after: Table) -> Table:
    del before
    return after


@fault(
    "The waits of a cancelled run are not closed.",
    "ended_by_its_decision",
    "ended_is_clean",
    "listed_is_open",
    "one_decision",
    "refused_never_runs",
)
def waits_of_an_ended_run_stay_open() -> Swaps:
    yield Swap(Worker, "_closing", _left_open)


@fault(
    "The waits of a cancelled run are closed after its end is committed.",
    "ended_by_its_decision",
    "ended_is_clean",
    "listed_is_open",
    "one_decision",
    "refused_never_runs",
)
def waits_of_an_ended_run_are_closed_after_its_end() -> Swaps:
    closing, real = Worker._closing, Worker._keep

    async def keep(
        self: Worker,
        journal: StoreJournal,
        before: Table,
        table: Table,
        arrived: Arrivals,
    ) -> Arrivals:
        came = await real(self, journal, before, table, arrived)
        if table.run.status in ENDED:
            await closing(self, before, table)
        return came

    yield Swap(Worker, "_closing", _left_open)
    yield Swap(Worker, "_keep", keep)


@fault(
    "A second cancellation removes the marker of the first.",
    "nobody_stranded",
    under=two_cancel_and_die,
)
def a_second_cancellation_removes_the_first_ones_marker() -> Swaps:
    real = inbox.cancel

    async def cancel(objects: Objects, run_id: str, wish: Cancellation) -> Cancellation:
        first = await real(objects, run_id, wish)
        if first.id != wish.id and first.marker is not None:
            await objects.delete(first.marker)
        return first

    yield Swap(inbox, "cancel", cancel)


FAULTS = faults_in(globals())
