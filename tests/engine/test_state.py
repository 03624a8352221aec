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
from continuations.engine.outcomes import Outcome
from continuations.errors import AgentChanged, InvalidInput
from continuations_storage import MemoryStore
from tests.engine.agent_builders import make_boss, root_tool_results
from tests.outcomes import expect
from tests.scripts import Script, call


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
    """Return an agent with a state."""
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
