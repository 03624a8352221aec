"""A sweep of many runs: poison runs, runs of other services, concurrency and costs."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Any

import pytest

from continuations import (
    Agent,
    Approve,
    AsyncRunner,
    ContinuationsError,
    Finished,
    Runner,
    tool,
)
from continuations.errors import AgentChanged, InvalidInput, NewerFormat
from continuations.ledger import layout
from continuations.wire.envelope import object_digest
from continuations_storage import MemoryStore, Store
from continuations_storage.faults import FaultyStore
from tests import effect_log
from tests.clocks import ManualClock
from tests.engine.agent_builders import make_boss
from tests.engine.payment_agent import pay, single_wait
from tests.engine.shared_store import SharedStore
from tests.own_task import cancel_own_task
from tests.scripts import Script, call

SCRIPT: Script = {
    "go": [[call("pay")], "end"],
    "poison": [[call("pay")], [call("poison")], "end"],
}


class Services(SharedStore):
    """A store that several services share."""

    def runner(self, *tools: Any, **options: Any) -> Runner:
        """Return a runner of the agent `boss`."""
        return self.machine(agents=make_boss(SCRIPT, pay, *tools), **options)

    def ghost(self, store: Store | None = None) -> Runner:
        """Return a runner of another service, which has the agent `ghost` only."""
        return self.machine(store=store, agents=Agent("ghost", model="m"))

    def decide(self, runner: Runner, *run_ids: str, task: str = "go") -> None:
        """Start runs and approve their calls."""
        for run_id in run_ids:
            outcome = runner.start(task, run_id=run_id)
            runner.decide(single_wait(outcome).id, Approve())


@pytest.fixture
def shared() -> Services:
    """Return a store, with a log of effects."""
    return Services()


# Poison runs --------------------------------------------------------------------------


@tool
async def poison() -> str:
    """Cancel the own task."""
    return str(await cancel_own_task())


@tool(name="poison", approval=cancel_own_task)
def poison_policy() -> str:
    """Wait for an approval, whose policy cancels the task of the run."""
    return "never"


@pytest.mark.parametrize("poisonous", [poison, poison_policy], ids=["tool", "policy"])
def test_poison_run_does_not_stop_the_others(shared: Services, poisonous: Any) -> None:
    """Code that cancels its own task is reported; the run is tried again, later."""
    runner = shared.runner(poisonous)
    shared.decide(runner, "bad1", "bad2", task="poison")
    shared.decide(runner, "a", "b", "c")

    swept = runner.sweep(max_concurrent_runs=2)

    assert {"a", "b", "c"} == {outcome.run_id for outcome in swept.resumed}
    assert {"bad1", "bad2"} == swept.errors.keys()
    for run_id, error in swept.errors.items():
        assert type(error) is ContinuationsError
        assert run_id in str(error)
        assert isinstance(error.__cause__, asyncio.CancelledError)
    assert 5 == len(effect_log.names())

    # And it is not tried again at once, but later, less and less often
    tries = 0
    for _ in range(60):
        shared.clock.seconds += 60
        tries += len(runner.sweep().errors)
    assert tries <= 2 * 8


def test_error_of_the_engine_while_it_resumes_one_run_is_reported(
    shared: Services, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The report names the run, and the others go on."""
    runner = shared.runner()
    shared.decide(runner, "a", "bad", "b")
    from continuations.engine.worker.worker import Worker  # noqa: PLC0415

    original = Worker.resume

    async def resume(self: Worker) -> Any:
        if self.run_id == "bad":
            raise OverflowError("date value out of range")
        return await original(self)

    with monkeypatch.context() as patched:
        patched.setattr(Worker, "resume", resume)
        swept = runner.sweep()

    assert {"a", "b"} == {outcome.run_id for outcome in swept.resumed}
    assert "OverflowError" in str(swept.errors["bad"])
    assert 0 == runner.sweep().runs_checked
    shared.clock.seconds += 61
    assert ["bad"] == [outcome.run_id for outcome in runner.sweep().resumed]
    assert [] == shared.markers()


