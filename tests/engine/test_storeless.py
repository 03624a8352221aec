"""Runs without a store: the caller passes the continuation from process to process."""

from __future__ import annotations

import asyncio
import json
import logging
import subprocess
import sys
from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Any

import pytest

from continuations import (
    Agent,
    Answer,
    ApprovalPolicy,
    Approve,
    Continuation,
    ContinuationsError,
    Deny,
    Finished,
    Identity,
    Runner,
    Suspended,
    ToolContext,
    Wait,
    ask,
    errors,
    escalate,
    resume,
    run,
    sleep,
    tool,
)
from continuations.aio import resume_stream as resume_stream_async
from continuations.aio import run_stream as run_stream_async
from continuations.core.reading.run_stream import EVENT_TYPES, BaseEvent
from continuations.errors import DecisionRefused, InvalidInput, ModelError
from continuations.events import (
    Attempt,
    CallProgress,
    LiveTranscript,
    ReasoningDelta,
    RunEnded,
    RunEvent,
    TextDelta,
    WaitDecided,
)
from continuations.models.interface import ModelRequest
from continuations.models.scripted import ScriptedModel, ToolCall
from continuations.streams import resume_stream, run_stream
from tests import effect_log
from tests.clocks import ManualClock
from tests.engine import agent_builders
from tests.engine.agent_builders import (
    make_boss,
    root_tool_results,
    text_tool,
    wait_tool,
)
from tests.outcomes import expect, single_wait
from tests.run_environment import RunEnvironment
from tests.scripts import Script, call

NESTED: Script = {
    "go": [[call("left", input="A"), call("right", input="B")], "all"],
    "A": [[call("act", what="1"), call("pay", what="a")], "A done"],
    "B": [[call("clerk", input="C")], "B done"],
    "C": [[call("pay", what="c")], "C done"],
}


def test_four_processes_pass_a_run_on_as_bytes(environment: RunEnvironment) -> None:
    """Each process decides some of the waits."""
    paths = [str(environment.folder / f"{number}.bytes") for number in range(4)]

    # Given a suspended run as bytes
    result = environment.run("run", "go", paths[0], script=NESTED)
    waits = {wait["arguments"]["what"]: wait["id"] for wait in result["waits"]}

    def resumed(number: int, answers: dict[str, Any]) -> dict[str, Any]:
        words = (paths[number], json.dumps(answers), paths[number + 1])
        return environment.run("resume-bytes", *words, script=NESTED)

    # When the first decides the deeper wait, the next nothing, the last the other one
    first = resumed(0, {waits["c"]: {"approve": {"by": "kim"}}})
    assert [waits["a"]] == [wait["id"] for wait in first["waits"]]
    second = resumed(1, {})
    assert ("Suspended", ["act 1", "pay c"]) == (
        second["kind"],
        environment.effect_names(),
    )
    last = resumed(2, {waits["a"]: {"deny": {"reason": "No."}}})

    # Then each call ran once and no turn was repeated
    assert "all" == last["output"]
    assert ["act 1", "pay c"] == environment.effect_names()
    assert ["A done", "B done"] == agent_builders.tool_results(last["messages"])
    assert len(set(environment.turns())) == len(environment.turns())
    assert 8 == last["usage"]["requests"]


pay = text_tool("pay", "paid {what}", {"what": str}, logs=True, approval=True)


def start_suspended_run(*whats: str) -> Suspended:
    """Return a run that waits for so many approvals."""
    return expect(run(make_payment_agent(*whats), "go"), Suspended)


def make_payment_agent(*whats: str, **options: Any) -> Any:
    """Return an agent that pays so often, in one turn."""
    script: Script = {"go": [[call("pay", what=what) for what in whats], "end"]}
    return agent_builders.make_boss(script, options.get("tool", pay))


