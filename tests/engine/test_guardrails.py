"""Guardrails refuse the input, the output and the calls of an agent."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest

from continuations import (
    Agent,
    Approve,
    Deny,
    Failed,
    Finished,
    Runner,
    Suspended,
    resume,
    run,
)
from continuations.errors import HookFailed
from continuations.events import GuardrailTripped, StreamEvent
from continuations.guardrails import Guardrail, Guardrails, Tripped
from continuations.hooks import CallInfo, ReplyInfo, TurnInfo
from continuations.models.scripted import ScriptedModel, ToolCall
from tests.engine.agent_builders import Opinion, contents, text_tool
from tests.outcomes import expect, single_wait

SECRET = "4111 1111"


def no_secret(info: TurnInfo | ReplyInfo) -> Tripped | None:
    """Refuse texts with a card number."""
    return Tripped("it has a card number") if SECRET in info.text else None


def checker(*verdicts: str) -> Agent:
    model = ScriptedModel(list(verdicts))
    return Agent("checker", model=model, output_type=Opinion, instructions="Check.")


def trips(events: Iterable[StreamEvent]) -> list[tuple[str, str, str]]:
    """Return what the events say about guardrails."""
    return [
        (each.guardrail, each.stage, each.reason)
        for each in events
        if isinstance(each, GuardrailTripped)
    ]


# Input ------------------------------------------------------------------------------


def test_refused_input_ends_the_run_without_a_request() -> None:
    """The failure names the guardrail and its reason, and so does an event."""
    model = ScriptedModel(["never"])
    agent = Agent("a", model=model, guardrails=Guardrails(input=[no_secret]))
    runner = Runner(agent, store="memory:")

    failed = expect(runner.start(f"pay with {SECRET}", run_id="r"), Failed)

    assert "guardrail" == failed.error.code
    assert "the guardrail no_secret refused the input" in failed.error.message
    assert "it has a card number" in failed.error.message
    assert [] == model.requests
    expected = [("no_secret", "input", "it has a card number")]
    assert expected == trips(runner.events("r"))


def test_input_is_checked_once_for_each_message() -> None:
    """Not before each turn; a thread is checked for each of its messages."""
    texts: list[str] = []

    def note(turn: TurnInfo) -> Tripped | None:
        texts.append(turn.text)
        return Tripped("no") if turn.text == "second" else None

    look = text_tool("look", "seen")
    # The note about the refused message counts as a reply of the script.
    model = ScriptedModel([ToolCall("look", {}), "one", "not asked", "two"])
    agent = Agent("a", tools=[look], model=model, guardrails=Guardrails(input=[note]))
    thread = Runner(agent, store="memory:").thread("a", key="k")

    assert "one" == thread.send("first").output
    refused = expect(thread.send("second"), Failed)
    assert "guardrail" == refused.error.code
    assert 2 == len(model.requests)
    assert "two" == thread.send("third").output
    assert ["first", "second", "third"] == texts


def test_refused_input_of_a_sub_agent_is_an_error_of_its_call() -> None:
    """The calling agent reads it, and the event tells the path."""
    below = Agent(
        "below",
        model=ScriptedModel(["never"]),
        guardrails=Guardrails(input=[no_secret]),
    )
    model = ScriptedModel([ToolCall("below", {"input": SECRET}), "done"])
    runner = Runner(Agent("boss", tools=[below], model=model), store="memory:")

    finished = expect(runner.start("go", run_id="r"), Finished)

    assert contents(finished)[2].startswith("ERROR: the agent below failed: the guard")
    [event] = [e for e in runner.events("r") if isinstance(e, GuardrailTripped)]
    assert ("boss", "below") == event.path


# Output -----------------------------------------------------------------------------


def test_refused_output_is_not_the_output_and_is_not_stored() -> None:
    """Neither the outcome nor a version has the text."""
    agent = Agent(
        "a",
        model=ScriptedModel([f"the card is {SECRET}"]),
        guardrails=Guardrails(output=[no_secret]),
    )
    runner = Runner(agent, store="memory:")

    failed = expect(runner.start("go", run_id="r"), Failed)

    assert "guardrail" == failed.error.code
    assert SECRET.encode() not in failed.continuation.to_bytes()
    assert [("no_secret", "output", "it has a card number")] == trips(
        runner.events("r")
    )


def test_model_is_asked_again_after_a_refused_output() -> None:
    """With `retry`, within `output_retries`; each refusal is an event."""
    model = ScriptedModel([SECRET, SECRET, "done"])
    retry = Guardrail(check=no_secret, on_trip="retry")
    agent = Agent(
        "a", model=model, guardrails=Guardrails(output=[retry]), output_retries=2
    )
    runner = Runner(agent, store="memory:")

    finished = expect(runner.start("go", run_id="r"), Finished)

    assert "done" == finished.output
    assert SECRET.encode() not in finished.continuation.to_bytes()
    assert 2 == len(trips(runner.events("r")))


def test_guardrail_on_the_output_reads_the_typed_output() -> None:
    """`ReplyInfo.output` has the type of the agent."""

    def small(reply: ReplyInfo) -> Tripped | None:
        return Tripped("too large") if reply.output > 10 else None

    agent = Agent(
        "a",
        model=ScriptedModel(["12", "7"]),
        output_type=int,
        guardrails=Guardrails(output=[Guardrail(check=small, on_trip="retry")]),
    )
    assert 7 == run(agent, "go").result()


def test_refused_output_of_a_thread_is_never_given_later() -> None:
    """The reply to the message is a failure, and the next message goes on."""
    agent = Agent(
        "a",
        model=ScriptedModel([SECRET, "fine"]),
        guardrails=Guardrails(output=[no_secret]),
    )
    thread = Runner(agent, store="memory:").thread("a", key="k")

    assert isinstance(thread.send("one"), Failed)
    assert "fine" == thread.send("two").output
    assert all(SECRET not in str(each) for each in thread.messages())


# Calls ------------------------------------------------------------------------------


def payments(on_trip: Any, replies: Any, paid: list[int], **options: Any) -> Agent:
    """Return an agent whose guardrail is about large payments."""
    pay = text_tool("pay", "paid {cents}", {"cents": int}, into=paid, **options)

    def large(call: CallInfo) -> Tripped | None:
        return Tripped("more than 100") if call.arguments["cents"] > 100 else None

    return Agent(
        "clerk",
        tools=[pay],
        model=ScriptedModel(replies),
        guardrails=Guardrails(tools=[Guardrail(check=large, on_trip=on_trip)]),
    )


def approves(cents: int) -> Approve:
    return Approve(reason=f"{cents} is fine")


CALLS: Any = [
    [ToolCall("pay", {"cents": 900}), ToolCall("pay", {"cents": 5})],
    "done",
]


def test_refused_call_does_not_run_and_the_others_do() -> None:
    """The model reads the reason; each call has its result."""
    paid: list[int] = []
    runner = Runner(payments(None, CALLS, paid), store="memory:")

    finished = expect(runner.start("go", run_id="r"), Finished)

    assert [5] == paid
    refused, returned = contents(finished)[2:4]
    assert "the guardrail large refused it: more than 100" in refused
    assert "paid 5" == returned
    assert [("large", "tool", "more than 100")] == trips(runner.events("r"))


def test_many_refused_calls_of_one_turn_are_as_many_events() -> None:
    """Also if they end in one version."""
    calls = [ToolCall("pay", {"cents": 200 + each}) for each in range(40)]
    runner = Runner(payments(None, [calls, "done"], []), store="memory:")

    runner.start("go", run_id="r")

    assert 40 == len(trips(runner.events("r")))


def test_agent_ends_if_it_repeats_a_refused_call() -> None:
    """`max_denials` counts refusals of guardrails too."""
    call = ToolCall("pay", {"cents": 900})
    failed = expect(run(payments(None, [call] * 9, []), "go"), Failed)

    assert "max_denials" == failed.error.code


def test_refused_call_can_fail_the_run() -> None:
    """`on_trip="fail"`: nothing more runs."""
    paid: list[int] = []
    failed = expect(run(payments("fail", CALLS, paid), "go"), Failed)

    assert "guardrail" == failed.error.code
    assert "the call of pay: more than 100" in failed.error.message
    assert [] == paid


@pytest.mark.parametrize("approval", [None, approves])
def test_guardrail_can_ask_a_person(approval: Any) -> None:
    """The person reads the reason, whatever the policy of the tool says."""
    paid: list[int] = []
    call = [ToolCall("pay", {"cents": 900}), "done"]
    runner = Runner(payments("ask", call, paid, approval=approval), store="memory:")
    wait = single_wait(runner.start("go", run_id="r"))
    assert "approval" == wait.kind
    assert "The guardrail large asks for this approval: more than 100" == wait.note
    assert [] == paid
    assert [("large", "tool", "more than 100")] == trips(runner.events("r"))

    runner.decide(wait.id, Approve(by="kim"))

    assert isinstance(runner.resume("r"), Finished)
    assert [900] == paid


def test_denied_call_of_a_guardrail_does_not_run() -> None:
    """Also without a store."""
    paid: list[int] = []
    call = [ToolCall("pay", {"cents": 900}), "done"]
    agent = payments("ask", call, paid)
    suspended = expect(run(agent, "go"), Suspended)

    answers = {suspended.waits[0].id: Deny(by="kim")}
    finished = resume(suspended.continuation.to_bytes(), agent, answers=answers)

    assert isinstance(finished, Finished)
    assert [] == paid


@pytest.mark.parametrize("result", [ValueError(SECRET), True, "no"])
def test_call_does_not_run_if_its_guardrail_fails(result: Any) -> None:
    """A guardrail that raises, or returns anything else, lets nothing through."""
    paid: list[int] = []
    pay = text_tool("pay", "paid", {"cents": int}, into=paid)

    def check(_: CallInfo) -> Any:
        if isinstance(result, Exception):
            raise result
        return result

    model = ScriptedModel([ToolCall("pay", {"cents": 5}), "done"])
    agent = Agent("a", tools=[pay], model=model, guardrails=Guardrails(tools=[check]))
    finished = expect(run(agent, "go"), Finished)

    assert "the guardrail check" in contents(finished)[2]
    assert SECRET not in contents(finished)[2]
    assert [] == paid


# Agents as guardrails ---------------------------------------------------------------


def test_agent_checks_the_input_and_its_request_counts() -> None:
    """It reads the text, and its usage is the usage of the run."""
    guard = checker('{"tripped": true, "reason": "not about parcels"}')
    model = ScriptedModel(["never"])
    agent = Agent("a", model=model, guardrails=Guardrails(input=[guard]))
    failed = expect(run(agent, "write a poem"), Failed)

    assert "the guardrail checker refused the input: not about parcels" in str(
        failed.error.message
    )
    assert [] == model.requests
    assert 1 == failed.continuation.usage.requests
    model_of_guard: Any = guard.model
    [request] = model_of_guard.requests
    assert ["Check.", "write a poem"] == [each.content for each in request.messages]


def test_agent_checks_the_output() -> None:
    """An output that passes is the output; both requests count."""
    guard = checker('{"tripped": false, "reason": ""}')
    agent = Agent(
        "a", model=ScriptedModel(["fine"]), guardrails=Guardrails(output=[guard])
    )
    finished = expect(run(agent, "go"), Finished)

    assert ("fine", 2) == (finished.output, finished.usage.requests)


def test_verdict_of_the_wrong_type_lets_nothing_through() -> None:
    """The turn is not recorded; the request of the guardrail is paid for."""
    agent = Agent(
        "a",
        model=ScriptedModel(["never"]),
        guardrails=Guardrails(input=[checker("maybe")]),
    )
    with pytest.raises(HookFailed, match="guardrail checker") as error:
        run(agent, "go")

    assert error.value.continuation is not None
    assert 1 == error.value.continuation.usage.requests
