"""Instructions that a function writes when a conversation starts."""

from __future__ import annotations

from typing import Any

import pytest

from continuations import Agent, Approve, Finished, Outcome, Runner, run, tool
from continuations.authoring.manifest import compare_manifests, make_manifest
from continuations.errors import InvalidInput, RunNotFound
from continuations.models.scripted import ScriptedModel, ToolCall
from continuations_storage import MemoryStore
from tests.engine.agent_builders import root_tool_results
from tests.engine.payment_agent import single_wait
from tests.outcomes import expect


def _system_texts(outcome: Outcome) -> list[str]:
    messages = outcome.continuation.root.messages
    return [each["content"] for each in messages if each["role"] == "system"]


def greet(task: Any, context: Any) -> str:
    return f"Help {context}: {task}"


async def greet_later(task: Any, context: Any) -> str:
    return greet(task, context)


@pytest.mark.parametrize("function", [greet, greet_later])
def test_function_gets_the_input_and_the_context(function: Any) -> None:
    agent = Agent("clerk", instructions=function, model=ScriptedModel(["Done."]))

    assert ["Help kim: pay"] == _system_texts(run(agent, "pay", context="kim"))
    messages = [{"role": "user", "content": "pay"}]
    assert [f"Help kim: {messages}"] == _system_texts(
        run(agent, messages, context="kim")
    )


def test_resume_does_not_call_the_function_again() -> None:
    calls: list[str] = []

    def count(task: str, context: object) -> str:
        calls.append(f"{task} {context}")
        return f"Version {len(calls)}"

    @tool(approval=True)
    def pay() -> str:
        """Pay."""
        return "paid"

    model = ScriptedModel([ToolCall("pay"), "Done."])
    agent = Agent("clerk", instructions=count, tools=[pay], model=model)
    runner = Runner(agent, store=MemoryStore())
    runner.decide(single_wait(runner.start("go", run_id="r1")).id, Approve())

    outcome = runner.resume("r1")

    assert ["go None"] == calls
    assert ["Version 1"] == _system_texts(outcome)
    assert "Version 1" == model.requests[-1].messages[0].content


def test_repeated_start_of_the_same_input_is_the_same_run() -> None:
    """The text of the function is no part of the input."""
    texts = iter("abc")
    model = ScriptedModel(["Done."])
    agent = Agent("clerk", instructions=lambda _i, _c: next(texts), model=model)
    runner = Runner(agent, store="memory:")

    runner.start("go", run_id="r1")
    again = expect(runner.start("go", run_id="r1"), Finished)

    assert ["a"] == _system_texts(again)


def test_function_of_a_sub_agent_gets_its_task() -> None:
    child = Agent("child", instructions=greet, model=ScriptedModel(["Done."]))
    model = ScriptedModel([ToolCall("child", {"input": "Book it."}), "Done."])

    outcome = run(Agent("boss", tools=[child], model=model), "go", context="kim")

    assert isinstance(outcome, Finished)
    sub_model = expect(child.model, ScriptedModel)
    assert "Help kim: Book it." == sub_model.requests[0].messages[0].content


def fail(task: object, context: object) -> str:
    raise LookupError(f"a secret {task} {context}")


def return_nothing(task: object, context: object) -> Any:
    del task, context


@pytest.mark.parametrize("function", [fail, return_nothing])
def test_function_of_a_root_agent_that_fails_starts_nothing(function: Any) -> None:
    agent = Agent("clerk", instructions=function, model=ScriptedModel(["Done."]))
    runner = Runner(agent, store="memory:")

    with pytest.raises(InvalidInput, match="the instructions function") as told:
        runner.start("go", run_id="r1")

    assert "secret" not in str(told.value)
    with pytest.raises(RunNotFound):
        runner.look("r1")


def test_function_of_a_sub_agent_that_fails_is_an_error_for_its_parent() -> None:
    child = Agent("child", instructions=fail, model=ScriptedModel([]))
    model = ScriptedModel([ToolCall("child", {"input": "A"}), "Done."])

    outcome = expect(run(Agent("boss", tools=[child], model=model), "go"), Finished)

    expected = "ERROR: the call was not executed: the instructions of the agent raised"
    assert [f"{expected} LookupError."] == root_tool_results(outcome)


def take_one(task: str) -> str:
    return task


@pytest.mark.parametrize("value", [5, take_one, len, None])
def test_instructions_of_another_form_are_refused(value: Any) -> None:
    with pytest.raises(InvalidInput, match=r"a function of \(input, context"):
        Agent("clerk", instructions=value)


def test_manifest_names_the_function_and_not_its_text() -> None:
    def manifest(instructions: Any) -> str:
        return make_manifest(Agent("a", instructions=instructions), sdk_version="1")

    assert () == compare_manifests(manifest(greet), manifest(greet))
    [change] = compare_manifests(manifest(greet), manifest(greet_later))
    assert "the instructions changed" == change.what
    assert manifest("greet") != manifest(greet)
