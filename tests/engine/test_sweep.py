"""Sweeps resume due runs, many at a time, and leave no marker that is not needed."""

from __future__ import annotations

import asyncio
from collections import Counter
from contextlib import suppress
from dataclasses import replace
from datetime import datetime
from typing import Any

import pytest

from continuations import (
    Agent,
    ApprovalPolicy,
    Approve,
    AsyncRunner,
    ContinuationsError,
    Finished,
    Runner,
    Suspended,
    tool,
)
from continuations.errors import AgentChanged, InvalidInput, ModelError, NewerFormat
from continuations.ledger import layout, markers
from continuations.ledger.decisions.decisions import build_decision, record_decision
from continuations.ledger.index.run_index import INDEX_PREFIX, LIVE_PREFIX
from continuations.ledger.objects import Objects
from continuations.wire.envelope import object_digest
from continuations_storage import MemoryStore, Store
from continuations_storage.faults import Crash, FaultyStore, at, crashed, on
from tests import effect_log
from tests.clocks import ManualClock
from tests.engine import agent_builders, payment_agent
from tests.engine.agent_builders import make_boss, root_tool_results, text_tool
from tests.engine.payment_agent import PAY_SCRIPT, make_pay_tool, start_and_get_wait
from tests.engine.shared_store import SharedStore
from tests.ledger.fake_clock import make_ulid
from tests.ledger.interleaving import InterleavingStore
from tests.outcomes import single_wait
from tests.own_task import cancel_own_task
from tests.run_environment import RunEnvironment
from tests.scripts import Script, call
from tests.stores import StoreWithListingTime

pay = text_tool("pay", "paid", logs=True, approval=ApprovalPolicy(expires_after=3600))
work = text_tool("work", "worked", logs=True)
SCRIPT: Script = {"go": [[call("pay")], "end"], "work": [[call("work")], "end"]}


class Sweepers(SharedStore):
    """A store, and the machines that work and sweep."""

    def runner(
        self, store: Any = None, script: Script = SCRIPT, **options: Any
    ) -> Runner:
        agent = agent_builders.make_boss(script, pay, work)
        return self.machine(store=store, agents=agent, **options)

    def remaining_keys(self) -> list[str]:
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


# Many runs --------------------------------------------------------------------


MANY_SCRIPT: Script = {
    "go": [[call("pay")], "end"],
    "poison": [[call("pay")], [call("poison")], "end"],
}


class Services(SharedStore):
    """A store that several services share."""

    def runner(self, *tools: Any, **options: Any) -> Runner:
        return self.machine(
            agents=make_boss(MANY_SCRIPT, payment_agent.pay, *tools), **options
        )

    def ghost(self, store: Store | None = None) -> Runner:
        """Return a runner of another service, which has the agent `ghost` only."""
        return self.machine(store=store, agents=Agent("ghost", model="m"))

    def decide(self, runner: Runner, *run_ids: str, task: str = "go") -> None:
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
    agent = Agent(
        "ghost", tools=[payment_agent.pay], model=make_boss(MANY_SCRIPT).model
    )
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
    agent = make_boss({"go": [[call("pay")] * count, "end"]}, payment_agent.pay)
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


# Workers at the same time -----------------------------------------------------


