"""A history is shortened below other agents; each step is a fresh interpreter."""

from __future__ import annotations

from typing import Any

import pytest

from continuations import Runner
from continuations.events import Compacted
from tests.run_environment import RunEnvironment

pytestmark = pytest.mark.fresh_interpreters

APP = "tests.engine.compacted_agents:nested"


def wait_of(result: dict[str, Any], agent: str) -> dict[str, Any]:
    """Return the open wait of an agent's call."""
    assert "Suspended" == result["kind"], result
    found: list[dict[str, Any]] = [
        wait for wait in result["waits"] if agent in wait["path"]
    ]
    (wait,) = found
    return wait


def compactions(environment: RunEnvironment) -> list[Compacted]:
    """Return the compactions of the run."""
    events = Runner([], store=environment.store).events("r1")
    return [each for each in events if isinstance(each, Compacted)]


def count(environment: RunEnvironment, tool: str) -> int:
    """Return how often a tool had its effect."""
    return sum(each["tool"] == tool for each in environment.effects())


def test_history_is_shortened_beside_an_approval_of_another_agent(
    environment: RunEnvironment,
) -> None:
    """Each step runs once, each payment once, and no stored summary is asked again."""
    # The worker and the payer wait, and the history of the worker was shortened
    first = environment.start({}, app=APP)
    other = wait_of(first, "payer")
    own = wait_of(first, "worker")
    shortened = len(compactions(environment))
    assert shortened == count(environment, "summary") > 0

    # The approval of the other agent changes nothing for the worker
    environment.approve(other)
    second = environment.resume({}, app=APP)
    assert own == wait_of(second, "worker")
    assert shortened == count(environment, "summary")
    assert 1 == count(environment, "pay")

    # The worker goes on behind its summary, and it is shortened again
    environment.approve(own)
    last = environment.resume({}, app=APP)
    assert ("Finished", "all done") == (last["kind"], last["output"])
    compacted = compactions(environment)
    assert len(compacted) == count(environment, "summary") > shortened
    assert {("boss", "worker")} == {each.path for each in compacted}
    made = [line["what"] for line in environment.effects() if line["tool"] == "step"]
    assert [str(number) for number in range(1, 17)] == made
    assert 2 == count(environment, "pay")
    # 16 steps and one payment: no turn was asked twice.
    assert 17 == len(environment.turns())
