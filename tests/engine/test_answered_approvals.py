"""A person answers a call that waits for an approval, in place of its tool."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.run_environment import RunEnvironment
from tests.scripts import call

SCRIPT: Any = {
    "go": [[call("left", input="A")], "end"],
    "A": [[call("pay", what="5"), call("act", what="1")], "A done"],
}
TOLD = (
    "ANSWERED: a person answered this call instead of the tool. It was not executed. "
    "The answer:\n"
)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("paid by hand", "paid by hand"),
        ("", ""),
        (None, "null"),
        (5, "5"),
        ({"b": [1], "a": "é"}, '{"a":"é","b":[1]}'),
    ],
)
def test_answer_becomes_the_result_of_the_call_and_the_tool_does_not_run(
    environment: RunEnvironment, value: Any, text: str
) -> None:
    """The model reads the answer, and that a person gave it."""
    [wait] = environment.start(SCRIPT)["waits"]
    environment.decide(wait, {"answer": {"value": value, "by": "kim"}})

    ended = environment.resume(SCRIPT)

    assert ("Finished", ["act 1"]) == (ended["kind"], environment.effect_names())
    results = environment.run("tool-results", "r1", "A", script=SCRIPT)["tool_results"]
    assert TOLD + text in results


def test_answer_ends_its_wait_for_every_later_decider(
    environment: RunEnvironment,
) -> None:
    """An approval that comes after the answer is refused and never runs the call."""
    [wait] = environment.start(SCRIPT)["waits"]
    environment.decide(wait, {"answer": {"value": 1, "by": "kim"}})

    late = environment.approve(wait)
    environment.resume(SCRIPT)

    assert "AlreadyDecided" == late["raised"]
    assert "it was answered by kim" in late["message"]
    assert ["act 1"] == environment.effect_names()


def test_answer_in_place_of_a_sub_agent(environment: RunEnvironment) -> None:
    """The frame of an answered sub-agent is never opened."""
    script: Any = {"go": [[call("gated", input="A")], "end"], "A": ["never"]}
    app = "tests.engine.app_variants:gated_sub_agent"
    [wait] = environment.start(script, app=app)["waits"]
    environment.decide(wait, {"answer": {"value": "done by hand"}})

    ended = environment.resume(script, app=app)

    assert ("Finished", ["go 0", "go 1"]) == (ended["kind"], environment.turns())


def test_answer_without_a_store(environment: RunEnvironment, tmp_path: Path) -> None:
    one, two = str(tmp_path / "one"), str(tmp_path / "two")
    [wait] = environment.run("run", "go", one, script=SCRIPT)["waits"]

    answers = json.dumps({wait["id"]: {"answer": {"value": "by hand"}}})
    ended = environment.run("resume-bytes", one, answers, two, script=SCRIPT)

    assert ("Finished", ["act 1"]) == (ended["kind"], environment.effect_names())
