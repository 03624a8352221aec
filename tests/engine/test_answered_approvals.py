"""A person answers a call in place of its tool: an approval, or an unknown outcome."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from continuations import Answer, Finished
from continuations_storage import MemoryStore
from continuations_storage.faults import Crash, FaultyStore, crashed, on
from tests import effect_log
from tests.clocks import ManualClock
from tests.engine.agent_builders import root_tool_results
from tests.engine.payment_agent import make_payment_runner
from tests.outcomes import single_wait
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


# Unknown outcomes -------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("paid", "paid"),
        ('"paid"', '"paid"'),
        ("", ""),
        (0, "0"),
        (None, "null"),
        (False, "false"),
        ([], "[]"),
        ({"paid": [5, "kim"]}, '{"paid":[5,"kim"]}'),
    ],
)
def test_an_answer_reaches_the_model_as_a_result_would(
    value: object, expected: str, clock: ManualClock
) -> None:
    """A text as it is, another value as JSON; the call does not run again."""
    # Given a call whose worker died before it recorded the result
    store = MemoryStore(clock.now)
    dies = on("create", crashed("before"), prefix="runs/", skip=2)
    with pytest.raises(Crash):
        make_payment_runner(
            policy=False, store=FaultyStore(store, dies), clock=clock
        ).start("go", run_id="r1")
    clock.seconds += 31
    runner = make_payment_runner(policy=False, store=store, clock=clock)
    wait = single_wait(runner.resume("r1"))
    assert "unknown" == wait.kind

    # When a person answers
    runner.decide(wait.id, Answer(value, by="kim"))
    outcome = runner.resume("r1")

    # Then the model reads the answer
    assert isinstance(outcome, Finished)
    assert [expected] == root_tool_results(outcome)
    assert ["pay 5 kim"] == effect_log.names()
