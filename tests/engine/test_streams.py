"""Events of a run while this process works on it: stored ones and live ones."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable, Iterable
from typing import Any, TypeVar

import pytest

from continuations import (
    Agent,
    Approve,
    AsyncRunner,
    ContinuationsError,
    Finished,
    Replied,
    Runner,
    Suspended,
    ToolContext,
    tool,
)
from continuations.core.reading.run_stream import EVENT_TYPES
from continuations.engine.events import event_listeners
from continuations.errors import InvalidInput, ModelError, RunNotFound
from continuations.events import (
    CallProgress,
    FrameEnded,
    LiveTranscript,
    MessageAdded,
    ReasoningDelta,
    ReplyGiven,
    RunEnded,
    RunEvent,
    StreamEvent,
    TextDelta,
    WaitDecided,
)
from continuations.models.interface import Message, ModelDelta, ModelReply, ModelRequest
from continuations.models.scripted import ScriptedModel, ToolCall
from continuations_storage import MemoryStore, Store
from continuations_storage.faults import FaultyStore
from tests.clocks import ManualClock
from tests.run_environment import wait_until

E = TypeVar("E")
THOUGHT = {
    "role": "assistant",
    "content": "Jane is paid.",
    "reasoning_content": "She asked.",
}


def of_type(events: Iterable[RunEvent], kind: type[E]) -> list[E]:
    return [event for event in events if isinstance(event, kind)]


def stored(events: Iterable[RunEvent]) -> list[StreamEvent]:
    return [each for each in events if isinstance(each, EVENT_TYPES)]


@tool(approval=True)
async def transfer(cents: int, ctx: ToolContext) -> str:
    """Move money."""
    ctx.progress("sent")
    ctx.progress({"cents": cents})
    return f"moved {cents}"


def payroll() -> Agent:
    """Return an agent below another one, with a tool that needs an approval."""
    calls: list[Any] = [ToolCall("transfer", {"cents": 500}), THOUGHT]
    accounts = Agent("accounts", tools=[transfer], model=ScriptedModel(calls))
    script: list[Any] = [ToolCall("accounts", {"input": "pay"}), "All is done now."]
    return Agent("boss", tools=[accounts], model=ScriptedModel(script))


class WritingModel:
    """Writes one word after the other; `counts` has the received parts after each."""

    name = "writing"

    def __init__(self, words: str, heard: list[RunEvent]) -> None:
        self.words = words.split(" ")
        self.heard = heard
        self.counts: list[int] = []

    async def reply(self, request: ModelRequest) -> ModelReply:
        assert request.on_delta is not None
        for word in self.words:
            await request.on_delta(ModelDelta(kind="text", text=word))
            self.counts.append(len(of_type(self.heard, TextDelta)))
        return reply("".join(self.words))


def reply(text: str) -> ModelReply:
    return ModelReply(
        message=Message.from_mapping({"role": "assistant", "content": text})
    )


# The events -------------------------------------------------------------------


def test_a_stream_yields_stored_and_live_events_in_order_and_the_outcome() -> None:
    """The stored ones are those of `runner.events`; a reply follows its parts."""
    runner = Runner(payroll(), store=MemoryStore())
    stream = runner.stream("Pay Jane", run_id="r1")

    first = list(stream)

    assert isinstance(stream.outcome, Suspended)
    runner.decide(stream.outcome.waits[0].id, Approve(by="kim"))
    resumed = runner.resume_stream("r1")
    second = list(resumed)
    assert isinstance(resumed.outcome, Finished)
    assert [*stored(first), *stored(second)] == list(runner.events("r1"))
    [decided] = of_type(second, WaitDecided)
    assert ("approve", "kim") == (decided.kind, decided.by)
    parts = of_type(second, TextDelta)
    below = [each for each in parts if each.path == ("boss", "accounts")]
    assert "Jane is paid." == "".join(each.text for each in below)
    assert [2, 3, 4] == [each.index for each in below]
    assert {2} == {each.turn for each in below}
    thoughts = of_type(second, ReasoningDelta)
    assert ["She ", "asked."] == [each.text for each in thoughts]
    [ended] = [each for each in of_type(second, FrameEnded) if each.call is not None]
    assert second.index(below[-1]) < second.index(ended)
    assert below[0].fence < int(ended.cursor.split(".")[0])
    told = of_type(second, CallProgress)
    assert ["sent", {"cents": 500}] == [each.value for each in told]
    assert {("boss", "accounts", "transfer")} == {each.path for each in told}
    assert isinstance(second[-1], RunEnded)


async def test_a_part_is_handed_on_before_the_model_writes_the_next_one() -> None:
    heard: list[RunEvent] = []
    model = WritingModel("a b c", heard)

    runner = AsyncRunner(Agent("a", model=model), store=MemoryStore())
    async for event in runner.stream("go"):
        heard.append(event)  # noqa: PERF401 - the model looks at it meanwhile

    assert [1, 2, 3] == model.counts


def test_a_listener_costs_no_request_and_no_version() -> None:
    """The store sees the same requests, with a listener and without."""
    seen: list[list[str]] = []
    for is_followed in (False, True):
        on_event = list[RunEvent]().append if is_followed else None
        store = FaultyStore(MemoryStore())
        runner = Runner(payroll(), store=store)
        outcome = runner.start("Pay Jane", run_id="r1", on_event=on_event)
        assert isinstance(outcome, Suspended)
        runner.decide(outcome.waits[0].id, Approve(by="kim"))
        runner.resume("r1", on_event=on_event)
        verbs = [f"{each.verb} {each.key.split('/')[0]}" for each in store.operations]
        seen.append(sorted(verbs))

    assert seen[0] == seen[1]


def test_without_a_listener_a_model_is_not_asked_to_stream() -> None:
    model = ScriptedModel(["end"])

    Runner(Agent("a", model=model), store="memory:").start("go")

    assert [None] == [request.on_delta for request in model.requests]


# A reply that begins anew -------------------------------------------------------


class FailingOnce:
    """Writes two words, fails, and writes the whole reply when it is asked again."""

    name = "failing"

    def __init__(self) -> None:
        self.asked = 0

    async def reply(self, request: ModelRequest) -> ModelReply:
        """Fail in the middle of the first reply."""
        assert request.on_delta is not None
        self.asked += 1
        for word in ("one ", "two "):
            await request.on_delta(ModelDelta(kind="text", text=word))
        if self.asked == 1:
            msg = "The connection was cut. Resume the run."
            raise ModelError(msg, retryable=True, retry_after=0.0)
        await request.on_delta(ModelDelta(kind="text", text="three"))
        return reply("one two three")


def test_a_repeated_request_begins_its_text_anew() -> None:
    """The attempt is higher and the index begins at 0; a client shows no word twice."""
    runner = Runner(
        Agent("a", model=FailingOnce()), store="memory:", model_retry_time=5
    )
    transcript, shown = LiveTranscript(), list[str]()

    parts: list[tuple[int, int, str]] = []
    for event in runner.stream("go"):
        transcript.add(event)
        if isinstance(event, TextDelta):
            parts.append((event.attempt, event.index, event.text))
            shown.append(transcript.texts[-1].text)

    assert [
        (1, 0, "one "),
        (1, 1, "two "),
        (2, 0, "one "),
        (2, 1, "two "),
        (2, 2, "three"),
    ] == parts
    assert ["one ", "one two ", "one ", "one two ", "one two three"] == shown
    assert ["go", "one two three"] == [each.text for each in transcript.texts]


def test_a_stream_goes_on_after_a_cursor_in_another_process() -> None:
    """Each text is shown once, although the first reader was gone at every event."""
    whole = list(Runner(payroll(), store="memory:").stream("Pay Jane", run_id="r1"))
    for cut in range(1, len(whole)):
        store = MemoryStore()
        transcript = LiveTranscript()
        stream = iter(Runner(payroll(), store=store).stream("Pay Jane", run_id="r1"))
        for _ in range(cut):
            transcript.add(next(stream))
        stream.close()
        other = Runner(payroll(), store=store)
        # The first part of the input is stored before the first event.
        for event in other.resume_stream("r1", after=transcript.cursor):
            transcript.add(event)
        [wait] = other.waiting()
        other.decide(wait.id, Approve())
        for event in other.resume_stream("r1"):
            transcript.add(event)
        texts = [(each.path[-1], each.text) for each in transcript.texts]
        assert [
            ("boss", "Pay Jane"),
            ("accounts", "pay"),
            ("accounts", "Jane is paid."),
            ("boss", "All is done now."),
        ] == texts
        assert all(each.is_complete for each in transcript.texts)


def test_a_cursor_within_the_newest_version_loses_none_of_its_events() -> None:
    runner = Runner(payroll(), store="memory:")
    runner.start("Pay Jane", run_id="r1")
    known = list(runner.events("r1"))
    last = int(known[-1].cursor.split(".")[0])

    for number, event in enumerate(known, start=1):
        later = list(runner.resume_stream("r1", after=event.cursor))
        assert known[number:] == later
    with pytest.raises(InvalidInput, match=f"cursor of version {last + 2}"):
        list(runner.resume_stream("r1", after=f"{last + 2}.1"))


# Leaving a stream -----------------------------------------------------------------


def test_a_loop_that_is_left_gives_up_the_claim_and_loses_nothing() -> None:
    """The run can be resumed at once, and no reply is asked for twice."""
    store = MemoryStore()
    agent = payroll()
    runner = Runner(agent, store=store)

    for event in runner.stream("Pay Jane", run_id="r1"):
        if isinstance(event, MessageAdded) and event.message["role"] == "assistant":
            break

    assert isinstance(Runner(agent, store=store).resume("r1"), Suspended)
    assert isinstance(agent.model, ScriptedModel)
    assert 1 == len(agent.model.requests)


async def test_an_asynchronous_stream_that_is_closed_gives_up_the_claim() -> None:
    began = asyncio.Event()

    class Endless:
        name = "endless"

        async def reply(self, request: ModelRequest) -> ModelReply:
            assert request.on_delta is not None
            await request.on_delta(ModelDelta(kind="text", text="well "))
            began.set()
            await asyncio.Event().wait()
            raise AssertionError

    store = MemoryStore()
    runner = AsyncRunner(Agent("a", model=Endless()), store=store)
    async with runner.stream("go", run_id="r1") as stream:
        async for event in stream:
            if isinstance(event, TextDelta):
                break
    assert began.is_set()
    assert "running" != (await runner.look("r1")).status
    with pytest.raises(ContinuationsError, match="was closed before its end"):
        _ = stream.outcome
    assert [] == await stream.read()
    other = AsyncRunner(Agent("a", model=ScriptedModel(["end"])), store=store)
    assert isinstance(await other.resume("r1"), Finished)


def test_a_loop_that_is_left_while_a_tool_runs_keeps_its_result() -> None:
    """A call that may not be repeated gets some seconds to return."""
    leaving, paid = threading.Event(), list[str]()

    @tool
    def pay(ctx: ToolContext) -> str:
        """Pay."""
        ctx.progress("begun")
        assert leaving.wait(60)
        paid.append("x")
        return "paid"

    agent = Agent("a", tools=[pay], model=ScriptedModel([ToolCall("pay"), "end"]))
    runner = Runner(agent, store="memory:")
    for event in runner.stream("go", run_id="r1"):
        if isinstance(event, CallProgress):
            threading.Timer(0.05, leaving.set).start()
            break

    assert isinstance(runner.resume("r1"), Finished)
    assert ["x"] == paid


def test_the_errors_of_the_work_follow_its_last_event() -> None:
    model = ScriptedModel([ToolCall("transfer", {"cents": 1})])
    runner = Runner(Agent("a", tools=[transfer], model=model), store="memory:")
    heard: list[RunEvent] = []

    with pytest.raises(RunNotFound):
        list(runner.resume_stream("r1"))
    with pytest.raises(ModelError):
        heard.extend(Runner(Agent("a"), store="memory:").stream("go"))
    with pytest.raises(InvalidInput, match="after"):
        runner.resume_stream("r1", after="later")

    assert of_type(heard, MessageAdded)


# Listeners ------------------------------------------------------------------------


@pytest.mark.parametrize("is_async", [False, True])
def test_on_event_gets_each_event_once_and_in_order(*, is_async: bool) -> None:
    heard: list[RunEvent] = []

    async def hear_async(event: RunEvent) -> None:
        heard.append(event)

    runner = Runner(payroll(), store="memory:")
    runner.start(
        "Pay Jane", run_id="r1", on_event=hear_async if is_async else heard.append
    )

    assert stored(heard) == list(runner.events("r1"))


def test_a_listener_that_raises_is_logged_and_changes_nothing(
    caplog: pytest.LogCaptureFixture,
) -> None:
    heard: list[RunEvent] = []

    def hear(event: RunEvent) -> None:
        heard.append(event)
        if len(heard) == 2:
            raise SystemExit

    runner = Runner(Agent("a", model=ScriptedModel(["end"])), store="memory:")
    with caplog.at_level(logging.ERROR, "continuations"):
        outcome = runner.start("go", on_event=hear)

    assert isinstance(outcome, Finished)
    assert 2 == len(heard)
    assert "gets no more events" in caplog.text


async def test_a_listener_that_hangs_delays_nothing_but_the_return(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The run ends while the first event is still handled."""
    monkeypatch.setattr(event_listeners, "_GRACE_SECONDS", 0.05)

    runner = AsyncRunner(Agent("a", model=ScriptedModel(["end"])), store=MemoryStore())
    hanging = asyncio.Event()
    ended: list[str] = []

    async def hang(_: RunEvent) -> None:
        hanging.set()
        while "finished" not in ended:
            ended.append((await runner.look("r1")).status)
            await asyncio.sleep(0)  # a store in memory gives way to no task
        await asyncio.Event().wait()

    assert isinstance(await runner.start("go", run_id="r1", on_event=hang), Finished)
    assert hanging.is_set()
    assert "finished" == ended[-1]

    assert "needs more than 0.05 s" in caplog.text


