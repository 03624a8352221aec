"""SIGKILL, then an ordinary resume in a fresh interpreter."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import pytest

from tests.engine import offices
from tests.engine.world import KILLED, World

if TYPE_CHECKING:
    from typing import Any

    from tests.engine.scripts import Script

NESTED: Script = {
    "go": [[["left", {"input": "A"}], ["push", {"what": "1"}]], "all"],
    "A": [[["clerk", {"input": "C"}], ["act", {"what": "2"}]], "A done"],
    "C": [[["pay", {"what": "3"}], ["read", {"what": "4"}]], "C done"],
}
ALL = ["act 2", "pay 3", "push 1", "read 4"]

IN_START = [(n, m) for n in (2, 4, 7, 9, 11, 13) for m in ("before", "after")]
IN_RESUME = [(n, m) for n in (5, 7, 9, 11) for m in ("before", "after")]


def recovered(world: World, script: Script) -> dict[str, Any]:
    """Resume, when the claim of the dead is over, and decide until the end."""
    told = world.resume(script, ahead="60")
    if told.get("raised") == "RunNotFound":
        told = world.start(script, ahead="60")
    while told["kind"] == "Suspended":
        for wait in told["waits"]:
            effect = f"{wait['tool']} {wait['arguments']['what']}"
            happened = wait["kind"] == "unknown" and effect in world.done()
            answer = {"answer": {"value": "it happened"}}
            world.decide(wait, answer if happened else {"approve": {"by": "kim"}})
        told = world.resume(script, ahead="60")
    return told


@pytest.mark.parametrize(("number", "moment"), IN_START)
def test_killed_while_starting(world: World, number: int, moment: str) -> None:
    """Promise 4, R-A6, R-A8, R-E10, SL-10: at twelve places of a first working."""
    # Given a process that is killed at a storage operation
    dead = world.spawn("start", "r1", "go", script=NESTED, fault=f"{number} {moment}")
    assert KILLED == dead.ended()

    # When another one resumes, people decide, and so on
    told = recovered(world, NESTED)

    # Then the run ends, with every effect, and none twice that must not be
    assert "all" == told["output"]
    assert ALL == sorted(set(world.done()))
    assert 1 == world.done().count("act 2") == world.done().count("pay 3")


@pytest.mark.parametrize(("number", "moment"), IN_RESUME)
def test_killed_while_resuming(world: World, number: int, moment: str) -> None:
    """R-A3, R-A6, X-06, X-11: at eight places between an approval and the end."""
    [wait] = world.start(NESTED)["waits"]
    world.approve(wait)

    dead = world.spawn("resume", "r1", script=NESTED, fault=f"{number} {moment}")
    assert KILLED == dead.ended()
    told = recovered(world, NESTED)

    assert "all" == told["output"]
    assert ALL == sorted(world.done())


# Inside a tool ----------------------------------------------------------------


def cut_off(world: World, tool: str, **settings: Any) -> tuple[Script, dict[str, Any]]:
    """Have a process die in a tool, in a child, and another resume when it may."""
    script: Script = {
        "go": [[["left", {"input": "A"}]], "all"],
        "A": [[[tool, {"what": "x", "then": "die-once"}]], "A done"],
    }
    told = world.spawn("start", "r1", "go", script=script, lease="1.5")
    if tool == "pay":
        world.approve(told.told()["waits"][0])
        told = world.spawn("resume", "r1", script=script, lease="1.5")
    assert KILLED == told.ended()
    return script, taken_over(world, script, **settings)


def taken_over(world: World, script: Script, **settings: Any) -> dict[str, Any]:
    """Resume as often as it takes until the claim of the dead is over."""
    end = time.monotonic() + 20
    while True:
        told = world.resume(script, lease="1.5", **settings)
        if told.get("raised") != "RunBusy":
            return told
        assert time.monotonic() < end
        time.sleep(0.2)


SETTLED = {
    "answer": ({"answer": {"value": "found it"}}, ["act x"], "found it"),
    "approve": ({"approve": {"by": "kim"}}, ["act x", "act x"], "acted x"),
    "deny": ({"deny": {"reason": "Leave it."}}, ["act x"], "NOT EXECUTED"),
}


@pytest.mark.parametrize("kind", SETTLED)
def test_an_unknown_outcome_is_settled_by_a_person(world: World, kind: str) -> None:
    """R-A6, X-11: never repeated on a guess; Answer, Approve and Deny tell."""
    verdict, effects, said = SETTLED[kind]

    # Given a tool that is not safe to repeat, whose process died in it
    script, told = cut_off(world, "act")
    [wait] = told["waits"]
    assert ("unknown", ["act x"]) == (wait["kind"], world.done())
    assert ["boss", "left", "act"] == wait["path"]
    assert "died" in wait["note"]

    # When it is settled
    world.decide(wait, verdict)
    told = world.resume(script, lease="1.5")

    # Then the run ends and did what the verdict says
    assert ("Finished", effects) == (told["kind"], world.done())
    child = [line for line in world.turns() if line.startswith("A")]
    assert ["A 0", "A 1"] == child
    assert said in world.do("say", "r1", "A", script=script, app="none")["said"]


def test_an_approved_call_that_was_cut_off_is_unknown_too(world: World) -> None:
    """R-A6: an approval is for one running, not for two."""
    script, told = cut_off(world, "pay")

    [wait] = told["waits"]
    assert ("unknown", ["pay x"]) == (wait["kind"], world.done())

    # When a person says that it did not happen and is to run after all
    world.approve(wait)
    told = world.resume(script)
    assert ("Finished", ["pay x", "pay x"]) == (told["kind"], world.done())
    assert 1 == len({line["key"] for line in world.effects()})


@pytest.mark.parametrize(
    ("finds", "effects"),
    [("answer", 1), ("approve", 2), ("deny", 1), ("none", 1), ("raise", 1)],
)
def test_verify_finds_out(world: World, finds: str, effects: int) -> None:
    """R-A6, X-11: the tool's own `verify` is asked; if it cannot tell, a person is."""
    _, told = cut_off(world, "book", verify=finds)

    assert ["book x"] * effects == world.done()
    if finds in ("none", "raise"):
        assert ["unknown"] == [wait["kind"] for wait in told["waits"]]
    else:
        assert "Finished" == told["kind"]


