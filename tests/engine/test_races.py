"""Processes that race, or that SIGKILL ends; the others go on."""

from __future__ import annotations

import time
from typing import Any

import pytest

from tests.engine import agent_builders, process_race
from tests.run_environment import KILLED, RunEnvironment, wait_until
from tests.scripts import Script, call, call_with_id

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
    wait_until(environment.effect_names)


# SIGKILL ----------------------------------------------------------------------


def kill_in_tool_and_resume(
    environment: RunEnvironment, tool: str, **settings: Any
) -> tuple[Script, dict[str, Any]]:
    """Have a process die in a tool, in a child, and another resume after its claim."""
    script: Script = {
        "go": [[call("left", input="A")], "all"],
        "A": [[[tool, {"what": "x", "then": "die-once"}]], "A done"],
    }
    result = environment.spawn("start", "r1", "go", script=script)
    if tool == "pay":
        environment.approve(result.wait_for_result()["waits"][0])
        result = environment.spawn("resume", "r1", script=script)
    assert KILLED == result.wait()
    if tool == "pay":
        assert "RunBusy" == environment.resume(script)["raised"]
    return script, environment.resume(script, **settings, ahead="60")


VERDICT_CASES = {
    "answer": ({"answer": {"value": "found it"}}, ["act x"], "found it"),
    "approve": ({"approve": {"by": "kim"}}, ["act x", "act x"], "acted x"),
    "deny": ({"deny": {"reason": "Leave it."}}, ["act x"], "NOT EXECUTED"),
}


@pytest.mark.parametrize("kind", VERDICT_CASES)
def test_an_unknown_outcome_is_settled_by_a_person(
    environment: RunEnvironment, kind: str
) -> None:
    """An unrepeatable call never runs again on a guess."""
    verdict, effects, said = VERDICT_CASES[kind]

    # Given an unrepeatable tool whose process died while it ran
    script, result = kill_in_tool_and_resume(environment, "act")
    [wait] = result["waits"]
    assert ("unknown", ["act x"]) == (wait["kind"], environment.effect_names())
    assert ["boss", "left", "act"] == wait["path"]
    assert "died" in wait["note"]

    # When it is settled
    environment.decide(wait, verdict)
    result = environment.resume(script, ahead="60")

    # Then the run ends as the verdict says
    assert ("Finished", effects) == (result["kind"], environment.effect_names())
    child = [line for line in environment.turns() if line.startswith("A")]
    assert ["A 0", "A 1"] == child
    assert (
        said
        in environment.run("tool-results", "r1", "A", script=script, app="none")[
            "tool_results"
        ]
    )


def test_approved_call_of_a_killed_process_is_unknown(
    environment: RunEnvironment,
) -> None:
    """An approval is for one execution, not for two."""
    script, result = kill_in_tool_and_resume(environment, "pay")

    [wait] = result["waits"]
    assert ("unknown", ["pay x"]) == (wait["kind"], environment.effect_names())

    # When a person approves the call again, because it did not happen
    environment.approve(wait)
    result = environment.resume(script)
    assert ("Finished", ["pay x", "pay x"]) == (
        result["kind"],
        environment.effect_names(),
    )
    assert 1 == len({line["key"] for line in environment.effects()})


@pytest.mark.parametrize(
    ("finds", "effects"),
    [("answer", 1), ("approve", 2), ("deny", 1), ("none", 1), ("raise", 1)],
)
def test_verify_settles_a_call_with_unknown_outcome(
    environment: RunEnvironment, finds: str, effects: int
) -> None:
    """The tool's `verify` is asked first, a person only if it returns nothing."""
    _, result = kill_in_tool_and_resume(environment, "book", verify=finds)

    assert ["book x"] * effects == environment.effect_names()
    if finds in ("none", "raise"):
        assert ["unknown"] == [wait["kind"] for wait in result["waits"]]
    else:
        assert "Finished" == result["kind"]


@pytest.mark.parametrize("tool", ["push", "read"])
def test_repeatable_call_is_repeated_with_the_same_key(
    environment: RunEnvironment, tool: str
) -> None:
    """The second attempt has the same key, a larger fence and attempt 2."""
    _, result = kill_in_tool_and_resume(environment, tool)

    assert "Finished" == result["kind"]
    first, second = environment.effects()
    assert (first["key"], first["call"]) == (second["key"], second["call"])
    assert (1, 2) == (first["attempt"], second["attempt"])
    assert first["fence"] < second["fence"]
    assert first["pid"] != second["pid"]


def test_idempotency_key_is_unique_for_each_call(environment: RunEnvironment) -> None:
    """Also for calls that are equal in everything."""
    pushes = [
        call_with_id("push", "same", what="x"),
        call_with_id("push", "same", what="x"),
    ]
    script: Script = {
        "go": [[*pushes, call("left", input="A")], [*pushes], "all"],
        "A": [pushes, "A done"],
    }
    environment.start(script)

    assert 6 == len({line["key"] for line in environment.effects()})


def test_a_tool_that_always_kills_its_worker_ends_the_run(
    environment: RunEnvironment,
) -> None:
    """The claim counts attempts, and `max_attempts` limits them."""
    script: Script = {
        "go": [[call("left", input="A")], "all"],
        "A": [[call("push", what="x", then="die")], "A done"],
    }
    process = environment.spawn("start", "r1", "go", script=script)
    deaths = 0
    while process.wait() == KILLED:
        deaths += 1
        assert deaths < 8
        ahead = str(60 * deaths)
        process = environment.spawn(
            "resume", "r1", script=script, attempts="3", ahead=ahead
        )

    # Then the run has failed after the last attempt
    result = environment.resume(script, ahead="1000")
    assert ("Failed", "attempts") == (result["kind"], result["error"]["code"])
    assert deaths == len(environment.effects())
    assert 3 == deaths
    assert [] == agent_builders.tool_results(result["messages"])[1:]
    assert "Finished" != environment.resume(script, ahead="2000")["kind"]


def test_worker_with_a_wrong_clock_claims_nothing(environment: RunEnvironment) -> None:
    """It compares its clock with the store's time before it writes a version."""
    script: Script = {"go": [[call("act", what="x")], "end"]}

    result = environment.start(script, skewed="60")

    assert "ClockOff" == result["raised"]
    assert ([], []) == (environment.effects(), environment.keys("runs"))
