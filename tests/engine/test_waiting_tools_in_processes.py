"""Tools that wait, three agents deep: every step happens in a fresh interpreter."""

from __future__ import annotations

from typing import Any

import pytest

from continuations import Runner
from tests.run_environment import RunEnvironment
from tests.scripts import call

pytestmark = pytest.mark.fresh_interpreters

APP = "tests.engine.waiting_tools:agents"


def script_of(*calls: Any) -> Any:
    """Return a script in which the sub-agent makes the calls in one turn."""
    return {
        "go": [[call("clerk", input="office")], "end"],
        "office": [list(calls), "office done"],
    }


def test_question_in_a_sub_agent_is_answered_in_other_processes(
    environment: RunEnvironment,
) -> None:
    script = script_of(call("laptop", person="Jane"), call("question", text="Desk?"))
    started = environment.start(script, app=APP)
    waits = {wait["tool"]: wait for wait in started["waits"]}
    laptop, desk = waits["laptop"], waits["question"]
    assert ["boss", "clerk", "laptop"] == laptop["path"]

    environment.decide(laptop, {"answer": {"value": {"name": "x", "size": "large"}}})
    between = environment.resume(script, app=APP)
    assert [desk["id"]] == [wait["id"] for wait in between["waits"]]
    environment.decide(desk, {"answer": {"value": "by the window"}})
    ended = environment.resume(script, app=APP)

    assert ("Finished", "end") == (ended["kind"], ended["output"])
    names = environment.effect_names()
    assert "chosen Jane x large" == names.pop()
    assert ["laptop Jane", "question Desk?"] == sorted(names)


def test_timer_in_a_sub_agent_is_ended_by_a_sweep(environment: RunEnvironment) -> None:
    script = script_of(call("nap", seconds=0.5))
    environment.start(script, app=APP)

    resumed: list[Any] = []
    while not resumed:
        resumed = environment.run("sweep", script=script, app=APP)["resumed"]

    assert ["Finished"] == [each["kind"] for each in resumed]
    assert ["nap 0.5"] == environment.effect_names()


def test_tool_of_a_sub_agent_waits_again_in_other_processes(
    environment: RunEnvironment,
) -> None:
    script = script_of(call("train", model="m"))
    [wait] = environment.start(script, app=APP)["waits"]

    environment.decide(wait, {"answer": {"value": "3"}})
    [job] = environment.resume(script, app=APP)["waits"]
    assert ("external", 1) == (job["kind"], job["stage"])
    environment.decide(job, {"answer": {"value": "ended"}})
    ended = environment.resume(script, app=APP)

    assert ("Finished", "end") == (ended["kind"], ended["output"])
    assert [
        "train m",
        "stage 1 3 {'model': 'm'}",
        "stage 2 ended {'hours': '3', 'model': 'm'}",
    ] == environment.effect_names()


@pytest.mark.parametrize("document", ["early", "early crash"])
def test_answer_that_comes_before_the_tool_returns_is_kept(
    environment: RunEnvironment, document: str
) -> None:
    """After a crash, the call counts as started: the job is not started again."""
    script = script_of(call("scan", document=document))
    options = {"app": APP, "store": environment.store, "lease": "0.5"}
    process = environment.spawn("start", "r1", "go", script=script, **options)
    code = process.wait()

    assert (9 if document == "early crash" else 0) == code
    ended = _resume_when_free(environment, script, options)

    assert ("Finished", "end") == (ended["kind"], ended["output"])
    results = environment.run("tool-results", "r1", "office", script=script, **options)
    assert '{"pages":7}' == results["tool_results"]
    assert [f"scan {document}"] == environment.effect_names()
    runner = Runner([], store=environment.store)
    assert [] == list(runner.waiting(kinds=["external"]))
    assert [] == environment.keys("markers/")


def test_cancelled_job_of_a_sub_agent_is_stopped_by_a_process_with_agents(
    environment: RunEnvironment,
) -> None:
    """The process that cancels has no agents; the one that tells dies once."""
    script = script_of(call("scan", document="stop and crash"))
    options = {"app": APP, "store": environment.store, "lease": "0.5"}
    [wait] = environment.start(script, **options)["waits"]
    runner = Runner([], store=environment.store)
    assert "suspended" == runner.cancel("r1", by="kim").status

    process = environment.spawn("resume", "r1", script=script, **options)
    assert 9 == process.wait()
    assert "running" == runner.look("r1").status
    ended = _resume_when_free(environment, script, options)

    assert "Failed" == ended["kind"]
    assert "cancelled" == runner.look("r1").status
    told = [line for line in environment.effects() if line["tool"] == "stop_scan"]
    assert [wait["id"]] * 2 == [line["key"] for line in told]
    assert 1 == environment.effect_names().count("scan stop and crash")
    assert [] == environment.keys("markers/", "waits/")


def _resume_when_free(
    environment: RunEnvironment, script: Any, options: dict[str, Any]
) -> dict[str, Any]:
    while True:
        outcome = environment.resume(script, **options)
        if outcome.get("raised") != "RunBusy":
            return outcome


def test_crash_in_the_function_that_gets_the_answer_is_an_unknown_outcome(
    environment: RunEnvironment,
) -> None:
    """The function is not repeated on a guess, and its approval repeats only it."""
    script = script_of(call("laptop", person="Jane"))
    [wait] = environment.start(script, app=APP)["waits"]
    environment.decide(wait, {"answer": {"value": {"name": "x"}}})
    crashed = environment.spawn(
        "resume", "r1", script=script, app=APP, lease="0.5", fault="6 after"
    )
    crashed.wait()
    effects = environment.effect_names()

    ended = _resume_when_free(environment, script, {"app": APP, "lease": "0.5"})
    while ended["kind"] == "Suspended":
        [unknown] = ended["waits"]
        assert ("unknown", "laptop") == (unknown["kind"], unknown["tool"])
        environment.approve(unknown)
        ended = _resume_when_free(environment, script, {"app": APP, "lease": "0.5"})

    assert "Finished" == ended["kind"]
    names = environment.effect_names()
    assert "laptop Jane" == names[0]
    assert ["chosen Jane x small"] == list(dict.fromkeys(names[1:]))
    assert names[: len(effects)] == effects
