"""Shapes of asyncio code, and the loop that runs it: one order, effects once."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Coroutine
from contextlib import aclosing, suppress
from contextvars import ContextVar
from typing import Any

import pytest

from continuations import (
    Agent,
    Answer,
    Approve,
    Deny,
    Flow,
    Replied,
    Runner,
    Suspended,
    ToolContext,
    ask,
    sleep,
    sleep_until,
    tool,
    workflow,
)
from continuations.authoring.workflow.flow_loop import FlowLoop
from continuations.errors import CallDenied
from continuations.models.scripted import ScriptedModel, ToolCall
from continuations.tools import ToolWait
from continuations_storage import MemoryStore
from tests import effect_log
from tests.clocks import ManualClock
from tests.engine.workflows.flow_tools import (
    RUN,
    add,
    make_runner,
    objects,
    pay,
    the_wait,
)
from tests.outcomes import expect


class Machines:
    """New processes with the same code, on one store and one clock."""

    def __init__(self, *agents: Any) -> None:
        self._agents = agents
        self._store = MemoryStore()
        self.clock = ManualClock()

    def runner(self) -> Runner:
        return make_runner(*self._agents, store=self._store, clock=self.clock)

    def start(self, given: Any) -> Any:
        """Start the run; another process finds nothing to do in it."""
        return self._replayed(self.runner().start(given, run_id=RUN))

    def decide(self, wait_id: str, verdict: Any) -> None:
        self.runner().decide(wait_id, verdict)

    def resume(self) -> Any:
        """Go on in a new process; another one finds nothing to do."""
        return self._replayed(self.runner().resume(RUN))

    def _replayed(self, outcome: Any) -> Any:
        before = objects(self._store)
        again = self.runner().resume(RUN)
        assert type(outcome) is type(again)
        assert before == objects(self._store)
        return outcome


def by_argument(outcome: Any, name: str) -> dict[Any, str]:
    """Return the ids of the waits by one of their arguments."""
    suspended: Suspended = outcome
    return {wait.arguments[name]: wait.id for wait in suspended.waits}


# Tasks -------------------------------------------------------------------------------


def test_shielded_call_goes_on_after_its_outer_task() -> None:
    @workflow(tools=[add, pay])
    async def shields(flow: Flow) -> str:
        inner = asyncio.create_task(flow.call(pay, 1))

        async def waits() -> str:
            return await asyncio.shield(inner)

        outer = asyncio.create_task(waits())
        await ask("Stop?")
        outer.cancel()
        total = 0
        with suppress(asyncio.CancelledError):
            await outer
        if outer.cancelled():
            total = await flow.call(add, 1, 1)
        return f"{await inner}, {total}"

    machines = Machines(shields)
    waiting = machines.start(shields.bind())
    machines.decide(the_wait(waiting, "question"), Answer("yes"))
    waiting = machines.resume()
    assert ["add 1+1"] == effect_log.names()
    machines.decide(the_wait(waiting), Approve(by="kim"))

    assert "paid 1, 2" == machines.resume().result()
    assert ["add 1+1", "pay 1"] == effect_log.names()


WHO: ContextVar[str] = ContextVar("WHO", default="nobody")


@tool
def note(ctx: ToolContext, text: str) -> str:
    """Note a text."""
    effect_log.record(effect_log.Effect.of("note", text, ctx))
    return text.upper()


def test_context_variable_is_kept_over_a_suspension() -> None:
    """A task has a copy, and the code does not see the variables of its process."""

    @workflow(tools=[note, pay])
    async def names(flow: Flow) -> list[str]:
        async def task() -> str:
            seen = await flow.call(note, f"task of {WHO.get()}")
            WHO.set("lee")
            return seen

        seen = [await flow.call(note, WHO.get())]
        WHO.set("kim")
        await flow.call(pay, 1)
        seen.append(await asyncio.create_task(task()))
        await ask("Well?")
        return [*seen, await flow.call(note, f"function of {WHO.get()}")]

    machines = Machines(names)
    token = WHO.set("the process")
    try:
        waiting = machines.start(names.bind())
        machines.decide(the_wait(waiting), Approve(by="kim"))
        waiting = machines.resume()
        machines.decide(the_wait(waiting, "question"), Answer("yes"))
        ended = machines.resume()
        assert "the process" == WHO.get()
    finally:
        WHO.reset(token)

    assert ["NOBODY", "TASK OF KIM", "FUNCTION OF KIM"] == ended.result()
    assert [
        "note nobody",
        "pay 1",
        "note task of kim",
        "note function of kim",
    ] == effect_log.names()


@pytest.mark.parametrize("stops_at", [None, 2])
def test_asynchronous_generator_makes_calls(stops_at: int | None) -> None:
    """It is consumed whole, or closed early: its `finally` runs in both cases."""

    @workflow(tools=[add, pay, note])
    async def consumes(flow: Flow) -> list[str]:
        seen: list[str] = []

        async def paid() -> AsyncGenerator[str]:
            try:
                for cents in (1, 2, 3):
                    total = await flow.call(add, cents, 10)
                    yield await flow.call(pay, total)
            finally:
                seen.append("closed")

        async with aclosing(paid()) as receipts:
            async for receipt in receipts:
                seen.append(receipt)
                if len(seen) == stops_at:
                    break
        return [*seen, await flow.call(note, "end")]

    machines = Machines(consumes)
    outcome = machines.start(consumes.bind())
    while isinstance(outcome, Suspended):
        machines.decide(the_wait(outcome), Approve(by="kim"))
        outcome = machines.resume()

    consumed = range(1, 1 + (stops_at or 3))
    receipts = [f"paid {cents + 10}" for cents in consumed]
    assert [*receipts, "closed", "END"] == outcome.result()
    effects = [(f"add {cents}+10", f"pay {cents + 10}") for cents in consumed]
    assert [
        *(each for pair in effects for each in pair),
        "note end",
    ] == effect_log.names()


def test_queue_connects_branches_with_calls() -> None:
    @workflow(tools=[add, pay])
    async def connects(flow: Flow) -> list[str]:
        queue = asyncio.Queue[int | None](maxsize=1)

        async def produce() -> None:
            for number in (1, 2, 3):
                await queue.put(await flow.call(add, number, number))
            await queue.put(None)

        async def consume() -> list[str]:
            seen: list[str] = []
            while (cents := await queue.get()) is not None:
                seen.append(await flow.call(pay, cents))
            return seen

        async with asyncio.TaskGroup() as group:
            group.create_task(produce())
            consumer = group.create_task(consume())
        return consumer.result()

    machines = Machines(connects)
    outcome = machines.start(connects.bind())
    # The queue is full with the second number, and the third one is computed.
    assert 3 == len(effect_log.effects())
    while isinstance(outcome, Suspended):
        machines.decide(the_wait(outcome), Approve(by="kim"))
        outcome = machines.resume()

    assert ["paid 2", "paid 4", "paid 6"] == outcome.result()
    assert [
        *("add 1+1", "add 2+2", "add 3+3"),
        *("pay 2", "pay 4", "pay 6"),
    ] == effect_log.names()


@pytest.mark.parametrize("shape", ["dict", "set"])
def test_collections_of_tasks_are_awaited(shape: str) -> None:
    """The code makes calls in the order of the set, so each process has the same."""

    @workflow(tools=[note, pay])
    async def collects(flow: Flow) -> list[str]:
        cents = range(1, 9)
        tasks = {each: asyncio.create_task(flow.call(pay, each)) for each in cents}
        if shape == "dict":
            receipts = {each: await task for each, task in tasks.items()}
            return [await flow.call(note, each) for each in receipts.values()]
        done, pending = await asyncio.wait({*tasks.values()})
        assert not pending
        return [await flow.call(note, task.result()) for task in done]

    machines = Machines(collects)
    outcome = machines.start(collects.bind())
    waits = by_argument(outcome, "cents")
    halves = (8, 6, 4, 2), (1, 3, 5, 7)
    for half in halves:
        for cents in half:
            machines.decide(waits[cents], Approve(by="kim"))
        outcome = machines.resume()

    noted = outcome.result()
    assert [f"PAID {cents}" for cents in range(1, 9)] == sorted(noted)
    names = effect_log.names()
    paid = [f"pay {cents}" for half in halves for cents in half]
    assert sorted(paid[:4]) == sorted(names[:4])
    assert sorted(paid[4:]) == sorted(names[4:8])
    assert [f"note {each.lower()}" for each in noted] == names[8:]


def test_completed_tasks_come_in_the_order_of_the_decisions() -> None:
    @workflow(tools=[note, pay])
    async def completes(flow: Flow) -> list[str]:
        tasks = [asyncio.create_task(flow.call(pay, cents)) for cents in (1, 2, 3)]
        return [
            await flow.call(note, await each) for each in asyncio.as_completed(tasks)
        ]

    machines = Machines(completes)
    outcome = machines.start(completes.bind())
    waits = by_argument(outcome, "cents")
    for cents in (2, 3, 1):
        machines.clock.seconds += 1
        machines.decide(waits[cents], Approve(by="kim"))
        outcome = machines.resume()

    assert ["PAID 2", "PAID 3", "PAID 1"] == outcome.result()
    effects = [(f"pay {cents}", f"note paid {cents}") for cents in (2, 3, 1)]
    assert [each for pair in effects for each in pair] == effect_log.names()


# Code and calls ----------------------------------------------------------------------


def test_new_code_may_give_way_to_other_tasks() -> None:
    """`asyncio.sleep(0)` in a helper changes no call of a sequence."""

    def code(pauses: int) -> Any:
        async def helper(flow: Flow, first: int) -> int:
            for _ in range(pauses):
                await asyncio.sleep(0)
            total = await flow.call(add, first, 1)
            for _ in range(pauses):
                await asyncio.sleep(0)
            return total

        @workflow(tools=[add, pay], name="code")
        async def function(flow: Flow) -> str:
            total = await helper(flow, 0)
            receipt = await flow.call(pay, total)
            return f"{receipt}, {await helper(flow, total)}"

        return function

    old, new, store = code(0), code(2), MemoryStore()
    waiting = make_runner(old, store=store).start(old.bind(), run_id=RUN)
    before = objects(store)
    assert isinstance(make_runner(new, store=store).resume(RUN), Suspended)
    assert before == objects(store)
    make_runner(new, store=store).decide(the_wait(waiting), Approve(by="kim"))

    assert "paid 1, 2" == make_runner(new, store=store).resume(RUN).result()
    assert ["add 0+1", "pay 1", "add 1+1"] == effect_log.names()


@pytest.mark.parametrize("denied", [0, 1])
def test_equal_calls_get_their_own_outcomes(denied: int) -> None:
    @workflow(tools=[pay])
    async def pays(flow: Flow) -> list[str]:
        async def one() -> str:
            try:
                return await flow.call(pay, 5)
            except CallDenied as error:
                return f"{error.call} denied"

        return [*await asyncio.gather(one(), one())]

    machines = Machines(pays)
    waiting = machines.start(pays.bind())
    waits = waiting.waits
    assert [{"cents": 5}] * 2 == [wait.arguments for wait in waits]
    machines.decide(waits[denied].id, Deny(by="kim"))
    assert isinstance(machines.resume(), Suspended)
    machines.decide(waits[1 - denied].id, Approve(by="kim"))

    expected = ["paid 5", "paid 5"]
    expected[denied] = f"{waits[denied].call_id} denied"
    assert expected == machines.resume().result()
    assert [waits[1 - denied].call_id] == [
        each["call"] for each in effect_log.effects()
    ]


@tool
async def inquire(ctx: ToolContext, number: int) -> ToolWait[str]:
    """Ask a person."""
    effect_log.record(effect_log.Effect.of("inquire", number, ctx))
    return ask(f"{number}?")


def test_thousand_questions_are_answered_in_reverse() -> None:
    @workflow(tools=[inquire])
    async def inquires(flow: Flow) -> list[str]:
        calls = [flow.call(inquire, number) for number in range(1000)]
        return [*await asyncio.gather(*calls)]

    machines = Machines(inquires)
    outcome = machines.runner().start(inquires.bind(), run_id=RUN)
    waits = by_argument(outcome, "number")
    for batch in (range(999, 599, -1), range(599, -1, -1)):
        runner = machines.runner()
        for number in batch:
            runner.decide(waits[number], Answer(f"{number}!"))
        outcome = machines.runner().resume(RUN)

    assert [f"{number}!" for number in range(1000)] == outcome.result()
    effects = effect_log.names()
    assert 1000 == len(effects) == len({*effects})


# Time --------------------------------------------------------------------------------


@workflow(tools=[note])
async def naps(flow: Flow, name: str) -> str:
    """Note a name after two hours."""
    await sleep_until(flow.now().replace(hour=2))
    return await flow.call(note, name)


@workflow(agents=[naps])
async def both_nap(flow: Flow) -> list[str]:
    """Let two sleep at the same time."""
    return [*await asyncio.gather(flow.call(naps, "a"), flow.call(naps, "b"))]


def boss_of_naps() -> Agent[str]:
    """Return an agent that lets two sleep at the same time."""
    calls = [ToolCall("naps", {"name": name}) for name in ("a", "b")]
    return Agent("boss", model=ScriptedModel([calls, "done"]), tools=[naps])


@pytest.mark.parametrize("wakes", ["sweep", "resume"])
@pytest.mark.parametrize("root", ["agent", "workflow"])
def test_timers_of_two_frames_are_due_at_once(root: str, wakes: str) -> None:
    below_agent = root == "agent"
    machines = Machines(boss_of_naps() if below_agent else both_nap)
    waiting = machines.start("go" if below_agent else both_nap.bind())
    assert ["alarm", "alarm"] == [wait.kind for wait in waiting.waits]
    machines.clock.seconds = 7199
    assert () == machines.runner().sweep().resumed
    assert [] == effect_log.effects()

    machines.clock.seconds = 7201
    if wakes == "sweep":
        (ended,) = machines.runner().sweep().resumed
    else:
        ended = machines.runner().resume(RUN)

    assert ("done" if below_agent else ["A", "B"]) == ended.result()
    assert ["note a", "note b"] == sorted(effect_log.names())


@pytest.mark.parametrize("looks", [60, 100])
@pytest.mark.parametrize("decides", ["approval", "question"])
def test_timeout_wins_against_a_decision_of_the_same_instant(
    decides: str,
    looks: int,
) -> None:
    """Timers up to the time of a decision fire before it, in each replay."""

    @workflow(tools=[note, pay])
    async def limited(flow: Flow) -> str:
        try:
            async with asyncio.timeout(60):
                if decides == "approval":
                    return await flow.call(pay, 5)
                return await ask("Well?")
        except TimeoutError:
            seen = await flow.call(note, "late")
        return f"{seen} {await ask('Over?')}"

    machines = Machines(limited)
    waiting = machines.start(limited.bind())
    machines.clock.seconds = 60
    verdict = Approve(by="kim") if decides == "approval" else Answer("yes")
    machines.decide(the_wait(waiting, decides), verdict)
    machines.clock.seconds = looks
    waiting = machines.resume()
    machines.decide(the_wait(waiting, "question"), Answer("yes"))

    assert "LATE yes" == machines.resume().result()
    assert ["note late"] == effect_log.names()


# Nesting -----------------------------------------------------------------------------


def test_approval_in_the_fifth_level() -> None:
    """Agent, workflow, workflow, agent, tool."""
    inner = Agent(
        "inner",
        model=ScriptedModel([ToolCall("pay", {"cents": 5}), "inner is done"]),
        tools=[pay],
    )

    @workflow(agents=[inner], tools=[add])
    async def lower(flow: Flow, first: int) -> str:
        """Compute, and let the agent pay."""
        total = await flow.call(add, first, 1)
        return f"{await flow.call(inner, 'go')}, {total}"

    @workflow(agents=[lower], tools=[note])
    async def upper(flow: Flow, first: int) -> str:
        """Call the other workflow, and note what it returns."""
        text = await flow.call(lower, first)
        await sleep(60)
        return await flow.call(note, text)

    model = ScriptedModel([ToolCall("upper", {"first": 1}), "all done"])
    machines = Machines(Agent("boss", model=model, tools=[upper]))

    waiting = machines.start("go")
    (wait,) = waiting.waits
    assert ("boss", "upper", "lower", "inner", "pay") == wait.path
    machines.decide(wait.id, Approve(by="kim"))
    assert "alarm" == machines.resume().waits[0].kind
    machines.clock.seconds = 61

    assert "all done" == machines.resume().result()
    assert [
        "add 1+1",
        "pay 5",
        "note inner is done, 2",
    ] == effect_log.names()


def test_workflow_is_a_tool_of_an_agent_in_a_thread() -> None:
    """Each message of the thread may start it again, with a history of its own."""

    @workflow(tools=[add, pay])
    async def payroll(flow: Flow, cents: int) -> str:
        """Pay everybody."""
        return await flow.call(pay, await flow.call(add, cents, 1))

    model = ScriptedModel(
        [
            *(ToolCall("payroll", {"cents": 1}), "first"),
            *(ToolCall("payroll", {"cents": 2}), "second"),
        ]
    )
    machines = Machines(Agent("boss", model=model, tools=[payroll]))
    for text in ("first", "second"):
        waiting = expect(machines.runner().thread(key="k").send("go"), Suspended)
        machines.decide(the_wait(waiting), Approve(by="kim"))
        replied = expect(machines.runner().resume(waiting.run_id), Replied)
        assert text == replied.output

    assert [
        *("add 1+1", "pay 2"),
        *("add 2+1", "pay 3"),
    ] == effect_log.names()


# The loop of a workflow -------------------------------------------------------


def run_to_end(code: Callable[[], Coroutine[Any, Any, Any]]) -> tuple[Any, list[int]]:
    """Run code on a loop; return its result and the times of its timers."""
    loop, times = FlowLoop(), list[int]()
    task = loop.create_task(code())
    loop.run_ready()
    while not task.done():
        due = loop.next_timer
        assert due is not None, "the code waits for nothing"
        times.append(due)
        loop.advance(due)
    return task.result(), times


def test_time_is_the_time_of_the_timers() -> None:
    async def code() -> list[float]:
        loop = asyncio.get_running_loop()
        await asyncio.gather(asyncio.sleep(2), asyncio.sleep(1))
        seen = [loop.time()]
        async with asyncio.timeout(5):
            await asyncio.sleep(0.5)
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(3):
                await asyncio.Event().wait()
        return [*seen, loop.time()]

    assert ([2.0, 5.5], [1000, 2000, 2500, 5500]) == run_to_end(code)


def test_groups_queues_and_locks_are_those_of_asyncio() -> None:
    async def code() -> list[str]:
        queue: asyncio.Queue[str] = asyncio.Queue()
        lock = asyncio.Lock()
        seen: list[str] = []

        async def put(text: str) -> None:
            async with lock:
                await asyncio.sleep(1)
                await queue.put(text)

        async with asyncio.TaskGroup() as group:
            for text in "abc":
                group.create_task(put(text))
            for _ in range(3):
                seen.append(await queue.get())  # noqa: PERF401 - it awaits
        return seen

    assert ["a", "b", "c"] == run_to_end(code)[0]


def test_sets_of_tasks_have_the_order_in_which_they_were_made() -> None:
    async def code() -> list[str]:
        tasks = {asyncio.create_task(asyncio.sleep(0, name)) for name in "abcdefgh"}
        done, _ = await asyncio.wait(tasks)
        return [task.result() for task in done]

    assert [*"abcdefgh"] == run_to_end(code)[0]


def test_as_completed_takes_tasks_and_refuses_coroutines() -> None:
    async def code() -> list[int]:
        with pytest.raises(RuntimeError, match="order of their addresses"):
            next(iter(asyncio.as_completed([asyncio.sleep(1)])))
        tasks = [asyncio.create_task(asyncio.sleep(3 - n, n)) for n in range(3)]
        return [await each for each in asyncio.as_completed(tasks)]

    assert [2, 1, 0] == run_to_end(code)[0]


@pytest.mark.parametrize(
    "refused",
    [
        ("run_in_executor", None, print),
        ("call_soon_threadsafe", print),
        ("add_signal_handler", 2, print),
        ("create_connection", None, "localhost", 1),
        ("subprocess_shell", None, "true"),
        ("add_reader", 0, print),
    ],
    ids=lambda refused: refused[0],
)
def test_what_a_replay_cannot_repeat_is_refused(refused: tuple[Any, ...]) -> None:
    method, *arguments = refused

    async def code() -> str:
        with pytest.raises(RuntimeError, match=r"Do this work in a tool"):
            getattr(asyncio.get_running_loop(), method)(*arguments)
        return "refused"

    assert "refused" == run_to_end(code)[0]


async def test_outer_loop_goes_on_after_the_inner_one() -> None:
    before = asyncio.current_task()
    task = FlowLoop().create_task(asyncio.sleep(0, "inner"))
    loop: Any = task.get_loop()
    loop.run_ready()
    await asyncio.sleep(0)
    assert asyncio.current_task() is before
    assert "inner" == task.result()


def test_exit_of_the_code_is_an_exception_of_its_task() -> None:
    async def code() -> None:
        raise SystemExit(3)

    loop = FlowLoop()
    task = loop.create_task(code())

    loop.run_ready()

    assert isinstance(task.exception(), SystemExit)


def test_code_that_is_put_aside_runs_its_cleanup_and_nothing_more() -> None:
    seen: list[str] = []

    async def code() -> None:
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(asyncio.sleep(10))
                await asyncio.Event().wait()
        finally:
            seen.append("finally")
            await asyncio.sleep(1)
            seen.append("never")

    loop = FlowLoop()
    loop.create_task(code())
    loop.run_ready()

    loop.put_aside()

    assert ["finally"] == seen
    assert loop.is_closed()


def test_generators_are_closed_in_the_order_in_which_they_began() -> None:
    closed: list[str] = []

    async def numbers(name: str) -> AsyncIterator[int]:
        try:
            yield 1
            yield 2
        finally:
            closed.append(name)

    async def code() -> None:
        for name in "ab":
            async for _ in numbers(name):
                break
        loop: Any = asyncio.get_running_loop()
        await loop.shutdown_asyncgens()

    run_to_end(code)

    assert ["a", "b"] == closed
