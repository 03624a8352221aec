"""Hooks and guardrails of agents that stop in the middle, wait, or are shortened."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, NamedTuple

import pytest

from continuations import (
    Agent,
    AsyncRunner,
    Compaction,
    Failed,
    Finished,
    Runner,
    Suspended,
    run,
    tool,
)
from continuations.errors import HookFailed
from continuations.guardrails import Guardrail, Guardrails, Tripped
from continuations.hooks import ChangeRequest, Hooks, TurnInfo
from continuations.models.interface import (
    LostReply,
    Message,
    ModelReply,
    ModelRequest,
    PendingReply,
)
from continuations.models.scripted import ScriptedModel, ToolCall
from continuations.prices import Usage
from continuations_storage import MemoryStore
from tests.clocks import ManualClock
from tests.outcomes import expect


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
        """Return the id of a reply."""
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