async def test_cancelled_work_does_not_wait_for_the_backlog_of_a_listener() -> None:
    """A person who presses Ctrl-C waits for a moment, not for every event."""
    words = [f"word {number} " for number in range(100)]

    class Endless:
        """Writes many words, and never ends."""

        name = "endless"

        async def reply(self, request: ModelRequest) -> ModelReply:
            for word in words:
                assert request.on_delta is not None
                await request.on_delta(ModelDelta(kind="text", text=word))
            written.set()
            await asyncio.Event().wait()
            raise AssertionError

    written = asyncio.Event()
    handled: list[RunEvent] = []

    async def hear_slowly(event: RunEvent) -> None:
        await asyncio.sleep(0.2)
        handled.append(event)

    runner = AsyncRunner(Agent("a", model=Endless()), store=MemoryStore())
    work = asyncio.create_task(runner.start("go", on_event=hear_slowly))
    await written.wait()
    work.cancel()
    with pytest.raises(asyncio.CancelledError):
        await work

    assert 0 < len(handled) < len(words) / 2


def test_a_runner_with_a_listener_tells_the_events_of_its_sweeps() -> None:
    store, clock = MemoryStore(), ManualClock()
    heard: list[RunEvent] = []
    runner = Runner(payroll(), store=store, clock=clock, on_event=heard.append)
    runner.start("Pay Jane", run_id="r1", work=False)
    runner.sweep()
    [wait] = runner.waiting()
    runner.decide(wait.id, Approve())
    runner.sweep()

    assert stored(heard) == list(runner.events("r1"))
    assert of_type(heard, CallProgress)


