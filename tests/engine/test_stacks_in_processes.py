"""Agents three deep, each step in a fresh interpreter."""

from __future__ import annotations

from typing import Any

import pytest

from continuations import Frame, Runner, run
from continuations.events import Compacted
from tests.engine import class_agents, conditioned_agents, slow_models
from tests.engine.class_agents import Designer, Plan
from tests.engine.conditioned_agents import EFFECTS
from tests.engine.state_agents import replayed
from tests.run_environment import RunEnvironment
from tests.scripts import Script, call, scripted_model

pytestmark = pytest.mark.fresh_interpreters

STATES = "tests.engine.state_agents:agents"
STATE_SCRIPT: Script = {
    "go": [
        [call("buy", cents=1)],
        [call("order", cents=2), call("hr", input="office"), call("book", cents=3)],
        [call("book", cents=4)],
        "end",
    ],
    "office": [
        [call("book", cents=10)],
        [call("clerk", input="desk"), call("clerk", input="desk")],
        [call("buy", cents=20)],
        "office done",
    ],
    "desk": [[call("book", cents=100), call("order", cents=200)], "desk done"],
}


def stack(runner: Runner) -> list[tuple[str, int]]:
    """Return the agents of the run, from the root down, and what each has spent."""
    found: list[tuple[str, int]] = []
    pending: list[Frame] = [runner.look("r1").root]
    while pending:
        frame = pending.pop(0)
        found.append((frame.agent, frame.state.get("spent", 0)))
        pending += [call.frame for call in frame.calls if call.frame is not None]
    return found


def test_states_survive_fresh_processes_at_every_depth(
    environment: RunEnvironment,
) -> None:
    """Each frame has its own state, also two activations of one agent."""
    runner = Runner([], store=environment.store)
    outcome = environment.start(STATE_SCRIPT, app=STATES)
    assert [("boss", 1), ("hr", 10), ("clerk", 0), ("clerk", 0)] == stack(runner)

    while outcome["kind"] == "Suspended":
        environment.approve(outcome["waits"][-1])
        outcome = environment.resume(STATE_SCRIPT, app=STATES)

    assert ("Finished", "end") == (outcome["kind"], outcome["output"])
    root = runner.look("r1").root
    assert 10 == replayed(root.messages)
    expected = {"spent": 10, "on": ["buy", "order", "book", "book"]}
    assert expected == root.state
    once = ["book 10", "book 3", "book 4", "buy 1", "buy 20", "order 2"]
    twice = ["book 100", "order 200"]
    assert sorted(environment.effect_names()) == sorted([*once, *twice, *twice])


# Histories that are shortened -------------------------------------------------


COMPACTED = "tests.engine.compacted_agents:nested"


def wait_of(result: dict[str, Any], agent: str) -> dict[str, Any]:
    assert "Suspended" == result["kind"], result
    found: list[dict[str, Any]] = [
        wait for wait in result["waits"] if agent in wait["path"]
    ]
    (wait,) = found
    return wait


def compactions(environment: RunEnvironment) -> list[Compacted]:
    events = Runner([], store=environment.store).events("r1")
    return [each for each in events if isinstance(each, Compacted)]


def count(environment: RunEnvironment, tool: str) -> int:
    """Return how often a tool had its effect."""
    return sum(each["tool"] == tool for each in environment.effects())


def test_history_is_shortened_beside_an_approval_of_another_agent(
    environment: RunEnvironment,
) -> None:
    """Each step runs once, each payment once, and no stored summary is asked again."""
    # The worker and the payer wait, and the history of the worker was shortened
    first = environment.start({}, app=COMPACTED)
    other = wait_of(first, "payer")
    own = wait_of(first, "worker")
    shortened = len(compactions(environment))
    assert shortened == count(environment, "summary") > 0

    # The approval of the other agent changes nothing for the worker
    environment.approve(other)
    second = environment.resume({}, app=COMPACTED)
    assert own == wait_of(second, "worker")
    assert shortened == count(environment, "summary")
    assert 1 == count(environment, "pay")

    # The worker goes on behind its summary, and it is shortened again
    environment.approve(own)
    last = environment.resume({}, app=COMPACTED)
    assert ("Finished", "all done") == (last["kind"], last["output"])
    compacted = compactions(environment)
    assert len(compacted) == count(environment, "summary") > shortened
    assert {("boss", "worker")} == {each.path for each in compacted}
    made = [line["what"] for line in environment.effects() if line["tool"] == "step"]
    assert [str(number) for number in range(1, 17)] == made
    assert 2 == count(environment, "pay")
    # 16 steps and one payment: no turn was asked twice.
    assert 17 == len(environment.turns())


