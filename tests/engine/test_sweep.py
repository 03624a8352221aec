"""Sweeps resume due runs and leave no marker that is not needed."""

from __future__ import annotations

from typing import Any

import pytest

from continuations import ApprovalPolicy, Approve, Finished, Runner, Suspended, tool
from continuations.errors import ModelError
from continuations_storage.faults import Crash, FaultyStore, crashed, on
from tests import effect_log
from tests.engine import agent_builders
from tests.engine.agent_builders import root_tool_results
from tests.engine.shared_store import SharedStore
from tests.run_environment import RunEnvironment
from tests.scripts import Script, call


@tool(approval=ApprovalPolicy(expires_after=3600))
def pay() -> str:
    """Pay."""
    effect_log.append_effect("pay")
    return "paid"


@tool
def work() -> str:
    """Work."""
    effect_log.append_effect("work")
    return "worked"


SCRIPT: Script = {"go": [[call("pay")], "end"], "work": [[call("work")], "end"]}


class Sweepers(SharedStore):
    """A store, and the machines that work and sweep."""

    def runner(
        self, store: Any = None, script: Script = SCRIPT, **options: Any
    ) -> Runner:
        """Return a runner of this store and clock."""
        agent = agent_builders.make_boss(script, pay, work)
        return self.machine(store=store, agents=agent, **options)

    def remaining_keys(self) -> list[str]:
        """Return the markers and waits."""
        return self.keys("markers/", "waits/")


def test_sweep_resumes_a_decided_run(environment: RunEnvironment) -> None:
    """In another process, at any later time, once."""
    script: Script = {
        "go": [[call("left", input="A")], "end"],
        "A": [[call("pay", what="x")], "A"],
    }
    [wait] = environment.start(script)["waits"]
    assert (0, []) == _sweep(environment, script)
    environment.approve(wait)

    assert (1, ["Finished"]) == _sweep(environment, script)
    assert ["pay x"] == environment.effect_names()
    assert (0, []) == _sweep(environment, script)
    assert [] == environment.keys("markers", "waits")


def _sweep(environment: RunEnvironment, script: Script) -> tuple[int, list[str]]:
    result = environment.run("sweep", script=script)
    assert {} == result["failed"]
    return result["looked"], [outcome["kind"] for outcome in result["resumed"]]


def test_nothing_is_left_after_an_end() -> None:
    """After ordinary resumes `markers/` and `waits/` are empty at once."""
    shared = Sweepers()
    runner = shared.runner()
    for run_id in ("a", "b", "c"):
        assert isinstance(runner.start("go", run_id=run_id), Suspended)
        assert isinstance(runner.start("work", run_id=f"{run_id}2"), Finished)
    for summary in list(runner.waiting()):
        runner.decide(summary.id, Approve())
        assert isinstance(runner.resume(summary.run_id), Finished)

    assert [] == shared.remaining_keys()


def test_an_abandoned_run_is_taken_over_when_its_claim_is_over() -> None:
    """Not before; its call is unknown, and its wait is listed."""
    shared = Sweepers()
    dying = FaultyStore(
        shared.store, on("create", crashed("before"), prefix="runs/", skip=2)
    )
    with pytest.raises(Crash):
        shared.runner(dying).start("work", run_id="r")
    assert ["work "] == effect_log.names()

    # When it is swept too early, nothing happens
    shared.clock.seconds = 29
    assert () == shared.runner().sweep().resumed
    # When it is swept late, by a process that only sweeps
    shared.clock.seconds = 31
    [outcome] = shared.runner().sweep().resumed

    assert isinstance(outcome, Suspended)
    assert ["unknown"] == [wait.kind for wait in outcome.waits]
    assert [wait.id for wait in outcome.waits] == [
        s.id for s in shared.runner().waiting()
    ]
    assert ["work "] == effect_log.names()


def test_sweep_resumes_a_run_after_its_deadline() -> None:
    """A sweep is the clock of a deadline."""
    shared = Sweepers()
    shared.runner().start("go", run_id="r")

    shared.clock.seconds = 3599
    assert () == shared.runner().sweep().resumed
    shared.clock.seconds = 3601
    [outcome] = shared.runner().sweep().resumed

    assert isinstance(outcome, Finished)
    assert root_tool_results(outcome)[0].startswith("EXPIRED")
    assert [] == shared.remaining_keys()
    assert [] == effect_log.effects()


