"""A tool waits several times: its `on_answer` function returns the next wait."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import Any, cast

import pytest

from continuations import (
    Agent,
    Answer,
    Approve,
    Finished,
    Flow,
    Identity,
    Outcome,
    Runner,
    Suspended,
    ToolContext,
    Wait,
    ask,
    errors,
    external,
    resume,
    run,
    sleep,
    sleep_until,
    tool,
    wait_for,
    workflow,
)
from continuations.engine.calls import parked_calls
from continuations.models.scripted import ScriptedModel, ToolCall
from continuations.serve.http.api import HttpApi, Request
from continuations.tools import Tool, ToolWait
from continuations_storage import MemoryStore, Store
from continuations_storage.faults import Crash, Fault, FaultyStore, Operation, crashed
from tests.clocks import ManualClock
from tests.crash_points import every_crash
from tests.engine.agent_builders import root_tool_results
from tests.outcomes import expect, single_wait

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
    ended = expect(new_runner().resume("r1"), Finished)
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


def test_deadline_of_a_later_wait_gives_its_value(clock: ManualClock) -> None:
    """A wait whose deadline answers is a poll."""
    seen: Seen = []
    runner = Runner(agent_of(make_tool(seen)), store="memory:", clock=clock)

    wait = single_wait(runner.start("go", run_id="r1"))
    runner.decide(wait.id, Answer("3"))
    job = single_wait(runner.resume("r1"))
    clock.seconds += 61
    runner.sweep()

    assert (2, "late") == seen[-1][:2]
    with pytest.raises(errors.WaitExpired):
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

    ended = expect(runner.resume("r1"), Finished)
    assert ["result early"] == root_tool_results(ended)
    assert 1 == len(started)


def test_callback_url_of_a_later_stage_ends_the_wait_of_that_stage() -> None:
    store = MemoryStore()
    urls: list[str] = []

    @tool
    def job(what: str, ctx: ToolContext) -> ToolWait[str]:
        """Start a job."""
        urls.append(ctx.callback_url)
        return external(what, str)

    @job.on_answer
    def go(answer: str, ctx: ToolContext) -> ToolWait[str] | str:
        if ctx.stage > 1:
            return f"result {answer}"
        urls.append(ctx.callback_url)
        return external("again", str)

    def new_runner() -> Runner:
        url = "https://example.com/{}".format
        return Runner(agent_of(job), store=store, callback_url=url)

    first = single_wait(new_runner().start("go", run_id="r1"))
    new_runner().decide(first.id, Answer("one"))
    second = single_wait(new_runner().resume("r1"))

    assert [f"https://example.com/{each.id}" for each in (first, second)] == urls
    # A repeat of the first call ends nothing.
    with suppress(errors.AlreadyDecided):
        new_runner().decide(first.id, Answer("one"))
    assert second.id == single_wait(new_runner().resume("r1")).id
    new_runner().decide(second.id, Answer("two"))
    assert ["result two"] == root_tool_results(new_runner().resume("r1"))


# Other features -----------------------------------------------------------------


class Machines:
    """New processes that share a store, with the tool that waits three times."""

    def __init__(self, **options: Any) -> None:
        self.seen: Seen = []
        self.store, self.clock = MemoryStore(), ManualClock()
        self._options = options

    def runner(self, store: Store | None = None) -> Runner:
        agent = agent_of(make_tool(self.seen, **self._options))
        return Runner(agent, store=store or self.store, clock=self.clock)

    def wait_of(self, run_id: str = "r1") -> Wait:
        [wait] = self.runner().look(run_id).waits
        return wait

    def answer(self, value: str, run_id: str = "r1") -> Outcome[Any]:
        """Answer the open wait of a run, and let a new process go on."""
        self.runner().decide(self.wait_of(run_id).id, Answer(value))
        return self.runner().resume(run_id)

    def start_job(self) -> int:
        """Let the run wait for its job; return the version that waits."""
        self.runner().start("go", run_id="r1")
        self.answer("3")
        assert "external" == self.wait_of().kind
        return self.runner().look("r1").version

    @property
    def stages(self) -> list[int]:
        """The stages that had an effect, in their order."""
        return [each[0] for each in self.seen]


@pytest.mark.parametrize("how", ["rewind", "fork"])
def test_person_is_asked_before_a_stage_runs_again_after_a_rewind_or_a_fork(
    how: str,
) -> None:
    machines = Machines()
    waiting = machines.start_job()
    old = machines.wait_of()
    machines.answer("sent")
    assert [0, 1, 2] == machines.stages

    run_id = "r1"
    if how == "rewind":
        machines.runner().rewind("r1", waiting)
    else:
        run_id = machines.runner().fork("r1", waiting, run_id="f1")
    renewed = machines.wait_of(run_id)
    assert (1, "external") == (renewed.stage, renewed.kind)
    assert renewed.id != old.id
    machines.answer("sent again", run_id)

    assert [0, 1, 2] == machines.stages
    unknown = machines.wait_of(run_id)
    assert ("unknown", 2) == (unknown.kind, unknown.stage)
    machines.runner().decide(unknown.id, Approve())
    machines.runner().resume(run_id)
    assert (2, "sent again", "job") == machines.seen[-1][:3]


def test_adopted_run_waits_on_with_its_memo() -> None:
    machines = Machines()
    machines.start_job()
    data = machines.runner().look("r1").to_bytes()
    machines.store = MemoryStore()

    machines.runner().adopt(data, run_id="a1")
    machines.answer("sent", "a1")

    assert (2, "sent", "job") == machines.seen[-1][:3]


def test_on_cancel_reads_the_memo_of_the_last_wait() -> None:
    told: list[tuple[int, Any, str]] = []

    @tool
    def job(what: str) -> ToolWait[str]:
        """Start a job."""
        return ask(f"{what}?")

    @job.on_answer
    def go(answer: str) -> ToolWait[str]:
        return external("job", str, memo={"job": answer})

    @job.on_cancel
    def stop(ctx: ToolContext) -> None:
        told.append((ctx.stage, ctx.memo, ctx.wait_id))

    runner = Runner(agent_of(job), store="memory:")
    runner.decide(single_wait(runner.start("go", run_id="r1")).id, Answer("j7"))
    wait = single_wait(runner.resume("r1"))
    runner.cancel("r1")

    with suppress(errors.Cancelled):
        runner.resume("r1")
    assert [(1, {"job": "j7"}, wait.id)] == told


def test_erase_at_a_later_stage_leaves_only_the_tombstone() -> None:
    machines = Machines()
    machines.start_job()
    wait = machines.wait_of()
    machines.runner().cancel("r1")
    machines.runner().resume("r1")

    machines.runner().erase("r1")

    async def keys() -> list[str]:
        return await machines.store.keys("")

    left = [key for key in asyncio.run(keys()) if not key.startswith("probe/")]
    assert ["markers", "runs"] == sorted({key.split("/")[0] for key in left}), left
    assert 1 == sum(key.startswith("runs/") for key in left), left
    with pytest.raises((errors.Cancelled, errors.RunErased)):
        machines.runner().decide(wait.id, Answer("late"))


def test_heartbeat_extends_the_job_of_a_later_stage() -> None:
    machines = Machines()
    machines.start_job()
    wait = machines.wait_of()

    machines.runner().heartbeat(wait.id, extend=3600)
    machines.clock.seconds += 600
    machines.runner().sweep()
    assert [0, 1] == machines.stages
    machines.answer("sent")

    assert (2, "sent") == machines.seen[-1][:2]


def test_memo_is_in_no_form_for_people() -> None:
    """A tool may keep the id of a job there, which is nobody's business."""
    machines = Machines()
    machines.start_job()
    runner = machines.runner()
    api = HttpApi(runner.async_runner, verify=lambda _: Identity("kim"))
    texts = [
        repr(runner.look("r1")),
        str(list(runner.events("r1"))),
        *(
            asyncio.run(api.handle(Request(method="GET", path=path))).body
            for path in (
                "/runs/r1",
                "/runs/r1/events",
                "/waits/" + machines.wait_of().id,
            )
        ),
    ]

    assert not [text for text in texts if '"job"' in text or "asked" in text]