# Agents as classes ------------------------------------------------------------


CLASSES = "tests.engine.class_agents:agents"


def test_agents_of_classes_resume_in_other_processes(
    environment: RunEnvironment,
) -> None:
    """Three agents deep, each step in a fresh interpreter; one effect."""
    outcome = environment.run("start", "r1", "go", app=CLASSES)
    by_tool = {wait["tool"]: wait for wait in outcome["waits"]}
    assert {"publish", "confirm"} == by_tool.keys()
    environment.approve(by_tool["publish"])
    environment.decide(by_tool["confirm"], {"answer": {"value": "yes", "by": "kim"}})

    outcome = environment.run("resume", "r1", app=CLASSES)

    assert "Finished" == outcome["kind"]
    [effect] = environment.effects()
    assert "parser" == effect["what"]
    read = environment.run("tool-results", "r1", "parser", app=CLASSES)["tool_results"]
    assert "published parser Shop heard yes" == read


def test_task_as_root_agent_returns_its_type() -> None:
    """`input` makes the text that an agent would pass."""
    designer = Designer()
    text = designer.plan.input("dates", modules=2)
    designer.model = scripted_model({text: ['{"names": ["a"]}']})

    assert Plan(["a"]) == run(Designer(model=designer.model).plan, text).result()
    assert text in class_agents.SCRIPT


def test_denied_call_of_a_method_does_not_run(environment: RunEnvironment) -> None:
    outcome = environment.run("start", "r1", "go", app=CLASSES)
    for wait in outcome["waits"]:
        answer = {"deny": {"reason": "no", "by": "kim"}}
        environment.decide(wait, answer)

    outcome = environment.run("resume", "r1", app=CLASSES)

    assert "Finished" == outcome["kind"]
    assert [] == environment.effects()
    assert call("publish", name="parser") in class_agents.SCRIPT["parser"][0]


# Conditions that suspend ------------------------------------------------------


OPTIONS: dict[str, Any] = {"app": "tests.engine.conditioned_agents:agents"}


def reasons(result: dict[str, Any]) -> list[str]:
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
        return environment.resume(
            conditioned_agents.SCRIPT, **OPTIONS, ahead=str(60 * minutes)
        )

    def unpause() -> None:
        unpaused = environment.run("unpause", "r1", app="none", ahead=str(60 * minutes))
        assert "suspended" == unpaused["status"]

    # The clerk asks for an approval: no condition is met yet
    first = environment.start(conditioned_agents.SCRIPT, **OPTIONS, ahead="0")
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
    first = environment.start(conditioned_agents.SCRIPT, **OPTIONS)
    environment.approve(first["waits"][0])
    held = environment.resume(conditioned_agents.SCRIPT, **OPTIONS)
    assert ["every 2 turns"] == reasons(held)

    environment.run("pause", "r1", app="none")
    both = environment.resume(conditioned_agents.SCRIPT, **OPTIONS)
    assert {"every 2 turns", "audit"} == set(reasons(both))
    again = environment.run("sweep", script=conditioned_agents.SCRIPT, **OPTIONS)
    assert ([], {}) == (again["resumed"], again["failed"])

    environment.run("unpause", "r1", app="none")
    assert ["last_turn"] == reasons(
        environment.resume(conditioned_agents.SCRIPT, **OPTIONS)
    )
    environment.run("unpause", "r1", app="none")
    ended = environment.resume(conditioned_agents.SCRIPT, **OPTIONS)
    assert "Finished" == ended["kind"]
    assert EFFECTS == sorted(environment.effect_names())


# Models that are limited or reply later ---------------------------------------


SLOW = "tests.engine.slow_models:agents"
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
        outcome = environment.resume({}, app=SLOW, ahead=str(ahead))
    return outcome


def test_replies_of_nested_agents_are_asked_once_and_polled_by_other_processes(
    environment: RunEnvironment,
) -> None:
    started = environment.start({}, app=SLOW, ahead="0")
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
    outcome = environment.start({}, app=SLOW, ahead="0")
    outcome = environment.resume({}, app=SLOW, ahead=str(STEP))
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
    started = environment.start({}, app=SLOW)
    assert ["model"] == [wait["kind"] for wait in started["waits"]]

    assert 1 == Runner([], store=environment.store).wake("r1", by="provider")
    resumed = environment.resume({}, app=SLOW)

    assert "poll boss reply-0-0" in environment.effect_names()
    assert {"clerk"} == {wait["path"][-1] for wait in resumed["waits"]}