@pytest.mark.parametrize("error", [SystemExit(3), asyncio.CancelledError()])
def test_serve_forever_survives_a_poison_run(
    shared: Services, error: BaseException, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The loop goes on, whatever one run raises."""
    from continuations.engine.worker.worker import Worker  # noqa: PLC0415

    shared.decide(shared.runner(), "bad", "good")
    original = Worker.resume

    async def resume(self: Worker) -> Any:
        if self.run_id == "bad":
            raise error
        return await original(self)

    monkeypatch.setattr(Worker, "resume", resume)

    async def scenario() -> None:
        runner = shared.runner().async_runner
        stop = asyncio.Event()
        serving = asyncio.create_task(
            runner.serve_forever(interval=0.01, stop=stop, max_concurrent_runs=1)
        )
        while (await runner.look("good")).status != "finished":
            await asyncio.sleep(0.01)
            assert not serving.done()
        stop.set()
        await serving

    asyncio.run(asyncio.wait_for(scenario(), 60))


def test_cancelled_sweep_stops_its_runs_and_releases_their_claims() -> None:
    """The cancellation of the sweep itself is no error of a run."""

    async def scenario() -> None:
        begun = asyncio.Event()

        class SlowModel:
            name = "slow"

            async def reply(self, request: object) -> Any:
                del request
                begun.set()
                await asyncio.sleep(60)

        store = MemoryStore()
        agent = Agent("boss", model=SlowModel())
        runner = AsyncRunner(agent, store=store)
        await runner.start("go", run_id="r", should_pause=lambda: True)
        sweep = asyncio.create_task(runner.sweep())
        await begun.wait()

        sweep.cancel()
        with pytest.raises(asyncio.CancelledError):
            await sweep

        assert (await runner.look("r")).status == "suspended"

    asyncio.run(asyncio.wait_for(scenario(), 60))


# Runs of other services ---------------------------------------------------------------


def test_service_without_the_agent_postpones_no_run(shared: Services) -> None:
    """The service with the agent resumes the run at once."""
    shared.decide(shared.runner(), "r1")
    before = shared.markers()

    swept = shared.ghost().sweep()

    assert ({}, ["r1"]) == (swept.errors, list(swept.skipped))
    assert isinstance(swept.skipped["r1"], AgentChanged)
    assert before == shared.markers()
    [outcome] = shared.runner().sweep().resumed
    assert isinstance(outcome, Finished)


def test_sweep_without_agents_postpones_no_run(shared: Services) -> None:
    """As `continuations sweep` without --app."""
    shared.decide(shared.runner(), "r1")
    before = shared.markers()

    swept = shared.machine(agents=[]).sweep()

    assert ["r1"] == list(swept.skipped)
    assert before == shared.markers()


def test_run_of_a_newer_format_is_left_to_newer_code(shared: Services) -> None:
    """Old code beside new code does not delay the new code's runs."""
    shared.decide(shared.runner(), "r1")
    key = asyncio.run(shared.store.keys(layout.versions_prefix("r1"), limit=1))[0]
    body = asyncio.run(shared.store.read(key))
    newer = body[:4] + (99).to_bytes(2, "big") + body[6:-16]
    asyncio.run(shared.store.delete(key))
    asyncio.run(shared.store.create(key, newer + object_digest(newer)))
    before = shared.markers()

    swept = shared.runner().sweep()

    assert isinstance(swept.skipped["r1"], NewerFormat)
    assert ({}, before) == (swept.errors, shared.markers())


def test_foreign_runs_cost_a_service_nothing_between_its_looks(
    shared: Services,
) -> None:
    """A process remembers which runs are not its own."""
    foreign = [f"r{number}" for number in range(20)]
    shared.decide(shared.runner(), *foreign)
    counting = FaultyStore(shared.store)
    ghost = shared.ghost(counting)
    assert 20 == len(ghost.sweep().skipped)

    counting.operations.clear()
    for _ in range(59):
        shared.clock.seconds += 1
        assert {} == ghost.sweep().skipped
    assert 59 == len(counting.operations)  # one listing for each sweep

    # A minute later it looks again, and names them again
    shared.clock.seconds += 1
    assert 20 == len(ghost.sweep().skipped)


def test_new_decision_of_a_skipped_run_is_looked_at_at_once(shared: Services) -> None:
    """The reason to leave the run alone may be gone."""
    shared.decide(shared.runner(), "r1")
    ghost = shared.ghost()
    ghost.sweep()
    shared.runner().send("r1", "hello")

    assert ["r1"] == list(ghost.sweep().skipped)


def test_foreign_runs_at_the_front_do_not_starve_own_runs(shared: Services) -> None:
    """Also if each process lives for one short sweep, as a function does."""
    foreign = [f"r{number:02}" for number in range(60)]
    shared.decide(shared.runner(), *foreign)
    agent = Agent("ghost", tools=[pay], model=make_boss(SCRIPT, pay).model)
    shared.decide(shared.machine(agents=agent), "zz")

    for _ in range(200):
        looks = 0

        def time_is_up() -> bool:
            nonlocal looks
            looks += 1
            return looks > 10

        ghost = shared.machine(agents=agent)
        ghost.sweep(should_pause=time_is_up, max_concurrent_runs=1)
        run = ghost.look("zz")
        if len(run.waits) == 0:
            break
    else:
        pytest.fail("the own run was not reached in 200 sweeps")


# Concurrency --------------------------------------------------------------------------


@pytest.mark.parametrize("limit", [1, 3])
async def test_sweep_works_on_several_runs_at_the_same_time(limit: int) -> None:
    """`max_concurrent_runs` is the bound; slow runs do not add up."""
    at_once, most = 0, 0

    @tool
    async def work() -> str:
        """Work until as many runs work as may."""
        nonlocal at_once, most
        at_once += 1
        most = max(most, at_once)
        for _ in range(20):
            await asyncio.sleep(0)
        at_once -= 1
        return "done"

    runner = AsyncRunner(
        make_boss({"go": [[call("work")], "end"]}, work), store=MemoryStore()
    )
    for number in range(7):
        await runner.start("go", run_id=f"r{number}", should_pause=lambda: True)
    swept = await runner.sweep(max_concurrent_runs=limit)
    assert 7 == len(swept.resumed)
    assert limit == most


@pytest.mark.parametrize("limit", [0, -1, 1.5, True, "8", None])
def test_invalid_number_of_concurrent_runs_is_rejected(
    shared: Services, limit: Any
) -> None:
    with pytest.raises(InvalidInput, match="max_concurrent_runs must be an integer"):
        shared.runner().sweep(max_concurrent_runs=limit)


# Costs --------------------------------------------------------------------------------


def _requests_of_approvals(count: int) -> Counter[str]:
    """Return the requests of sweeps that resume a run after each of its approvals."""
    clock = ManualClock()
    inner = MemoryStore(clock.now)
    agent = make_boss({"go": [[call("pay")] * count, "end"]}, pay)
    Runner(agent, store=inner, clock=clock).start("go", run_id="r")
    counting = FaultyStore(inner)
    for summary in list(Runner([], store=inner, clock=clock).waiting()):
        Runner([], store=inner, clock=clock).decide(summary.id, Approve())
        clock.seconds += 1
        swept = Runner(agent, store=counting, clock=clock).sweep()
        assert 1 == len(swept.resumed)
    assert [] == asyncio.run(inner.keys("markers/")) + asyncio.run(inner.keys("waits/"))
    return Counter(operation.verb for operation in counting.operations)


def test_sweeps_of_many_approvals_delete_and_create_a_fixed_number_each() -> None:
    """The waits that were decided before are not withdrawn again by each sweep."""
    small, large = _requests_of_approvals(10), _requests_of_approvals(40)

    for verb in ("create", "delete"):
        per_approval = (large[verb] - small[verb]) / 30
        assert per_approval <= 6, (verb, small, large)