async def test_live_events_are_left_out_while_too_many_are_unread(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A reader that does not read costs bounded memory, and misses no stored event."""
    monkeypatch.setattr(event_listeners, "MAX_UNREAD", 3)
    text = " ".join(str(number) for number in range(50))

    runner = AsyncRunner(Agent("a", model=ScriptedModel([text])), store=MemoryStore())
    stream = runner.stream("go", run_id="r1")
    events = await stream.read()
    while not (await runner.look("r1")).status == "finished":  # noqa: ASYNC110, SIM201
        await asyncio.sleep(0)
    while more := await stream.read():
        events += more
    assert stored(events) == [each async for each in runner.events("r1")]
    assert len(of_type(events, TextDelta)) <= 3


@pytest.mark.parametrize("where", ["runner", "start", "resume", "send"])
def test_a_listener_that_is_no_function_is_refused(where: str) -> None:
    nothing: Any = 3
    agent = Agent("a", model=ScriptedModel(["end"]))
    runner = Runner(agent, store="memory:")

    calls: dict[str, Callable[[], object]] = {
        "runner": lambda: Runner(agent, store="memory:", on_event=nothing),
        "start": lambda: runner.start("go", on_event=nothing),
        "resume": lambda: runner.resume("r1", on_event=nothing),
        "send": lambda: runner.thread(key="k").send("go", on_event=nothing),
    }
    with pytest.raises(InvalidInput, match="on_event must be a function"):
        calls[where]()


# Progress of tools ----------------------------------------------------------------


def test_progress_is_told_from_threads_and_only_as_json(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """A value that is not JSON changes nothing, with a listener or without."""

    @tool
    def count(ctx: ToolContext) -> str:
        """Count."""
        for number in range(3):
            ctx.progress(number)
        ctx.progress(object())
        return "done"

    script: list[Any] = [ToolCall("count"), "end"]
    agent = Agent("a", tools=[count], model=ScriptedModel(script))
    runner = Runner(agent, store="memory:")

    told = of_type(runner.stream("go"), CallProgress)
    assert isinstance(runner.start("go"), Finished)

    assert [(0, 0), (1, 1), (2, 2)] == [(each.index, each.value) for each in told]
    assert 1 == caplog.text.count("ctx.progress of tool count")


# Threads --------------------------------------------------------------------------


def test_a_stream_of_a_thread_yields_the_events_of_one_message() -> None:
    runner = Runner(
        Agent("a", model=ScriptedModel(["Hi there.", "Bye."])), store="memory:"
    )
    thread = runner.thread(key="k")
    thread.send("Hello")

    stream = thread.stream("Leaving")
    events = list(stream)

    assert isinstance(stream.outcome, Replied)
    assert "Bye." == stream.outcome.output
    added = [each.message["content"] for each in of_type(events, MessageAdded)]
    assert ["Leaving", "Bye."] == added
    assert "Bye." == "".join(each.text for each in of_type(events, TextDelta))
    assert isinstance(events[-1], ReplyGiven)


def test_a_stream_of_a_thread_tells_what_another_process_does() -> None:
    """Two browser tabs: the second one sees the reply that the first one computes."""
    store: Store = MemoryStore()
    writing, go_on = threading.Event(), threading.Event()

    class Waiting:
        name = "waiting"

        async def reply(self, request: ModelRequest) -> ModelReply:
            writing.set()
            await asyncio.to_thread(go_on.wait, 10)
            return reply(f"reply to {request.messages[-1].content}")

    def thread() -> Any:
        return Runner(Agent("a", model=Waiting()), store=store).thread(key="k")

    first = threading.Thread(target=thread().send, args=("one",))
    first.start()
    assert writing.wait(60)
    second = thread().stream("two")
    events: list[RunEvent] = []

    def read() -> None:
        events.extend(second)

    reader = threading.Thread(target=read)
    reader.start()
    # The message of the second tab is posted.
    wait_until(lambda: thread().ticket(2).look() is not None)
    go_on.set()
    first.join(60)
    reader.join(60)

    added = [each.message["content"] for each in of_type(events, MessageAdded)]
    assert ["reply to one", "two", "reply to two"] == added[-3:]
    answer: Any = second.outcome
    assert "reply to two" == answer.output
