"""`on_cancel` is called at least once before the end is recorded, and never after."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import Any

import pytest

from continuations import (
    Agent,
    Answer,
    ApprovalPolicy,
    AsyncRunner,
    Deny,
    Fail,
    Failed,
    Finished,
    Runner,
    Suspended,
    ToolContext,
    Wait,
    ask,
    external,
    resume,
    run,
    sleep,
    tool,
)
from continuations.errors import AgentChanged, InvalidInput
from continuations.models.scripted import ScriptedModel, ToolCall
from continuations.tools import Tool, ToolWait
from continuations_storage import MemoryStore, Store
from continuations_storage.faults import Crash, Fault, FaultyStore, Operation, crashed
from tests.clocks import ManualClock
from tests.crash_points import CrashPoint, every_crash
from tests.engine.agent_builders import root_tool_results
from tests.outcomes import expect, single_wait

Stop = Callable[[str, ToolContext], Any]


class Jobs:
    """Jobs of another system, started by the deepest of three agents.

    Attributes:
        told: The document and the idempotency key of each call of `on_cancel`.
        started: The ids of the waits that the other system got.
    """

    def __init__(
        self,
        stop: Stop | None = None,
        wait: Callable[[], ToolWait[Any]] = lambda: external("scan", str),
    ) -> None:
        self.clock = ManualClock()
        self.store = MemoryStore()
        self.told: list[tuple[str, str]] = []
        self.started: list[str] = []
        self.contexts: list[ToolContext] = []
        self._stop = stop
        self._wait = wait

    def runner(
        self, store: Store | None = None, *, agents: Any = None, **options: Any
    ) -> Runner[Any]:
        return Runner(
            self.boss() if agents is None else agents,
            store=self.store if store is None else store,
            clock=self.clock,
            **options,
        )

    def wait_until_parked(self) -> None:
        """Wait, in the thread of a tool, until the wait of the job is stored."""
        while not self.runner(agents=[]).look("r1").waits:
            time.sleep(0.005)

    def boss(self, *, cancels: bool = True) -> Agent:
        """Return boss > hr > clerk; the clerk has the tool."""
        clerk = Agent(
            "clerk",
            tools=[self.scan(cancels=cancels)],
            model=ScriptedModel([ToolCall("scan", {"document": "a"}), "scanned"]),
        )
        hr = Agent("hr", tools=[clerk], model=_calls("clerk"))
        return Agent("boss", tools=[hr], model=_calls("hr"))

    def scan(self, *, cancels: bool = True, **options: Any) -> Tool[..., Any]:
        """Return the tool."""

        @tool(**options)
        def scan(document: str, ctx: ToolContext) -> ToolWait[Any]:
            """Scan a document."""
            del document
            self.started.append(ctx.wait_id)
            return self._wait()

        def stop_scan(document: str, ctx: ToolContext) -> None:
            self.told.append((document, ctx.idempotency_key))
            self.contexts.append(ctx)
            if self._stop is not None:
                self._stop(document, ctx)

        if cancels:
            scan.on_cancel(stop_scan)
        return scan

    def start(self) -> Suspended:
        """Start the run `r1`, which waits for its job."""
        return expect(self.runner().start("go", run_id="r1"), Suspended)

    def die(self, point: CrashPoint) -> None:
        """Resume the run in a process that dies, and let its claim end."""
        with point.process(self.store) as dying:
            self.runner(dying).resume("r1")
        self.clock.seconds += 60


def start_job(**options: Any) -> tuple[Jobs, Wait]:
    """Start the run `r1`, which waits for its job; return the wait, too."""
    jobs = Jobs(**options)
    return jobs, single_wait(jobs.start())


def _calls(agent: str) -> ScriptedModel:
    return ScriptedModel([ToolCall(agent, {"input": "x"}), "end"])


def test_cancel_without_agents_only_records_the_request() -> None:
    jobs, wait = start_job()

    recorded = jobs.runner(agents=[]).cancel("r1", reason="not needed")

    assert "suspended" == recorded.status
    assert [] == jobs.told
    [ended] = jobs.runner().sweep().resumed
    assert isinstance(ended, Failed)
    assert "cancelled" == ended.continuation.status
    # The function got the arguments by name, and the wait's id as its key
    assert [("a", wait.id)] == jobs.told
    assert [wait.id] == jobs.started
    assert wait.id == jobs.contexts[0].wait_id
    assert "r1" == jobs.contexts[0].run_id
    # And after the end it is not called again, and nothing is left
    jobs.runner().sweep()
    jobs.runner().resume("r1")
    jobs.runner(agents=[]).cancel("r1")
    assert [("a", wait.id)] == jobs.told
    assert [] == asyncio.run(jobs.store.keys("markers/"))
    assert [] == asyncio.run(jobs.store.keys("waits/"))


def test_tool_without_on_cancel_is_ended_at_once_by_any_process() -> None:
    jobs = Jobs()
    runner = jobs.runner(agents=jobs.boss(cancels=False))
    assert isinstance(runner.start("go", run_id="r1"), Suspended)

    assert "cancelled" == jobs.runner(agents=[]).cancel("r1").status


@pytest.mark.parametrize("moment", ["before", "after"])
def test_crash_at_any_operation_tells_at_least_once_and_never_after_the_end(
    moment: Any,
) -> None:
    for point in every_crash(moment, more_than=5):
        jobs, wait = start_job()
        jobs.runner(agents=[]).cancel("r1")
        jobs.die(point)
        told_before = len(jobs.told)
        was_ended = jobs.runner(agents=[]).look("r1").status == "cancelled"
        assert told_before >= was_ended

        while jobs.runner(agents=[]).look("r1").status != "cancelled":
            jobs.runner().sweep()
            jobs.clock.seconds += 60

        assert {("a", wait.id)} == set(jobs.told)
        if was_ended:
            assert told_before == len(jobs.told)
        jobs.runner().sweep()
        assert [] == asyncio.run(jobs.store.keys("markers/"))
        assert [] == asyncio.run(jobs.store.keys("waits/"))


def test_crash_of_the_cancelling_process_loses_nothing() -> None:
    for point in every_crash("before", "after", more_than=2):
        jobs, wait = start_job()
        with point.process(jobs.store) as dying:
            jobs.runner(dying, agents=[]).cancel("r1")
        if point.has_crashed:
            jobs.runner(agents=[]).cancel("r1")

        jobs.runner().sweep()

        assert [("a", wait.id)] == jobs.told


def test_error_of_on_cancel_is_tried_again_and_does_not_keep_the_run() -> None:
    def stop(document: str, ctx: ToolContext) -> None:
        raise OSError(f"{document} {ctx.attempt}")

    jobs = Jobs(stop)
    jobs.start()
    jobs.runner(agents=[]).cancel("r1")

    ended = jobs.runner().resume("r1")

    assert "cancelled" == ended.continuation.status
    assert 3 == len(jobs.told)
    assert [1, 2, 3] == [each.attempt for each in jobs.contexts]
    assert 1 == len({each.idempotency_key for each in jobs.contexts})


def test_worker_that_dies_in_on_cancel_each_time_does_not_keep_the_run() -> None:
    jobs = Jobs()
    jobs.start()
    jobs.runner(agents=[]).cancel("r1")
    workers = 0
    while jobs.runner(agents=[]).look("r1").status != "cancelled":
        workers += 1
        told = len(jobs.told)

        def dies_when_told(_: Operation, told: int = told) -> Fault | None:
            return crashed("before") if len(jobs.told) > told else None

        with suppress(Crash):
            store = FaultyStore(jobs.store, dies_when_told)
            jobs.runner(store, max_attempts=2).resume("r1")
        jobs.clock.seconds += 60

    # Two attempts, one more, and the worker that ends the run without a call
    assert (4, 3) == (workers, len(jobs.told))


def test_job_with_a_result_is_not_told() -> None:
    jobs, wait = start_job()
    jobs.runner(agents=[]).decide(wait.id, Answer("7 pages"))

    # A process without agents may end the run: there is nothing to tell
    assert "cancelled" == jobs.runner(agents=[]).cancel("r1").status
    assert [] == jobs.told


def test_deadline_of_a_job_tells_the_other_system() -> None:
    jobs, wait = start_job(wait=lambda: external("scan", str, within=60))
    jobs.clock.seconds += 61

    assert isinstance(jobs.runner().resume("r1"), Finished)

    assert [("a", wait.id)] == jobs.told


def test_crash_at_a_deadline_tells_at_least_once() -> None:
    for point in every_crash("before", "after", more_than=6):
        jobs, wait = start_job(wait=lambda: external("scan", str, within=60))
        jobs.clock.seconds += 61
        jobs.die(point)

        assert isinstance(jobs.runner().resume("r1"), Finished)

        assert {("a", wait.id)} == set(jobs.told)


@pytest.mark.parametrize("wait", [lambda: ask("Which one?"), lambda: sleep(5)])
def test_other_waits_are_told_of_a_cancellation_and_not_of_a_deadline(
    wait: Callable[[], ToolWait[Any]],
) -> None:
    jobs = Jobs(wait=wait)
    [opened] = jobs.start().waits
    jobs.runner(agents=[]).cancel("r1")
    assert "cancelled" == jobs.runner().resume("r1").continuation.status
    assert [("a", opened.id)] == jobs.told

    if opened.deadline is not None:
        jobs = Jobs(wait=wait)
        jobs.start()
        jobs.clock.seconds += 6
        assert isinstance(jobs.runner().resume("r1"), Finished)
        assert [] == jobs.told


def test_run_that_fails_tells_its_jobs() -> None:
    """A denial that stops the run ends the jobs of its other calls."""
    jobs = Jobs()

    @tool(approval=ApprovalPolicy(on_denied="stop"))
    def pay(cents: int) -> str:
        """Pay."""
        return str(cents)

    model = ScriptedModel(
        [[ToolCall("scan", {"document": "a"}), ToolCall("pay", {"cents": 5})], "end"]
    )
    agent = Agent("boss", tools=[jobs.scan(), pay], model=model)
    outcome = expect(jobs.runner(agents=agent).start("go", run_id="r1"), Suspended)
    waits = {wait.tool: wait for wait in outcome.waits}
    jobs.runner(agents=[]).decide(waits["pay"].id, Deny())

    assert isinstance(jobs.runner(agents=agent).resume("r1"), Failed)

    assert [("a", waits["scan"].id)] == jobs.told


def test_process_without_the_function_leaves_the_run_to_others() -> None:
    jobs, wait = start_job()
    jobs.runner(agents=[]).cancel("r1")

    with pytest.raises(AgentChanged, match="has no on_cancel function here"):
        jobs.runner(agents=jobs.boss(cancels=False)).resume("r1")
    assert "suspended" == jobs.runner(agents=[]).look("r1").status

    # A person may end the wait, and then every process can end the run
    jobs.runner(agents=[]).decide(wait.id, Fail("stopped by hand"))
    ended = jobs.runner(agents=jobs.boss(cancels=False)).resume("r1")
    assert "cancelled" == ended.continuation.status
    assert [] == jobs.told


def test_job_past_its_deadline_does_not_keep_a_run_whose_code_lost_the_function(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """No person can end such a wait with `Fail` any more."""
    for is_cancelled in (False, True):
        jobs = Jobs(wait=lambda: external("scan", str, within=60))
        jobs.start()
        jobs.clock.seconds += 61
        if is_cancelled:
            jobs.runner(agents=[]).cancel("r1")

        ended = jobs.runner(agents=jobs.boss(cancels=False)).resume("r1")

        expected = "cancelled" if is_cancelled else "finished"
        assert expected == ended.continuation.status
        assert [] == jobs.told
        assert "is given up; its job may still run" in caplog.messages[-1]
        assert [] == asyncio.run(jobs.store.keys("markers/"))


def test_job_with_a_moved_deadline_keeps_its_run_until_that_time() -> None:
    jobs, wait = start_job(wait=lambda: external("scan", str, within=60))
    jobs.runner(agents=[]).heartbeat(wait.id, extend=600)
    jobs.clock.seconds += 61
    jobs.runner(agents=[]).cancel("r1")
    other = jobs.runner(agents=jobs.boss(cancels=False))

    with pytest.raises(AgentChanged, match="has no on_cancel function here"):
        other.resume("r1")

    jobs.clock.seconds += 600
    assert "cancelled" == other.resume("r1").continuation.status


def test_crash_while_a_job_is_cancelled_leaves_a_run_that_other_code_can_end() -> None:
    """If it raises `AgentChanged`, its advice works."""
    refused = 0
    for point in every_crash("before", "after", more_than=5):
        jobs, wait = start_job()
        jobs.runner(agents=[]).cancel("r1")
        jobs.die(point)
        other = jobs.runner(agents=jobs.boss(cancels=False))
        try:
            ended = other.resume("r1")
        except AgentChanged:
            refused += 1
            other.decide(wait.id, Fail("stopped by hand"))
            ended = other.resume("r1")

        assert "cancelled" == ended.continuation.status
    assert refused > 0


def _stop_page(page: int) -> int:
    return page


def test_on_cancel_is_checked_when_it_is_declared() -> None:
    scan = Jobs().scan()
    with pytest.raises(InvalidInput, match="has an on_cancel function already"):
        scan.on_cancel(lambda: None)
    other = Jobs().scan(cancels=False)
    with pytest.raises(InvalidInput, match="requires the argument 'page'"):
        other.on_cancel(_stop_page)
    with pytest.raises(InvalidInput, match="must be a function"):
        other.on_cancel("stop")  # type: ignore[type-var]  # pyright: ignore[reportArgumentType]


def test_storeless_deadline_tells_the_other_system() -> None:
    jobs = Jobs(wait=lambda: external("scan", str, within=60))
    boss = jobs.boss()
    first = expect(run(boss, "go", clock=jobs.clock), Suspended)
    jobs.clock.seconds += 61

    ended = resume(first.continuation.to_bytes(), boss, clock=jobs.clock)

    assert isinstance(ended, Finished)
    assert 1 == len(jobs.told)


def test_job_whose_early_answer_is_rejected_is_told_of_a_cancellation() -> None:
    """The worker died before the tool returned, so only the answer opens the wait."""
    jobs = Jobs()
    scan = jobs.scan()

    @scan.on_answer
    def pages(answer: int) -> str:
        return f"{answer} pages"

    model = ScriptedModel([ToolCall("scan", {"document": "a"}), "end"])
    agent = Agent("boss", tools=[scan], model=model)

    def dies_in_the_tool(_: Operation) -> Fault | None:
        return crashed("before") if jobs.started else None

    with suppress(Crash):
        dying = FaultyStore(jobs.store, dies_in_the_tool)
        jobs.runner(dying, agents=agent).start("go", run_id="r1")
    jobs.runner(agents=[]).decide(jobs.started[0], Answer("many"))
    jobs.clock.seconds += 60
    wait = single_wait(jobs.runner(agents=agent).resume("r1"))
    assert "The tool rejected the answer: The answer is not valid:" in str(wait.note)
    assert wait.deadline is None

    jobs.runner(agents=[]).cancel("r1")
    ended = jobs.runner(agents=agent).resume("r1")

    assert "cancelled" == ended.continuation.status
    assert [("a", wait.id)] == jobs.told


# verify ------------------------------------------------------------------------------


def test_verify_that_returns_the_wait_parks_the_call(store: MemoryStore) -> None:
    """The tool did not return in time, and its job began."""

    def verify(document: str, ctx: ToolContext) -> ToolWait[str] | None:
        assert "a" == document
        return external("scan", str) if ctx.wait_id in began else None

    began: list[str] = []

    @tool(timeout=0.01, verify=verify)
    async def scan(document: str, ctx: ToolContext) -> ToolWait[str]:
        """Scan a document."""
        del document
        began.append(ctx.wait_id)
        await asyncio.Event().wait()
        raise AssertionError

    model = ScriptedModel([ToolCall("scan", {"document": "a"}), "end"])
    runner = Runner(Agent("boss", tools=[scan], model=model), store=store)

    wait = single_wait(runner.start("go", run_id="r1"))

    assert ("external", began[0]) == (wait.kind, wait.id)
    assert [wait.id] == [each.id for each in runner.waiting(kinds=["external"])]
    assert [] == list(runner.waiting())
    runner.decide(wait.id, Answer("7 pages"))
    ended = expect(runner.resume("r1"), Finished)
    assert ["7 pages"] == root_tool_results(ended)
    assert 1 == len(began)


def test_verify_of_an_on_answer_function_opens_no_wait() -> None:
    @tool(timeout=0.01, verify=lambda: external("scan", str))
    async def scan(document: str) -> ToolWait[str]:
        """Scan a document."""
        return external(document, str)

    @scan.on_answer
    async def scanned(answer: str) -> str:
        await asyncio.Event().wait()
        return answer

    model = ScriptedModel([ToolCall("scan", {"document": "a"}), "end"])
    runner = Runner(Agent("boss", tools=[scan], model=model), store=MemoryStore())
    outcome = expect(runner.start("go", run_id="r1"), Suspended)
    runner.decide(outcome.waits[0].id, Answer("7"))

    outcome = expect(runner.resume("r1"), Suspended)

    assert ["unknown"] == [wait.kind for wait in outcome.waits]


# One call ----------------------------------------------------------------------------


def test_operator_who_cancels_a_call_tells_its_job() -> None:
    """The process without agents records the request; a worker tells, then goes on."""
    jobs, wait = start_job()

    recorded = jobs.runner(agents=[]).cancel("r1", call=wait.call_id)
    assert [wait.id] == [each.id for each in recorded.waits]
    assert [] == jobs.told

    assert isinstance(jobs.runner().resume("r1"), Finished)
    assert [("a", wait.id)] == jobs.told
    assert [] == asyncio.run(jobs.store.keys("markers/"))
    assert [] == asyncio.run(jobs.store.keys("waits/"))


def test_crash_while_a_call_is_cancelled_tells_at_least_once() -> None:
    for point in every_crash("before", "after", more_than=6):
        jobs, wait = start_job()
        jobs.runner(agents=[]).cancel("r1", call=wait.call_id)
        jobs.die(point)

        while jobs.runner(agents=[]).look("r1").status != "finished":
            jobs.runner().sweep()
            jobs.clock.seconds += 60

        assert {("a", wait.id)} == set(jobs.told)


def _busy_below_hr(
    jobs: Jobs, request: Callable[[], Coroutine[Any, Any, None]]
) -> tuple[Agent, list[str]]:
    """Return boss > hr > (scan, clerk), and the effects of the clerk.

    The clerk works step by step. Its second model turn makes a request of an operator,
    when the job waits already.
    """
    effects: list[str] = []
    turns = 0

    @tool
    def work(step: int) -> str:
        """Work."""
        if step == 1:
            jobs.wait_until_parked()
        effects.append(f"work {step}")
        return "worked"

    def next_line(_: object) -> Any:
        nonlocal turns
        turns += 1
        effects.append(f"turn {turns}")
        if turns == 2:
            thread = threading.Thread(target=asyncio.run, args=(request(),))
            thread.start()
            thread.join()
        return [ToolCall("work", {"step": turns})] if turns < 4 else "done"

    clerk = Agent("clerk", tools=[work], model=ScriptedModel(next_line))
    both = [ToolCall("scan", {"document": "a"}), ToolCall("clerk", {"input": "x"})]
    hr = Agent("hr", tools=[jobs.scan(), clerk], model=ScriptedModel([both, "end"]))
    return Agent("boss", tools=[hr], model=_calls("hr")), effects


def test_call_below_a_cancelled_one_with_a_job_never_begins_in_a_busy_worker() -> None:
    """Its start is recorded in the version that shows the request."""
    jobs = Jobs()

    async def cancel() -> None:
        clerk = AsyncRunner([], store=jobs.store, clock=jobs.clock)
        state = await clerk.look("r1")
        assert ["external"] == [wait.kind for wait in state.waits]
        await clerk.cancel("r1", call="boss/hr")

    agent, effects = _busy_below_hr(jobs, cancel)

    assert isinstance(jobs.runner(agents=agent).start("go", run_id="r1"), Finished)

    assert ["turn 1", "work 1", "turn 2"] == effects
    assert 1 == len(jobs.told)
    assert [] == asyncio.run(jobs.store.keys("markers/"))
    assert [] == asyncio.run(jobs.store.keys("waits/"))


def test_pause_after_a_cancelled_job_pauses_a_busy_worker() -> None:
    """`on_cancel` is called; nothing begins until `unpause`."""
    jobs = Jobs()

    async def cancel_and_pause() -> None:
        clerk = AsyncRunner([], store=jobs.store, clock=jobs.clock)
        await clerk.cancel("r1", call="boss/hr")
        await clerk.pause("r1", reason="audit")

    agent, effects = _busy_below_hr(jobs, cancel_and_pause)

    held = expect(jobs.runner(agents=agent).start("go", run_id="r1"), Suspended)

    assert (("audit",), False) == (held.reasons, held.paused)
    assert ["turn 1", "work 1", "turn 2"] == effects
    assert 1 == len(jobs.told)
    assert [] == asyncio.run(jobs.store.keys("markers/"))
    jobs.runner(agents=[]).unpause("r1")
    [ended] = jobs.runner(agents=agent).sweep().resumed
    assert isinstance(ended, Finished)
    assert ["turn 1", "work 1", "turn 2"] == effects


def test_stopped_worker_leaves_a_cancelled_job_to_the_next_one() -> None:
    """It is stopped while it is busy; a marker says that the run can go on at once."""
    jobs = Jobs()
    stopped = threading.Event()

    async def cancel_and_stop() -> None:
        clerk = AsyncRunner([], store=jobs.store, clock=jobs.clock)
        await clerk.cancel("r1", call="boss/hr")
        stopped.set()

    agent, effects = _busy_below_hr(jobs, cancel_and_stop)

    left = jobs.runner(agents=agent).start(
        "go", run_id="r1", should_pause=stopped.is_set
    )

    assert isinstance(left, Suspended)
    assert left.paused
    assert [] == jobs.told
    [ended] = jobs.runner(agents=agent).sweep().resumed
    assert isinstance(ended, Finished)
    assert ["turn 1", "work 1", "turn 2"] == effects
    assert 1 == len(jobs.told)


def test_worker_that_is_busy_tells_a_cancelled_job_after_the_calls_in_progress() -> (
    None
):
    jobs = Jobs()
    order: list[str] = []

    @tool
    def work(step: int) -> str:
        """Work, while an operator cancels the job."""
        if step == 1:
            jobs.wait_until_parked()
            run_state = jobs.runner(agents=[]).look("r1")
            [wait] = [each for each in run_state.waits if each.kind == "external"]
            jobs.runner(agents=[]).cancel("r1", call=wait.call_id)
        order.append(f"work {step} {len(jobs.told)}")
        return "worked"

    steps = [[ToolCall("work", {"step": n})] for n in range(4)]
    worker = Agent("worker", tools=[work], model=ScriptedModel([*steps, "done"]))
    both = [ToolCall("scan", {"document": "a"}), ToolCall("worker", {"input": "x"})]
    agent = Agent(
        "boss", tools=[jobs.scan(), worker], model=ScriptedModel([both, "end"])
    )

    assert isinstance(jobs.runner(agents=agent).start("go", run_id="r1"), Finished)

    assert ["work 0 0", "work 1 0", "work 2 1", "work 3 1"] == order
    assert 1 == len(jobs.told)
    assert [] == asyncio.run(jobs.store.keys("markers/"))
