"""Jobs of other systems on the command line: more time, and their cancellation."""

from __future__ import annotations

import json

import pytest

from continuations import Agent, Runner, external, tool
from continuations.models.scripted import ScriptedModel, ToolCall
from continuations.tools import ToolWait
from tests.cli.command_line import CommandLine
from tests.outcomes import single_wait
from tests.present.schema_check import assert_matches_schema


@pytest.fixture
def wait(cli: CommandLine) -> str:
    """Return the id of the wait of a job that can be stopped."""

    @tool
    def scan(document: str) -> ToolWait[int]:
        """Scan a document."""
        return external(document, int, within=60)

    @scan.on_cancel
    def stop_scan(document: str) -> None:
        del document

    model = ScriptedModel([ToolCall("scan", {"document": "a"}), "end"])
    runner = Runner(Agent("boss", tools=[scan], model=model), store=cli.store)
    wait = single_wait(runner.start("go", run_id="j1"))
    return wait.id


def test_heartbeat_prints_the_newest_deadline(cli: CommandLine, wait: str) -> None:
    told = cli("heartbeat", wait, "--extend", "3600", "--by", "scanner")
    assert 0 == told.exit_code
    assert told.lines[0].startswith(f"{wait}: the deadline is 20")

    form = json.loads(cli("heartbeat", wait, "--extend", "60", "--json").lines[0])
    assert_matches_schema("extended_job", form)
    assert told.lines[0].endswith(form["deadline"])


def test_heartbeat_with_an_invalid_time_is_an_error(
    cli: CommandLine, wait: str
) -> None:
    assert 0 != cli("heartbeat", wait, "--extend", "0").exit_code
    assert 0 != cli("heartbeat", "j1", "--extend", "60").exit_code


def test_cancel_says_that_a_worker_tells_the_job(cli: CommandLine, wait: str) -> None:
    del wait
    told = cli("cancel", "j1")
    assert "a worker tells its jobs" in told.lines[0]
    assert "next: continuations resume j1" == told.lines[1]
