"""The rows of `tests/engine/crash_scenario.py`, with processes that SIGKILL ends.

Each process that dies is a forked child, on files, SQLite or Postgres. By default one
of them is killed for each row, and with TORTURE=1 one at each operation. The test that
lets processes of the same rows crash in memory, `tests/engine/test_crash_scenarios.py`,
says why `scenarios.py` has rows of its own.
"""

from __future__ import annotations

import os
import random
from collections.abc import Callable
from pathlib import Path

import pytest

from continuations_storage import FileStore, SQLiteStore, Store, open_store
from continuations_storage.faults import (
    FaultPlan,
    FaultyStore,
    Moment,
    at,
    killed,
    no_faults,
)
from tests import effect_log
from tests.clocks import ManualClock
from tests.engine.crash_scenario import Scenario
from tests.engine.test_crash_scenarios import SCENARIOS
from tests.postgres_server import PostgresServer
from tests.run_environment import RunEnvironment
from tests.sampling import RUNS_ALL_CASES
from tests.torture.child_processes import KILLED, run_in_child
from tests.torture.workspace import SharedTimeStore


def execute(
    row: type[Scenario],
    folder: Path,
    recovery: str,
    plan: FaultPlan,
    store: Callable[[Path], Store],
) -> int:
    """Execute a row; return the number of operations, or 0 if the child was killed."""
    folder.mkdir()
    os.environ[effect_log.EFFECTS_VARIABLE] = str(folder / "effects")
    os.environ[effect_log.TURNS_VARIABLE] = str(folder / "turns")

    def make_store(clock: ManualClock) -> Store:
        return SharedTimeStore(store(folder / "store"), clock)

    scenario = row(RunEnvironment(folder), recovery, make_store)
    scenario.before()

    def die() -> None:
        store = FaultyStore(scenario.store, plan)
        scenario.on(store).dies()
        (folder / "count").write_text(str(len(store.operations)), "utf-8")

    code = run_in_child(die)
    assert code in (0, KILLED)
    scenario.then()
    scenario.finish()
    return 0 if code else int((folder / "count").read_text("utf-8"))


@pytest.mark.parametrize("store", [FileStore, SQLiteStore])
@pytest.mark.parametrize("row", SCENARIOS, ids=lambda each: each.__name__)
def test_others_go_on_after_a_kill(
    row: type[Scenario],
    store: Callable[[Path], Store],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The promise of the row holds, and no marker and no wait is left behind."""
    check_kills(row, store, tmp_path, monkeypatch)


@pytest.mark.parametrize("row", SCENARIOS, ids=lambda each: each.__name__)
def test_others_go_on_after_a_kill_on_postgres(
    row: type[Scenario],
    postgres: PostgresServer,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A forked child has connections of its own, which end with it."""
    urls: dict[Path, str] = {}

    def store(path: Path) -> Store:
        if path not in urls:
            urls[path] = postgres.new_url()
        return open_store(urls[path])

    check_kills(row, store, tmp_path, monkeypatch)


def check_kills(
    row: type[Scenario],
    store: Callable[[Path], Store],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Kill a process at one operation of a row, or with TORTURE=1 at each."""
    for name in (effect_log.EFFECTS_VARIABLE, effect_log.TURNS_VARIABLE):
        monkeypatch.setenv(name, "")
    count = execute(row, tmp_path / "whole", row.recoveries[0], no_faults, store)
    assert count > row.more_than
    seed = os.environ.get("TORTURE_SEED", "1")
    rng = random.Random(f"{seed} {row.__name__}")  # noqa: S311 - not for secrets
    moments: tuple[Moment, ...] = ("before", "after")
    points: list[tuple[int, Moment]] = [
        (n, moment) for n in range(1, count + 1) for moment in moments
    ]
    # Frames that work at the same time vary in the number of their operations.
    certain = points[:count]
    for point in points if RUNS_ALL_CASES else [rng.choice(certain)]:
        number, moment = point
        recovery = rng.choice(row.recoveries)
        folder = tmp_path / f"{moment} {number}"
        ended = execute(row, folder, recovery, at(number, killed(moment)), store)
        assert not ended or point not in certain