@pytest.mark.parametrize("moment", ["before", "after"])
def test_crash_at_any_operation_repeats_no_stage(moment: Any) -> None:
    """A person tells the truth about a stage that may have run."""
    for point in every_crash(moment, more_than=10, step=6):
        machines = Machines()
        with point.process(machines.store) as dying:
            runner = machines.runner(dying)
            runner.start("go", run_id="r1")
            for value in ("3", "sent", "yes"):
                [wait] = runner.look("r1").waits
                runner.decide(wait.id, Answer(value))
                runner.resume("r1")
        ended = finish(machines)

        assert isinstance(ended, Finished), point
        assert machines.stages == sorted({*machines.stages}), point
        assert len(machines.seen) == len({each[3] for each in machines.seen}), point
        assert ["pens: yes"] == root_tool_results(ended), point


def finish(machines: Machines) -> Outcome[Any]:
    """Let new processes end a run, whatever it waits for."""
    values = {0: "3", 1: "sent", 2: "yes"}
    for _ in range(20):
        machines.clock.seconds += 120
        try:
            outcome = machines.runner().resume("r1")
        except errors.RunNotFound:
            outcome = machines.runner().start("go", run_id="r1")
        if not isinstance(outcome, Suspended):
            return outcome
        wait = single_wait(outcome)
        verdict: Answer | Approve = Answer(values[wait.stage % 3])
        if wait.kind == "unknown":
            # The result of the call, if its stage has run.
            ran = wait.stage in machines.stages
            verdict = Answer("pens: yes") if ran else Approve()
        with suppress(errors.AlreadyDecided):
            machines.runner().decide(wait.id, verdict)
    pytest.fail("the run does not end")


