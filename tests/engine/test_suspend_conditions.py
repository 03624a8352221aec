"""Conditions of an agent (`suspend_when`) suspend it before a turn of its model."""

from __future__ import annotations

from typing import Any

import pytest

from continuations import (
    Agent,
    Finished,
    Runner,
    Suspended,
    after,
    every,
    resume,
    run,
    tool,
)
from continuations.errors import InvalidInput
from continuations.tools import AgentProgress
from continuations_storage import MemoryStore
from tests import scripts
from tests.clocks import ManualClock
from tests.engine.agent_builders import make_boss, text_tool
from tests.outcomes import expect, single_wait
from tests.scripts import Script, call

FIVE_TURNS: Script = {"go": [[call("act")]] * 4 + ["end"]}
act = text_tool("act", "acted")


def turns_of(outcome: Any) -> int:
    """Return the turns that the root agent has had."""
    return [m["role"] for m in outcome.continuation.root.messages].count("assistant")


def test_every_counts_since_the_last_suspension_by_the_same_condition() -> None:
    """Each resume is by another runner; nothing is kept but the stored run."""
    store = MemoryStore()

    def runner() -> Runner:
        agent = make_boss(FIVE_TURNS, act, suspend_when=[every(turns=2)])
        return Runner(agent, store=store)

    seen: list[int] = []
    outcome: Any = runner().start("go", run_id="r1")
    while isinstance(outcome, Suspended):
        assert ("every 2 turns",) == outcome.reasons
        assert ["operator"] == [wait.kind for wait in outcome.waits]
        seen.append(turns_of(outcome))
        # Nothing goes on without `unpause`.
        assert outcome.waits == runner().resume("r1").waits
        assert 0 == runner().sweep().runs_checked
        Runner([], store=store).unpause("r1", by="kim")
        outcome = runner().resume("r1")
    assert [2, 4] == seen
    assert isinstance(outcome, Finished)


def test_after_counts_from_the_end_of_its_last_suspension(clock: ManualClock) -> None:
    """Days of a suspension do not count, so the run goes on after `unpause`."""
    store = MemoryStore(clock.now)

    @tool
    def work() -> str:
        """Work for two minutes."""
        clock.seconds += 120
        return "worked"

    def runner() -> Runner:
        script: Script = {"go": [[call("work")]] * 3 + ["end"]}
        agent = make_boss(script, work, suspend_when=[after(minutes=3)])
        return Runner(agent, store=store, clock=clock)

    first = expect(runner().start("go", run_id="r1"), Suspended)
    assert (("after 3 minutes",), 2) == (first.reasons, turns_of(first))
    clock.seconds += 86_400
    Runner([], store=store, clock=clock).unpause("r1")
    assert isinstance(runner().resume("r1"), Finished)


def test_own_condition_gets_the_progress_and_may_say_why() -> None:
    """A condition that stays true lets one turn pass after each `unpause`."""
    seen: list[AgentProgress] = []

    def too_much(progress: AgentProgress) -> str | None:
        seen.append(progress)
        return "2 requests" if progress.usage.requests >= 2 else None

    agent = make_boss(FIVE_TURNS, act, suspend_when=[too_much, every(turns=100)])
    outcome: Any = run(agent, "go")
    suspensions = 0
    while isinstance(outcome, Suspended):
        assert ("too_much",) == outcome.reasons
        assert "too_much: 2 requests" == outcome.waits[0].note
        suspensions += 1
        data = outcome.continuation.to_bytes()
        assert outcome.reasons == resume(data, agent).reasons  # type: ignore[union-attr]
        outcome = resume(data, agent, unpause=True)
    assert isinstance(outcome, Finished)
    assert 3 == suspensions
    assert ("boss",) == seen[0].path
    assert [0, 1, 2] == [progress.all_turns for progress in seen[:3]]


async def broken(progress: AgentProgress) -> Any:
    """Fail."""
    raise ValueError(progress.agent)


def number(progress: AgentProgress) -> Any:
    return progress.turns


@pytest.mark.parametrize(
    ("condition", "note"),
    [
        (broken, "broken: it raised ValueError"),
        (number, "number: it returned int, and not True, False or a text"),
    ],
)
def test_condition_that_fails_suspends(condition: Any, note: str) -> None:
    """A guard that is broken does not let an agent go on unwatched."""
    agent = make_boss({"go": ["end"]}, suspend_when=[condition])
    assert note == single_wait(run(agent, "go")).note


def test_condition_of_an_inner_agent_suspends_the_run_and_siblings_complete() -> None:
    """The reason and the path of the inner agent reach the outcome of the run."""
    script: Script = {
        "go": [[call("hr", input="H"), call("act")], "end"],
        "H": [[call("act")], "hr done"],
    }
    store = MemoryStore()

    def runner() -> Runner:
        model = scripts.scripted_model(script)
        hr = Agent("hr", tools=[act], model=model, suspend_when=[every(turns=1)])
        return Runner(make_boss(script, hr, act), store=store)

    outcome = expect(runner().start("go", run_id="r1"), Suspended)
    assert ("every 1 turns",) == outcome.reasons
    assert ("boss", "hr") == outcome.waits[0].path
    assert "frame" == outcome.waits[0].subject
    Runner([], store=store).unpause("r1")
    assert isinstance(runner().resume("r1"), Finished)


def two_turns(progress: AgentProgress) -> bool:
    """Count for itself."""
    return progress.turns >= 2


def test_two_conditions_at_once_are_both_named() -> None:
    """One `unpause` ends both."""
    agent = make_boss(FIVE_TURNS, act, suspend_when=[every(turns=2), two_turns])
    outcome = expect(run(agent, "go"), Suspended)
    assert ("every 2 turns", "two_turns") == outcome.reasons
    again = expect(resume(outcome.continuation, agent, unpause=True), Suspended)
    assert 4 == turns_of(again)


@pytest.mark.parametrize(
    "conditions", [every(turns=1), ["every"], [int], [lambda: True], [act, act]]
)
def test_invalid_conditions_are_refused_when_the_agent_is_made(conditions: Any) -> None:
    """The error names the option."""
    with pytest.raises(InvalidInput, match="suspend_when"):
        Agent("boss", suspend_when=conditions)


@pytest.mark.parametrize("turns", [0, -1, True, 1.5, "2"])
def test_every_refuses_other_numbers(turns: Any) -> None:
    with pytest.raises(InvalidInput, match="turns must be an integer"):
        every(turns=turns)


@pytest.mark.parametrize("time", [{}, {"minutes": -1}, {"minutes": "3"}])
def test_after_refuses_other_times(time: Any) -> None:
    with pytest.raises(InvalidInput, match="minutes, hours and seconds"):
        after(**time)
