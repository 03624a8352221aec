"""Guardrails, hooks and budgets where one rule meets another, or an agent stops."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, NamedTuple

import pytest

from continuations import (
    Agent,
    Approve,
    AsyncRunner,
    Budget,
    Compaction,
    Failed,
    Finished,
    Runner,
    Suspended,
    ToolContext,
    run,
    tool,
)
from continuations.errors import HookFailed, ModelError, PriceUnknown
from continuations.guardrails import Guardrail, Guardrails, Tripped
from continuations.hooks import CallInfo, ChangeRequest, Hooks, TurnInfo
from continuations.models.interface import (
    LostReply,
    Message,
    ModelReply,
    ModelRequest,
    PendingReply,
)
from continuations.models.scripted import ScriptedModel, ToolCall
from continuations.prices import Price, Prices, Usage
from continuations_storage import MemoryStore
from tests.clocks import ManualClock
from tests.engine.agent_builders import Opinion
from tests.outcomes import expect, single_wait


def large(call: CallInfo) -> Tripped | None:
    """Stop a large payment."""
    return Tripped("it is large") if call.arguments["cents"] > 100 else None


def blocked(call: CallInfo) -> Tripped | None:
    """Stop a payment to a blocked account."""
    return Tripped("it is blocked") if call.arguments["to"] == "evil" else None


def payer(paid: list[Any], to: str, guardrails: Guardrails) -> Runner:
    """Return a runner whose agent pays once, and is asked for each payment."""

    @tool(approval=True)
    def pay(to: str, cents: int) -> str:
        """Pay."""
        paid.append((to, cents))
        return "paid"

    model = ScriptedModel([ToolCall("pay", {"to": to, "cents": 500}), "done"])
    agent = Agent("a", tools=[pay], model=model, guardrails=guardrails)
    return Runner(agent, store="memory:")


@pytest.mark.parametrize("asks_first", [True, False])
def test_guardrail_that_refuses_counts_in_every_order(*, asks_first: bool) -> None:
    paid: list[Any] = []
    checks = [Guardrail(check=large, on_trip="ask"), Guardrail(check=blocked)]
    order = checks if asks_first else checks[::-1]

    outcome = expect(payer(paid, "evil", Guardrails(tools=order)).start("go"), Finished)

    assert [] == paid
    refused = outcome.continuation.root.messages[-2]["content"]
    assert "it is blocked" in refused


def test_edited_arguments_are_checked_by_a_guardrail_that_refuses() -> None:
    """A person answers a guardrail that asks, and does not overrule the other one."""
    paid: list[Any] = []
    checks = [Guardrail(check=large, on_trip="ask"), Guardrail(check=blocked)]
    runner = payer(paid, "good", Guardrails(tools=checks))
    waiting = expect(runner.start("go", run_id="r"), Suspended)
    edited = Approve(by="kim", arguments={"to": "evil", "cents": 500})
    runner.decide(waiting.waits[0].id, edited)

    assert isinstance(runner.resume("r"), Finished)

    assert [] == paid


def test_approved_call_of_a_guardrail_that_asks_runs() -> None:
    paid: list[Any] = []
    asking = Guardrails(tools=[Guardrail(check=large, on_trip="ask")])
    runner = payer(paid, "good", asking)
    runner.decide(single_wait(runner.start("go", run_id="r")).id, Approve(by="kim"))

    assert isinstance(runner.resume("r"), Finished)
    assert [("good", 500)] == paid


@dataclass
class Count:
    """A state."""

    n: int = 0


def test_hook_that_observes_a_result_keeps_the_state() -> None:
    seen: list[str] = []

    @tool(writes_state=True)
    def add(ctx: ToolContext) -> str:
        """Add one."""
        ctx.update(n=ctx.state.n + 1)
        return "ok"

    model = ScriptedModel([[ToolCall("add", {}), ToolCall("add", {})], "done"])
    hooks = Hooks(after_tool=lambda info: seen.append(info.text))
    outcome = run(Agent("a", tools=[add], model=model, state=Count, hooks=hooks), "go")

    assert isinstance(outcome, Finished)
    assert ["ok", "ok"] == seen
    assert {"n": 2} == outcome.continuation.root.state


class Reporting:
    """A model that reports a usage."""

    name = "m"

    def __init__(self, usage: Any) -> None:
        self.usage = usage
        self.asked = 0

    async def reply(self, request: ModelRequest) -> ModelReply:
        del request
        self.asked += 1
        message = Message.from_mapping({"role": "assistant", "content": "hello"})
        return ModelReply(message=message, usage=self.usage)


PRICES = Prices({"m": Price(input="1", output="1")})


@pytest.mark.parametrize(
    "usage",
    [
        Usage(requests=1, input_tokens=-5),
        Usage(requests=1, input_tokens=5, cached_tokens=-1000),
        Usage(requests=1, input_tokens=1.5),  # type: ignore[arg-type]
        Usage(requests=1, input_tokens=10**30),
        Usage(requests=1, input_tokens=5, cost_units=-1, priced=6, currency="USD"),
        None,
    ],
    ids=["negative", "cached", "float", "huge", "credit", "none"],
)
def test_usage_that_is_no_count_is_refused(usage: Any) -> None:
    """The error names the usage, and the run can be read and resumed."""
    model = Reporting(usage)
    runner = Runner(Agent("a", model=model), store="memory:", prices=PRICES)
    with pytest.raises(ModelError, match="usage"):
        runner.start("go", run_id="r", budget=Budget(cost="5"))

    assert not runner.look("r").usage.cost_units
    model.usage = Usage(requests=1, input_tokens=5, output_tokens=1)
    assert isinstance(runner.resume("r"), Finished)


def test_reply_without_tokens_has_no_known_cost() -> None:
    """A budget in money then ends the run: a missing count is never no limit."""
    model = Reporting(Usage(requests=1))
    runner = Runner(Agent("a", model=model), store="memory:", prices=PRICES)

    outcome = runner.start("go", budget=Budget(cost="5"))

    assert isinstance(outcome, Finished | Failed)
    assert outcome.continuation.usage.cost is None
    assert 1 == model.asked


def test_agent_of_a_guardrail_needs_a_price() -> None:
    judge = Agent("judge", model=Reporting(None), output_type=Opinion)
    judge_model: Any = judge.model
    judge_model.name = "unknown-model"
    guardrails = Guardrails(input=[Guardrail(check=judge)])
    agent = Agent("a", model=Reporting(None), guardrails=guardrails)
    runner = Runner(agent, store="memory:", prices=PRICES)

    with pytest.raises(PriceUnknown, match="unknown-model"):
        runner.start("go", run_id="r", budget=Budget(cost="5"))


# Agents that stop in the middle, wait, or are shortened -----------------------


async def test_run_that_must_fail_fails_after_a_stop_too(store: MemoryStore) -> None:
    """A worker is cancelled after a guardrail tripped, while another agent works."""
    paid: list[str] = []
    works, tripped, may_end = asyncio.Event(), asyncio.Event(), asyncio.Event()

    @tool(idempotent=True)
    async def work() -> str:
        """Work."""
        works.set()
        await may_end.wait()
        return "ok"

    @tool
    def pay() -> str:
        """Pay."""
        paid.append("pay")
        return "paid"

    def fraud(_call: Any) -> Tripped:
        tripped.set()
        return Tripped("fraud")

    async def second(request: ModelRequest) -> Any:
        await works.wait()
        done = any(message.role == "tool" for message in request.messages)
        return "done" if done else ToolCall("pay", {})

    def make(store: MemoryStore) -> AsyncRunner:
        first = Agent(
            "first", tools=[work], model=ScriptedModel([ToolCall("work", {}), "done"])
        )
        checks = Guardrails(tools=[Guardrail(check=fraud, on_trip="fail")])
        other = Agent(
            "other", tools=[pay], model=ScriptedModel(second), guardrails=checks
        )
        calls = [ToolCall(each, {"input": "x"}) for each in ("first", "other")]
        model = ScriptedModel([calls, "done"])
        return AsyncRunner(
            Agent("root", tools=[first, other], model=model), store=store
        )

    task = asyncio.create_task(make(store).start("go", run_id="r"))
    await asyncio.wait_for(tripped.wait(), 60)
    await asyncio.sleep(0.05)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    may_end.set()
    outcome = expect(await make(store).resume("r"), Failed)

    assert "guardrail" == outcome.error.code
    assert [] == paid


class Later:
    """A model whose replies are ready later; some are lost."""

    name = "later"

    def __init__(self, lost: int = 0) -> None:
        self.asked = 0
        self.lost = lost

    async def reply(self, request: ModelRequest) -> PendingReply:
        del request
        self.asked += 1
        return PendingReply(id=f"p{self.asked}", poll_after=timedelta(seconds=1))

    async def poll(self, reply_id: str, request: ModelRequest) -> Any:
        """Return the reply, unless it is lost."""
        del reply_id, request
        if self.asked <= self.lost:
            return LostReply(reason="gone")
        message = Message.from_mapping({"role": "assistant", "content": "hi"})
        return ModelReply(message=message, usage=Usage(requests=1, input_tokens=1000))


def finished(runner: Runner, outcome: Any, clock: ManualClock) -> Finished[Any]:
    """Resume a run until it ends."""
    for _ in range(20):
        if isinstance(outcome, Finished):
            return outcome  # pyright: ignore[reportUnknownVariableType] - of any output
        assert isinstance(outcome, Suspended)
        clock.seconds += 7200
        outcome = runner.resume("r")
    raise AssertionError(outcome)


def test_reply_that_a_hook_could_not_read_is_paid_once(clock: ManualClock) -> None:
    """It is polled again, and the provider bills it once."""
    failing = [True, True, False]

    def check(_reply: Any) -> None:
        if failing.pop(0):
            msg = "no"
            raise RuntimeError(msg)

    agent = Agent("a", model=Later(), hooks=Hooks(after_model=check))
    runner = Runner(agent, store=MemoryStore(clock.now), clock=clock)
    assert isinstance(runner.start("go", run_id="r"), Suspended)
    for _ in range(2):
        clock.seconds += 300
        with pytest.raises(HookFailed):
            runner.resume("r")
    clock.seconds += 300
    outcome = finished(runner, runner.resume("r"), clock)

    assert 1000 == outcome.usage.input_tokens
    assert [] == failing


def test_messages_of_a_hook_are_stored_once_after_a_lost_reply() -> None:
    """And a guardrail of inputs does not read them as the user's."""
    read: list[str] = []

    def note(turn: TurnInfo) -> None:
        read.append(turn.text)

    clock = ManualClock()
    agent = Agent(
        "a",
        model=Later(lost=2),
        hooks=Hooks(before_model=lambda _turn: ChangeRequest(messages=["be brief"])),
        guardrails=Guardrails(input=[note]),
    )
    runner = Runner(agent, store=MemoryStore(clock.now), clock=clock)
    outcome = finished(runner, runner.start("go", run_id="r"), clock)

    contents = [each["content"] for each in outcome.continuation.root.messages]
    assert ["go", "be brief", "hi"] == contents
    assert {"go"} == set(read)


