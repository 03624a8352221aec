"""Many processes at once: one worker progresses, and one decision wins."""

from __future__ import annotations

import time

from tests.engine import process_race
from tests.run_environment import RunEnvironment, wait_until
from tests.scripts import Script, call

SLOW: Script = {
    "go": [
        [call("pay", what="x", then="sleep:0.6")],
        [call("act", what="y")],
        "end",
    ]
}


def test_one_of_twenty_resuming_processes_finishes_the_run(
    environment: RunEnvironment,
) -> None:
    """Forked processes are closer together than interpreters can start."""
    [wait] = environment.start(SLOW)["waits"]
    environment.approve(wait)

    results = process_race.run_race(environment, "resume", 20, script=SLOW)

    assert ["pay x", "act y"] == environment.effect_names()
    assert ["go 0", "go 1", "go 2"] == environment.turns()
    assert {"Finished", "RunBusy", "StaleRun"} >= set(results)
    assert "Finished" in results


def test_ten_processes_that_start_one_id_start_one_run(
    environment: RunEnvironment,
) -> None:
    """One run is created, and its tool runs once."""
    script: Script = {"go": [[call("act", what="y", then="sleep:0.3")], "end"]}

    results = process_race.run_race(environment, "start", 10, script=script)

    assert ["act y"] == environment.effect_names()
    assert {"Finished", "RunBusy", "StaleRun"} >= set(results)
    assert "Finished" in results


def test_one_of_fifty_deciders_wins(environment: RunEnvironment) -> None:
    """49 deciders get the recorded decision, and the run obeys it."""
    script: Script = {"go": [[call("pay", what="x")], "end"]}
    [wait] = environment.start(script)["waits"]

    # When fifty processes decide at the same moment, half of them to deny
    results = process_race.run_race(
        environment, f"decide {wait['id']}", 50, script=script
    )

    # Then exactly one decision is recorded, and each loser got it
    winners = [each for each in results if each.startswith("decided")]
    losers = {each for each in results if not each.startswith("decided")}
    assert 1 == len(winners)
    kind, by = winners[0].removeprefix("decided ").split()
    assert {f"AlreadyDecided {kind} {by}"} == losers

    # And the run obeys it
    ended = environment.resume(script)
    assert (["pay x"] if kind == "approve" else []) == environment.effect_names()
    assert "Finished" == ended["kind"]


def test_same_decision_fifty_times_is_recorded_once(
    environment: RunEnvironment,
) -> None:
    """A repeated equal decision succeeds, and the call runs once."""
    script: Script = {"go": [[call("pay", what="x")], "end"]}
    [wait] = environment.start(script)["waits"]

    results = process_race.run_race(
        environment, f"same {wait['id']}", 50, script=script
    )

    assert {"decided approve kim"} == set(results)
    environment.resume(script)
    assert ["pay x"] == environment.effect_names()
    # Also after the end
    assert "approve" == environment.approve(wait)["decided"]
    assert "AlreadyDecided" == environment.deny(wait)["raised"]


def test_run_busy_error_names_the_end_of_the_claim(environment: RunEnvironment) -> None:
    """It is raised before any call."""
    script: Script = {"go": [[call("act", what="x", then="until:../release")], "end"]}
    first = environment.spawn("start", "r1", "go", script=script)
    try:
        wait_until_tool_runs(environment)
        before = time.monotonic()
        result = environment.resume(script)
    finally:
        (environment.folder / "release").touch()
        first.wait()

    assert ("RunBusy", "r1") == (result["raised"], result["run_id"])
    assert "claim until" in result["message"]
    assert time.monotonic() - before < 30
    assert ["act x"] == environment.effect_names()


def wait_until_tool_runs(environment: RunEnvironment) -> None:
    """Wait until the tool is under way."""
    wait_until(environment.effect_names)
