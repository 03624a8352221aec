"""Races of real processes on files, and hosts whose clocks differ.

tests/engine (test_races.py, test_claims.py) has two of the races. With TORTURE=1, and
in `make torture`, they run here too, in many rounds.
"""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

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
from tests import effect_log
from tests.clocks import OffsetClock
from tests.engine import agent_builders
from tests.run_environment import RunEnvironment, wait_until
from tests.sampling import RUNS_ALL_CASES, sample
from tests.scripts import Script
from tests.torture.races import RACES
from tests.torture.run_all import run_modules, summary_table
from tests.torture.workspace import STORES

COVERED_IN_ENGINE_TESTS = {"4 resumers", "50 deciders"}
RACE_NAMES = [
    name for name in RACES if RUNS_ALL_CASES or name not in COVERED_IN_ENGINE_TESTS
]
# By default some races share an interpreter, which forks their processes.
CHUNKS = len(RACE_NAMES) if RUNS_ALL_CASES else 3
ROUNDS = ["--rounds", "100" if RUNS_ALL_CASES else "1"]
SEED = ["--seed", os.environ.get("TORTURE_SEED", "1")]

PAY: Script = {"go": [[["act", {"what": "1"}]], [["pay", {"what": "2"}]], "end"]}
# The tool ends when the test calls `release`.
SLOW: Script = {
    "go": [
        [["act", {"what": "1", "then": "until:../release"}]],
        [["pay", {"what": "2"}]],
        "end",
    ]
}


def release(environment: RunEnvironment) -> None:
    """Let the tool of `SLOW` end."""
    (environment.folder / "release").touch()


# Seconds. A claim lasts 30 s, and a quarter of it is 7.5 s.
CLOCK_OFFSETS = ("7", "-7")
EXCESSIVE_OFFSETS = ("9", "-9", "60", "-60")
WRONG_CLOCKS = sample(
    [
        (command, offset)
        for offset in EXCESSIVE_OFFSETS
        for command in ("resume", "sweep")
    ],
    3,
)


@pytest.fixture
def environment(tmp_path: Path) -> RunEnvironment:
    """Return an empty environment."""
    return RunEnvironment(tmp_path, fresh_interpreters=False)