def test_compaction_keeps_the_request_of_the_user_behind_messages_of_hooks() -> None:
    @tool
    def look(n: int) -> str:
        """Look."""
        return f"{n} " * 30

    turns = iter(range(9))

    def reply(_request: Any) -> Any:
        n = next(turns)
        return ToolCall("look", {"n": n}) if n < 8 else "done"

    agent = Agent(
        "a",
        tools=[look],
        model=ScriptedModel(reply),
        hooks=Hooks(before_model=lambda _turn: ChangeRequest(messages=["It is 10."])),
        compaction=Compaction(
            soft=100, hard=5000, keep_last=4, summarize=lambda _messages: "S"
        ),
    )
    outcome = expect(run(agent, "The task of the user"), Finished)

    contents = [each["content"] for each in outcome.continuation.root.messages]
    assert "The task of the user" in contents
    assert any(str(each).endswith("S") for each in contents)


@dataclass(slots=True)
class Slotted:
    """A verdict without `__dict__`."""

    tripped: bool
    reason: str


class Named(NamedTuple):
    """A verdict that is a tuple."""

    tripped: bool
    reason: str


@pytest.mark.parametrize(
    ("verdict", "text"),
    [
        (Slotted, '{"tripped": true, "reason": "bad"}'),
        (Named, '[true, "bad"]'),
    ],
)
def test_agent_of_a_guardrail_may_have_any_class(verdict: Any, text: str) -> None:
    model = ScriptedModel([text])
    judge = Agent("judge", output_type=verdict, model=model)
    agent = Agent(
        "a", model=ScriptedModel(["hi"]), guardrails=Guardrails(input=[judge])
    )

    outcome = expect(run(agent, "go"), Failed)

    assert "bad" in outcome.error.message