# Crashes ------------------------------------------------------------------------


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
        return sleep(1, memo=what)

    @nap.on_answer
    def again(answer: str) -> ToolWait[str]:
        return sleep(1, memo=answer)

    clock = ManualClock()
    runner = Runner(agent_of(nap), store="memory:", clock=clock)
    outcome: Any = runner.start("go", run_id="r1")
    while isinstance(outcome, Suspended) and clock.seconds < 20:
        clock.seconds += 1
        outcome = runner.resume("r1")

    assert isinstance(outcome, Finished)
    text = "ERROR: the tool has waited 3 times. Its effects remain."
    messages = cast("Any", outcome).continuation.root.messages
    assert text == messages[-2]["content"]


MAKERS: list[Callable[[], ToolWait[Any]]] = [
    lambda: ask("Which?", memo={1}),
    lambda: wait_for("mail", memo={1}),
    lambda: external("job", memo={1}),
    lambda: sleep(1, memo={1}),
    lambda: sleep_until(datetime.now(UTC), memo={1}),
]


@pytest.mark.parametrize("make", MAKERS)
def test_call_fails_if_its_memo_is_not_json(make: Callable[[], ToolWait[Any]]) -> None:
    @tool
    def waits(what: str) -> ToolWait[Any]:
        """Wait."""
        del what
        return make()

    ended = Runner(agent_of(waits), store="memory:").start("go", run_id="r1")

    assert isinstance(ended, Finished)
    [text] = root_tool_results(ended)
    assert "memo must be a JSON value: " in text


def test_memo_in_a_workflow_is_refused() -> None:
    @workflow
    async def asks(flow: Flow) -> str:
        assert flow.now()
        return await ask("Which?", memo=1)

    runner = Runner(asks, store="memory:")
    with pytest.raises(errors.RunFailed, match="In a workflow, keep the value in a"):
        runner.start(asks.bind(), run_id="r1").result()
