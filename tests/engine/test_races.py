"""Many processes at once: one runner makes progress, one decision stands."""

from __future__ import annotations

import json
import time
from collections import Counter
from typing import TYPE_CHECKING

from tests.engine import racers
from tests.engine.world import until

if TYPE_CHECKING:
    from tests.engine.scripts import Script
    from tests.engine.world import World

SLOW: Script = {
    "go": [
        [["pay", {"what": "x", "then": "sleep:0.6"}]],
        [["act", {"what": "y"}]],
        "end",
    ]
}


def test_four_processes_resume_at_once(world: World) -> None:
    """R-A12, X-05, SL-L4: one effect; the others are told before they did anything."""
    # Given a decided run
    [wait] = world.start(SLOW)["waits"]
    world.approve(wait)

    # When four interpreters resume it
    told = [
        p.told() for p in [world.spawn("resume", "r1", script=SLOW) for _ in "four"]
    ]

    # Then each call ran once, each turn was asked once, and nobody was told nonsense
    assert ["pay x", "act y"] == world.done()
    assert ["go 0", "go 1", "go 2"] == world.turns()
    ends = Counter(each.get("raised") or each["kind"] for each in told)
    assert ends["Finished"] >= 1
    assert {"Finished", "RunBusy", "StaleRun"} >= set(ends)


def test_twenty_tasks_resume_at_once(world: World) -> None:
    """R-A12: closer together than interpreters start, from forked processes."""
    [wait] = world.start(SLOW)["waits"]
    world.approve(wait)

    told = racers.race(world, "resume", 20, script=SLOW)

    assert ["pay x", "act y"] == world.done()
    assert ["go 0", "go 1", "go 2"] == world.turns()
    assert {"Finished", "RunBusy", "StaleRun"} >= set(told)


def test_ten_processes_start_one_id(world: World) -> None:
    """R-A12: one run is started, and nobody's input is lost or doubled."""
    script: Script = {"go": [[["act", {"what": "y", "then": "sleep:0.3"}]], "end"]}

    told = racers.race(world, "start", 10, script=script)

    assert ["act y"] == world.done()
    assert {"Finished", "RunBusy", "StaleRun"} >= set(told)
    assert "Finished" in told


def test_fifty_processes_decide_one_wait(world: World) -> None:
    """R-A1, R-A2, X-04, PA-12: one stands, 49 are told which; the tool follows it."""
    script: Script = {"go": [[["pay", {"what": "x"}]], "end"]}
    [wait] = world.start(script)["waits"]

    # When fifty processes decide at the same moment, half of them with a No
    told = racers.race(world, f"decide {wait['id']}", 50, script=script)

    # Then exactly one decision stands, and each loser was told that one
    winners = [each for each in told if each.startswith("decided")]
    losers = {each for each in told if not each.startswith("decided")}
    assert 1 == len(winners)
    kind, by = winners[0].removeprefix("decided ").split()
    assert {f"AlreadyDecided {kind} {by}"} == losers

    # And it is what the run does
    ended = world.resume(script)
    assert (["pay x"] if kind == "approve" else []) == world.done()
    assert "Finished" == ended["kind"]


def test_fifty_deliveries_of_one_decision(world: World) -> None:
    """R-A2, R-G3: the same decision delivered again is a success, and runs once."""
    script: Script = {"go": [[["pay", {"what": "x"}]], "end"]}
    [wait] = world.start(script)["waits"]

    told = racers.race(world, f"same {wait['id']}", 50, script=script)

    assert {"decided approve kim"} == set(told)
    world.resume(script)
    assert ["pay x"] == world.done()
    # Also after the end
    assert "approve" == world.approve(wait)["decided"]
    assert "AlreadyDecided" == world.deny(wait)["raised"]


def test_deciding_races_with_cancelling_and_resuming(world: World) -> None:
    """R-F6: whoever comes first, the call runs only if its approval stands."""
    script: Script = {"go": [[["pay", {"what": "x"}]], "end"]}
    [wait] = world.start(script)["waits"]
    verdict = json.dumps({"approve": {"by": "kim"}})
    spawned = [
        world.spawn("decide", wait["id"], verdict, app="none"),
        world.spawn("cancel", "r1", app="none"),
        world.spawn("resume", "r1", script=script),
    ]
    told = [process.told() for process in spawned]

    # Then the run ends one way, and the effect says the same
    end = world.resume(script)
    decided = "decided" in told[0]
    assert decided or "Cancelled" == told[0]["raised"]
    assert end["kind"] in {"Finished", "Failed"}
    assert (end["kind"] == "Finished") <= (["pay x"] == world.done())
    assert len(world.done()) <= int(decided)


def test_a_busy_run_says_until_when(world: World) -> None:
    """R-A12: RunBusy is told before any call, and names the time."""
    script: Script = {"go": [[["act", {"what": "x", "then": "sleep:2"}]], "end"]}
    first = world.spawn("start", "r1", "go", script=script)
    try:
        world_busy(world)
        before = time.monotonic()
        told = world.resume(script)
    finally:
        first.ended()

    assert ("RunBusy", "r1") == (told["raised"], told["run_id"])
    assert "claim lasts until" in told["message"]
    assert time.monotonic() - before < 30
    assert ["act x"] == world.done()


def world_busy(here: World) -> None:
    """Wait until the tool is under way."""
    until(here.done)
