"""After a repair nothing that lost versions did is done again on a guess."""

from __future__ import annotations

import asyncio
from functools import cache
from itertools import count
from typing import TYPE_CHECKING

import pytest

from continuations import (
    AlreadyDecided,
    Cancelled,
    Corrupt,
    Deny,
    Finished,
)
from continuations.core import ulid
from continuations.ledger import layout
from continuations.ledger.doctor import check_integrity, repair
from continuations.ledger.objects import Objects
from continuations.ledger.versions import Versions
from continuations.wire.fields import to_milliseconds
from tests.hostile.recorded_app import RUN, RecordedApp, Snapshot, SnapshottingStore
from tests.hostile.sampling import every_nth

if TYPE_CHECKING:
    from continuations_storage import Store
    from tests.hostile.editable_store import EditableStore

_ULID_NUMBERS = count(1)


@cache
def all_snapshots() -> tuple[Snapshot, ...]:
    """Return a picture of every moment of one run."""
    office = RecordedApp()
    store = SnapshottingStore(office)
    runner = office.runner(store)
    ended = office.run_to_end(runner, runner.start("go", run_id=RUN))
    assert isinstance(ended, Finished)
    store.take_snapshot()
    return tuple(store.snapshots)


def repair_run(store: Store, app: RecordedApp) -> int:
    """Repair the run once its claim is over; returns the new root."""
    now = app.clock.now()

    def dice() -> str:
        return ulid.encode_ulid(
            to_milliseconds(now), next(_ULID_NUMBERS).to_bytes(10, "big")
        )

    planted = asyncio.run(repair(Objects(store), RUN, now=now, new_ulid=dice))
    return planted.number


def newest_number(snapshot: Snapshot) -> int:
    return sum("/v/" in key for key in snapshot.objects)


def damaged_after(
    snapshot: Snapshot, last_good: int
) -> tuple[RecordedApp, EditableStore]:
    """Return a world in which all versions after one are damaged, a minute later."""
    office = RecordedApp(effects=list(snapshot.effects))
    office.clock.offset_seconds = 60
    store = snapshot.store()
    for number in range(last_good + 1, newest_number(snapshot) + 1):
        store.replace_body(layout.version_key(RUN, number), b"")
    return office, store


@cache
def cases() -> list[tuple[int, int]]:
    """Return every moment of the film with every version that may be the last good."""
    return [
        (moment, good)
        for moment, picture in enumerate(all_snapshots())
        for good in range(1, newest_number(picture))
    ]


def test_recorded_run_has_effects_and_versions() -> None:
    """The tests below would hold as well for a run that does nothing."""
    wanted = ["send 1", "pay 2", "send 3", "pay 6", "put 7", "send 8", "pay 9", "put 5"]
    effects = [" ".join(each.split()[:2]) for each in all_snapshots()[-1].effects]

    assert sorted(wanted) == sorted(effects)
    assert len(cases()) > 60


def test_damage_is_found_by_a_sweep_and_repaired_by_one_command() -> None:
    """PA-09, PA-11, R-E7: nobody has to look for it, nor to read a byte.

    That a person gives the command is meant: what the lost versions did may have been
    decisive, and nothing is guessed.
    """
    found = 0
    for moment, good in every_nth(cases(), 5):
        # Given a run of which all versions after one are damaged
        office, store = damaged_after(all_snapshots()[moment], good)
        runner = office.runner(store)
        damaged = {k: body for k, body in store.bodies.items() if "/v/" in k}

        # When nobody does anything but sweep
        failed = runner.sweep().errors

        # Then the damage is named, left as it is, and the last good version is there
        found += len(failed)
        for error in failed.values():
            assert isinstance(error, Corrupt)
            assert layout.version_key(RUN, len(damaged)) in str(error)
        assert damaged == {k: body for k, body in store.bodies.items() if "/v/" in k}
        stood = runner.look(RUN, version=good)

        # And after one command the run stands there again, and sweeps move it on
        assert len(damaged) + 1 == repair_run(store, office)
        assert stood.root.messages == runner.look(RUN).root.messages
        assert {} == runner.sweep().errors
        assert damaged.items() <= store.bodies.items()
    assert found > 10


@pytest.mark.parametrize("shift", range(4))
def test_repair_repeats_no_effect_without_a_decision(shift: int) -> None:
    """R-E7, R-A8, R-A6: at any moment of the run, with any number of versions lost."""
    for moment, good in every_nth(cases()[shift::4], 2):
        office, store = damaged_after(all_snapshots()[moment], good)
        before = list(office.effects)
        runner = office.runner(store)

        # When it is repaired and resumed, nobody having said anything
        repair_run(store, office)
        outcome = runner.resume(RUN)
        runner.sweep()

        # Then what was done is not done again, nor anything new without its approval
        allowed = {"put 5", "put 7", "send 1", "send 3", "send 8"}
        fresh = office.effect_names()[len(before) :]
        assert set(fresh) <= allowed
        assert sorted(set(office.effect_names())) == sorted(office.effect_names()), (
            moment,
            good,
        )

        # And when people look and decide, it comes to its end, everything done once
        ended = office.run_to_end(runner, outcome)
        assert isinstance(ended, Finished), (moment, good)
        assert sorted(set(office.effect_names())) == sorted(office.effect_names()), (
            moment,
            good,
        )
        assert 8 == len(office.effect_names()), (moment, good)
        assert "all done" == ended.output
        # And no call has the key of one that was lost
        assert 8 == len({effect.split()[2] for effect in office.effects})


@pytest.mark.parametrize("decided", [True, False])
def test_waits_from_before_a_repair_are_closed(*, decided: bool) -> None:
    """R-F3, R-F9: whoever holds an old link is told; listed is what now waits."""
    told = Cancelled if not decided else AlreadyDecided
    closed = 0
    for moment, good in every_nth(cases(), 3, 1):
        # Given waits of the last good version, all decided or none
        picture = all_snapshots()[moment]
        office, store = damaged_after(
            picture if decided else without_decisions(picture), good
        )
        runner = office.runner(store)
        old = runner.look(RUN, version=good).waits

        # When the run is repaired and goes on
        repair_run(store, office)
        outcome = runner.resume(RUN)

        # Then the listing shows what it waits for, and no old link decides that
        asked = outcome.continuation.waits
        listed = {wait.id for wait in runner.waiting()}
        assert {wait.id for wait in asked} == listed, (moment, good)
        assert not listed & {wait.id for wait in old}
        # And what nobody has decided is asked again
        again = [(wait.tool, wait.arguments) for wait in asked]
        assert decided or all((wait.tool, wait.arguments) in again for wait in old)
        for wait in old:
            with pytest.raises(told):
                runner.decide(wait.id, Deny(by="pat"))
            closed += 1
    assert closed > 10


def without_decisions(snapshot: Snapshot) -> Snapshot:
    """Return a picture in which nobody has decided anything."""
    decisions = f"runs/{RUN}/in/d-"
    kept = {k: body for k, body in snapshot.objects.items() if decisions not in k}
    return Snapshot(kept, snapshot.effects)


def test_repair_without_damage_changes_nothing() -> None:
    """R-E10, EF-19: at every moment a run is whole, and the doctor changes nothing."""
    for picture in all_snapshots()[1:]:
        store = picture.store()
        office = RecordedApp(effects=list(picture.effects))
        found = asyncio.run(check_integrity(Objects(store), RUN))
        assert found.is_resumable
        assert () == found.findings
        number = asyncio.run(Versions(Objects(store), RUN).newest_number())
        assert number == repair_run(store, office)
        assert picture.objects.items() <= store.bodies.items()
