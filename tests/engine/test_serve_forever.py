"""`serve_forever`: resumes due runs, and stops on a signal."""

from __future__ import annotations

import asyncio
import signal
from functools import partial
from typing import Any

import pytest

from continuations import (
    Agent,
    Approve,
    AsyncRunner,
    Runner,
    Suspended,
    ToolContext,
    tool,
)
from continuations.engine.sweep.sweep_loop import run_sweep_loop
from continuations.engine.sweep.sweeping import DueRuns, RunReport
from continuations.errors import InvalidInput, StoreUnavailable
from continuations.ledger.objects import Objects
from continuations_storage import MemoryStore
from continuations_storage.faults import Fault, FaultyStore, Operation, refused
from tests.engine import agent_builders
from tests.run_environment import RunEnvironment, wait_until
from tests.scripts import Script, call


def is_finished(runner: Runner, run_id: str) -> bool:
    """Tell whether a run has come to its end."""
    return runner.look(run_id).status == "finished"


def statuses(environment: RunEnvironment) -> list[str]:
    """Return how the runs r0, r1, ... stand."""
    runner = agent_builders.make_runner({}, store=environment.store)
    return [runner.look(run_id).status for run_id in ("r0", "r1", "r2")]


def test_serve_forever_resumes_decided_runs_until_sigterm(
    environment: RunEnvironment,
) -> None:
    """SIGTERM suspends three runs, and another process ends them."""
    script: Script = {
        "go": [
            [call("pay", what="1", then="sleep:1")],
            *[[call("act", what=str(number))] for number in range(2, 5)],
            "end",
        ],
    }
    # Given a server, and runs that a person approves
    server = environment.spawn("serve", "0.05", script=script)
    waits = [environment.start(script, f"r{n}")["waits"][0] for n in range(3)]
    # In this process: the three tools must begin within the second that each takes.
    decider = Runner([], store=environment.store)
    for wait in waits:
        decider.decide(wait["id"], Approve(by="kim"))

    # When it gets SIGTERM while the first tools still run
    wait_until(lambda: len(environment.effect_names()) == 3)
    server.send(signal.SIGTERM)

    # Then it ends normally, and every run is suspended
    assert server.wait_for_result() == {"served": True}
    assert ["suspended"] * 3 == statuses(environment)
    assert ["pay 1"] * 3 == environment.effect_names()

    # And another server continues them at once, without waiting for a claim to end
    other = environment.spawn("serve", "0.05", script=script)
    wait_until(lambda: ["finished"] * 3 == statuses(environment))
    other.send(signal.SIGINT)
    assert other.wait_for_result() == {"served": True}
    assert sorted(["pay 1", "act 2", "act 3", "act 4"] * 3) == sorted(
        environment.effect_names()
    )


async def test_serve_forever_works_on_at_most_at_once_runs(store: MemoryStore) -> None:
    """`max_concurrent_runs` limits the runs in progress."""
    at_once, most = 0, 0
    gate = asyncio.Event()

    @tool
    async def work(what: str) -> str:
        """Work."""
        nonlocal at_once, most
        at_once += 1
        most = max(most, at_once)
        await asyncio.wait_for(gate.wait(), 60)
        at_once -= 1
        return what

    script: Script = {"go": [[call("work", what="x")], "end"]}
    runner = AsyncRunner(agent_builders.make_boss(script, work), store=store)
    for number in range(7):
        outcome = await runner.start(
            "go", run_id=f"r{number}", should_pause=lambda: True
        )
        assert isinstance(outcome, Suspended)
    stop = asyncio.Event()
    serving = runner.serve_forever(interval=0.01, max_concurrent_runs=3, stop=stop)
    task = asyncio.create_task(serving)
    await asyncio.to_thread(wait_until, lambda: at_once == 3)
    await asyncio.sleep(0.1)
    assert 3 == most
    gate.set()
    looking = Runner([], store=store)
    for number in range(7):
        await asyncio.to_thread(wait_until, partial(is_finished, looking, f"r{number}"))
    stop.set()
    await task
    assert 3 == most