def test_an_answer_to_no_open_wait_runs_nothing() -> None:
    """Also beside a valid verdict, and for a wait that was decided before."""
    outcome = start_suspended_run("a", "b")
    one, two = (wait.id for wait in outcome.waits)
    for wrong in ("", "0", f"{one}x", start_suspended_run("a").waits[0].id):
        with pytest.raises(errors.WaitNotFound):
            resume(
                outcome.continuation,
                make_payment_agent(),
                answers={one: Approve(), wrong: Deny()},
            )
    with pytest.raises(errors.DecisionRefused):
        resume(outcome.continuation, make_payment_agent(), answers={one: Approve(by=5)})  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    assert [] == effect_log.effects()

    half = resume(
        outcome.continuation, make_payment_agent("a", "b"), answers={one: Deny()}
    )
    with pytest.raises(errors.WaitNotFound):
        resume(
            half.continuation,
            make_payment_agent("a", "b"),
            answers={one: Approve(), two: Deny()},
        )
    assert [] == effect_log.effects()


@pytest.mark.parametrize(
    "junk",
    [None, True, 1, "yes", "approve", {}, [], [True], [Approve(), True], Approve],
    ids=repr,
)
def test_an_answer_that_is_no_verdict_runs_nothing(junk: Any) -> None:
    """Only an exact verdict decides; the continuation stays as it is."""
    outcome = start_suspended_run("a")
    [wait] = outcome.waits

    with pytest.raises(errors.DecisionRefused):
        resume(outcome.continuation, make_payment_agent("a"), answers={wait.id: junk})

    assert [] == effect_log.effects()
    again = expect(resume(outcome.continuation, make_payment_agent("a")), Suspended)
    assert [wait] == list(again.waits)


def test_resume_does_not_change_the_continuation() -> None:
    """It can be resumed again, which is then another run."""
    outcome = start_suspended_run("a")
    before = outcome.continuation.to_bytes()

    ended = resume(
        outcome.continuation,
        make_payment_agent("a"),
        answers={outcome.waits[0].id: Approve()},
    )

    assert isinstance(ended, Finished)
    assert before == outcome.continuation.to_bytes()
    assert "suspended" == outcome.continuation.status
    assert ["waiting"] == [call.state for call in outcome.continuation.root.calls]
    assert ["pay a"] == effect_log.names()
    # And resuming the finished run returns its end
    assert ended.output == getattr(
        resume(ended.continuation, make_payment_agent("a")), "output", None
    )
    assert ["pay a"] == effect_log.names()


