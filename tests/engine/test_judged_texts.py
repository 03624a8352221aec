"""People decide about inputs and outputs, and an agent about calls."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Annotated, Any

import pytest

from continuations import (
    Agent,
    Answer,
    ApprovalPolicy,
    Approve,
    AsyncRunner,
    Budget,
    Deny,
    Failed,
    Finished,
    Runner,
    Suspended,
    Wait,
    ask,
    escalate,
    resume,
    run,
    tool,
)
from continuations.core.changes.judged_texts import judged_text
from continuations.core.messages import Message
from continuations.errors import DecisionRefused, ModelError, WaitExpired
from continuations.events import GuardrailTripped, MessageAdded, WaitOpened
from continuations.guardrails import Guardrail, Guardrails, Tripped
from continuations.hooks import CallInfo, ReplyInfo, TurnInfo
from continuations.models.interface import ModelReply, ModelRequest
from continuations.models.scripted import ScriptedModel, ToolCall
from continuations.tools import Secret
from continuations_storage import MemoryStore
from tests.clocks import ManualClock
from tests.engine.agent_builders import Opinion, contents, text_tool, wait_tool
from tests.outcomes import expect, single_wait


def fishy(info: TurnInfo | ReplyInfo) -> Tripped | None:
    """Trip over fish."""
    return Tripped("it smells") if "fish" in info.text else None


def rotten(info: TurnInfo | ReplyInfo) -> Tripped | None:
    """Trip over what is rotten."""
    return Tripped("it is rotten") if "rotten" in info.text else None


class EchoModel:
    """Repeats the last message of a user."""

    name = "echo"

    async def reply(self, request: ModelRequest) -> ModelReply:
        data = {"role": "assistant", "content": request.messages[-1].content}
        return ModelReply(message=Message.from_mapping(data))


ASKS = Guardrail(check=fishy, on_trip="ask")
INPUT = Guardrails(input=[ASKS])
OUTPUT = Guardrails(output=[ASKS])


def suspended(outcome: object) -> Suspended:
    """Return an outcome that waits for one decision."""
    assert isinstance(outcome, Suspended)
    assert 1 == len(outcome.waits)
    return outcome


def test_output_waits_for_a_person_and_is_returned_unchanged() -> None:
    """Before the decision it is neither the output nor a message."""
    model = ScriptedModel(["a fish"])
    runner = Runner(Agent("cook", model=model, guardrails=OUTPUT), store="memory:")

    asked = suspended(runner.start("go", run_id="r"))
    [wait] = asked.waits
    assert ("output", "cook", ("cook",)) == (wait.kind, wait.tool, wait.path)
    assert {"output": "a fish"} == wait.arguments
    assert "it smells" in (wait.note or "")
    assert "fishy" == wait.policy
    assert ["go"] == contents(asked)
    assert [wait.id] == [each.id for each in runner.waiting()]
    shown = [
        e.message["content"] for e in runner.events("r") if type(e) is MessageAdded
    ]
    assert ["go"] == shown

    # No decision is not yes.
    assert wait.id == suspended(runner.resume("r")).waits[0].id
    runner.decide(wait.id, Approve(by="kim"))
    finished = expect(runner.resume("r"), Finished)

    assert "a fish" == finished.output
    assert ["go", "a fish"] == contents(finished)
    assert 1 == len(model.requests) == finished.usage.requests
    told = [type(e) for e in runner.events("r")]
    assert 1 == told.count(GuardrailTripped) == told.count(WaitOpened)


def test_refused_output_ends_the_agent_with_the_error_of_a_guardrail() -> None:
    """No version has the text after the decision, and the model is not asked again."""
    model = ScriptedModel(["a fish"])
    runner = Runner(Agent("cook", model=model, guardrails=OUTPUT), store="memory:")
    [wait] = suspended(runner.start("go", run_id="r")).waits

    runner.decide(wait.id, Deny(by="kim", reason="not today"))
    failed = expect(runner.resume("r"), Failed)

    assert "guardrail" == failed.error.code
    assert "a person refused the output: not today" in failed.error.message
    assert "fishy" in failed.error.message
    assert ["go", "(This reply was withheld.)"] == contents(failed)
    assert b"a fish" not in failed.continuation.to_bytes()
    assert 1 == len(model.requests)


def test_input_waits_for_a_person_before_the_model_reads_it() -> None:
    """The accepted input is read once, and the guardrail does not ask again."""
    model = ScriptedModel(["well"])
    runner = Runner(Agent("cook", model=model, guardrails=INPUT), store="memory:")

    [wait] = suspended(runner.start("a fish", run_id="r")).waits
    assert ("input", {"input": "a fish"}) == (wait.kind, wait.arguments)
    assert [] == model.requests
    runner.decide(wait.id, Approve(by="kim"))
    assert "well" == runner.resume("r").result()
    assert 1 == len(model.requests)


@pytest.mark.parametrize("verdict", [Deny(by="kim"), None])
def test_input_that_nobody_accepts_is_never_read(verdict: Deny | None) -> None:
    """A deadline is not a yes."""
    clock, model = ManualClock(), ScriptedModel(["never"])
    policy = ApprovalPolicy(within=timedelta(hours=1))
    asks = Guardrail(check=fishy, on_trip="ask", approval=policy)
    agent = Agent("cook", model=model, guardrails=Guardrails(input=[asks]))
    runner = Runner(agent, store=MemoryStore(clock.now), clock=clock)
    [wait] = suspended(runner.start("a fish", run_id="r")).waits
    assert wait.deadline is not None

    if verdict is not None:
        runner.decide(wait.id, verdict)
    else:
        clock.seconds += 3601
        with pytest.raises(WaitExpired):
            runner.decide(wait.id, Approve(by="kim"))
    failed = expect(runner.resume("r"), Failed)

    assert "guardrail" == failed.error.code
    expected = "a person refused" if verdict else "no person accepted the input in time"
    assert expected in failed.error.message
    assert [] == model.requests


def test_only_approve_without_an_edit_accepts_a_text() -> None:
    """An answer or an edit is refused when it is given."""
    agent = Agent("cook", model=ScriptedModel(["a fish"]), guardrails=OUTPUT)
    runner = Runner(agent, store="memory:")
    [wait] = suspended(runner.start("go", run_id="r")).waits

    for verdict in (Answer("meat"), Approve(arguments={"output": "meat"})):
        with pytest.raises(DecisionRefused):
            runner.decide(wait.id, verdict)
    assert isinstance(runner.resume("r"), Suspended)


def test_several_people_accept_an_output() -> None:
    """The policy of the guardrail says who, and how many."""
    policy = ApprovalPolicy(approvers=["kim", "lee"], votes=2)
    asks = Guardrail(check=fishy, on_trip="ask", approval=policy)
    model = ScriptedModel(["a fish"])
    agent = Agent("cook", model=model, guardrails=Guardrails(output=[asks]))
    runner = Runner(agent, store="memory:")
    [wait] = suspended(runner.start("go", run_id="r")).waits

    with pytest.raises(DecisionRefused):
        runner.decide(wait.id, Approve(by="eve"))
    runner.decide(wait.id, Approve(by="kim"))
    assert isinstance(runner.resume("r"), Suspended)
    runner.decide(wait.id, Approve(by="lee"))
    assert isinstance(runner.resume("r"), Finished)


def test_other_people_are_asked_after_the_deadline() -> None:
    """An escalation keeps the text, in a store and without one."""
    policy = ApprovalPolicy(
        approvers=["kim"], within=60, on_deadline=escalate(to=["lee"], within=60)
    )
    asks = Guardrail(check=fishy, on_trip="ask", approval=policy)
    guardrails = Guardrails(output=[asks])
    clock, model = ManualClock(), ScriptedModel(["a fish"])
    agent = Agent("cook", model=model, guardrails=guardrails)
    runner = Runner(agent, store=MemoryStore(clock.now), clock=clock)
    [wait] = suspended(runner.start("go", run_id="r")).waits
    clock.seconds += 70
    runner.sweep()
    runner.decide(wait.id, Approve(by="lee"))
    assert isinstance(runner.resume("r"), Finished)

    agent = Agent("cook", model=ScriptedModel(["a fish"]), guardrails=guardrails)
    data = run(agent, "go", clock=clock).continuation.to_bytes()
    clock.seconds += 70
    data = suspended(resume(data, agent, clock=clock)).continuation.to_bytes()
    [wait] = suspended(resume(data, agent, clock=clock)).waits
    answers = {wait.id: Approve(by="lee")}
    assert "a fish" == resume(data, agent, answers=answers, clock=clock).result()


def test_guardrail_that_refuses_counts_behind_one_that_asks() -> None:
    """No person is asked about a text that cannot be used."""
    guardrails = Guardrails(input=[ASKS, rotten], output=[ASKS, rotten])
    model = ScriptedModel(["a rotten fish"])
    agent = Agent("cook", model=model, guardrails=guardrails)

    failed = expect(run(agent, "a rotten fish"), Failed)
    assert "rotten refused the input" in failed.error.message
    failed = expect(run(agent, "go"), Failed)
    assert "rotten refused the output" in failed.error.message


def test_accepted_input_that_changed_is_asked_about_again() -> None:
    """A message that came later is not covered by the decision."""
    model = ScriptedModel(["well"])
    runner = Runner(Agent("cook", model=model, guardrails=INPUT), store="memory:")
    [wait] = suspended(runner.start("a fish", run_id="r")).waits

    runner.send("r", "and all my money")
    runner.decide(wait.id, Approve(by="kim"))
    [again] = suspended(runner.resume("r")).waits

    assert wait.id != again.id
    assert "a fish\n\nand all my money" == again.arguments["input"]
    assert [] == model.requests
    runner.decide(again.id, Approve(by="kim"))
    assert isinstance(runner.resume("r"), Finished)


def test_message_after_a_held_output_is_read_before_the_end() -> None:
    """The held reply comes first in the transcript."""
    model = ScriptedModel(["a fish", "meat"])
    runner = Runner(Agent("cook", model=model, guardrails=OUTPUT), store="memory:")
    [wait] = suspended(runner.start("go", run_id="r")).waits

    runner.send("r", "more")
    assert isinstance(runner.resume("r"), Suspended)
    runner.decide(wait.id, Approve(by="kim"))
    finished = expect(runner.resume("r"), Finished)

    assert ["go", "a fish", "more", "meat"] == contents(finished)


def test_acceptance_counts_for_one_message_of_a_thread() -> None:
    """The same text is asked about again, also if the first turn was refused."""
    model = ScriptedModel(["one", "two", "three"])
    agent = Agent("cook", model=model, guardrails=INPUT)
    runner = Runner(agent, store="memory:")
    thread = runner.thread("cook", key="k")

    first = suspended(thread.send("fish")).waits[0]
    runner.decide(first.id, Approve(by="kim"))
    runner.resume(first.run_id)
    second = suspended(thread.send("fish")).waits[0]
    assert first.id != second.id
    runner.decide(second.id, Deny(by="kim"))
    runner.resume(first.run_id)
    third = suspended(thread.send("fish")).waits[0]
    assert {"input": "fish"} == third.arguments
    assert 1 == len(model.requests)


@pytest.mark.parametrize("guardrails", [INPUT, OUTPUT])
def test_stopped_turn_of_a_thread_needs_no_decision(guardrails: Guardrails) -> None:
    """Its wait is closed, its text is not used, and the next message is answered."""
    agent = Agent("cook", model=EchoModel(), guardrails=guardrails)
    runner = Runner(agent, store="memory:")
    thread = runner.thread("cook", key="k")
    [wait] = suspended(thread.send("a fish")).waits

    thread.stop_turn()
    stopped = runner.resume(wait.run_id)
    assert [] == list(runner.waiting())
    assert ["a fish"] == contents(stopped)
    outcome: Any = thread.send("more")
    if guardrails is INPUT:  # the model would read both
        [again] = suspended(outcome).waits
        assert {"input": "a fish\n\nmore"} == again.arguments
    else:
        assert "more" == outcome.output


@pytest.mark.parametrize("guardrails", [INPUT, OUTPUT])
def test_interruption_ends_the_question_about_the_earlier_message(
    guardrails: Guardrails,
) -> None:
    """The next message is answered, and no text is used unasked."""
    agent = Agent("cook", model=EchoModel(), guardrails=guardrails)
    runner = Runner(agent, store="memory:")
    thread = runner.thread("cook", key="k")
    [wait] = suspended(thread.send("a fish")).waits

    outcome: Any = thread.send("never mind", when_busy="interrupt")

    assert wait.id not in [each.id for each in runner.waiting()]
    if guardrails is INPUT:
        [again] = suspended(outcome).waits
        assert {"input": "a fish\n\nnever mind"} == again.arguments
    else:
        assert "never mind" == outcome.output
        assert ["a fish", "never mind", "never mind"] == contents(outcome)


def test_waits_of_sub_agents_leave_their_siblings_alone() -> None:
    """A sub-agent that is refused is an error of its call; the others go on."""
    fish = Agent("fish", model=ScriptedModel(["a fish"]), guardrails=OUTPUT)
    meat = Agent("meat", model=ScriptedModel(["meat"]), guardrails=OUTPUT)
    calls: Any = [ToolCall("fish", {"input": "x"}), ToolCall("meat", {"input": "y"})]
    model = ScriptedModel([calls, "done"])
    runner = Runner(Agent("boss", tools=[fish, meat], model=model), store="memory:")
    [wait] = suspended(runner.start("go", run_id="r")).waits
    assert ("boss", "fish") == wait.path

    runner.decide(wait.id, Deny(by="kim"))
    finished = expect(runner.resume("r"), Finished)

    texts = contents(finished)
    assert "ERROR: the agent fish failed: a person refused the output" in texts[2]
    assert "meat" == texts[3]


async def test_both_runners_ask() -> None:
    """`AsyncRunner` opens the same wait."""
    agent = Agent("cook", model=ScriptedModel(["a fish"]), guardrails=OUTPUT)

    runner = AsyncRunner(agent, store="memory:")
    [wait] = suspended(await runner.start("go", run_id="r")).waits
    await runner.decide(wait.id, Approve(by="kim"))
    assert isinstance(await runner.resume("r"), Finished)


def test_typed_output_is_shown_as_the_model_wrote_it() -> None:
    """The accepted text becomes the typed output."""

    @dataclass
    class Dish:
        name: str

    model = ScriptedModel(['{"name": "fish"}'])
    agent = Agent("cook", model=model, output_type=Dish, guardrails=OUTPUT)
    [wait] = suspended(run(agent, "go")).waits
    assert '{"name": "fish"}' == judged_text(wait)
    data = run(agent, "go").continuation.to_bytes()
    [wait] = suspended(resume(data, agent)).waits
    assert Dish("fish") == resume(data, agent, answers={wait.id: Approve()}).result()


def test_cancelled_run_returns_nothing() -> None:
    """Its wait is closed, and the held text is in no newest version."""
    agent = Agent("cook", model=ScriptedModel(["a fish"]), guardrails=OUTPUT)
    runner = Runner(agent, store="memory:")
    runner.start("go", run_id="r")
    runner.cancel("r")
    runner.resume("r")
    assert [] == list(runner.waiting())
    assert b"a fish" not in runner.look("r").to_bytes()


# Forks and rewinds ------------------------------------------------------------


def asks(info: TurnInfo | ReplyInfo) -> Tripped | None:
    """Ask about each input of the clerk, and about its output."""
    return Tripped("a person decides") if info.text in ("do", "secret") else None


ask_name = wait_tool("ask_name", lambda: ask("Which name?"))


def accepted_run(stage: str) -> tuple[Runner, ScriptedModel, Wait, int]:
    """Return a run that waits after a person accepted a text of its sub-agent."""
    guardrail = Guardrail(check=asks, on_trip="ask")
    is_input = stage == "input"
    reply = [ToolCall("ask_name", {})] if is_input else "secret"
    model = ScriptedModel([reply, "end"])
    clerk = Agent(
        "clerk",
        tools=[ask_name],
        model=model,
        guardrails=Guardrails(
            input=[guardrail] if is_input else [],
            output=[] if is_input else [guardrail],
        ),
    )
    calls = [ToolCall("clerk", {"input": "do"}), ToolCall("ask_name", {})]
    boss = Agent("boss", model=ScriptedModel([calls, "all"]), tools=[clerk, ask_name])
    runner = Runner(boss, store="memory:")
    outcome = expect(runner.start("go", run_id="r"), Suspended)
    [wait] = [each for each in outcome.waits if each.kind == stage]
    runner.decide(wait.id, Approve(by="kim"))
    version = runner.resume("r").continuation.version
    return runner, model, wait, version


@pytest.mark.parametrize("stage", ["input", "output"])
@pytest.mark.parametrize("way", ["fork", "rewind"])
def test_accepted_text_is_asked_about_again(stage: str, way: str) -> None:
    """At each version in which the text was not used yet, under another wait."""
    newest = accepted_run(stage)[3]
    counted = 0
    for version in range(1, newest):
        runner, model, wait, own_newest = accepted_run(stage)
        if version >= own_newest:
            break  # parallel calls may share a version
        row = runner.look("r", version=version)
        if way == "fork":
            run_id = runner.fork("r", version)
        else:
            run_id = runner.rewind("r", version).run_id
        asked = len(model.requests)
        outcome = expect(runner.resume(run_id), Suspended)

        waits = {each.kind: each for each in outcome.waits}
        uses = [c for c in row.root.calls if c.tool == "clerk" and c.frame is not None]
        has_begun = any(call.frame.turns for call in uses if call.frame is not None)
        if not uses or (has_begun and stage == "input"):
            continue  # its call has not begun, or the input is read
        counted += 1
        if stage == "input":
            assert asked == len(model.requests), version
        assert stage in waits, version
        assert wait.id != waits[stage].id
    assert counted > 1


# Agents that check calls ------------------------------------------------------


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
    return Agent("checker", model=judge, output_type=Opinion, instructions="Check.")


def clerk(
    judge: Judge, paid: list[int], *, on_trip: Any = None, approval: Any = None
) -> Agent:
    """Return an agent that pays 900 and 7 cents."""
    pay = text_tool("pay", "paid {cents}", {"cents": int}, into=paid, approval=approval)
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
        pay = text_tool("pay", "paid", {"cents": int}, into=paid, approval=approval)
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
