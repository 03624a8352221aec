"""Workflows start and go on at every door."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from continuations import AsyncRunner, Flow, Runner, ask, sleep, workflow
from continuations.cli import main
from continuations.errors import InvalidInput
from continuations.serve.aws_lambda import handler
from continuations.serve.http.api import HttpApi, Request
from continuations.testing import AgentHarness
from continuations_storage import MemoryStore
from tests import effect_log
from tests.engine.workflows.flow_tools import add, pay
from tests.outcomes import single_wait


@workflow(tools=[add, pay])
async def purchase(flow: Flow, cents: int, tip: int = 1) -> str:
    """Buy something."""
    total = await flow.call(add, cents, tip)
    return await flow.call(pay, total)


@workflow
async def asks(_flow: Flow) -> str:
    """Ask a person."""
    return await ask("Well?")


@pytest.fixture
def command(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> Callable[..., tuple[int, str]]:
    """Return a function that runs a command line with these workflows."""
    store = f"file:{tmp_path / 'store'}"
    monkeypatch.setenv("CONTINUATIONS_STORE", store)
    monkeypatch.setenv("CONTINUATIONS_APP", f"{__name__}:purchase")

    def run_command(*arguments: str) -> tuple[int, str]:
        code = main(arguments)
        return code, "".join(capsys.readouterr())

    return run_command


START = ["start", "--run-id", "r1", "--agent", "purchase"]


def test_command_line_starts_shows_and_resumes(
    command: Callable[..., tuple[int, str]],
) -> None:
    assert '"cents":5' in command(*START, "--args", '{"cents": 4}')[1]
    wait_id = command("waiting", "--ids")[1].strip()
    assert "purchase" in command("show", "r1")[1]
    assert 0 == command("approve", wait_id, "--by", "kim")[0]

    assert "paid 5" in command("resume", "r1")[1]
    assert ["add 4+1", "pay 5"] == effect_log.names()


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["--args", "[1]"], "must be a JSON object"),
        (["--args", "{"], "--args is not JSON"),
        (["--args", '{"cents": "x"}'], "the arguments of purchase do not fit"),
        ([], "needs the INPUT"),
        (["go"], "Pass purchase.bind"),
        (["go", "--args", "{}"], "Leave INPUT"),
    ],
)
def test_command_line_refuses_other_arguments(
    arguments: list[str], text: str, command: Callable[..., tuple[int, str]]
) -> None:
    code, output = command(*START, *arguments)

    assert code
    assert text in output.replace("\n", " ")


@pytest.mark.parametrize(
    ("given", "status"),
    [
        ({"cents": 4}, 200),
        ({"cents": "x"}, 400),
        ("go", 400),
        (5, 400),
    ],
)
def test_http_starts_a_workflow_with_its_arguments(given: Any, status: int) -> None:
    runner = AsyncRunner([purchase, asks], store=MemoryStore())
    api = HttpApi(runner, verify=lambda _request: "kim")
    body = {"run_id": "r1", "agent": "purchase", "input": given}
    request = Request(
        method="POST",
        path="/runs",
        headers={"content-type": "application/json"},
        body=json.dumps(body).encode(),
    )

    response = asyncio.run(api.handle(request))

    assert status == response.status
    if status == 200:
        assert "suspended" == json.loads(response.body)["status"]


def test_lambda_starts_a_workflow_with_its_arguments() -> None:
    function = handler(store=MemoryStore(), agents=lambda: [purchase])
    event = {"start": {"run_id": "r1", "input": {"cents": 4}}}

    invocation: Any = SimpleNamespace(
        get_remaining_time_in_millis=lambda: 60_000, aws_request_id="1"
    )
    outcome: Any = function(event, invocation)
    function.close()

    assert "suspended" == outcome["status"]


def test_arguments_as_a_dict_are_checked() -> None:
    runner = Runner(purchase, store=MemoryStore())

    assert "pay" == single_wait(runner.start({"cents": 4}, run_id="r1")).tool
    with pytest.raises(InvalidInput, match="do not fit"):
        runner.start({"euros": 4})


def test_harness_of_applications_moves_the_clock_and_restarts() -> None:
    @workflow(tools=[pay])
    async def sleeps(flow: Flow, cents: int) -> str:
        receipt = await flow.call(pay, cents)
        await sleep(3600)
        return receipt

    harness: AgentHarness[str] = AgentHarness(sleeps)

    harness.run_to_pause(sleeps.bind(7))
    harness.approve()
    harness.restart()
    harness.run_to_pause()
    harness.advance(hours=2)

    assert "paid 7" == harness.resume().result()
    assert ["pay 7"] == effect_log.names()
