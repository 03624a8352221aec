"""The state of an agent: `Agent(state=...)`, `ctx.state` and `ctx.update`."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import Any

import pytest
from pydantic import BaseModel, Field

from continuations import (
    Agent,
    Answer,
    Approve,
    AsyncRunner,
    Deny,
    Finished,
    Replied,
    Runner,
    Suspended,
    ToolContext,
    ask,
    resume,
    run,
    tool,
)
from continuations.cli.event_lines import event_line
from continuations.cli.stack_tree import tree_lines
from continuations.core import jsontext
from continuations.engine.outcomes import Outcome
from continuations.errors import AgentChanged, FormatError, InvalidInput
from continuations.events import StateChanged
from continuations.hooks import ChangeRequest, Hooks, TurnInfo
from continuations.models.interface import ModelRequest
from continuations.models.scripted import ScriptedModel, ToolCall
from continuations.present.json_forms import Report, event_json, run_json, thread_json
from continuations.tools import Tool
from continuations.wire.rows import delta_fields, read_delta
from continuations_storage import MemoryStore
from continuations_storage.faults import FaultyStore
from tests.clocks import ManualClock
from tests.core.rows import new_state
from tests.crash_points import CrashPoint
from tests.engine.agent_builders import make_boss, root_tool_results
from tests.engine.state_agents import three_deep
from tests.outcomes import expect, present
from tests.present.schema_check import assert_matches_schema
from tests.scripts import Script, call, scripted_model


class Claim(BaseModel):
    """The fields of an expense claim."""

    total: int = Field(default=0, le=1000)
    trips: list[str] = []
    owner: str | None = None


@tool(writes_state=True)
def spend(cents: int, ctx: ToolContext[Claim]) -> str:
    """Add to the total."""
    ctx.update(total=ctx.state.total + cents)
    return f"now {ctx.state.total}"


@tool(writes_state=True, approval=True)
def spend_much(cents: int, ctx: ToolContext[Claim]) -> str:
    """Add to the total, after an approval."""
    ctx.update(total=ctx.state.total + cents)
    return f"now {ctx.state.total}"


@tool(writes_state=True)
def spend_and_fail(cents: int, ctx: ToolContext[Claim]) -> str:
    """Add to the total, and fail."""
    ctx.update(total=ctx.state.total + cents)
    msg = f"no {ctx.state.total}"
    raise RuntimeError(msg)


@tool
def look(ctx: ToolContext[Claim]) -> str:
    """Return the total."""
    return f"sees {ctx.state.total}"


@tool(writes_state=True)
def ask_trip(ctx: ToolContext[Claim]) -> Any:
    """Ask for a trip."""
    ctx.update(owner="jane")
    return ask("Which trip?", str)


@ask_trip.on_answer
def got_trip(answer: str, ctx: ToolContext[Claim]) -> str:
    """Keep the trip."""
    ctx.update(trips=[*ctx.state.trips, answer])
    return f"{ctx.state.owner}: {answer}"


TOOLS = (spend, spend_much, spend_and_fail, look, ask_trip)


def claims(script: Script, *tools: Any, **options: Any) -> Agent:
    options.setdefault("state", Claim)
    return make_boss(script, *(tools or TOOLS), **options)


def state_of(outcome: Outcome) -> dict[str, Any]:
    """Return the stored state of the root frame."""
    return outcome.continuation.root.state


def test_state_begins_with_the_defaults_and_keeps_changes_over_turns() -> None:
    """A tool reads what earlier turns wrote, and nothing is stored before a change."""
    script: Script = {
        "go": [[call("look")], [call("spend", cents=5)], [call("look")], "end"]
    }

    outcome = expect(run(claims(script), "go"), Finished)

    assert ["sees 0", "now 5", "sees 5"] == root_tool_results(outcome)
    assert {"total": 5} == state_of(outcome)


def test_calls_of_one_turn_that_write_begin_one_after_another() -> None:
    """No update is lost, and each call reads what the calls before it wrote."""
    calls = [call("spend", cents=cents) for cents in (1, 2, 3, 4)]

    outcome = run(claims({"go": [calls, "end"]}), "go")

    assert ["now 1", "now 3", "now 6", "now 10"] == root_tool_results(outcome)
    assert {"total": 10} == state_of(outcome)


def test_call_that_reads_sees_the_state_of_the_beginning_of_its_turn() -> None:
    """The result does not depend on which call of the turn is faster."""
    calls = [call("spend", cents=7), call("look")]

    outcome = run(claims({"go": [calls, [call("look")], "end"]}), "go")

    assert ["now 7", "sees 0", "sees 7"] == root_tool_results(outcome)


def test_call_that_fails_changes_nothing() -> None:
    """The changes of a call take effect only if it returns."""
    calls = [call("spend_and_fail", cents=1), call("spend", cents=2)]

    outcome = run(claims({"go": [calls, "end"]}), "go")

    assert "now 2" == root_tool_results(outcome)[1]
    assert {"total": 2} == state_of(outcome)


@pytest.mark.parametrize(
    ("verdict", "results", "state"),
    [
        (Approve(), ["now 1", "now 3"], {"total": 3}),
        (Deny(reason="no"), None, {"total": 2}),
        (Answer("done elsewhere"), None, {"total": 2}),
    ],
)
def test_call_that_waits_holds_the_later_calls_that_write(
    verdict: Approve | Deny | Answer, results: list[str] | None, state: dict[str, int]
) -> None:
    """The same end as without a wait: a denied call changes nothing."""
    calls = [call("spend_much", cents=1), call("spend", cents=2)]
    agent = claims({"go": [calls, "end"]})

    outcome = expect(run(agent, "go"), Suspended)
    assert ["waiting", "ready"] == [
        each.state for each in outcome.continuation.root.calls
    ]
    assert not outcome.paused
    data = outcome.continuation.to_bytes()
    ended = resume(data, agent, answers={outcome.waits[0].id: verdict})

    assert isinstance(ended, Finished)
    assert state == state_of(ended)
    assert results in (None, root_tool_results(ended))


def test_changes_of_a_tool_that_waits_are_kept_until_its_answer() -> None:
    """The tool and its `on_answer` function both change the state, at the end."""
    store = MemoryStore()
    agent = claims({"go": [[call("ask_trip")], "end"]})
    outcome = expect(Runner(agent, store=store).start("go", run_id="r1"), Suspended)
    assert {} == state_of(outcome)

    runner = Runner(agent, store=store)
    runner.decide(outcome.waits[0].id, Answer("Paris"))
    ended = runner.resume("r1")

    assert ["jane: Paris"] == root_tool_results(ended)
    assert {"owner": "jane", "trips": ["Paris"]} == state_of(ended)


def test_question_that_is_denied_changes_nothing() -> None:
    """The changes before the wait are dropped with the call."""
    agent = claims({"go": [[call("ask_trip")], "end"]})
    outcome = expect(run(agent, "go"), Suspended)

    ended = resume(outcome.continuation, agent, answers={outcome.waits[0].id: Deny()})

    assert {} == state_of(ended)


def test_value_that_does_not_fit_is_told_to_the_model() -> None:
    """The model reads the place and the reason, and can correct its call."""
    turns = [[call("spend", cents=2000)], [call("spend", cents=20)], "end"]

    outcome = run(claims({"go": turns}), "go")

    refused, accepted = root_tool_results(outcome)
    assert "total: Input should be less than or equal to 1000" in refused
    assert "now 20" == accepted
    assert {"total": 20} == state_of(outcome)


def result_of(function: Any, **options: Any) -> str:
    """Return what the model reads about one call of a tool."""
    agent = claims({"go": [[call(function.name)], "end"]}, function, **options)
    outcome = expect(run(agent, "go"), Finished)
    [result] = root_tool_results(outcome)
    return result


def test_update_without_the_declaration_says_what_to_declare() -> None:
    """Calls that were not declared may run at the same time, and lose updates."""

    @tool
    def sneak(ctx: ToolContext[Claim]) -> None:
        """Change the state."""
        ctx.update(total=1)

    assert "@tool(writes_state=True)" in result_of(sneak)


def test_update_of_an_unknown_field_names_the_fields() -> None:
    """A misspelled name changes nothing."""

    @tool(writes_state=True)
    def misspell(ctx: ToolContext[Claim]) -> None:
        """Change the state."""
        ctx.update(totla=1)

    result = result_of(misspell)
    assert "'totla'" in result
    assert "total, trips, owner" in result


def test_state_of_an_agent_without_one_says_what_to_declare() -> None:
    """A tool may be shared by agents, so it is found when the tool asks."""
    assert "Agent(..., state=...)" in result_of(look, state=None)


def test_changing_the_value_itself_changes_nothing() -> None:
    """Each access makes a new value; only `update` changes the run."""

    @tool(writes_state=True)
    def scribble(ctx: ToolContext[Claim]) -> int:
        """Change the value."""
        ctx.state.trips.append("lost")
        ctx.state.total = 5
        return ctx.state.total + len(ctx.state.trips)

    assert "0" == result_of(scribble)


def test_update_after_the_end_of_the_call_raises() -> None:
    """A change that cannot be stored with the result is not lost silently."""
    kept: list[ToolContext[Claim]] = []

    @tool(writes_state=True)
    def keep(ctx: ToolContext[Claim]) -> None:
        """Keep the context."""
        kept.append(ctx)

    assert "null" == result_of(keep)
    with pytest.raises(InvalidInput, match="the call has ended"):
        kept[0].update(total=1)


class Odd(BaseModel):
    """A field that is not stored, and one that a validator computes."""

    cache: dict[str, int] = Field(default_factory=dict[str, int], exclude=True)
    names: set[str] = set()
    thing: Any = None


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"cache": {"a": 1}}, "has no stored field 'cache'"),
        ({"thing": object()}, "has no JSON form"),
        ({"thing": float("nan")}, "thing is not equal"),
        ({"thing": {1, 2}}, "thing is not equal"),
    ],
)
def test_value_that_cannot_be_stored_fails_loudly(
    change: dict[str, Any], why: str
) -> None:
    """Nothing is dropped silently; a field is left out only by its declaration."""

    @tool(writes_state=True)
    def put(ctx: ToolContext[Odd]) -> None:
        """Put a value."""
        ctx.update(names={"ok"})
        ctx.update(**change)

    agent = claims({"go": [[call("put")], "end"]}, put, state=Odd)
    outcome = run(agent, "go")

    assert why in root_tool_results(outcome)[0]
    assert {} == state_of(outcome)


@dataclass
class Plan:
    """A dataclass as a state."""

    steps: list[str] = field(default_factory=list[str])


@dataclass
class Required:
    """No value without arguments."""

    step: str


class Aliased(BaseModel):
    """A field with another name in JSON."""

    step: str = Field(default="", alias="Step")


class Unstorable(BaseModel):
    """A default without a JSON form."""

    thing: Any = object()


@pytest.mark.parametrize(
    ("type_", "why"),
    [
        (Required, "Give each field a default"),
        (Aliased, "Remove its alias"),
        (Unstorable, "has no JSON form"),
        (dict, "a pydantic model or a dataclass"),
        ("Plan", "a pydantic model or a dataclass"),
        (Plan(), "a pydantic model or a dataclass"),
    ],
)
def test_type_that_cannot_be_a_state_raises_when_it_is_declared(
    type_: Any, why: str
) -> None:
    """A mistake is found before any run."""
    with pytest.raises(InvalidInput, match=why):
        Agent("a", state=type_)


def test_tool_that_writes_needs_an_agent_with_a_state() -> None:
    """The agent says so when it is made."""
    with pytest.raises(InvalidInput, match="tool spend writes the state"):
        Agent("a", tools=[spend])


def test_dataclass_is_a_state() -> None:
    """A dataclass needs no pydantic in the application."""

    @tool(writes_state=True)
    def add(step: str, ctx: ToolContext[Plan]) -> int:
        """Add a step."""
        ctx.update(steps=[*ctx.state.steps, step])
        return len(ctx.state.steps)

    calls = [call("add", step="a"), call("add", step="b")]
    outcome = run(claims({"go": [calls, "end"]}, add, state=Plan), "go")

    assert ["1", "2"] == root_tool_results(outcome)
    assert {"steps": ["a", "b"]} == state_of(outcome)


# Nested agents, and threads -----------------------------------------------------------


def test_each_frame_has_a_state_of_its_own() -> None:
    """A sub-agent begins anew each time, and its state ends with it."""
    script: Script = {
        "go": [
            [call("spend", cents=1)],
            [call("below", input="L")],
            [call("below", input="L")],
            [call("look")],
            "end",
        ],
        "L": [[call("spend", cents=50)], [call("look")], "low"],
    }
    below = make_boss(script, spend, look, state=Claim)
    below.name = "below"
    outcome = expect(run(claims(script, spend, look, below), "go"), Finished)

    assert ["now 1", "low", "low", "sees 1"] == root_tool_results(outcome)
    assert {"total": 1} == state_of(outcome)


def thread_agent(state: Any = Claim) -> Agent:
    """Return the agent of a thread: each message spends 5."""
    turns: Any = [[call("spend", cents=5)], "one", [call("spend", cents=5)], "two"]
    return claims({"hi": turns}, spend, state=state)


def test_state_of_a_thread_lives_over_messages(store: MemoryStore) -> None:
    """`thread.state` is a typed value, also in another process."""
    agent = thread_agent()
    thread = Runner(agent, store=store).thread("boss", key="7")

    assert Claim() == thread.state
    assert isinstance(thread.send("hi"), Replied)
    assert Claim(total=5) == thread.state
    again = Runner(agent, store=store).thread("boss", key="7")
    assert isinstance(again.send("and"), Replied)
    assert Claim(total=10) == again.state

    async def read() -> Any:
        runner = AsyncRunner(agent, store=store)
        return await runner.thread("boss", key="7").state

    assert Claim(total=10) == asyncio.run(read())


# Other code ---------------------------------------------------------------------------


class Later(BaseModel):
    """The type of a later deployment: one field more, one less."""

    total: int = 0
    currency: str = "EUR"


class Other(BaseModel):
    """A type that the stored state does not fit."""

    total: list[int] = []


def test_new_type_gets_defaults_and_keeps_what_fits() -> None:
    """A deployment may add and remove fields."""
    store, agent = MemoryStore(), thread_agent()
    thread = Runner(agent, store=store).thread("boss", key="7")
    thread.send("hi")

    later = thread_agent(Later)
    changed = Runner(later, store=store).thread("boss", key="7")

    assert Later(total=5, currency="EUR") == changed.state
    assert isinstance(changed.send("and"), Replied)
    assert Later(total=10, currency="EUR") == changed.state


def test_stored_state_that_does_not_fit_changes_nothing(store: MemoryStore) -> None:
    """The error names the field and no value, before anything is written."""
    agent = claims(
        {"go": [[call("spend", cents=77)], [call("spend_much", cents=1)], "end"]}
    )
    outcome = expect(Runner(agent, store=store).start("go", run_id="r1"), Suspended)
    runner = Runner(claims({"go": ["end"]}, state=Other), store=store)
    runner.decide(outcome.waits[0].id, Approve())
    keys = asyncio.run(_keys(store))

    with pytest.raises(AgentChanged, match=r"type Other \(total\)") as caught:
        runner.resume("r1")

    assert "77" not in str(caught.value)
    assert keys == asyncio.run(_keys(store))


async def _keys(store: MemoryStore) -> list[str]:
    return await store.keys("", limit=1000)


# Hooks ------------------------------------------------------------------------


@dataclass
class Memory:
    """The facts that the agent knows."""

    name: str = "nobody"


def test_a_hook_renders_the_state_and_stores_nothing() -> None:
    """Each request has the present state once, and the transcript never has it."""
    seen: list[list[str]] = []

    @tool(writes_state=True)
    def remember(ctx: ToolContext, name: str) -> str:
        """Remember a name."""
        ctx.update(name=name)
        return "remembered"

    def show_state(info: TurnInfo) -> ChangeRequest:
        return ChangeRequest(request_messages=[f"Known: {info.state.name}"])

    def reply(request: ModelRequest) -> Any:
        texts = [str(message.data.get("content")) for message in request.messages]
        seen.append([text for text in texts if text.startswith("Known")])
        return ToolCall("remember", {"name": "Ann"}) if len(seen) == 1 else "Hello."

    agent = Agent(
        "host",
        model=ScriptedModel(reply),
        tools=[remember],
        state=Memory,
        hooks=Hooks(before_model=show_state),
    )
    thread = Runner(agent, store=MemoryStore()).thread(key="k")
    thread.send("I am Ann.")
    assert isinstance(thread.send("Who am I?"), Replied)

    assert [["Known: nobody"], ["Known: Ann"], ["Known: Ann"]] == seen
    assert not any("Known" in str(each["content"]) for each in thread.messages())


# Every kind of tool -----------------------------------------------------------


class Count(BaseModel):
    """A number that tools increase."""

    value: int = 0


def increase(ctx: ToolContext[Count]) -> int:
    """Add one to the state."""
    ctx.update(value=ctx.state.value + 1)
    return ctx.state.value


SCRIPT: Script = {"go": [[call("add"), call("add")], [call("add")], "end"]}


def test_tool_of_a_schema_changes_the_state() -> None:
    """The option is the same as for a function."""

    def add(arguments: dict[str, Any], ctx: ToolContext[Count]) -> int:
        assert {} == arguments
        return increase(ctx)

    made = Tool.from_schema("add", {"type": "object"}, add, writes_state=True)
    outcome = run(make_boss(SCRIPT, made, state=Count), "go")

    assert ["1", "2", "3"] == root_tool_results(outcome)
    assert {"value": 3} == outcome.continuation.root.state


def test_agent_of_a_class_has_a_state() -> None:
    """The body of the class names the type, and its methods change it."""

    class Counter(Agent):
        """Count."""

        state = Count

        @tool(writes_state=True)
        def add(self, ctx: ToolContext[Count]) -> int:
            """Add one."""
            assert "counter" == self.name
            return increase(ctx)

    outcome = run(Counter(model=scripted_model(SCRIPT)), "go")

    assert ["1", "2", "3"] == root_tool_results(outcome)
    assert {"value": 3} == outcome.continuation.root.state


def test_verify_that_finds_the_result_may_update_the_state() -> None:
    """A worker died after the effect. `verify` tells the result and the change."""

    def look_up(ctx: ToolContext[Count]) -> Answer:
        ctx.update(value=7)
        return Answer("it ran")

    @tool(writes_state=True, verify=look_up)
    def add(ctx: ToolContext[Count]) -> int:
        """Add one."""
        return increase(ctx)

    agent = make_boss({"go": [[call("add")], "end"]}, add, state=Count)
    for number in range(1, 30):
        clock = ManualClock()
        store = MemoryStore(clock.now)
        with CrashPoint(number, "before").process(store) as dying:
            Runner(agent, store=dying, clock=clock).start("go", run_id="r1")
        clock.seconds += 120
        outcome = Runner(agent, store=store, clock=clock).start("go", run_id="r1")
        if "it ran" in root_tool_results(outcome):
            break
        assert ["1"] == root_tool_results(outcome)
    else:
        raise AssertionError

    assert isinstance(outcome, Finished)
    assert {"value": 7} == outcome.continuation.root.state


def test_state_costs_no_version_and_no_request() -> None:
    """A change is in the version that has the result anyway."""
    operations: list[int] = []
    for state in (Count, None):

        @tool(writes_state=state is not None)
        def add(ctx: ToolContext[Count]) -> int:
            """Add one."""
            return increase(ctx) if ctx.call_state else 1

        store = FaultyStore(MemoryStore())
        agent = make_boss({"go": [[call("add")], "end"]}, add, state=state)
        assert isinstance(Runner(agent, store=store).start("go"), Finished)
        operations.append(len(store.operations))

    assert operations[0] == operations[1]


def test_state_of_a_run_that_waits_is_in_its_bytes_only_after_a_change() -> None:
    """A declared state that nothing changed is not stored."""

    @tool(approval=True, writes_state=True)
    def add(ctx: ToolContext[Count]) -> int:
        """Add one."""
        return increase(ctx)

    outcome = run(make_boss({"go": [[call("add")], "end"]}, add, state=Count), "go")

    assert isinstance(outcome, Suspended)
    state = outcome.continuation.run_state
    assert ["", "{}"] == [state.frames["f1"].state_json, state.calls["c3"].patch]


@pytest.mark.parametrize(
    "states", [[], "x", {"f1": 5}, {"f1": "[]"}, {"f1": "{"}, {"f1": None}]
)
def test_stored_state_of_a_wrong_shape_is_refused(states: Any) -> None:
    """Bytes that no release writes raise one typed error."""
    from continuations.core.rows.delta import diff  # noqa: PLC0415 - only this test

    fields = {**delta_fields(diff(None, new_state())), "states": states}

    with pytest.raises(FormatError, match="states"):
        read_delta(fields, "test")


# What people and programs read ------------------------------------------------


SHOWN_SCRIPT: Script = {
    "go": [
        [call("book", cents=1), call("book", cents=2)],
        [call("hr", input="below")],
        [call("buy", cents=4)],
        "end",
    ],
    "below": [[call("book", cents=30)], [call("order", cents=40)], "done"],
}


def suspended(store: MemoryStore) -> Runner:
    """Return the runner of a run whose sub-agent waits for an approval."""
    runner = Runner(three_deep(SHOWN_SCRIPT), store=store)
    assert isinstance(runner.start("go", run_id="r1"), Suspended)
    return runner


def test_each_change_is_an_event(store: MemoryStore) -> None:
    """Events follow from the versions, so they are the same in every process."""
    runner = suspended(store)
    [summary] = list(runner.waiting())
    runner.decide(summary.id, Approve())
    runner.resume("r1")

    events = list(Runner([], store=store).events("r1"))
    changes = [each for each in events if isinstance(each, StateChanged)]

    assert [
        (("boss",), {"spent": 3, "on": ["book", "book"]}),
        (("boss", "hr"), {"spent": 30, "on": ["book"]}),
        (("boss", "hr"), {"spent": 70, "on": ["book", "order"]}),
        (("boss",), {"spent": 7, "on": ["book", "book", "buy"]}),
    ] == [(each.path, each.changes) for each in changes]
    replay: dict[str, Any] = {}
    for each in changes:
        replay |= each.changes if each.path == ("boss",) else {}
        assert_matches_schema("event", event_json(each))
    assert runner.look("r1").root.state == replay
    assert event_line(changes[0]).text.endswith(
        'state: {"on":["book","book"],"spent":3}'
    )


def test_approver_sees_the_states_of_the_stack() -> None:
    """A person who looks at the run sees the state of the agent that waits."""
    store, clock = MemoryStore(), ManualClock()
    looked = suspended(store).look("r1")

    form = run_json(looked, Report(clock.now()), with_stack=True)
    lines = [line.text for line in tree_lines(looked.root, {}, clock.now())]

    assert {"on": ["book", "book"], "spent": 3} == form["state"]
    states = {frame["agent"]: frame["state"] for frame in form["frames"]}
    assert {"on": ["book"], "spent": 30} == states["hr"]
    shown = jsontext.dump({"on": ["book"], "spent": 30})
    assert f"state {shown}" in lines
    assert_matches_schema("run", form)


def test_thread_shows_the_state_of_its_agent() -> None:
    """The same field as in a run."""
    store, clock = MemoryStore(), ManualClock()
    script: Script = {"hi": [[call("book", cents=5)], "done"]}
    thread = Runner(three_deep(script), store=store).thread(key="7")
    thread.send("hi")

    looked = present(thread.look())
    form = thread_json(looked, Report(clock.now()))

    assert {"on": ["book"], "spent": 5} == form["state"]
    assert_matches_schema("thread", form)
