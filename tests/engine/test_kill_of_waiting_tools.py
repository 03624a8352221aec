"""Tools that wait, three agents deep, and SIGKILL at a storage operation.

Every step, before and after the kill, happens in a fresh interpreter.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.run_environment import KILLED, RunEnvironment
from tests.sampling import sample
from tests.scripts import call

if TYPE_CHECKING:
    from tests.scripts import Script

pytestmark = pytest.mark.fresh_interpreters

SCRIPT: Script = {
    "go": [[call("hr", input="A")], "all"],
    "A": [[call("clerk", input="B")], "A done"],
    "B": [
        [call("laptop", person="Jane"), call("scan", document="early")],
        "B done",
    ],
}
EFFECTS = ["laptop Jane", "chosen Jane x small", "scan early"]
OPTIONS = {"app": "tests.engine.waiting_tools:agents", "ahead": "60"}
ANSWER = {"answer": {"value": {"name": "x"}}}

_MOMENTS = ("before", "after")
KILLS_IN_START = sample([(n, m) for n in range(2, 20) for m in _MOMENTS], 17)
KILLS_IN_RESUME = sample([(n, m) for n in range(3, 12) for m in _MOMENTS], 9)


def verdict_of(wait: dict[str, Any], effects: list[str]) -> dict[str, Any]:
    """Answer a question; say what the effect log says about an unknown outcome."""
    if wait["kind"] == "question":
        return ANSWER
    effect = {
        ("laptop", 0): "laptop Jane",
        ("laptop", 1): "chosen Jane x small",
        ("scan", 0): "scan early",
    }[wait["tool"], wait["stage"]]
    happened = effect in effects
    return {"answer": {"value": "it happened"}} if happened else {"approve": {}}


def recover(environment: RunEnvironment) -> dict[str, Any]:
    """Resume after the claim of the dead, and decide until the end."""
    result = environment.resume(SCRIPT, **OPTIONS)
    if result.get("raised") == "RunNotFound":
        result = environment.start(SCRIPT, **OPTIONS)
    while result["kind"] == "Suspended":
        for wait in result["waits"]:
            environment.decide(wait, verdict_of(wait, environment.effect_names()))
        result = environment.resume(SCRIPT, **OPTIONS)
    return result


def assert_ended_well(environment: RunEnvironment, result: dict[str, Any]) -> None:
    """No effect is doubled, and no wait is left."""
    assert ("Finished", "all") == (result["kind"], result["output"])
    names = environment.effect_names()
    assert len(names) == len(set(names))
    assert {"laptop Jane", "scan early"} <= set(names) <= set(EFFECTS)
    assert [] == environment.keys("waits/")


@pytest.mark.parametrize(("number", "moment"), KILLS_IN_START)
def test_kill_before_the_answer_loses_and_doubles_nothing(
    environment: RunEnvironment, number: int, moment: str
) -> None:
    """At some operations of the first process, with TORTURE=1 at all of 18."""
    dead = environment.spawn(
        "start",
        "r1",
        "go",
        script=SCRIPT,
        app=OPTIONS["app"],
        fault=f"{number} {moment}",
    )
    assert KILLED == dead.wait()

    assert_ended_well(environment, recover(environment))


@pytest.mark.parametrize(("number", "moment"), KILLS_IN_RESUME)
def test_kill_after_the_answer_loses_and_doubles_nothing(
    environment: RunEnvironment, number: int, moment: str
) -> None:
    """At some operations after the answer, with TORTURE=1 at all of 9."""
    [wait] = environment.start(SCRIPT, app=OPTIONS["app"])["waits"]
    environment.decide(wait, ANSWER)

    dead = environment.spawn(
        "resume", "r1", script=SCRIPT, app=OPTIONS["app"], fault=f"{number} {moment}"
    )
    assert KILLED == dead.wait()

    assert_ended_well(environment, recover(environment))
