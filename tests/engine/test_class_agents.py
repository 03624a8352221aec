"""Agents as classes run and resume like all others."""

from __future__ import annotations

import pytest

from continuations import Finished, run
from tests.engine.class_agents import SCRIPT, Designer, Plan
from tests.outcomes import expect
from tests.run_environment import RunEnvironment
from tests.scripts import call, scripted_model

pytestmark = pytest.mark.fresh_interpreters

APP = "tests.engine.class_agents:agents"


def test_agents_of_classes_resume_in_other_processes(
    environment: RunEnvironment,
) -> None:
    """Three agents deep, each step in a fresh interpreter; one effect."""
    outcome = environment.run("start", "r1", "go", app=APP)
    by_tool = {wait["tool"]: wait for wait in outcome["waits"]}
    assert {"publish", "confirm"} == by_tool.keys()
    environment.approve(by_tool["publish"])
    environment.decide(by_tool["confirm"], {"answer": {"value": "yes", "by": "kim"}})

    outcome = environment.run("resume", "r1", app=APP)

    assert "Finished" == outcome["kind"]
    [effect] = environment.effects()
    assert "parser" == effect["what"]
    read = environment.run("tool-results", "r1", "parser", app=APP)["tool_results"]
    assert "published parser Shop heard yes" == read


def test_task_as_root_agent_returns_its_type() -> None:
    """`input` makes the text that an agent would pass."""
    designer = Designer()
    text = designer.plan.input("dates", modules=2)
    designer.model = scripted_model({text: ['{"names": ["a"]}']})

    outcome = expect(run(Designer(model=designer.model).plan, text), Finished)

    assert Plan(["a"]) == outcome.output
    assert text in SCRIPT


def test_denied_call_of_a_method_does_not_run(environment: RunEnvironment) -> None:
    outcome = environment.run("start", "r1", "go", app=APP)
    for wait in outcome["waits"]:
        answer = {"deny": {"reason": "no", "by": "kim"}}
        environment.decide(wait, answer)

    outcome = environment.run("resume", "r1", app=APP)

    assert "Finished" == outcome["kind"]
    assert [] == environment.effects()
    assert call("publish", name="parser") in SCRIPT["parser"][0]