def test_invalid_bytes_raise_a_typed_error() -> None:
    """Nothing is guessed, and nothing runs."""
    data = start_suspended_run("a").continuation.to_bytes()
    for wrong in (
        b"",
        b"{}",
        b"\x80\x04.",
        data[:-1],
        data[:20],
        data + b"x",
        data[::-1],
    ):
        with pytest.raises(errors.FormatError):
            resume(wrong, make_payment_agent("a"))
    for place in range(0, len(data), max(1, len(data) // 40)):
        flipped = bytearray(data)
        flipped[place] ^= 0x10
        with pytest.raises((errors.FormatError, errors.Corrupt)):
            Continuation.from_bytes(bytes(flipped))


def test_resume_with_agent_before_data_says_the_order() -> None:
    """The type checker's error comes too late for a person at a prompt."""
    swapped: Any = make_payment_agent("a")
    data: Any = start_suspended_run("a").continuation.to_bytes()

    with pytest.raises(errors.InvalidInput, match="data comes first"):
        resume(swapped, data)


def test_changed_code_of_an_approved_call_opens_a_new_wait_without_a_store() -> None:
    """The old code can still resume the old bytes."""

    @tool(name="pay", approval=True)
    def pay_in(what: str, currency: str = "EUR") -> str:
        """Pay in a currency."""
        return f"paid {what} {currency}"

    outcome = start_suspended_run("a")
    yes = {outcome.waits[0].id: Approve()}
    again = resume(
        outcome.continuation, make_payment_agent("a", tool=pay_in), answers=yes
    )
    assert isinstance(again, Suspended)
    assert "parameter currency was added" in str(again.waits[0].note)
    assert ["paid a"] == root_tool_results(
        resume(outcome.continuation, make_payment_agent("a"), answers=yes)
    )


def test_to_json_contains_messages_and_waits() -> None:
    """The standard messages array, and each wait with its path."""
    outcome = start_suspended_run("a")

    result = json.loads(outcome.continuation.to_json())

    assert outcome.continuation.root.messages == result["frames"][0]["messages"]
    assert [["boss", "pay"]] == [wait["path"] for wait in result["waits"]]
    assert [] == effect_log.effects()


def test_timer_ends_at_its_time_on_the_clock_of_a_test(clock: ManualClock) -> None:
    """Without a store, `resume` applies the timers and deadlines first."""
    nap = wait_tool("nap", lambda: sleep(3600))
    agent = agent_builders.make_boss({"go": [[call("nap")], "end"]}, nap)
    asleep = expect(run(agent, "go", clock=clock), Suspended)

    clock.seconds = 3599
    assert isinstance(resume(asleep.continuation, agent, clock=clock), Suspended)
    clock.seconds = 3601
    assert isinstance(resume(asleep.continuation, agent, clock=clock), Finished)

    with pytest.raises(
        errors.InvalidInput, match=r"^clock must have the method now\(\)"
    ):
        run(agent, "go", clock=object())  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]


# Events -----------------------------------------------------------------------


THOUGHT = {
    "role": "assistant",
    "content": "Jane is paid.",
    "reasoning_content": "She asked.",
}


@tool(approval=True)
async def transfer(cents: int, ctx: ToolContext) -> str:
    """Move money."""
    ctx.progress({"fence": ctx.fence})
    return f"moved {cents}"


look = text_tool("look", "seen")


def payroll() -> Agent:
    """Return an agent below another one, with a tool that needs an approval."""
    calls: list[Any] = [ToolCall("transfer", {"cents": 500}), THOUGHT]
    accounts = Agent("accounts", tools=[transfer], model=ScriptedModel(calls))
    script: list[Any] = [
        ToolCall("look"),
        ToolCall("accounts", {"input": "pay"}),
        "All is done now.",
    ]
    return Agent("boss", tools=[accounts, look], model=ScriptedModel(script))


def stored(events: Iterable[RunEvent]) -> list[BaseEvent]:
    """Return the events that have a cursor, without those of claims."""
    kept = [each for each in events if not isinstance(each, Attempt)]
    return [each for each in kept if isinstance(each, EVENT_TYPES)]


def described(events: Iterable[RunEvent]) -> list[tuple[object, ...]]:
    """Return what two runs of the same work have in common."""
    names = ("agent", "tool", "message_json", "result", "output", "kind", "by")
    return [
        (type(each), each.path, *(getattr(each, name, None) for name in names))
        for each in stored(events)
    ]


def test_events_without_a_store_are_those_of_a_store() -> None:
    """The same types in the same order, from the start over an approval to the end."""
    in_store: list[RunEvent] = []
    runner = Runner(payroll(), store="memory:", on_event=in_store.append)
    waiting = expect(runner.start("Pay Jane"), Suspended)
    runner.decide(waiting.waits[0].id, Approve(by="kim"))
    runner.resume(waiting.continuation.run_id)

    without: list[RunEvent] = []
    agent = payroll()
    outcome = expect(run(agent, "Pay Jane", on_event=without.append), Suspended)
    answers = {outcome.waits[0].id: Approve(by="kim")}
    ended = resume(
        outcome.continuation, agent, answers=answers, on_event=without.append
    )

    assert isinstance(ended, Finished)
    assert described(in_store) == described(without)
    assert isinstance(without[-1], RunEnded)
    [decided] = [each for each in without if isinstance(each, WaitDecided)]
    assert ("approve", "kim") == (decided.kind, decided.by)


def test_texts_and_cursors_go_on_from_call_to_call() -> None:
    """A client that keeps its transcript over bytes shows each text once, in order."""
    agent, transcript = payroll(), LiveTranscript()
    stream = run_stream(agent, "Pay Jane")
    events = list(stream)
    outcome = expect(stream.outcome, Suspended)
    kept = Continuation.from_bytes(outcome.continuation.to_bytes())
    assert kept == outcome.continuation
    [wait] = outcome.waits

    later = resume_stream(kept.to_bytes(), agent, answers={wait.id: Approve()})
    second = list(later)

    assert isinstance(later.outcome, Finished)
    for event in (*events, *second, *events):
        transcript.add(event)
    assert [
        ("boss", "Pay Jane"),
        ("accounts", "pay"),
        ("accounts", "Jane is paid."),
        ("boss", "All is done now."),
    ] == [(each.path[-1], each.text) for each in transcript.texts]
    assert all(each.is_complete for each in transcript.texts)
    places = [[int(n) for n in e.cursor.split(".")] for e in stored([*events, *second])]
    assert sorted(places) == places
    assert later.outcome.continuation.version == places[-1][0]


def test_live_events_come_without_a_store() -> None:
    """Words of replies, thoughts, and the progress of a tool."""
    agent = payroll()
    outcome = expect(run(agent, "Pay Jane"), Suspended)

    stream = resume_stream(
        outcome.continuation, agent, answers={outcome.waits[0].id: Approve()}
    )
    events = list(stream)

    words = [each for each in events if isinstance(each, TextDelta)]
    below = [each.text for each in words if each.path == ("boss", "accounts")]
    assert "Jane is paid." == "".join(below)
    thoughts = [each.text for each in events if isinstance(each, ReasoningDelta)]
    assert "She asked." == "".join(thoughts)
    [told] = [each for each in events if isinstance(each, CallProgress)]
    assert ("boss", "accounts", "transfer") == told.path
    assert outcome.continuation.version < told.fence == told.value["fence"]


def test_a_listener_changes_neither_the_outcome_nor_the_number_of_the_version() -> None:
    """A failing one is logged and gets no more events."""

    def fail(event: RunEvent) -> None:
        raise LookupError(event)

    plain = run(payroll(), "Pay Jane")
    heard = run(payroll(), "Pay Jane", on_event=fail)

    assert type(plain) is type(heard)
    assert plain.continuation.version == heard.continuation.version
    assert plain.continuation.root.messages == heard.continuation.root.messages


def test_a_failing_listener_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    def fail(event: RunEvent) -> None:
        raise LookupError(event)

    with caplog.at_level(logging.ERROR):
        outcome = run(Agent("a", model=ScriptedModel(["end"])), "go", on_event=fail)

    assert isinstance(outcome, Finished)
    assert "on_event raised" in caplog.text


_UNHEARD = """
import sys
from continuations import Agent, run
from continuations.models.scripted import ScriptedModel
model = ScriptedModel(["end"])
run(Agent("a", model=model), "go")
assert [None] == [request.on_delta for request in model.requests]
print([each for each in sys.modules if "event_listeners" in each or "_feed" in each
       or "run_stream_diff" in each])
"""


def test_without_a_listener_nothing_is_made_or_imported() -> None:
    shown = subprocess.run(
        [sys.executable, "-c", _UNHEARD], capture_output=True, text=True, check=True
    )
    assert "[]" == shown.stdout.strip()


def test_a_decision_that_starts_no_work_is_an_event(clock: ManualClock) -> None:
    """One of two waits is answered; the other one stays open."""
    question = wait_tool("question", lambda: ask("Which?", within=timedelta(hours=1)))
    calls: list[Any] = [[ToolCall("question"), ToolCall("question")], "end"]
    agent = Agent("a", tools=[question], model=ScriptedModel(calls))
    outcome = expect(run(agent, "go", clock=clock), Suspended)

    answers = {outcome.waits[0].id: Answer("left", by="kim")}
    heard: list[RunEvent] = []
    half = resume(
        outcome.continuation, agent, answers=answers, clock=clock, on_event=heard.append
    )
    clock.seconds = 3601
    late: list[RunEvent] = []
    resume(half.continuation, agent, clock=clock, on_event=late.append)

    assert [("answer", "kim")] == [
        (each.kind, each.by) for each in heard if isinstance(each, WaitDecided)
    ]
    assert ["expire"] == [each.kind for each in late if isinstance(each, WaitDecided)]
    assert half.continuation.version > outcome.continuation.version


def test_resume_that_changes_nothing_has_no_events_and_no_new_version() -> None:
    outcome = run(payroll(), "Pay Jane")

    stream = resume_stream(outcome.continuation, payroll())

    assert [] == list(stream)
    assert outcome.continuation == stream.outcome.continuation


def test_an_error_of_the_model_comes_after_the_events_before_it() -> None:
    """The error has the continuation, whose events do not come again."""
    refusal = ModelError("The server refused. Check the key.", retryable=False)
    refusals = [refusal]

    def script(request: ModelRequest) -> Any:
        if request.messages[-1].role == "user":
            return ToolCall("look")
        return refusals.pop() if refusals else "end"

    agent = Agent("a", tools=[look], model=ScriptedModel(script))
    transcript = LiveTranscript()

    with pytest.raises(ModelError) as raised:
        run(agent, "go", on_event=transcript.add)

    assert ["go"] == [each.text for each in transcript.texts]
    assert raised.value.continuation is not None
    stream = resume_stream(raised.value.continuation, agent)
    for event in stream:
        transcript.add(event)
    assert isinstance(stream.outcome, Finished)
    assert ["go", "end"] == [each.text for each in transcript.texts]


def test_asynchronous_streams_have_the_same_events() -> None:
    async def scenario() -> list[RunEvent]:
        agent = payroll()
        stream = run_stream_async(agent, "Pay Jane")
        events = [event async for event in stream]
        assert isinstance(stream.outcome, Suspended)
        answers = {stream.outcome.waits[0].id: Approve()}
        data = stream.outcome.continuation
        later = resume_stream_async(data, agent, answers=answers)
        events += [event async for event in later]
        assert isinstance(later.outcome, Finished)
        return events

    agent = payroll()
    first = run_stream(agent, "Pay Jane")
    events = list(first)
    data, [wait] = first.outcome.continuation, first.outcome.continuation.waits
    events += resume_stream(data, agent, answers={wait.id: Approve()})
    assert described(events) == described(asyncio.run(scenario()))


def test_a_loop_that_is_left_cancels_the_work() -> None:
    """There is no outcome; the caller still has the continuation before."""
    agent = payroll()
    outcome = expect(run(agent, "Pay Jane"), Suspended)
    stream = resume_stream(
        outcome.continuation, agent, answers={outcome.waits[0].id: Approve()}
    )

    for _ in stream:
        break

    with pytest.raises(ContinuationsError, match="was closed before its end"):
        _ = stream.outcome
    assert "suspended" == outcome.continuation.status


def test_on_event_that_is_no_function_is_refused_before_anything_runs() -> None:
    model = ScriptedModel(["end"])
    wrong: Any = "print"

    with pytest.raises(InvalidInput, match="on_event must be a function"):
        run(Agent("a", model=model), "go", on_event=wrong)

    assert [] == model.requests


# Votes and escalation ---------------------------------------------------------


DAY = timedelta(days=1)


def make_agent(**policy: Any) -> Agent:
    """Return an agent whose tool `pay` has this approval policy."""

    @tool(approval=ApprovalPolicy(**policy))
    def pay(cents: int) -> str:
        """Pay an amount."""
        effect_log.append_effect("pay", cents)
        return f"paid {cents}"

    return make_boss({"go": [[call("pay", cents=5)], "end"]}, pay)


def suspend(agent: Agent, clock: ManualClock | None = None) -> tuple[bytes, Wait]:
    """Run an agent until it waits; return its bytes and its wait."""
    outcome = expect(run(agent, "go", clock=clock), Suspended)
    return outcome.continuation.to_bytes(), outcome.waits[0]


def test_votes_are_a_list_of_verdicts() -> None:
    """Two verdicts make the decision, also by a member of a group."""
    agent = make_agent(approvers=["kim", "group:finance"], votes=2)
    data, wait = suspend(agent)
    lee = Identity("lee", groups=["finance"])

    end = resume(data, agent, answers={wait.id: [Approve(by="kim"), Approve(by=lee)]})

    assert isinstance(end, Finished)
    assert ["pay 5"] == effect_log.names()


@pytest.mark.parametrize(
    ("verdicts", "why"),
    [
        (Approve(by="kim"), "1 of the 2 votes"),
        ([Approve(by="kim")], "1 of the 2 votes"),
        ([Approve(by="kim"), Approve(by="kim")], "kim has voted already"),
        ([Approve(by="kim"), Approve(by="eve")], "eve is not one of its approvers"),
        ([Deny(by="kim"), Approve(by="lee")], "verdict 1 of its list of 2 ended it"),
        ([], "0 of the 2 votes"),
    ],
)
def test_list_that_makes_no_decision_is_refused(verdicts: Any, why: str) -> None:
    """Nothing runs, because a list of votes is not kept."""
    agent = make_agent(approvers=["kim", "lee"], votes=2)
    data, wait = suspend(agent)

    with pytest.raises(DecisionRefused, match=why):
        resume(data, agent, answers={wait.id: verdicts})

    assert [] == effect_log.names()


def test_escalation_changes_the_approvers(clock: ManualClock) -> None:
    """After the deadline the wait has the next approvers under the same id."""
    action = escalate(to=["cfo"], within=DAY)
    agent = make_agent(approvers=["kim"], within=DAY, on_deadline=action)
    data, wait = suspend(agent, clock)
    clock.seconds += DAY.total_seconds() + 1

    late = expect(resume(data, agent, clock=clock), Suspended)

    [escalated] = late.waits
    assert (wait.id, ("cfo",)) == (escalated.id, escalated.approvers)
    data = late.continuation.to_bytes()
    with pytest.raises(DecisionRefused, match="kim is not one of its approvers"):
        resume(data, agent, answers={wait.id: Approve(by="kim")}, clock=clock)
    end = resume(data, agent, answers={wait.id: Approve(by="cfo")}, clock=clock)
    assert isinstance(end, Finished)
    assert ["pay 5"] == effect_log.names()


class _TickingClock(ManualClock):
    """A clock that moves on by a second each time it is read."""

    def now(self) -> datetime:
        self.seconds += 1
        return super().now()


def test_deadline_that_passes_during_a_resume_escalates() -> None:
    """The deadline lies between two readings of the clock."""
    action = escalate(to=["cfo"], within=DAY)
    agent = make_agent(approvers=["kim"], within=DAY, on_deadline=action)
    opened = ManualClock()
    data, wait = suspend(agent, opened)

    for seconds in range(-4, 2):
        clock = _TickingClock(opened.seconds + DAY.total_seconds() + seconds)
        assert wait.id == single_wait(resume(data, agent, clock=clock)).id

    assert [] == effect_log.names()


def test_decision_in_the_moment_of_the_deadline_counts_or_comes_too_late() -> None:
    """The deadline lies between two readings of the clock; one of them counts."""
    action = escalate(to=["cfo"], within=DAY)
    agent = make_agent(approvers=["kim"], within=DAY, on_deadline=action)
    opened = ManualClock()
    data, wait = suspend(agent, opened)
    answers = {wait.id: Approve(by="kim")}
    results: list[str] = []

    for seconds in range(-4, 2):
        clock = _TickingClock(opened.seconds + DAY.total_seconds() + seconds)
        try:
            outcome = resume(data, agent, answers=answers, clock=clock)
        except DecisionRefused:
            results.append("escalated")
        else:
            assert isinstance(outcome, Finished)
            results.append("approved")

    assert {"approved", "escalated"} == set(results)
    assert results.count("approved") == len(effect_log.names())


@pytest.mark.parametrize("requester", ["jane", Identity("jane")])
def test_the_requester_does_not_decide(requester: Any) -> None:
    """The continuation keeps the requester, so another person can decide."""
    agent = make_agent(not_requester=True)
    outcome = expect(run(agent, "go", by=requester), Suspended)
    data, wait = outcome.continuation.to_bytes(), outcome.waits[0]

    with pytest.raises(DecisionRefused, match="jane requested the run"):
        resume(data, agent, answers={wait.id: Approve(by="jane")})
    expect(resume(data, agent, answers={wait.id: Approve(by="kim")}), Finished)

    assert ["pay 5"] == effect_log.names()


def test_an_invalid_requester_starts_nothing() -> None:
    by: Any = 7

    with pytest.raises(InvalidInput, match="by must be one line"):
        run(make_agent(), "go", by=by)
