"""Conditions suspend three nested agents; each step is a fresh interpreter.

The counts of the conditions are stored: no process remembers anything.
"""

from __future__ import annotations

from typing import Any

import pytest

from tests.engine.conditioned_agents import EFFECTS, SCRIPT
from tests.run_environment import RunEnvironment

pytestmark = pytest.mark.fresh_interpreters

OPTIONS: dict[str, Any] = {"app": "tests.engine.conditioned_agents:agents"}


def reasons(result: dict[str, Any]) -> list[str]:
    """Return the reasons of a suspended run."""
    assert "Suspended" == result["kind"], result
    return list(result["reasons"])


def paths(result: dict[str, Any], kind: str) -> list[str]:
    """Return the paths of the open waits of a kind."""
    waits = [wait for wait in result["waits"] if wait["kind"] == kind]
    return ["/".join(wait["path"]) for wait in waits]


def test_conditions_of_nested_agents_hold_the_run_in_turn(
    environment: RunEnvironment,
) -> None:
    """Each holds its own agent, an approval below stays open, no call runs twice."""
    # Given a run that has a turn, and resumes three minutes later
    minutes = 0

    def resume() -> dict[str, Any]:
        return environment.resume(SCRIPT, **OPTIONS, ahead=str(60 * minutes))

    def unpause() -> None:
        unpaused = environment.run("unpause", "r1", app="none", ahead=str(60 * minutes))
        assert "suspended" == unpaused["status"]

    # The clerk asks for an approval: no condition is met yet
    first = environment.start(SCRIPT, **OPTIONS, ahead="0")
    assert ([], ["boss/hr/clerk/pay"]) == (reasons(first), paths(first, "approval"))
    assert ["act 1", "act 2", "act 3"] == sorted(environment.effect_names())
    [approval] = first["waits"]

    # An operator pauses from another process; a decision counts only afterwards
    paused = environment.run("pause", "r1", app="none", ahead="0")
    assert "suspended" == paused["status"]
    environment.run(
        "decide", approval["id"], '{"approve": {"by": "kim"}}', app="none", ahead="0"
    )
    held = resume()
    assert ["audit"] == reasons(held)
    assert 3 == len(environment.effect_names())

    # `unpause` lets the payment run. Then the clerk's own condition holds it.
    unpause()
    second = resume()
    assert ["every 2 turns"] == reasons(second)
    assert ["boss/hr/clerk"] == paths(second, "operator")
    assert ["act 1", "act 2", "act 3", "act 5", "pay 4"] == sorted(
        environment.effect_names()
    )
    # Without `unpause`, a resume in another process changes nothing
    assert second["version"] == resume()["version"]

    # Three minutes later it goes on: two turns, to its end. Then the condition of hr.
    minutes = 3
    unpause()
    third = resume()
    assert ["last_turn"] == reasons(third)
    assert ["boss/hr"] == paths(third, "operator")
    assert "last_turn: two turns" == third["waits"][0]["note"]

    # And at last that of the root agent, whose time has passed meanwhile
    unpause()
    fourth = resume()
    assert (["after 2 minutes"], ["boss"]) == (
        reasons(fourth),
        paths(fourth, "operator"),
    )
    unpause()
    ended = resume()

    assert ("Finished", "all") == (ended["kind"], ended["output"])
    assert EFFECTS == sorted(environment.effect_names())
    turns = environment.turns()
    assert len(turns) == len(set(turns)) == 10
    assert [] == environment.keys("waits/")


def test_pause_while_a_condition_holds_an_agent_names_both_reasons(
    environment: RunEnvironment,
) -> None:
    """One `unpause` from another process ends both, and the counts begin anew."""
    first = environment.start(SCRIPT, **OPTIONS)
    environment.approve(first["waits"][0])
    held = environment.resume(SCRIPT, **OPTIONS)
    assert ["every 2 turns"] == reasons(held)

    environment.run("pause", "r1", app="none")
    both = environment.resume(SCRIPT, **OPTIONS)
    assert {"every 2 turns", "audit"} == set(reasons(both))
    again = environment.run("sweep", script=SCRIPT, **OPTIONS)
    assert ([], {}) == (again["resumed"], again["failed"])

    environment.run("unpause", "r1", app="none")
    assert ["last_turn"] == reasons(environment.resume(SCRIPT, **OPTIONS))
    environment.run("unpause", "r1", app="none")
    ended = environment.resume(SCRIPT, **OPTIONS)
    assert "Finished" == ended["kind"]
    assert EFFECTS == sorted(environment.effect_names())
