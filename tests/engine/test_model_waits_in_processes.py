"""Models that are limited or reply later, three agents deep, in fresh interpreters."""

from __future__ import annotations

from typing import Any

import pytest

from continuations import Runner
from tests.engine import slow_models
from tests.run_environment import RunEnvironment

pytestmark = pytest.mark.fresh_interpreters

APP = "tests.engine.slow_models:agents"
# Each further process has a clock that is so much ahead: more than any delay.
STEP = 2 * 3600


def sent(environment: RunEnvironment) -> list[str]:
    """Return what reached the provider and the world, without polls and refusals."""
    names = environment.effect_names()
    return sorted(each for each in names if each.split()[0] in ("ask", "act"))


def run_to_end(
    environment: RunEnvironment, outcome: dict[str, Any], ahead: int
) -> dict[str, Any]:
    """Resume the run in one process after the other until it ends."""
    while outcome["kind"] == "Suspended":
        assert {"model"} == {wait["kind"] for wait in outcome["waits"]}
        ahead += STEP
        outcome = environment.resume({}, app=APP, ahead=str(ahead))
    return outcome


def test_replies_of_nested_agents_are_asked_once_and_polled_by_other_processes(
    environment: RunEnvironment,
) -> None:
    started = environment.start({}, app=APP, ahead="0")
    [wait] = started["waits"]
    assert ["boss"] == wait["path"]

    ended = run_to_end(environment, started, 0)

    assert ("Finished", "end") == (ended["kind"], ended["output"])
    assert slow_models.EFFECTS == sent(environment)
    polls = [each for each in environment.effect_names() if each.startswith("poll")]
    assert [
        *("poll boss reply-0-0", "poll clerk reply-0-0", "poll hr reply-1-0"),
        *("poll boss reply-1-0", "poll boss reply-1-1"),
    ] == polls
    assert [] == environment.keys("markers/", "waits/")


def test_limited_sub_agent_waits_alone_and_goes_on_in_another_process(
    environment: RunEnvironment,
) -> None:
    environment.extra_variables["TEST_LIMITED"] = "clerk"
    outcome = environment.start({}, app=APP, ahead="0")
    outcome = environment.resume({}, app=APP, ahead=str(STEP))
    [wait] = outcome["waits"]
    assert ["boss", "hr", "clerk"] == wait["path"]
    assert "act 1" in environment.effect_names()
    environment.extra_variables.clear()

    ended = run_to_end(environment, outcome, STEP)

    assert ("Finished", "end") == (ended["kind"], ended["output"])
    assert slow_models.EFFECTS == sent(environment)
    assert 1 == environment.effect_names().count("refuse clerk 0")


def test_wake_in_a_process_without_agents_ends_the_wait(
    environment: RunEnvironment,
) -> None:
    started = environment.start({}, app=APP)
    assert ["model"] == [wait["kind"] for wait in started["waits"]]

    assert 1 == Runner([], store=environment.store).wake("r1", by="provider")
    resumed = environment.resume({}, app=APP)

    assert "poll boss reply-0-0" in environment.effect_names()
    assert {"clerk"} == {wait["path"][-1] for wait in resumed["waits"]}
