"""One agent's call is cancelled with everything below it, in fresh processes.

The tree has three levels, and each kind of wait below the cancelled call: an approval,
a question, a timer and a job with `on_cancel`.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Any

import pytest

from continuations import AsyncRunner, Runner
from continuations.serve.http.api import HttpApi, Request
from tests.run_environment import RunEnvironment, run_python
from tests.sampling import pairs
from tests.scripts import Script, call
from tests.serve.http.api_fixture import verify_bearer

# Beside the cancelled call, the root agent calls the clerk for itself.
SCRIPT: Script = {
    "go": [[call("hr", input="A"), call("clerk", input="C")], "all"],
    "A": [[call("clerk", input="B")], "A done"],
    "B": [
        [
            call("question", text="Who?"),
            call("nap", seconds=864_000),
            call("scan", document="x"),
            call("pay", what="4"),
        ],
        "B done",
    ],
    "C": [[call("question", text="beside")], "C done"],
}
OPTIONS: dict[str, Any] = {"app": "tests.engine.waiting_tools:agents"}
JSON = {"content-type": "application/json", "authorization": "Bearer kim"}
_CLI = "import sys; from continuations.cli import main; sys.exit(main(sys.argv[1:]))"


def cancel_with_runner(environment: RunEnvironment, name: str) -> None:
    """Cancel by the Python API, in a process without agents."""
    environment.run("cancel-call", "r1", name, app="none")


def cancel_with_command(environment: RunEnvironment, name: str) -> None:
    words = ("cancel", "r1", "--call", name, "--by", "kim")
    shown = run_python(_CLI, *words, "--store", environment.store)
    assert f"cancel of call {name} is recorded" in shown


def cancel_over_http(environment: RunEnvironment, name: str) -> None:
    async def post() -> int:
        runner = AsyncRunner([], store=environment.store)
        api = HttpApi(runner, verify=verify_bearer)
        body = json.dumps({"call": name}).encode()
        request = Request(
            method="POST", path="/runs/r1/cancel", headers=JSON, body=body
        )
        return (await api.handle(request)).status

    assert 200 == asyncio.run(post())


DOORS: dict[str, Callable[[RunEnvironment, str], None]] = {
    "runner": cancel_with_runner,
    "command": cancel_with_command,
    "http": cancel_over_http,
}


@pytest.mark.fresh_interpreters
@pytest.mark.parametrize(("door", "name"), pairs(DOORS, ["boss/hr", "boss/hr/clerk"]))
def test_call_of_an_agent_is_cancelled_with_all_waits_below(
    environment: RunEnvironment, door: str, name: str
) -> None:
    """`on_cancel` runs once, no call below runs, and the sibling goes on."""
    started = environment.start(SCRIPT, **OPTIONS)
    below = [wait for wait in started["waits"] if wait["path"][1] == "hr"]
    [beside] = [wait for wait in started["waits"] if wait["path"][1] != "hr"]
    assert ["approval", "external", "question", "timer"] == sorted(
        wait["kind"] for wait in below
    )
    effects = sorted(environment.effect_names())

    DOORS[door](environment, name)
    held = environment.resume(SCRIPT, **OPTIONS)

    assert [beside["id"]] == [wait["id"] for wait in held["waits"]]
    assert [f"waits/{beside['id']}"] == environment.keys("waits/")
    assert sorted([*effects, "stop_scan x"]) == sorted(environment.effect_names())
    # A late decider gets an error; a sweep and a resume begin nothing below
    clerk = Runner([], store=environment.store)
    assert [beside["id"]] == [wait.id for wait in clerk.waiting()]
    for wait in below:
        if wait["kind"] in ("approval", "question"):
            late = environment.approve(wait)
            assert "Cancelled" == late["raised"]
    environment.run("sweep", script=SCRIPT, **OPTIONS, ahead="900000")
    environment.decide(beside, {"answer": {"value": "kim"}})
    ended = environment.resume(SCRIPT, **OPTIONS)

    assert ("Finished", "all") == (ended["kind"], ended["output"])
    assert sorted([*effects, "stop_scan x"]) == sorted(environment.effect_names())
    results = [m["content"] for m in ended["messages"] if m["role"] == "tool"]
    assert "C done" == results[1]
    if name == "boss/hr":
        assert results[0].startswith("CANCELLED")
    else:
        # The agent above the cancelled one got its result, and went on.
        assert "A done" == results[0]
    assert [] == environment.keys("waits/", "markers/")
