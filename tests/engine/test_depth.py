"""Deep stacks are rebuilt in a process that has only the store."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests import scripts
from tests.engine import agent_builders, app_variants
from tests.model_server import ModelServer
from tests.run_environment import RunEnvironment
from tests.sampling import sample
from tests.scripts import Script, call

pytestmark = pytest.mark.fresh_interpreters


RECURSIVE_APP = "tests.engine.app_variants:recursive_agents"


@pytest.fixture(scope="module")
def server() -> Iterator[ModelServer]:
    """Return a strict chat completions server for the module."""
    with ModelServer(scripts.server_rule(app_variants.recursive_line)) as running:
        yield running


@pytest.mark.parametrize("depth", sample([1, 3, 50], 3, 2))
def test_deepest_tool_runs_and_every_level_returns_its_result(
    environment: RunEnvironment, server: ModelServer, depth: int
) -> None:
    """Three processes, over HTTP: no turn is asked twice at any depth."""
    asked_before = len(server.requests)
    over_http = {"app": RECURSIVE_APP, "http": "1"}
    environment.extra_variables.update(server.environment)

    # Given a run that waits in its deepest frame, and whose process has ended
    waiting = environment.run("start", "r1", str(depth), **over_http)
    [wait] = waiting["waits"]
    assert ["odd", *["down"] * depth, "pay"] == wait["path"]
    assert [] == environment.effects()

    # When another process decides and a third one resumes
    environment.approve(wait)
    ended = environment.run("resume", "r1", **over_http)

    # Then exactly the deepest tool ran and every level added its number
    numbers = " ".join(str(number) for number in range(depth + 1))
    assert f"paid x {numbers}" == ended["output"]
    assert ["pay x"] == environment.effect_names()

    # And every turn of every level was asked once, and the usage is the whole tree's
    asked = server.requests[asked_before:]
    turns = [
        (
            scripts.first_user_message(each["messages"]),
            scripts.turn_count(each["messages"]),
        )
        for each in asked
    ]
    once = {(str(task), turn) for task in range(depth + 1) for turn in (0, 1)}
    assert (once, len(once)) == (set(turns), len(turns))
    assert {200} == {each["status"] for each in asked}
    assert 2 * (depth + 1) == ended["usage"]["requests"]
    assert ended["usage"]["input_tokens"] > waiting["usage"]["input_tokens"] > 0


def test_run_with_a_thousand_levels_suspends_and_resumes(
    environment: RunEnvironment,
) -> None:
    """Neither recursion nor depth is limited; two agents call each other."""
    # Given a thousand frames that wait, each for the one below
    waiting = environment.run("start", "r1", "1000", app=RECURSIVE_APP)
    [wait] = waiting["waits"]
    assert 1002 == len(wait["path"])

    # When they are decided and resumed elsewhere
    environment.approve(wait)
    ended = environment.run("resume", "r1", app=RECURSIVE_APP)

    # Then every level returned a result, and no turn was repeated
    assert "paid x " + " ".join(map(str, range(1001))) == ended["output"]
    assert ["pay x"] == environment.effect_names()
    assert (2002, 2002) == (len(environment.turns()), len(set(environment.turns())))
    assert 2002 == ended["usage"]["requests"]


def test_denial_is_returned_through_every_level(environment: RunEnvironment) -> None:
    """At depth 50 nothing runs, and every parent continues."""
    [wait] = environment.run("start", "r1", "50", app=RECURSIVE_APP)["waits"]

    environment.deny(wait, reason="Too expensive.")
    ended = environment.run("resume", "r1", app=RECURSIVE_APP)

    assert ended["output"].startswith("DENIED: a person refused this call.")
    assert ended["output"].endswith(" ".join(map(str, range(51))))
    assert "Too expensive." in ended["output"]
    assert [] == environment.effects()


def test_resuming_an_undecided_stack_changes_nothing(
    environment: RunEnvironment,
) -> None:
    """The result is `Suspended`, and nothing is written."""
    script = {"go": [[call("pay", what="x")], "end"]}
    environment.start(script)
    before = environment.objects()

    again = environment.resume(script)

    assert "Suspended" == again["kind"]
    assert before == environment.objects()
    assert ["go 0"] == environment.turns()


GO_DOWN: Script = {
    "go": [[call("pay", what="x")], [call("left", input="A")], "end"],
    "A": [[call("clerk", input="C")], "A done"],
    "C": [[call("act", what="c")], "C done"],
}


@pytest.mark.parametrize(
    ("started", "resumed", "refused"),
    [
        ({"depth": 2}, {}, "clerk"),
        ({"depth": 2}, {"depth": 9}, "clerk"),
        ({"depth": 3}, {"depth": 2}, "clerk"),
        ({}, {"depth": 1}, "left"),
        ({"depth": 3}, {"depth": 3}, None),
        ({}, {}, None),
    ],
)
def test_limit_of_the_start_holds_in_every_later_process(
    environment: RunEnvironment,
    started: dict[str, Any],
    resumed: dict[str, Any],
    refused: str | None,
) -> None:
    """`max_depth` is stored with the run; the stricter limit counts."""
    waiting = environment.start(GO_DOWN, **started)
    environment.approve(waiting["waits"][0])

    ended = environment.resume(GO_DOWN, **resumed)

    assert "end" == ended["output"]
    below = ["act c"] if refused is None else []
    assert ["pay x", *below] == environment.effect_names()
    texts = environment.run("tool-results", "r1", "A", script=GO_DOWN)["tool_results"]
    texts += " ".join(agent_builders.tool_results(ended["messages"]))
    assert (refused is not None) == ("nested at most" in texts)
    assert ("left" == refused) == ("A done" not in texts)


def test_limit_of_the_start_is_in_the_bytes_of_a_continuation(
    environment: RunEnvironment,
) -> None:
    """Without a store: another process resumes without a limit of its own."""
    one, two = (str(environment.folder / name) for name in ("one", "two"))
    waiting = environment.run("run", "go", one, script=GO_DOWN, depth=2)
    answers = json.dumps({waiting["waits"][0]["id"]: {"approve": {}}})

    ended = environment.run("resume-bytes", one, answers, two, script=GO_DOWN)

    assert "end" == ended["output"]
    assert ["pay x"] == environment.effect_names()
