"""A power cut during a run: nothing known is lost, and no effect happens twice."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from continuations import Finished, Runner
from continuations.errors import RunNotFound
from continuations_storage import FileStore
from tests.effect_log import Effect
from tests.hostile.recorded_app import RUN, SHORT_SCRIPT, RecordedApp
from tests.hostile.sampling import every_nth
from tests.storage.power_loss import (
    NotingStore,
    PowerLossDisk,
    known_bodies,
    stored_bodies,
)
from tests.stores import StoreWithoutTime

EFFECTS = ["act 1", "pay 2"]


class NotedEffects(list["Effect"]):
    """A list of effects that notes each of them on the disk, too."""

    def __init__(self, disk: PowerLossDisk) -> None:
        super().__init__()
        self._disk = disk

    def append(self, effect: Effect) -> None:
        """Add an effect."""
        super().append(effect)
        self._disk.note("effect", effect.name)


def run_with_notes(disk: PowerLossDisk, root: Path) -> NotedEffects:
    """Run to the end; note what callers knew, and when each effect happened."""
    effects = NotedEffects(disk)
    app = RecordedApp(effects=effects, script=SHORT_SCRIPT)
    store = NotingStore(disk, FileStore(root))
    runner = app.runner(store)
    assert isinstance(app.run_to_end(runner, runner.start("go", run_id=RUN)), Finished)
    return effects


def recovered_app(
    disk: PowerLossDisk, moment: int, effects: NotedEffects
) -> RecordedApp:
    """Return the application after the cut; it knows the effects before the cut."""
    count = sum(event.what == "effect" for event in disk.events[:moment])
    app = RecordedApp(effects=list(effects)[:count], script=SHORT_SCRIPT)
    app.clock.offset_seconds += 60  # the claim has ended
    return app


def continue_run(app: RecordedApp, root: Path) -> None:
    """Continue the run with ordinary calls, or start it if it was lost."""
    runner: Runner = app.runner(StoreWithoutTime(FileStore(root)))
    runner.sweep()
    try:
        outcome = runner.resume(RUN)
    except RunNotFound:
        outcome = runner.start("go", run_id=RUN)
    assert isinstance(app.run_to_end(runner, outcome), Finished)


@pytest.mark.parametrize("share", range(3))
def test_run_continues_after_a_power_cut_at_any_moment(
    share: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Decisions, results and messages that a caller knew are there; no call repeats."""
    folder = tmp_path / "disk"
    folder.mkdir()
    with monkeypatch.context() as patch:
        disk = PowerLossDisk(patch, folder)
        effects = run_with_notes(disk, folder / "root")
    draw = random.Random(share)  # noqa: S311 - repeatable

    for moment in every_nth(range(1, len(disk.events) + 1), 12, 4 * share):
        root = disk.disk_after(moment, draw, tmp_path / f"{moment}") / "root"
        stored = stored_bodies(root)
        for key, body in known_bodies(disk, moment).items():
            assert body == stored.get(key), (moment, key)

        app = recovered_app(disk, moment, effects)
        continue_run(app, root)
        assert EFFECTS == sorted(app.effect_names()), moment
