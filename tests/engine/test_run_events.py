"""The events of a run are derived from its versions, in any process."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from itertools import count
from typing import Annotated, Any, TypeVar

import pytest

from continuations import Agent, Approve, AsyncRunner, Deny, Runner, errors, tool
from continuations.core.ulid import encode_ulid
from continuations.events import (
    Attempt,
    CallEnded,
    CallProposed,
    CallStarted,
    FrameEnded,
    FrameStarted,
    MessageAdded,
    ReplyGiven,
    RunEnded,
    RunRepaired,
    StreamEvent,
    WaitDecided,
    WaitOpened,
)
from continuations.ledger import layout
from continuations.ledger.objects import Objects
from continuations.ledger.repair.doctor import repair
from continuations.models.scripted import ScriptedModel, ToolCall
from continuations.present.json_forms import event_json
from continuations.tools import Secret
from continuations_storage import MemoryStore, Store
from continuations_storage.faults import FaultyStore
from tests.clocks import ManualClock
from tests.engine import thread_agents
from tests.engine.agent_builders import text_tool
from tests.present.schema_check import assert_matches_schema
from tests.run_environment import RunEnvironment

PIN = "4711-secret"
E = TypeVar("E")


@tool(approval=True)
def transfer(cents: int, pin: Annotated[str, Secret()]) -> str:
    """Move money."""
    return f"moved {cents}" if pin == PIN else "wrong PIN"


look_up = text_tool("look_up", "{name} is known", {"name": str})


def hr() -> Agent:
    """Return three agents, one below the other; the lowest needs an approval."""
    clerk = Agent("clerk", model=ScriptedModel(["The form is filled in."]))
    pays: list[Any] = [
        [
            ToolCall("look_up", {"name": "Jane"}),
            ToolCall("transfer", {"cents": 500, "pin": PIN}),
        ],
        "Jane is paid.",
    ]
    accounts = Agent("accounts", tools=[look_up, transfer], model=ScriptedModel(pays))
    calls: list[Any] = [
        [ToolCall("accounts", {"input": "pay"}), ToolCall("clerk", {"input": "form"})],
        "Jane is on board.",
    ]
    return Agent("hr", tools=[accounts, clerk], model=ScriptedModel(calls))


def onboard(store: Store | str) -> Runner:
    """Return a runner whose run `j1` waited, was approved and has finished."""
    runner = Runner(hr(), store=store)
    runner.start("Onboard Jane", run_id="j1")
    [wait] = runner.waiting()
    runner.decide(wait.id, Approve(by="kim"))
    runner.resume("j1")
    return runner


def of_type(events: Iterable[StreamEvent], kind: type[E]) -> list[E]:
    return [event for event in events if isinstance(event, kind)]


def newest_number(runner: Runner, run_id: str) -> int:
    return runner.look(run_id).version


# The events -------------------------------------------------------------------


def test_a_nested_run_tells_everything_in_order() -> None:
    """Agents, calls, the wait with its decider, and the end."""
    events = list(onboard("memory:").events("j1"))

    assert ["hr", "hr/accounts", "hr/clerk"] == sorted(
        "/".join(each.path) for each in of_type(events, FrameStarted)
    )
    ends = {each.agent: each.output for each in of_type(events, FrameEnded)}
    assert "Jane is paid." == ends["accounts"]
    assert "The form is filled in." == ends["clerk"]
    assert "Jane is on board." == ends["hr"]
    calls = {each.call for each in of_type(events, CallProposed)}
    assert calls == {each.call for each in of_type(events, CallStarted)}
    results = {each.tool: each.result for each in of_type(events, CallEnded)}
    assert ("Jane is known", "moved 500") == (results["look_up"], results["transfer"])
    [opened], [decided] = of_type(events, WaitOpened), of_type(events, WaitDecided)
    assert ("hr", "accounts", "transfer") == opened.path == decided.path
    assert (opened.wait.id, "approve", "kim") == (
        *(decided.wait_id, decided.kind, decided.by),
    )
    assert [1, 1] == [each.number for each in of_type(events, Attempt)]
    [end] = of_type(events, RunEnded)
    assert end is events[-1]
    assert ("finished", "Jane is on board.", None) == (
        *(end.status, end.output, end.failure),
    )
    for event in events:
        assert ("j1", "UTC") == (event.run_id, str(event.at.tzinfo))
        assert_matches_schema("event", event_json(event))


def test_secret_arguments_are_masked_as_waits_mask_them() -> None:
    runner = Runner(hr(), store="memory:")
    runner.start("Onboard Jane", run_id="j1")
    events = list(runner.events("j1"))

    [opened] = of_type(events, WaitOpened)
    assert "[secret]" == opened.wait.arguments["pin"]
    [proposed] = [
        each for each in of_type(events, CallProposed) if "transfer" == each.tool
    ]
    assert {"cents": 500, "pin": "[secret]"} == proposed.arguments
    # Messages are shown as `look` shows them: the model wrote its arguments there.
    others = [each for each in events if not isinstance(each, MessageAdded)]
    assert PIN not in repr(others)


def test_a_refused_call_and_a_failed_run_end_too() -> None:
    """A denied call never starts; a call of no tool begins and ends in one version."""
    script: list[Any] = [
        ToolCall("nothing", {}),
        ToolCall("transfer", {"cents": 5, "pin": PIN}),
        "Sorry.",
    ]
    agent = Agent("clerk", tools=[transfer], model=ScriptedModel(script), max_turns=3)
    runner = Runner(agent, store="memory:")
    runner.start("go", run_id="j1")
    [wait] = runner.waiting()
    runner.decide(wait.id, Deny(by="lee", reason="no"))
    runner.resume("j1")

    events = list(runner.events("j1"))

    missing, denied = of_type(events, CallEnded)
    assert ("nothing", None) == (missing.tool, missing.call)
    assert missing.result is not None
    assert denied.result is not None
    assert missing.result.startswith("ERROR: the call was not executed")
    assert denied.result.startswith("DENIED")
    assert [] == of_type(events, CallStarted)
    [decided] = of_type(events, WaitDecided)
    assert ("deny", "lee") == (decided.kind, decided.by)


def test_a_cancelled_run_ends_its_agents_calls_and_waits() -> None:
    runner = Runner(hr(), store="memory:")
    runner.start("Onboard Jane", run_id="j1")
    runner.cancel("j1", by="kim")

    events = list(runner.events("j1", follow=True))

    started = {each.call for each in of_type(events, CallStarted)}
    assert started <= {each.call for each in of_type(events, CallEnded)}
    assert 3 == len(of_type(events, FrameEnded))
    [decided] = of_type(events, WaitDecided)
    assert "cancel" == decided.kind
    [end] = of_type(events, RunEnded)
    assert end.failure is not None
    assert ("cancelled", "cancelled") == (end.status, end.failure.code)


def test_each_reply_of_a_thread_is_an_event() -> None:
    """Following ends while the thread rests, and goes on after the next message."""
    runner = Runner(thread_agents.agents(), store="memory:")
    thread = runner.thread(key="k")
    run_id = thread.send("hello").run_id
    first = list(runner.events(run_id, follow=True))
    thread.send("again")
    second = list(runner.events(run_id, after=first[-1].cursor, follow=True))
    thread.close()
    last = list(runner.events(run_id, after=second[-1].cursor, follow=True))

    replies = [*of_type(first, ReplyGiven), *of_type(second, ReplyGiven)]
    assert [(1, "1: hello", None), (2, "2: again", None)] == [
        (each.message_number, each.output, each.failure) for each in replies
    ]
    assert isinstance(first[-1], ReplyGiven)
    assert [] == of_type(last, ReplyGiven)
    assert isinstance(last[-1], RunEnded)
    for event in [*first, *second, *last]:
        assert_matches_schema("event", event_json(event))


# Cursors ----------------------------------------------------------------------


def test_a_stream_cut_at_any_cursor_goes_on_with_the_next_event() -> None:
    runner = onboard("memory:")
    events = list(runner.events("j1"))
    places = [tuple(map(int, each.cursor.split("."))) for each in events]

    assert sorted(set(places)) == places
    for index, event in enumerate(events):
        rest = list(Runner([], store=runner.store).events("j1", after=event.cursor))
        assert events[index + 1 :] == rest


def test_a_stream_goes_on_in_another_process(environment: RunEnvironment) -> None:
    """A fresh interpreter without the events continues within a version too."""
    whole = [event_json(each) for each in onboard(environment.store).events("j1")]
    inside = next(
        index for index, each in enumerate(whole) if each["cursor"].endswith(".2")
    )
    for index in (inside, len(whole) // 2):
        rest = environment.run("events", "j1", whole[index]["cursor"], script={})
        assert whole[index + 1 :] == rest["events"]


@pytest.mark.parametrize(
    "after", ["1", "1.", "0.1", "1.0", "01.1", "1.1 ", "-1.1", "٣.1", "99999999999.1"]
)
def test_another_text_is_no_cursor(after: str) -> None:
    with pytest.raises(
        errors.InvalidInput, match="after must be the cursor of an event"
    ):
        Runner([], store="memory:").events("j1", after=after)


def test_a_cursor_of_a_longer_run_is_refused() -> None:
    runner = onboard("memory:")
    with pytest.raises(errors.InvalidInput, match="a cursor of version 99"):
        list(runner.events("j1", after="99.1"))


def test_unknown_and_erased_runs_are_named() -> None:
    runner = onboard("memory:")
    [first, *_] = runner.events("j1")
    runner.erase("j1")

    with pytest.raises(errors.RunNotFound):
        list(runner.events("j2", follow=True))
    with pytest.raises(errors.InvalidId):
        runner.events("a/b")
    for after in ("", first.cursor):
        with pytest.raises(errors.RunErased):
            list(runner.events("j1", after=after, follow=True))


# Following --------------------------------------------------------------------


class ActingClock(ManualClock):
    """A clock whose sleeps are noted, and that acts during some of them."""

    def __init__(self) -> None:
        super().__init__()
        self.pauses: list[float] = []
        self.acts: dict[int, Any] = {}

    async def sleep(self, seconds: float) -> None:
        """Note the pause, and do the planned act."""
        self.pauses.append(seconds)
        act = self.acts.get(len(self.pauses))
        if act is not None:
            await act()


def follow_a_waiting_run() -> tuple[FaultyStore, ActingClock, list[StreamEvent]]:
    """Follow a run that is approved and resumed during the twelfth pause."""
    inner, clock = MemoryStore(), ActingClock()
    store = FaultyStore(inner)

    async def scenario() -> list[StreamEvent]:
        worker = AsyncRunner(hr(), store=inner)
        await worker.start("Onboard Jane", run_id="j1")

        async def decide() -> None:
            [wait] = [each async for each in worker.waiting()]
            await worker.decide(wait.id, Approve(by="kim"))
            await worker.resume("j1")

        clock.acts[12] = decide
        reader = AsyncRunner([], store=store, clock=clock)
        return [event async for event in reader.events("j1", follow=True)]

    return store, clock, asyncio.run(scenario())


def test_following_goes_on_over_an_open_wait_until_the_end() -> None:
    """The pauses grow from 0.2 to 5 seconds."""
    _, clock, events = follow_a_waiting_run()

    assert isinstance(events[-1], RunEnded)
    assert 12 == len(clock.pauses)
    assert (0.2, 5.0) == (clock.pauses[0], clock.pauses[-1])
    assert sorted(clock.pauses) == clock.pauses


def test_a_replay_reads_each_version_once_and_a_look_costs_one_read() -> None:
    """One listing, one read for each version, look and decision; no write."""
    store, clock, events = follow_a_waiting_run()

    versions = int(events[-1].cursor.partition(".")[0])
    decisions = len(of_type(events, WaitDecided))
    asked = [(operation.verb, operation.key) for operation in store.operations]
    prefix = layout.versions_prefix("j1")
    looks = [key for verb, key in asked if verb == "read" and key.startswith(prefix)]
    assert [prefix] == [key for verb, key in asked if verb == "keys"]
    assert versions + len(clock.pauses) == len(looks)
    assert 1 + len(looks) + decisions == len(asked)
    assert versions == len(set(looks))


def test_an_erasure_ends_a_stream_that_is_behind() -> None:
    """The next version is gone, and a later key says why."""
    clock, store = ActingClock(), MemoryStore()

    async def scenario() -> None:
        worker = AsyncRunner(hr(), store=store)
        await worker.start("Onboard Jane", run_id="j1")

        async def end_and_erase() -> None:
            await worker.cancel("j1")
            await worker.erase("j1")

        clock.acts[2] = end_and_erase
        reader = AsyncRunner([], store=store, clock=clock)
        async for _ in reader.events("j1", follow=True):
            pass

    with pytest.raises(errors.RunErased):
        asyncio.run(scenario())
    assert 2 <= len(clock.pauses) <= 60


# Damage -----------------------------------------------------------------------


def test_a_damaged_version_is_named_and_a_repair_is_told_anew() -> None:
    """After the repair, the events describe the state from which the run goes on."""
    store = MemoryStore()
    runner = Runner(hr(), store=store)
    runner.start("Onboard Jane", run_id="j1")
    before = list(runner.events("j1"))
    lost = newest_number(runner, "j1")
    asyncio.run(store.delete(layout.version_key("j1", lost - 1)))

    with pytest.raises(errors.Corrupt, match="is missing"):
        list(runner.events("j1"))

    numbers, now = count(1), datetime.now(UTC) + timedelta(hours=1)

    def new_ulid() -> str:
        return encode_ulid(int(now.timestamp() * 1000), next(numbers).to_bytes(10))

    repaired = asyncio.run(repair(Objects(store), "j1", now=now, new_ulid=new_ulid))
    for after in ("", before[-1].cursor):
        rest = list(runner.events("j1", after=after))
        place = next(i for i, each in enumerate(rest) if isinstance(each, RunRepaired))
        assert f"{repaired.number}.1" == rest[place].cursor
        messages = [
            each.message
            for each in rest[place:]
            if isinstance(each, MessageAdded) and each.frame == "f1"
        ]
        assert runner.look("j1").root.messages == messages


def _calls_per_event(turns: int) -> float:
    """Return the Python calls of a replay for each event."""
    note = text_tool("note", "saved")
    replies: list[Any] = [ToolCall("note")] * turns
    model = ScriptedModel([*replies, "end"])
    store = MemoryStore()
    Runner(Agent("a", tools=[note], model=model), store=store).start("go", run_id="r1")
    calls = 0

    def count_call(_frame: object, event: str, _arg: object) -> None:
        nonlocal calls
        calls += event == "call"

    async def replay() -> int:
        sys.setprofile(count_call)
        try:
            return len(
                [each async for each in AsyncRunner([], store=store).events("r1")]
            )
        finally:
            sys.setprofile(None)

    events = asyncio.run(replay())
    return calls / events


def test_the_work_of_a_replay_grows_with_the_events_alone() -> None:
    """Each message is read once, not once for each later version."""
    assert _calls_per_event(80) < 1.1 * _calls_per_event(20)
