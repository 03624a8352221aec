"""A run with a budget can be started by an event of AWS Lambda."""

from __future__ import annotations

from continuations import Agent, tool
from continuations.models.scripted import ScriptedModel, ToolCall
from continuations.serve.aws_lambda import handler
from tests.serve.aws.test_handler_options import Context


@tool
def look_up(what: str) -> str:
    """Look up."""
    return what


def test_run_with_a_budget_ends_when_it_is_used_up() -> None:
    model = ScriptedModel([ToolCall("look_up", {"what": "x"}), "never reached"])
    agent = Agent("boss", tools=[look_up], model=model)
    handle = handler(store="memory:", agents=lambda: agent)

    outcome = handle({"start": {"input": "go", "budget": {"requests": 1}}}, Context())
    handle.close()

    assert ("failed", "budget") == (outcome["status"], outcome["failure"]["code"])
