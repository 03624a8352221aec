"""Events of a run without a store: the types, order and texts of a run in a store."""

from __future__ import annotations

import asyncio
import logging
import subprocess
import sys
from collections.abc import Iterable
from datetime import timedelta
from typing import Any

import pytest

from continuations import (
    Agent,
    Answer,
    Approve,
    Continuation,
    ContinuationsError,
    Finished,
    Runner,
    Suspended,
    ToolContext,
    ask,
    resume,
    run,
    tool,
)
from continuations.aio import (
    resume_stream as resume_stream_async,
)
from continuations.aio import (
    run_stream as run_stream_async,
)
from continuations.core.reading.run_stream import EVENT_TYPES, BaseEvent
from continuations.errors import InvalidInput, ModelError
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
from continuations.tools import ToolWait
from tests.clocks import ManualClock
from tests.outcomes import expect

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


@tool
def look() -> str:
    """Look."""
    return "seen"


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

    @tool
    def question() -> ToolWait[str]:
        """Ask."""
        return ask("Which?", within=timedelta(hours=1))

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
