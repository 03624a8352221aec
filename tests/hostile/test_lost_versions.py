"""After a repair no effect of a lost version is repeated on a guess."""

from __future__ import annotations

import asyncio
from functools import cache
from itertools import count

import pytest

from continuations import Deny, Finished
from continuations.core import ulid
from continuations.errors import AlreadyDecided, Cancelled, Corrupt
from continuations.ledger import layout
from continuations.ledger.objects import Objects
from continuations.ledger.repair.doctor import check_integrity, repair
from continuations.ledger.versions import Versions
from continuations.wire.fields import to_milliseconds
from continuations_storage import Store
from tests.hostile.editable_store import EditableStore
from tests.hostile.recorded_app import (
    LONG_SCRIPT_EFFECTS,
    RUN,
    RecordedApp,
    Snapshot,
    SnapshottingStore,
)
from tests.hostile.sampling import every_nth

_ULID_NUMBERS = count(1)


@cache
def all_snapshots() -> tuple[Snapshot, ...]:
    """Return a snapshot before every version of one run, and at its end."""
    app = RecordedApp()
    store = SnapshottingStore(app)
    runner = app.runner(store)
    outcome = app.run_to_end(runner, runner.start("go", run_id=RUN))
    assert isinstance(outcome, Finished)
    store.take_snapshot()
    return tuple(store.snapshots)


def repair_run(store: Store, app: RecordedApp) -> int:
    """Repair the run after its claim has ended; returns the new root's number."""
    now = app.clock.now()

    def new_ulid() -> str:
        return ulid.encode_ulid(
            to_milliseconds(now), next(_ULID_NUMBERS).to_bytes(10, "big")
        )

    root = asyncio.run(repair(Objects(store), RUN, now=now, new_ulid=new_ulid))
    return root.number


def newest_number(snapshot: Snapshot) -> int:
    return sum("/v/" in key for key in snapshot.objects)


def damaged_after(
    snapshot: Snapshot, last_good: int
) -> tuple[RecordedApp, EditableStore]:
    """Return an app and a store in which all versions after one are damaged."""
    app = RecordedApp(effects=list(snapshot.effects))
    app.clock.offset_seconds = 60
    store = snapshot.store()
    for number in range(last_good + 1, newest_number(snapshot) + 1):
        store.replace_body(layout.version_key(RUN, number), b"")
    return app, store


@cache
def cases() -> list[tuple[int, int]]:
    """Return every snapshot number with every version that may be the last good one."""
    return [
        (number, good)
        for number, snapshot in enumerate(all_snapshots())
        for good in range(1, newest_number(snapshot))
    ]


def test_recorded_run_has_effects_and_versions() -> None:
    """The tests below would pass for a run without effects too."""
    effects = [effect.name for effect in all_snapshots()[-1].effects]

    assert sorted(effects) == LONG_SCRIPT_EFFECTS
    assert len(cases()) > 60


def test_damage_is_found_by_a_sweep_and_repaired_by_one_command() -> None:
    """A sweep reports damage by itself, and `doctor --repair` repairs it.

    A person gives the command, because the lost versions may have had effects and
    nothing is guessed.
    """
    error_count = 0
    for number, good in every_nth(cases(), 5):
        # Given a run of which all versions after one are damaged
        app, store = damaged_after(all_snapshots()[number], good)
        runner = app.runner(store)
        damaged = {k: body for k, body in store.bodies.items() if "/v/" in k}

        # When only a sweep runs
        errors = runner.sweep().errors

        # Then the error names the damage, which stays; the last good version loads
        error_count += len(errors)
        for error in errors.values():
            assert isinstance(error, Corrupt)
            assert layout.version_key(RUN, len(damaged)) in str(error)
        assert damaged == {k: body for k, body in store.bodies.items() if "/v/" in k}
        last_good = runner.look(RUN, version=good)

        # And after one command the run continues from there with the next sweep
        assert len(damaged) + 1 == repair_run(store, app)
        assert last_good.root.messages == runner.look(RUN).root.messages
        assert {} == runner.sweep().errors
        assert damaged.items() <= store.bodies.items()
    assert error_count > 10


@pytest.mark.parametrize("shift", range(4))
def test_repair_repeats_no_effect_without_a_decision(shift: int) -> None:
    """Promise 5: for any snapshot of the run and any number of lost versions."""
    for number, good in every_nth(cases()[shift::4], 2):
        app, store = damaged_after(all_snapshots()[number], good)
        before = list(app.effects)
        runner = app.runner(store)

        # When it is repaired and resumed without a new decision
        repair_run(store, app)
        outcome = runner.resume(RUN)
        runner.sweep()

        # Then no effect is repeated, and no new effect needs an approval
        allowed = {"act 1", "act 3", "act 8", "push 5", "push 7"}
        new = app.effect_names()[len(before) :]
        assert set(new) <= allowed
        assert sorted(set(app.effect_names())) == sorted(app.effect_names()), (
            number,
            good,
        )

        # And when people decide, the run is finished and has each effect once
        ended = app.run_to_end(runner, outcome)
        assert isinstance(ended, Finished), (number, good)
        assert sorted(set(app.effect_names())) == sorted(app.effect_names()), (
            number,
            good,
        )
        assert 8 == len(app.effect_names()), (number, good)
        assert "all done" == ended.output
        # And no call has the idempotency key of a lost one
        assert 8 == len({effect.key for effect in app.effects})


@pytest.mark.parametrize("decided", [True, False])
def test_waits_from_before_a_repair_are_closed(*, decided: bool) -> None:
    """An old link gets an error; the listing shows only the new waits."""
    expected = Cancelled if not decided else AlreadyDecided
    closed = 0
    for number, good in every_nth(cases(), 3, 1):
        # Given the waits of the last good version, all decided or none
        snapshot = all_snapshots()[number]
        app, store = damaged_after(
            snapshot if decided else without_decisions(snapshot), good
        )
        runner = app.runner(store)
        old = runner.look(RUN, version=good).waits

        # When the run is repaired and resumed
        repair_run(store, app)
        outcome = runner.resume(RUN)

        # Then the listing shows its waits, and no old link decides them
        waits = outcome.continuation.waits
        listed = {wait.id for wait in runner.waiting()}
        assert {wait.id for wait in waits} == listed, (number, good)
        assert not listed & {wait.id for wait in old}
        # And every undecided call waits again
        again = [(wait.tool, wait.arguments) for wait in waits]
        assert decided or all((wait.tool, wait.arguments) in again for wait in old)
        for wait in old:
            with pytest.raises(expected):
                runner.decide(wait.id, Deny(by="pat"))
            closed += 1
    assert closed > 10


def without_decisions(snapshot: Snapshot) -> Snapshot:
    """Return a snapshot without its decisions."""
    decisions = f"runs/{RUN}/in/d-"
    rest = {k: body for k, body in snapshot.objects.items() if decisions not in k}
    return Snapshot(rest, snapshot.effects)


def test_repair_without_damage_changes_nothing() -> None:
    """Every snapshot of a run is intact, and a repair changes nothing."""
    for snapshot in all_snapshots()[1:]:
        store = snapshot.store()
        app = RecordedApp(effects=list(snapshot.effects))
        report = asyncio.run(check_integrity(Objects(store), RUN))
        assert report.is_resumable
        assert () == report.findings
        number = asyncio.run(Versions(Objects(store), RUN).newest_number())
        assert number == repair_run(store, app)
        assert snapshot.objects.items() <= store.bodies.items()
