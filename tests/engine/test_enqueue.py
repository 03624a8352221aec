"""`start(work=False)` stores a run; a resume or a sweep of any process works on it."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Any

import pytest

from continuations import Finished, Runner, Suspended
from continuations.errors import RunBusy, RunExists
from continuations_storage import MemoryStore, Store
from continuations_storage.faults import Moment
from tests import effect_log, sample_app, scripts
from tests.clocks import ManualClock
from tests.crash_points import every_crash
from tests.run_environment import RunEnvironment
from tests.scripts import Script, call

SCRIPT: Script = {"go": [[call("act", what="1")], "end"]}


def make_runner(store: Store, **options: Any) -> Runner:
    """Return a runner of the sample application."""
    model = scripts.scripted_model(SCRIPT)
    return Runner(sample_app.make_agents(model), store=store, **options)


def all_keys(store: Store) -> list[str]:
    """Return every key of a store."""
    return asyncio.run(store.keys(""))


def test_enqueued_run_is_stored_and_nothing_ran(environment: RunEnvironment) -> None:
    outcome = make_runner(MemoryStore()).start("go", run_id="r1", work=False)

    assert isinstance(outcome, Suspended)
    assert (True, (), 1) == (
        outcome.paused,
        outcome.waits,
        outcome.continuation.version,
    )
    assert ([], []) == (environment.turns(), environment.effect_names())


def test_another_process_sweeps_an_enqueued_run(environment: RunEnvironment) -> None:
    """A fresh interpreter needs nothing but the store."""
    stored = environment.run("enqueue", "r1", "go", script=SCRIPT)
    [ended] = environment.run("sweep", script=SCRIPT)["resumed"]

    assert ("Suspended", True) == (stored["kind"], stored["paused"])
    assert ("Finished", "end") == (ended["kind"], ended["output"])
    assert ["act 1"] == environment.effect_names()


def test_resume_works_on_an_enqueued_run() -> None:
    runner = make_runner(MemoryStore())
    runner.start("go", run_id="r1", work=False)

    assert isinstance(runner.resume("r1"), Finished)
    assert ["act 1"] == effect_log.names()


def test_repeated_enqueue_writes_nothing_and_returns_the_outcome() -> None:
    """A job that is delivered twice is one run."""
    store = MemoryStore()
    runner = make_runner(store)
    runner.start("go", run_id="r1", work=False)
    before = all_keys(store)

    again = runner.start("go", run_id="r1", work=False)
    with pytest.raises(RunExists):
        runner.start("another task", run_id="r1", work=False)

    assert isinstance(again, Suspended)
    assert (True, before) == (again.paused, all_keys(store))
    runner.resume("r1")
    assert isinstance(runner.start("go", run_id="r1", work=False), Finished)
    assert ["act 1"] == effect_log.names()


async def test_enqueue_of_a_run_that_another_process_works_on_is_busy() -> None:
    store = MemoryStore()
    asking = asyncio.Event()

    class Slow:
        name = "slow"

        async def reply(self, request: object) -> Any:
            del request
            asking.set()
            await asyncio.Event().wait()

    slow = Runner(sample_app.make_agents(Slow()), store=store).async_runner
    working = asyncio.create_task(slow.start("go", run_id="r1"))
    await asking.wait()

    with pytest.raises(RunBusy):
        await slow.start("go", run_id="r1", work=False)
    working.cancel()
    with suppress(asyncio.CancelledError):
        await working


@pytest.mark.parametrize("moment", ["before", "after"])
def test_crash_at_every_operation_of_an_enqueue(
    environment: RunEnvironment, moment: Moment
) -> None:
    """The run does not exist, or sweeps alone bring it to its end."""
    stored = 0
    for point in every_crash(moment, more_than=4):
        (environment.folder / "effects").unlink(missing_ok=True)
        clock = ManualClock()
        store = MemoryStore(clock.now)

        # When the process dies at one operation
        with point.process(store) as dying:
            make_runner(dying, clock=clock).start("go", run_id="r1", work=False)

        # Then the client may enqueue it again, or only sweeps come
        exists = any(key.startswith("runs/") for key in all_keys(store))
        stored += exists
        runner = make_runner(store, clock=clock)
        if not exists:
            runner.start("go", run_id="r1", work=False)
        for _ in range(3):
            clock.seconds += 120
            assert {} == runner.sweep().errors

        # And it ends, with one effect, and no marker is left
        assert "finished" == runner.look("r1").status, dying.operations[-1]
        assert ["act 1"] == environment.effect_names()
        for _ in range(3):
            clock.seconds += 3600
            runner.sweep()
        left = [key for key in all_keys(store) if key.startswith("markers/")]
        assert [] == left, dying.operations[-1]

    assert stored > 1