class DecisionInProgress:
    """A wait, the marker of its next decision, and the processes that follow."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.store = StoreWithListingTime(self.clock)
        self.agent = make_boss(PAY_SCRIPT, make_pay_tool())
        self.runner = Runner(self.agent, store=self.store, clock=self.clock)
        wait = start_and_get_wait(self.runner)
        ulid = make_ulid(1, self.clock.now())
        self._marker = markers.for_decision(wait.id, ulid)
        said = build_decision(
            wait, Approve(by="kim"), now=self.clock.now(), decision_id=ulid
        )
        self._decision = replace(said, marker=self._marker.key)
        asyncio.run(markers.create(Objects(self.store), self._marker))

    async def decide_and_claim(self, operations: int) -> None:
        """Let the slow decider decide, and a worker die after so many operations."""
        await record_decision(Objects(self.store), self._decision)
        dying = FaultyStore(self.store, at(operations, crashed("after")))
        worker = AsyncRunner(self.agent, store=dying, clock=self.clock)
        with suppress(Crash):
            await worker.resume("r1")

    def sweep(self) -> None:
        """Sweep several times, and approve the open waits."""
        for _ in range(3):
            self.clock.seconds += 120
            self.runner.sweep()
            for summary in list(self.runner.waiting()):
                self.runner.decide(summary.id, Approve(by="kim"))


@pytest.mark.parametrize("operations", range(3, 9))
def test_a_marker_that_guards_a_claim_outlives_a_sweep(operations: int) -> None:
    """The marker of a decision also guards the next claim.

    A sweep finds the marker while the run cannot progress. Before the sweep checks
    whether the marker is needed, another process claims the run and dies.
    """
    for number in range(1, 12):
        race = DecisionInProgress()

        async def interfere(race: DecisionInProgress = race) -> None:
            await race.decide_and_claim(operations)

        interleaved = InterleavingStore(race.store, number, interfere)
        Runner(race.agent, store=interleaved, clock=race.clock).sweep()
        if interleaved.request_count < number:
            assert number > 4
            return
        race.sweep()

        assert isinstance(race.runner.resume("r1"), Finished), number
        assert [] == asyncio.run(race.store.keys("markers/")), number
    pytest.fail("it was never left alone")


@pytest.mark.parametrize("operations", [3, 6])
def test_run_that_another_process_ends_during_a_sweep_is_listed(
    operations: int,
) -> None:
    """The process dies before it lists the run that it ended as cancelled.

    The sweep read an earlier version, so the marker of the request is all that leads to
    the run.
    """
    for number in range(1, 60):
        clock = ManualClock()
        store = StoreWithListingTime(clock)
        agent = make_boss(PAY_SCRIPT, make_pay_tool())
        runner = Runner(agent, store=store, clock=clock)
        start_and_get_wait(runner)
        dying = on("create", crashed("after"), prefix="runs/r1/in/stop")
        with suppress(Crash):
            Runner(agent, store=FaultyStore(store, dying), clock=clock).cancel("r1")

        async def interfere() -> None:
            faulty = FaultyStore(store, at(operations, crashed("after")))  # noqa: B023 - called in this round
            with suppress(Crash):
                await AsyncRunner(agent, store=faulty, clock=clock).resume("r1")  # noqa: B023

        interleaved = InterleavingStore(store, number, interfere)
        Runner(agent, store=interleaved, clock=clock).sweep()
        for _ in range(3):
            clock.seconds += 120
            runner.sweep()

        assert "cancelled" == runner.look("r1").status
        listed = asyncio.run(store.keys(INDEX_PREFIX))
        assert [f"{INDEX_PREFIX}ended/2026-01-01/r1"] == listed, number
        assert [] == asyncio.run(store.keys("markers/")), number
        assert [] == asyncio.run(store.keys("waits/")), number
        if interleaved.request_count < number:
            return
    pytest.fail("the sweep made more requests")


class StoreWithVisitor(InterleavingStore):
    """A store in which another process acts before the next key of a live run."""

    async def create(self, key: str, body: bytes) -> datetime | None:
        """Let the other process act first, once."""
        if key.startswith(LIVE_PREFIX) and self.request_count >= 0:
            self.request_count = -1000
            await self.other_actor()
        return await self.inner.create(key, body)


def test_a_slow_process_lists_no_wait_of_a_version_that_was_followed() -> None:
    """The process publishes the waits of a version whose worker died.

    Before it creates their objects, another process decides and resumes the run. Then
    the slow process dies: no marker would lead to an object that it left.
    """
    store, agent = MemoryStore(), make_boss(PAY_SCRIPT, make_pay_tool())
    dying = on("create", crashed("after"), prefix="waits/")
    with suppress(Crash):
        Runner(agent, store=FaultyStore(store, dying)).start("go", run_id="r1")
    [key] = asyncio.run(store.keys("waits/"))

    async def decide_and_resume() -> None:
        other = AsyncRunner(agent, store=store)
        await other.decide(key.removeprefix("waits/"), Approve(by="kim"))
        await other.resume("r1")

    slow = FaultyStore(
        StoreWithVisitor(store, 0, decide_and_resume),
        on("create", crashed("after"), prefix="waits/"),
    )
    with suppress(Crash):
        Runner(agent, store=slow).resume("r1")

    assert "finished" == Runner(agent, store=store).look("r1").status
    assert [] == asyncio.run(store.keys("waits/"))
