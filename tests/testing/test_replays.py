"""Replays of workflows in processes with other hash seeds."""

from __future__ import annotations

from typing import Any

import pytest

from continuations import Flow, ask, tool, workflow
from continuations.errors import InvalidInput
from continuations.testing import AgentHarness, replays

CITIES = ("Oslo", "Rome", "Paris", "Lima", "Cairo", "Quito", "Delhi", "Bern")


@tool
def visit(city: str) -> str:
    """Visit a city."""
    return f"visited {city}"


@workflow(tools=[visit])
async def ordered_tour(flow: Flow) -> str:
    """Visit cities in a fixed order."""
    for city in sorted(set(CITIES)):
        await flow.call(visit, city)
    return await ask("Which was the best?")


@workflow(tools=[visit])
async def hashed_tour(flow: Flow) -> str:
    """Visit cities in the order of a set."""
    for city in set(CITIES):
        await flow.call(visit, city)
    return await ask("Which was the best?")


def make_tour() -> Any:
    """Return the agent, as a function for the harness."""
    return ordered_tour


def test_workflow_makes_the_same_calls_under_each_hash_seed() -> None:
    harness = AgentHarness(make_tour)
    harness.run_to_pause(ordered_tour.bind())
    harness.assert_replays()
    harness.answer("Rome")
    assert "Rome" == harness.run_to_end().output

    harness.assert_replays(hash_seeds=[2])


def test_order_of_a_set_of_texts_is_found() -> None:
    harness = AgentHarness(hashed_tour)
    harness.run_to_pause(hashed_tour.bind())

    with pytest.raises(AssertionError) as raised:
        harness.assert_replays(hash_seeds=range(4))

    text = str(raised.value)
    assert "run run-1 differs:\nrun run-1-version-" in text
    assert "the code of workflow hashed_tour does not" in text


def test_harness_replays_before_each_step() -> None:
    """The first step has no history; the second one shows the order of the set."""
    harness = AgentHarness(hashed_tour, replays=True)
    harness.run_to_pause(hashed_tour.bind())
    harness.answer("Rome")

    with pytest.raises(AssertionError, match="With the hash seed"):
        harness.run_to_end()
    assert "suspended" == harness.runner.look("run-1").status


def test_harness_replays_each_version_once(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[set[str]] = []
    original = replays.find_differences

    def counted(agent: Any, versions: Any, *rest: Any) -> list[str]:
        seen.append({*versions})
        return original(agent, versions, *rest)

    monkeypatch.setattr(replays, "find_differences", counted)
    harness = AgentHarness(make_tour, replays=True)
    harness.run_to_pause(ordered_tour.bind())
    harness.resume()
    harness.answer("Rome")
    assert "Rome" == harness.run_to_end().output

    first, again, *later = seen
    assert first == again
    assert not any(first & each for each in later)


def test_agent_in_a_function_cannot_be_replayed() -> None:
    @workflow
    async def inner(_flow: Flow) -> str:
        return await ask("Well?")

    harness = AgentHarness(inner)
    harness.run_to_pause(inner.bind())

    with pytest.raises(InvalidInput, match="Define it outside of functions"):
        harness.assert_replays()