async def test_runs_claimed_by_others_do_not_count_for_at_once() -> None:
    """A second machine finds the run that a busy machine cannot start."""
    gate = asyncio.Event()
    begun: list[str] = []

    @tool
    async def work(what: str, ctx: ToolContext) -> str:
        """Work, for long if it is not quick."""
        begun.append(ctx.run_id)
        if ctx.run_id != "quick":
            await asyncio.wait_for(gate.wait(), 60)
        return what

    script: Script = {"go": [[call("work", what="x")], "end"]}
    store = MemoryStore()
    runner = AsyncRunner(agent_builders.make_boss(script, work), store=store)
    for run_id in ("a1", "a2", "a3", "a4"):
        await runner.start("go", run_id=run_id, should_pause=lambda: True)
    stop = asyncio.Event()
    one = runner.serve_forever(interval=0.01, max_concurrent_runs=4, stop=stop)
    tasks = [asyncio.create_task(one)]
    await asyncio.to_thread(wait_until, lambda: len(begun) == 4)

    # When another run is due, behind those that the first machine holds
    await runner.start("go", run_id="quick", should_pause=lambda: True)
    other = AsyncRunner(agent_builders.make_boss(script, work), store=store)
    two = other.serve_forever(interval=0.01, max_concurrent_runs=2, stop=stop)
    tasks.append(asyncio.create_task(two))

    # Then the second server resumes it while the others are held
    looking = Runner([], store=store)
    await asyncio.to_thread(wait_until, partial(is_finished, looking, "quick"))
    assert ["a1", "a2", "a3", "a4"] == sorted(begun[:4])
    stop.set()
    gate.set()
    await asyncio.gather(*tasks)
    assert 5 == len(begun)


async def test_serve_forever_survives_store_errors_and_foreign_runs(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Errors of the store are logged, and a run of another service once, quietly."""
    caplog.set_level("INFO")
    script: Script = {"go": [[call("work")], "end"]}
    listings = 0

    @tool
    def work() -> str:
        """Work."""
        return "done"

    def plan(operation: Operation) -> Fault | None:
        nonlocal listings
        if operation.verb == "keys" and operation.key == "markers/":
            listings += 1
            return refused() if listings < 3 else None
        return None

    inner = MemoryStore()
    agents: list[Any] = [agent_builders.make_boss(script, work)]
    runner = AsyncRunner(agents, store=inner)
    await runner.start("go", run_id="good", should_pause=lambda: True)
    ghost = AsyncRunner(Agent("ghost", model="m"), store=inner)
    await ghost.start("go", run_id="bad", should_pause=lambda: True)
    caplog.clear()
    looking = Runner([], store=inner)
    store = FaultyStore(inner, plan)
    with pytest.raises(StoreUnavailable):
        await AsyncRunner(agents, store=store).sweep()
    stop = asyncio.Event()
    serving = AsyncRunner(agents, store=store).serve_forever(interval=0.01, stop=stop)
    task = asyncio.create_task(serving)
    await asyncio.to_thread(wait_until, partial(is_finished, looking, "good"))
    await asyncio.to_thread(wait_until, lambda: "run bad" in caplog.text)
    stop.set()
    await task
    assert listings > 2
    assert "could not be listed" in caplog.text
    told = [each for each in caplog.records if "run bad" in each.getMessage()]
    assert [("INFO", True)] == [
        (each.levelname, "left to other processes" in each.getMessage())
        for each in told
    ]


def test_invalid_serve_forever_options_are_rejected() -> None:
    """Both options must be positive."""
    runner = agent_builders.make_runner({})
    for every, at_once in ((0.0, 1), (float("nan"), 1), (1.0, 0)):
        with pytest.raises(InvalidInput):
            runner.serve_forever(interval=every, max_concurrent_runs=at_once)


async def test_run_in_progress_waits_for_no_second_slot() -> None:
    """It is due again while it runs. The loop goes on and looks for other runs."""

    class BusySweeper:
        """Has one due run, which goes on until the third look."""

        def __init__(self) -> None:
            self.looks = self.tries = 0
            self.looked_again = asyncio.Event()

        objects, retention = Objects(MemoryStore()), None

        async def due_runs(self) -> DueRuns:
            self.looks += 1
            if self.looks == 3:
                self.looked_again.set()
            return DueRuns({"r1": []}, None)

        async def try_run(self, run_id: str, due_markers: list[Any]) -> RunReport:
            del run_id, due_markers
            self.tries += 1
            await self.looked_again.wait()
            stop.set()
            return RunReport()

    stop = asyncio.Event()

    sweeper: Any = BusySweeper()
    async with asyncio.timeout(10):
        await run_sweep_loop(sweeper, stop, interval=0.001, max_concurrent_runs=1)
    tries: int = sweeper.tries
    assert 1 == tries
