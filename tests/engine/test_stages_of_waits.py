"""A tool waits several times: its `on_answer` function returns the next wait."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any, cast

import pytest

from continuations import (
    Agent,
    Answer,
    Approve,
    Finished,
    Flow,
    Runner,
    Suspended,
    ToolContext,
    ask,
    external,
    resume,
    run,
    sleep,
    tool,
    wait_for,
    workflow,
)
from continuations.engine.calls import parked_calls
from continuations.errors import InvalidInput, RunFailed, WaitExpired
from continuations.models.scripted import ScriptedModel, ToolCall
from continuations.tools import Tool, ToolWait
from continuations_storage import MemoryStore, Store
from continuations_storage.faults import Crash, Fault, FaultyStore, Operation, crashed
from tests.clocks import ManualClock
from tests.engine.agent_builders import root_tool_results
from tests.engine.payment_agent import single_wait

Seen = list[tuple[Any, ...]]


def make_tool(seen: Seen, **options: Any) -> Tool[..., Any]:
    """Return a tool that asks, waits for a job, and asks again."""

    @tool(name="order", **options)
    def order(what: str, ctx: ToolContext) -> ToolWait[str]:
        """Order something."""
        seen.append((ctx.stage, None, ctx.memo, ctx.idempotency_key, ctx.wait_id))
        return ask(f"How many {what}?", memo={"asked": [1]})

    @order.on_answer
    def next_step(answer: str, what: str, ctx: ToolContext) -> ToolWait[str] | str:
        seen.append((ctx.stage, answer, ctx.memo, ctx.idempotency_key, ctx.wait_id))
        if ctx.stage == 1:
            minute = timedelta(minutes=1)
            late = Answer("late")
            return external(what, str, within=minute, on_deadline=late, memo="job")
        if ctx.stage == 2:
            return ask("Paid?")
        return f"{what}: {answer}"

    return order


def agent_of(*tools: Any) -> Agent[Any]:
    """Return an agent that calls its tool once."""
    line = ToolCall(tools[0].name, {"what": "pens"})
    return Agent("clerk", tools=tools, model=ScriptedModel([line, "Done."]))


def test_each_stage_gets_its_answer_its_memo_and_a_key_of_its_own() -> None:
    seen: Seen = []
    store = MemoryStore()

    def new_runner() -> Runner:
        return Runner(agent_of(make_tool(seen)), store=store)

    first = single_wait(new_runner().start("go", run_id="r1"))
    new_runner().decide(first.id, Answer("3"))
    second = single_wait(new_runner().resume("r1"))
    assert ("external", 1) == (second.kind, second.stage)
    new_runner().decide(second.id, Answer("sent"))
    third = single_wait(new_runner().resume("r1"))
    assert ("question", "Paid?", 2) == (third.kind, third.question, third.stage)
    new_runner().decide(third.id, Answer("yes"))
    ended = new_runner().resume("r1")
    assert isinstance(ended, Finished)
    assert ["pens: yes"] == root_tool_results(ended)

    assert [
        (0, None, None),
        (1, "3", {"asked": [1]}),
        (2, "sent", "job"),
        (3, "yes", None),
    ] == [each[:3] for each in seen]
    assert 4 == len({each[3] for each in seen})
    assert 4 == len({each[4] for each in seen})
    assert second.id == seen[1][4]
    assert 3 == len({first.id, second.id, third.id})


def test_deadline_of_a_later_wait_gives_its_value() -> None:
    """A wait whose deadline answers is a poll."""
    seen: Seen = []
    clock = ManualClock()
    runner = Runner(agent_of(make_tool(seen)), store="memory:", clock=clock)

    wait = single_wait(runner.start("go", run_id="r1"))
    runner.decide(wait.id, Answer("3"))
    job = single_wait(runner.resume("r1"))
    clock.seconds += 61
    runner.sweep()

    assert (2, "late") == seen[-1][:2]
    with pytest.raises(WaitExpired):
        runner.decide(job.id, Answer("sent"))


def test_waits_of_all_stages_work_without_a_store() -> None:
    seen: Seen = []
    agent = agent_of(make_tool(seen))

    outcome: Any = run(agent, "go")
    for answer in ("3", "sent", "yes"):
        assert isinstance(outcome, Suspended)
        data = outcome.continuation.to_bytes()
        again = Agent("clerk", tools=[make_tool(seen)], model=agent.model)
        answers = {single_wait(outcome).id: Answer(answer)}
        outcome = resume(data, again, answers=answers)

    assert isinstance(outcome, Finished)
    assert [0, 1, 2, 3] == [each[0] for each in seen]


def test_answer_before_the_wait_of_a_later_stage_is_stored_is_kept() -> None:
    """The other system is faster than the function that gave it the wait id."""
    store = MemoryStore()
    started: list[str] = []

    @tool
    def job(what: str) -> ToolWait[str]:
        """Start a job."""
        return ask(f"{what}?")

    @job.on_answer
    def go(answer: str, ctx: ToolContext) -> ToolWait[str] | str:
        if ctx.stage > 1:
            return f"result {answer}"
        started.append(ctx.wait_id)
        Runner([], store=store).decide(ctx.wait_id, Answer("early"))
        return external("job", str)

    runner = Runner(agent_of(job), store=store)
    wait = single_wait(runner.start("go", run_id="r1"))
    runner.decide(wait.id, Answer("yes"))

    assert isinstance(runner.resume("r1"), Finished)
    assert 1 == len(started)


class DyingStore(FaultyStore):
    """A store whose process dies at its first operation after an effect."""

    def __init__(self, inner: Store, seen: Seen, effects: int) -> None:
        def plan(_: Operation) -> Fault | None:
            return crashed("before") if len(seen) == effects else None

        super().__init__(inner, plan)


def die_in_the_second_stage(seen: Seen, clock: ManualClock, **options: Any) -> Runner:
    """Return a runner, after a worker died when the job was started."""
    store = MemoryStore()
    runner = Runner(agent_of(make_tool(seen, **options)), store=store, clock=clock)
    wait = single_wait(runner.start("go", run_id="r1"))
    runner.decide(wait.id, Answer("3"))
    dying = DyingStore(store, seen, 2)
    other = Runner(agent_of(make_tool(seen, **options)), store=dying, clock=clock)
    with pytest.raises(Crash):
        other.resume("r1")
    clock.seconds += 3600
    return Runner(agent_of(make_tool(seen, **options)), store=store, clock=clock)


def test_crash_in_a_later_stage_of_a_repeatable_tool_repeats_this_stage() -> None:
    """`ctx.memo`, `ctx.stage` and the key are those of the attempt before."""
    seen: Seen = []
    runner = die_in_the_second_stage(seen, ManualClock(), idempotent=True)

    wait = single_wait(runner.resume("r1"))

    assert ("external", 1) == (wait.kind, wait.stage)
    assert [0, 1, 1] == [each[0] for each in seen]
    assert seen[1] == seen[2]


def test_crash_in_a_later_stage_of_another_tool_asks_a_person() -> None:
    seen: Seen = []
    runner = die_in_the_second_stage(seen, ManualClock())

    wait = single_wait(runner.resume("r1"))
    assert ("unknown", 1) == (wait.kind, wait.stage)
    assert 2 == len(seen)
    runner.decide(wait.id, Approve())

    assert "external" == single_wait(runner.resume("r1")).kind
    assert seen[1] == seen[2]


def test_verify_lets_a_stage_run_again_that_only_reads() -> None:
    seen: Seen = []

    def verify(what: str, ctx: ToolContext) -> Approve | None:
        del what
        return Approve() if (ctx.memo, ctx.stage) == ({"asked": [1]}, 1) else None

    runner = die_in_the_second_stage(seen, ManualClock(), verify=verify)

    assert "external" == single_wait(runner.resume("r1")).kind
    assert seen[1] == seen[2]


def test_tool_that_waits_without_end_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parked_calls, "MAX_STAGES", 3)

    @tool
    def nap(what: str) -> ToolWait[str]:
        """Sleep."""
        return sleep(0.001, memo=what)

    @nap.on_answer
    def again(answer: str) -> ToolWait[str]:
        return sleep(0.001, memo=answer)

    runner = Runner(agent_of(nap), store="memory:")
    outcome: Any = runner.start("go", run_id="r1")
    for _ in range(200):
        if isinstance(outcome, Finished):
            break
        outcome = runner.resume("r1")

    assert isinstance(outcome, Finished)
    text = "ERROR: the tool has waited 3 times. Its effects remain."
    messages = cast("Any", outcome).continuation.root.messages
    assert text == messages[-2]["content"]


MAKERS: list[Callable[[Any], ToolWait[Any]]] = [
    lambda memo: ask("Which?", memo=memo),
    lambda memo: wait_for("mail", memo=memo),
    lambda memo: external("job", memo=memo),
    lambda memo: sleep(1, memo=memo),
]


@pytest.mark.parametrize("make", MAKERS)
def test_memo_must_be_json(make: Callable[[Any], ToolWait[Any]]) -> None:
    with pytest.raises(InvalidInput, match="memo must be a JSON value"):
        make({1, 2})
    memo = {"list": [1]}
    made = make(memo)
    memo["list"].append(2)
    assert {"list": [1]} == made.memo


def test_memo_in_a_workflow_is_refused() -> None:
    @workflow
    async def asks(flow: Flow) -> str:
        assert flow.now()
        return await ask("Which?", memo=1)

    runner = Runner(asks, store="memory:")
    with pytest.raises(RunFailed, match="In a workflow, keep the value in a"):
        runner.start(asks.bind(), run_id="r1").result()
