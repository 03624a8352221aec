"""The limit that a person gives in the console holds for every type of an argument."""

from __future__ import annotations

from typing import Any

import pytest

from continuations import Agent, AsyncRunner, tool
from continuations.models.scripted import ScriptedModel, ToolCall
from tests.outcomes import single_wait
from tests.serve.console.console_client import ConsoleClient
from tests.serve.pages.html_forms import PageForms


@pytest.mark.parametrize("later", ["99999", 6, True])
async def test_grant_of_at_most_covers_numbers_only(later: Any) -> None:
    """A text is no number, so a limit says nothing about it: a person is asked."""
    paid: list[object] = []

    @tool(approval=True)
    def pay(cents: int | str | bool) -> str:
        """Pay."""
        paid.append(cents)
        return "paid"

    calls = [ToolCall("pay", {"cents": each}) for each in (5, 4, later)]
    agent = Agent("clerk", tools=[pay], model=ScriptedModel([*calls, "done"]))
    runner = AsyncRunner(agent, store="memory:")
    wait = single_wait(await runner.start("go", run_id="r"))
    client = ConsoleClient(runner)
    path = f"/waits/{wait.id}/remember"
    page = await client.get(path)
    form = PageForms(page.text).forms["approve"]
    done = await client.post(path, {**form, "rule:cents": "most", "until": "run"})
    assert "Recorded: Approved" in done.text

    wait = single_wait(await runner.resume("r"))
    assert [5, 4] == paid
    assert {"cents": later} == wait.arguments