@pytest.mark.parametrize("tool", ["push", "read"])
def test_what_is_safe_to_repeat_is_repeated(world: World, tool: str) -> None:
    """R-A7, X-11, PA-08: with the same key, a larger fence, and attempt 2."""
    _, told = cut_off(world, tool)

    assert "Finished" == told["kind"]
    first, second = world.effects()
    assert (first["key"], first["call"]) == (second["key"], second["call"])
    assert (1, 2) == (first["attempt"], second["attempt"])
    assert first["fence"] < second["fence"]
    assert first["pid"] != second["pid"]


def test_keys_are_unique_for_each_call(world: World) -> None:
    """R-A7: unique per logical call, whatever the model wrote, in every frame."""
    pushes = [["push", {"what": "x"}, "same"], ["push", {"what": "x"}, "same"]]
    script: Script = {
        "go": [[*pushes, ["left", {"input": "A"}]], [*pushes], "all"],
        "A": [pushes, "A done"],
    }
    world.start(script)

    assert 6 == len({line["key"] for line in world.effects()})


def test_a_tool_that_always_kills_its_worker_ends_the_run(world: World) -> None:
    """R-A9, X-16: attempts are counted in the claim and bounded."""
    script: Script = {
        "go": [[["left", {"input": "A"}]], "all"],
        "A": [[["push", {"what": "x", "then": "die"}]], "A done"],
    }
    process = world.spawn("start", "r1", "go", script=script)
    deaths = 0
    while process.ended() == KILLED:
        deaths += 1
        assert deaths < 8
        ahead = str(60 * deaths)
        process = world.spawn("resume", "r1", script=script, attempts="3", ahead=ahead)

    # Then after so many workers it has failed for good
    told = world.resume(script, ahead="1000")
    assert ("Failed", "attempts") == (told["kind"], told["error"]["code"])
    assert deaths == len(world.effects())
    assert 3 <= deaths <= 5
    assert [] == offices.said(told["messages"])[1:]
    assert "Finished" != world.resume(script, ahead="2000")["kind"]


def test_a_clock_that_is_off_claims_nothing(world: World) -> None:
    """Section 5, clocks: told by the store's own time, nothing but a marker written."""
    script: Script = {"go": [[["act", {"what": "x"}]], "end"]}

    told = world.start(script, skewed="60")

    assert "ClockOff" == told["raised"]
    assert ([], []) == (world.effects(), world.keys("runs"))
