"""Races of real processes on files, and hosts whose clocks are apart.

Those of tests/engine (test_races.py, test_claims.py) are not here again; with
TORTURE=1, and in `make torture`, they are run in many rounds as well.
"""

from __future__ import annotations

import os
from contextlib import suppress
from typing import TYPE_CHECKING

import pytest

from continuations import (
    ApprovalPolicy,
    Approve,
    Finished,
    Runner,
    Suspended,
    tool,
)
from continuations.errors import ClockOff
from tests.engine import ledgers, offices
from tests.engine.door import Ahead
from tests.engine.world import World, until
from tests.torture.races import RACES
from tests.torture.torture import table, told

if TYPE_CHECKING:
    from pathlib import Path

    from tests.engine.scripts import Script

ELSEWHERE = {"4 resumers", "50 deciders"}
TORTURED = os.environ.get("TORTURE") == "1"
KINDS = [name for name in RACES if TORTURED or name not in ELSEWHERE]
ROUNDS = ["--rounds", "100" if TORTURED else "3"]
SEED = ["--seed", os.environ.get("TORTURE_SEED", "1")]

PAY: Script = {"go": [[["act", {"what": "1"}]], [["pay", {"what": "2"}]], "end"]}
SLOW: Script = {
    "go": [
        [["act", {"what": "1", "then": "sleep:1.5"}]],
        [["pay", {"what": "2"}]],
        "end",
    ]
}
# A claim of 30 s lasts: a quarter of it is 7.5.
APART = ("7", "-7")
TOO_FAR = ("9", "-9", "60", "-60")


@pytest.fixture
def world(tmp_path: Path) -> World:
    """Return an empty world."""
    return World(tmp_path)


@pytest.mark.parametrize("kind", KINDS)
def test_a_race(kind: str) -> None:
    """R-A1, R-A2, R-A5, R-A12, R-F4, R-F6, X-05, X-14, PA-12, EF-20, EF-21."""
    tally = told("races", kind, *ROUNDS, *SEED)

    assert [] == tally["wrong"], table([tally])
    assert tally["trials"] == tally["ended"] > 0


@pytest.mark.parametrize(("one", "other"), [APART, APART[::-1]])
def test_hosts_whose_clocks_are_a_little_apart(
    world: World, one: str, other: str
) -> None:
    """Section 5 "Clocks": within a quarter of a claim all goes as it should."""
    # Given a run on a host whose clock is off, in a tool
    started = world.spawn("start", "r1", "go", script=SLOW, skewed=one)
    until(world.done)

    # When a host whose clock is off the other way looks at it
    busy = world.resume(SLOW, skewed=other)
    swept = world.do("sweep", script=SLOW, skewed=other)

    # Then it waits its turn
    assert ("RunBusy", [], {}) == (busy["raised"], swept["resumed"], swept["failed"])
    [wait] = started.told()["waits"]

    # And goes on with it when that has come
    world.approve(wait)
    assert "Finished" == world.resume(SLOW, skewed=other)["kind"]
    assert (["act 1", "pay 2"], ["go 0", "go 1", "go 2"]) == (
        world.done(),
        world.turns(),
    )


@pytest.mark.parametrize("skewed", TOO_FAR)
@pytest.mark.parametrize("command", ["resume", "sweep"])
def test_a_host_whose_clock_is_too_far_off(
    world: World, skewed: str, command: str
) -> None:
    """Section 5 "Clocks": `ClockOff`, nothing claimed; others are not held up."""
    # Given a decided run
    [wait] = world.start(PAY)["waits"]
    world.approve(wait)
    before = world.keys("runs")

    # When a host whose clock is wrong is asked to go on with it
    if command == "resume":
        assert "ClockOff" == world.resume(PAY, skewed=skewed)["raised"]
    else:
        swept = world.do("sweep", script=PAY, skewed=skewed)
        # One that is behind does not even see that anything is due.
        assert {"r1": "ClockOff"} == swept["failed"] or skewed.startswith("-")

    # Then it has claimed nothing and run nothing, and a sound host goes on at once
    assert (before, ["act 1"]) == (world.keys("runs"), world.done())
    assert "Finished" == world.resume(PAY)["kind"]
    assert ["act 1", "pay 2"] == world.done()


@pytest.mark.parametrize("skewed", TOO_FAR)
def test_a_host_whose_clock_is_too_far_off_starts_nothing(
    world: World, skewed: str
) -> None:
    """Section 5 "Clocks": not a first version either, and the id stays free."""
    assert "ClockOff" == world.start(PAY, skewed=skewed)["raised"]

    assert ([], []) == (world.keys("runs"), world.turns())
    assert "Suspended" == world.start(PAY)["kind"]


@pytest.mark.parametrize("command", ["resume", "sweep"])
def test_a_host_that_is_ahead_expires_nothing(
    world: World, monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    """R-F4: a deadline is not over because one machine's clock says so."""
    monkeypatch.setenv(ledgers.TURNS, str(world.folder / "turns"))
    script: Script = {"go": [[["pay", {}]], "end"]}

    @tool(approval=ApprovalPolicy(expires_after=600))
    def pay() -> str:
        """Pay."""
        return "paid"

    sound = offices.runner(script, pay, store=world.store)
    outcome = sound.start("go", run_id="r1")
    assert isinstance(outcome, Suspended)
    before = world.keys("runs")

    # When a host that is an hour ahead looks at it
    ahead = offices.runner(script, pay, store=world.store, clock=Ahead(3600))
    with suppress(ClockOff):
        _ = ahead.sweep() if command == "sweep" else ahead.resume("r1")

    # Then the wait is open, and what a person says counts
    assert before == world.keys("runs")
    sound.decide(outcome.waits[0].id, Approve())
    assert isinstance(sound.resume("r1"), Finished)


@pytest.mark.parametrize("posted", [False, True])
@pytest.mark.parametrize("command", ["resume", "sweep"])
def test_a_host_that_is_ahead_takes_over_nothing(
    world: World, command: str, posted: bool
) -> None:
    """R-A5, promise 3: a claim is not over because one machine's clock says so."""
    # Given a worker in a tool, and perhaps a message for its run
    holder = world.spawn("start", "r1", "go", script=SLOW)
    until(world.done)
    if posted:
        Runner([], store=world.store).send("r1", "Hurry.")

    # When a host that is an hour ahead finds the run
    words = ["r1"] if command == "resume" else []
    theirs = world.do(command, *words, script=SLOW, skewed="3600")

    mine = holder.told()

    # Then it is told so, and the worker goes on
    failed = [theirs.get("raised")] if words else [*theirs["failed"].values()]
    assert ["ClockOff"] == failed
    assert ("Suspended", "approval") == (mine["kind"], mine["waits"][0]["kind"])
    assert ["act 1"] == world.done()