@pytest.mark.parametrize("store", STORES)
@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_race_keeps_the_promises(
    chunk: int, store: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Promises 2 and 3: one decision and one worker, whichever process wins."""
    monkeypatch.setenv("TORTURE_STORE", store)
    names = RACE_NAMES[chunk::CHUNKS]
    tallies = run_modules("races", names, *ROUNDS, *SEED)

    assert [f"race: {name}" for name in names] == [each["name"] for each in tallies]
    for tally in tallies:
        assert [] == tally["violations"], summary_table([tally])
        assert tally["trials"] == tally["passed"] > 0


@pytest.mark.parametrize(("one", "other"), [CLOCK_OFFSETS, CLOCK_OFFSETS[::-1]])
def test_hosts_with_small_clock_offsets_work_normally(
    environment: RunEnvironment, one: str, other: str
) -> None:
    """Clocks may differ from the store's by a quarter of a claim."""
    # Given a run that is in a tool on a host whose clock is off
    started = environment.spawn("start", "r1", "go", script=SLOW, skewed=one)
    wait_until(environment.effect_names)

    # When a host whose clock is off the other way resumes it and sweeps
    busy = environment.resume(SLOW, skewed=other)
    swept = environment.run("sweep", script=SLOW, skewed=other)
    release(environment)

    # Then it gets RunBusy
    assert ("RunBusy", [], {}) == (busy["raised"], swept["resumed"], swept["failed"])
    [wait] = started.wait_for_result()["waits"]

    # And it resumes the run once the first host has released it
    environment.approve(wait)
    assert "Finished" == environment.resume(SLOW, skewed=other)["kind"]
    assert (["act 1", "pay 2"], ["go 0", "go 1", "go 2"]) == (
        environment.effect_names(),
        environment.turns(),
    )


@pytest.mark.parametrize(("command", "skewed"), WRONG_CLOCKS)
def test_host_with_wrong_clock_gets_clock_off(
    environment: RunEnvironment, command: str, skewed: str
) -> None:
    """A host with a wrong clock claims nothing and does not delay other hosts."""
    # Given a decided run
    [wait] = environment.start(PAY)["waits"]
    environment.approve(wait)
    before = environment.keys("runs")

    # When a host whose clock is wrong resumes it, or sweeps
    if command == "resume":
        assert "ClockOff" == environment.resume(PAY, skewed=skewed)["raised"]
    else:
        swept = environment.run("sweep", script=PAY, skewed=skewed)
        # For a clock that is behind, no marker is due.
        assert {"r1": "ClockOff"} == swept["failed"] or skewed.startswith("-")

    # Then no key was written and no tool ran, and another host resumes it at once
    assert (before, ["act 1"]) == (environment.keys("runs"), environment.effect_names())
    assert "Finished" == environment.resume(PAY)["kind"]
    assert ["act 1", "pay 2"] == environment.effect_names()


@pytest.mark.parametrize("skewed", EXCESSIVE_OFFSETS)
def test_host_with_wrong_clock_starts_nothing(
    environment: RunEnvironment, skewed: str
) -> None:
    """A host with a wrong clock creates no first version; the id stays free."""
    assert "ClockOff" == environment.start(PAY, skewed=skewed)["raised"]

    assert ([], []) == (environment.keys("runs"), environment.turns())
    assert "Suspended" == environment.start(PAY)["kind"]


@pytest.mark.parametrize("command", ["resume", "sweep"])
def test_host_with_fast_clock_expires_nothing(
    environment: RunEnvironment, monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    """A deadline does not pass because one host's clock is fast."""
    monkeypatch.setenv(effect_log.TURNS_VARIABLE, str(environment.folder / "turns"))
    script: Script = {"go": [[["pay", {}]], "end"]}

    @tool(approval=ApprovalPolicy(expires_after=600))
    def pay() -> str:
        """Pay."""
        return "paid"

    right_runner = agent_builders.make_runner(script, pay, store=environment.store)
    outcome = right_runner.start("go", run_id="r1")
    assert isinstance(outcome, Suspended)
    before = environment.keys("runs")

    # When a host that is an hour ahead resumes it or sweeps
    fast_runner = agent_builders.make_runner(
        script, pay, store=environment.store, clock=OffsetClock(3600)
    )
    with suppress(ClockOff):
        _ = fast_runner.sweep() if command == "sweep" else fast_runner.resume("r1")

    # Then the wait is open, and a decision counts
    assert before == environment.keys("runs")
    right_runner.decide(outcome.waits[0].id, Approve())
    assert isinstance(right_runner.resume("r1"), Finished)


@pytest.mark.parametrize("posted", [False, True])
@pytest.mark.parametrize("command", ["resume", "sweep"])
def test_host_with_fast_clock_takes_over_nothing(
    environment: RunEnvironment, command: str, posted: bool
) -> None:
    """Promise 3 (one worker): a claim does not end because one host's clock is fast."""
    # Given a worker in a tool, and perhaps a message for its run
    holder = environment.spawn("start", "r1", "go", script=SLOW)
    wait_until(environment.effect_names)
    if posted:
        Runner([], store=environment.store).send("r1", "Hurry.")

    # When a host that is an hour ahead finds the run
    arguments = ["r1"] if command == "resume" else []
    fast = environment.run(command, *arguments, script=SLOW, skewed="3600")

    release(environment)
    result = holder.wait_for_result()

    # Then it gets ClockOff, and the worker continues
    errors = [fast.get("raised")] if arguments else [*fast["failed"].values()]
    assert ["ClockOff"] == errors
    assert ("Suspended", "approval") == (result["kind"], result["waits"][0]["kind"])
    assert ["act 1"] == environment.effect_names()