def test_marker_without_a_run_is_examined_less_and_less_often() -> None:
    """A guard without a run costs less and less."""
    shared = Sweepers()
    dying = FaultyStore(shared.store, on("create", crashed("before"), prefix="runs/"))
    with pytest.raises(Crash):
        shared.runner(dying).start("go", run_id="r")
    assert 1 == len(shared.remaining_keys())

    looks = 0
    for _ in range(24 * 60):
        shared.clock.seconds += 60
        looks += shared.runner().sweep().runs_checked
    assert looks < 60
    assert len(shared.remaining_keys()) <= 1


def test_sweep_during_a_start_delays_the_run_by_two_seconds() -> None:
    """It sees the marker before version 1."""
    shared = Sweepers()
    dying = FaultyStore(shared.store, on("create", crashed("before"), prefix="runs/"))
    with pytest.raises(Crash):
        shared.runner(dying).start("go", run_id="r", work=False)

    assert 1 == shared.runner().sweep().runs_checked
    assert 0 == shared.runner().sweep().runs_checked
    shared.clock.seconds += 3
    assert 1 == shared.runner().sweep().runs_checked
    shared.clock.seconds += 3
    assert 0 == shared.runner().sweep().runs_checked
    shared.clock.seconds += 60
    assert 1 == shared.runner().sweep().runs_checked


def test_sweep_continues_after_an_error_of_one_run() -> None:
    """The error is reported, the run is postponed, and the others progress."""
    shared = Sweepers()
    script: Script = {"go": SCRIPT["go"], "bad": [[call("pay")], ModelError("down")]}
    runner = shared.runner(script=script)
    for run_id, text in (("a", "bad"), ("b", "go"), ("c", "bad"), ("d", "go")):
        runner.start(text, run_id=run_id)
    for summary in list(runner.waiting()):
        runner.decide(summary.id, Approve())

    swept = runner.sweep()

    assert {"a": ModelError, "c": ModelError} == {
        k: type(e) for k, e in swept.errors.items()
    }
    assert {"b", "d"} == {outcome.run_id for outcome in swept.resumed}
    assert 4 == len(effect_log.names())

    # When the model replies again
    shared.clock.seconds += 3600
    swept = shared.runner(script={**SCRIPT, "bad": SCRIPT["go"]}).sweep()
    assert {"a", "c"} == {outcome.run_id for outcome in swept.resumed}
    assert (4, []) == (len(effect_log.names()), shared.remaining_keys())


def test_a_model_that_stays_down_does_not_pile_up_markers() -> None:
    """A run has few markers, however often it failed."""
    shared = Sweepers()
    runner = shared.runner(script={"go": [ModelError("down")]})
    with pytest.raises(ModelError):
        runner.start("go", run_id="r")
    tries = 0
    for _ in range(24 * 60):
        shared.clock.seconds += 60
        tries += len(runner.sweep().errors)
        assert 1 == len(shared.remaining_keys())

    # The delay doubles from a minute on: 1 + 2 + 4 + ... + 512 minutes.
    assert 10 == tries
    # The marker goes with the end, although it is due much later.
    assert isinstance(shared.runner(script={"go": ["end"]}).resume("r"), Finished)
    assert [] == shared.remaining_keys()


def test_sweep_creates_missing_wait_objects() -> None:
    """`decide` is exact at once, the list of waits after a sweep."""
    shared = Sweepers()
    dying = FaultyStore(shared.store, on("create", crashed("before"), prefix="waits/"))
    with pytest.raises(Crash):
        shared.runner(dying).start("go", run_id="r")
    runner = shared.runner()
    assert [] == list(runner.waiting())
    [wait] = runner.look("r").waits

    # When it is swept
    shared.clock.seconds = 60
    runner.sweep()

    # Then it is listed, and no marker but its deadline's is left
    assert [wait.id] == [summary.id for summary in runner.waiting()]
    assert 1 == sum(key.startswith("markers/") for key in shared.remaining_keys())
    runner.decide(wait.id, Approve())
    assert isinstance(runner.resume("r"), Finished)
    assert ["pay "] == effect_log.names()


def test_a_thousand_runs_are_swept() -> None:
    """Markers may fill more than one page."""
    shared = Sweepers()
    runner = shared.runner()
    count = 1100
    store = shared.store
    for number in range(count):
        key = f"markers/{number:013d}-r-0-{number:08d}@r{number}"
        assert "" == (store._bodies.setdefault(key, b"").decode())  # pyright: ignore[reportPrivateUsage]
        store._sorted.append(key)  # pyright: ignore[reportPrivateUsage]
    runner.start("go", run_id="r")
    runner.decide(next(iter(runner.waiting())).id, Approve())

    swept = runner.sweep()

    assert count + 1 == swept.runs_checked
    assert ["r"] == [outcome.run_id for outcome in swept.resumed]
