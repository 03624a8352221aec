"""An agent is a guardrail of calls: it is asked in a task, before the call begins."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any

import pytest

from continuations import (
    Agent,
    Approve,
    Budget,
    Failed,
    Finished,
    Runner,
    Suspended,
    run,
    tool,
)
from continuations.core.messages import Message
from continuations.errors import ModelError
from continuations.events import GuardrailTripped
from continuations.guardrails import Guardrail, Guardrails
from continuations.hooks import CallInfo
from continuations.models.interface import ModelReply, ModelRequest
from continuations.models.scripted import ScriptedModel, ToolCall
from continuations.tools import Secret
from continuations_storage import MemoryStore
from tests.clocks import ManualClock
from tests.outcomes import expect, single_wait


@dataclass
class Verdict:
    """The output of an agent that checks."""

    tripped: bool
    reason: str


class Judge:
    """Trips over calls with more than 100 cents, and keeps what it read."""

    name = "judge"

    def __init__(
        self, verdict: Callable[[dict[str, Any]], object] | None = None
    ) -> None:
        self.read: list[dict[str, Any]] = []
        self._verdict = verdict

    async def reply(self, request: ModelRequest) -> ModelReply:
        """Return a verdict about the call in the last message."""
        call = json.loads(request.messages[-1].content)
        self.read.append(call)
        cents = call["arguments"].get("cents", 0)
        verdict: object = {"tripped": cents > 100, "reason": "too much"}
        if self._verdict is not None:
            verdict = self._verdict(call)
        data = {"role": "assistant", "content": json.dumps(verdict)}
        return ModelReply(message=Message.from_mapping(data))


def checker(judge: Judge) -> Agent:
    """Return an agent that checks calls."""
    return Agent("checker", model=judge, output_type=Verdict, instructions="Check.")


def clerk(
    judge: Judge, paid: list[int], *, on_trip: Any = None, approval: Any = None
) -> Agent:
    """Return an agent that pays 900 and 7 cents."""

    @tool(approval=approval)
    def pay(cents: int) -> str:
        """Pay."""
        paid.append(cents)
        return f"paid {cents}"

    calls: Any = [ToolCall("pay", {"cents": 900}), ToolCall("pay", {"cents": 7})]
    return Agent(
        "clerk",
        tools=[pay],
        model=ScriptedModel([calls, "done"]),
        guardrails=Guardrails(tools=[Guardrail(check=checker(judge), on_trip=on_trip)]),
    )


def test_agent_refuses_a_call_and_lets_another_run() -> None:
    """It reads the tool and the arguments; its requests are part of the usage."""
    judge, paid = Judge(), list[int]()
    runner = Runner(clerk(judge, paid), store="memory:")

    finished = expect(runner.start("go", run_id="r"), Finished)

    assert [7] == paid
    read = sorted(json.dumps(each, sort_keys=True) for each in judge.read)
    assert [
        '{"arguments": {"cents": 7}, "tool": "pay"}',
        '{"arguments": {"cents": 900}, "tool": "pay"}',
    ] == read
    assert 4 == finished.usage.requests
    texts = [each["content"] for each in finished.continuation.root.messages]
    assert any("the guardrail checker refused it: too much" in str(t) for t in texts)
    told = [e for e in runner.events("r") if isinstance(e, GuardrailTripped)]
    assert [("checker", "tool", "too much")] == [
        (each.guardrail, each.stage, each.reason) for each in told
    ]


def test_agent_asks_about_a_call() -> None:
    """A person decides. The agent is not asked again about the same call."""
    judge, paid = Judge(), list[int]()
    runner = Runner(clerk(judge, paid, on_trip="ask"), store="memory:")

    wait = single_wait(runner.start("go", run_id="r"))
    assert "too much" in (wait.note or "")
    assert {"cents": 900} == wait.arguments
    assert [7] == paid
    runner.decide(wait.id, Approve(by="kim"))
    assert isinstance(runner.resume("r"), Finished)

    assert [7, 900] == paid
    assert 2 == len(judge.read)


def test_agent_ends_the_run() -> None:
    """`"fail"` holds for agents too, and the other call does not run after it."""
    judge, paid = Judge(), list[int]()
    failed = expect(run(clerk(judge, paid, on_trip="fail"), "go"), Failed)
    assert "guardrail" == failed.error.code
    assert 900 not in paid


def test_edited_arguments_are_checked_before_the_call_begins() -> None:
    """An approver cannot edit a call to one that the agent refuses."""
    judge, paid = Judge(lambda call: _over(call, 1000)), list[int]()
    runner = Runner(clerk(judge, paid, approval=True), store="memory:")
    suspended = expect(runner.start("go", run_id="r"), Suspended)
    first, second = suspended.waits
    runner.decide(first.id, Approve(arguments={"cents": 5000}, by="kim"))
    runner.decide(second.id, Approve(by="kim"))

    assert isinstance(runner.resume("r"), Finished)

    assert [7] == paid
    cents = [call["arguments"]["cents"] for call in judge.read]
    assert [7, 7, 900, 5000] == sorted(cents)


def _over(call: dict[str, Any], limit: int) -> dict[str, object]:
    return {"tripped": call["arguments"]["cents"] > limit, "reason": "too much"}


@pytest.mark.parametrize("verdict", ["nonsense", {"tripped": None, "reason": ""}])
def test_agent_that_gives_no_verdict_lets_nothing_through(verdict: object) -> None:
    """No decision is not yes."""
    judge, paid = Judge(lambda _: verdict), list[int]()
    finished = expect(run(clerk(judge, paid), "go"), Finished)
    assert [] == paid
    texts = [each["content"] for each in finished.continuation.root.messages]
    assert 2 == sum("the guardrail checker replied" in str(each) for each in texts)


def test_call_stays_proposed_while_the_model_of_the_guardrail_is_down() -> None:
    """The error is raised, nothing runs, and a later resume asks again."""

    def fails(call: dict[str, Any]) -> object:
        if down:
            msg = "down"
            raise ModelError(msg)
        return _over(call, 100)

    down, clock = [True], ManualClock()
    judge, paid = Judge(fails), list[int]()
    runner = Runner(clerk(judge, paid), store=MemoryStore(clock.now), clock=clock)
    with pytest.raises(ModelError, match="down"):
        runner.start("go", run_id="r")
    assert [] == paid
    calls = runner.look("r").root.calls
    assert ["proposed", "proposed"] == [each.state for each in calls]

    down.clear()
    assert isinstance(runner.resume("r"), Finished)
    assert [7] == paid


def test_requests_of_the_guardrail_count_for_the_budget() -> None:
    """The run ends before a call that was not checked."""
    judge, paid = Judge(), list[int]()
    failed = expect(run(clerk(judge, paid), "go", budget=Budget(requests=1)), Failed)
    assert "budget" == failed.error.code
    assert [] == paid
    assert [] == judge.read


def test_secret_arguments_are_masked_for_the_agent() -> None:
    """Another model does not read them."""
    judge = Judge()

    @tool
    def log_in(password: Annotated[str, Secret()]) -> str:
        """Log in."""
        return f"in with {len(password)} characters"

    agent = Agent(
        "a",
        tools=[log_in],
        model=ScriptedModel([ToolCall("log_in", {"password": "hunter2"}), "done"]),
        guardrails=Guardrails(tools=[checker(judge)]),
    )
    assert isinstance(run(agent, "go"), Finished)
    assert [{"tool": "log_in", "arguments": {"password": "[secret]"}}] == judge.read


def passes(_: CallInfo) -> None:
    """Let every call through."""


@pytest.mark.parametrize("guardrail", [None, passes, "agent"])
def test_accepted_call_asks_the_policy_of_newer_code(guardrail: Any) -> None:
    """Guardrails that pass do not replace the policy that the code has got."""
    paid: list[int] = []
    judge, model = Judge(), ScriptedModel([ToolCall("pay", {"cents": 7}), "done"])
    is_agent = guardrail == "agent"
    check = checker(judge) if is_agent else guardrail

    def make(*, approval: bool) -> Agent:
        @tool(approval=approval)
        def pay(cents: int) -> str:
            """Pay."""
            paid.append(cents)
            return "paid"

        guardrails = Guardrails(tools=[check]) if check is not None else None
        return Agent("a", tools=[pay], model=model, guardrails=guardrails)

    store = MemoryStore()
    # The call is accepted, and the worker stops before it begins.
    old = make(approval=False)
    paused = Runner(old, store=store).start(
        "go",
        run_id="r",
        should_pause=lambda: bool(judge.read if is_agent else model.requests),
    )
    assert isinstance(paused, Suspended)
    assert paused.paused
    [call] = Runner(old, store=store).look("r").root.calls
    assert "ready" == call.state

    asked = expect(Runner(make(approval=True), store=store).resume("r"), Suspended)

    assert "accepted without an approval" in (asked.waits[0].note or "")
    assert [] == paid
