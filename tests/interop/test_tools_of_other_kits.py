"""Tools of LangChain, the OpenAI Agents SDK and Pydantic AI as tools."""

from __future__ import annotations

import json
from typing import Annotated, Any

import agents
import pydantic_ai
import pytest
from langchain_core.tools import (
    InjectedToolArg,
    InjectedToolCallId,
    StructuredTool,
    ToolException,
)
from langchain_core.tools import Tool as SingleInputTool
from langchain_core.tools import tool as langchain_tool
from pydantic_ai import ModelRetry, RunContext

from continuations import Agent, Approve, AsyncRunner, Finished
from continuations.errors import InvalidInput
from continuations.interop.langchain import from_langchain
from continuations.interop.openai_agents import from_openai_agents
from continuations.interop.pydantic_ai import from_pydantic_ai
from continuations.models.scripted import ScriptedModel, ToolCall
from tests.outcomes import single_wait

ARGUMENTS = {"city": "Rome", "days": 2}


def forecast(city: str, days: int = 3) -> dict[str, Any]:
    """Return the forecast of a city.

    Args:
        city: The city.
        days: How many days.
    """
    if city == "Atlantis":
        raise LookupError("no such city")
    return {"city": city, "days": days}


async def async_forecast(city: str, days: int = 3) -> dict[str, Any]:
    """Return the forecast of a city."""
    return forecast(city, days)


def langchain(function: Any, **options: Any) -> Any:
    return from_langchain(langchain_tool("forecast")(function), **options)


def openai(function: Any, **options: Any) -> Any:
    made = agents.function_tool(name_override="forecast", strict_mode=False)(function)
    return from_openai_agents(made, **options)


def pydantic(function: Any, **options: Any) -> Any:
    return from_pydantic_ai(pydantic_ai.Tool(function, name="forecast"), **options)


KITS = pytest.mark.parametrize("kit", [langchain, openai, pydantic])


async def results(tool: Any, *calls: dict[str, Any], **options: Any) -> list[str]:
    """Return what the model reads after some calls, each in its own turn."""
    script: Any = [*[ToolCall(tool.name, each) for each in calls], "Done."]
    agent = Agent("travel", tools=[tool], model=ScriptedModel(script))
    outcome = await AsyncRunner(agent, store="memory:").start("Go", **options)
    assert isinstance(outcome, Finished)
    messages = outcome.continuation.root.messages
    return [each["content"] for each in messages if each["role"] == "tool"]


@KITS
async def test_name_description_schema_and_result_are_those_of_the_other_kit(
    kit: Any,
) -> None:
    for function in (forecast, async_forecast):
        tool = kit(function)
        assert tool.name == "forecast"
        assert "Return the forecast of a city." in tool.description
        properties = tool.parameters["properties"]
        assert properties["days"]["default"] == 3
        (text,) = await results(tool, ARGUMENTS)
        assert json.loads(text) == ARGUMENTS


@KITS
async def test_wrong_arguments_and_exceptions_are_failed_calls(kit: Any) -> None:
    wrong: list[dict[str, Any]] = [
        {"days": 2},
        {"city": "Rome", "days": "many"},
        {"city": "Atlantis"},
    ]
    texts = await results(kit(forecast), *wrong)
    assert all(each.startswith("ERROR") for each in texts)
    assert "LookupError: no such city" in texts[2]


@KITS
async def test_effect_flags_are_those_of_the_user(kit: Any) -> None:
    """Nothing is guessed: without a flag, a tool has effects and may not repeat."""
    plain = kit(forecast)
    assert (plain.read_only, plain.idempotent, plain.approval) == (False, False, None)
    assert plain.timeout is None
    made = kit(forecast, read_only=True, timeout=5, approval=True, version="2")
    assert made.read_only
    assert made.timeout == 5
    assert made.approval is not None
    with pytest.raises(InvalidInput, match="read_only must be bool"):
        kit(forecast, read_only="yes")
    with pytest.raises(InvalidInput):
        kit(forecast, effects="none")


@KITS
async def test_the_function_gets_the_arguments_that_were_approved(kit: Any) -> None:
    given: list[Any] = []

    def pay(city: str, days: int = 3) -> str:
        """Pay."""
        given.append((city, days))
        return "paid"

    model = ScriptedModel([ToolCall("forecast", {"city": "Rome"}), "Done."])
    agent = Agent("travel", tools=[kit(pay, approval=True)], model=model)
    runner = AsyncRunner(agent, store="memory:")
    wait = single_wait(await runner.start("Go", run_id="r"))
    assert wait.arguments == {"city": "Rome", "days": 3}
    edited = Approve(arguments={"city": "Oslo", "days": 1})
    await runner.decide(wait.id, edited)
    await runner.resume("r")
    assert given == [("Oslo", 1)]


# Approvals that the other kit demands ---------------------------------------


def _openai_with_approval(**options: Any) -> Any:
    made = agents.function_tool(needs_approval=True)(forecast)
    return from_openai_agents(made, **options)


def _openai_with_condition(**options: Any) -> Any:
    async def needs(*_: Any) -> bool:
        return False

    made = agents.function_tool(needs_approval=needs)(forecast)
    return from_openai_agents(made, **options)


def _pydantic_with_approval(**options: Any) -> Any:
    made = pydantic_ai.Tool(forecast, requires_approval=True)
    return from_pydantic_ai(made, **options)


def is_rome(city: str) -> bool:
    return city == "Rome"


@pytest.mark.parametrize(
    "make", [_openai_with_approval, _openai_with_condition, _pydantic_with_approval]
)
def test_a_tool_is_never_less_strict_than_in_the_other_kit(make: Any) -> None:
    assert make().approval.when is None  # every call asks
    assert make(approval=None).approval.when is None
    with pytest.raises(InvalidInput, match="approval=False would drop it"):
        make(approval=False)
    assert make(approval=is_rome).approval.when is is_rome


# Contexts -------------------------------------------------------------------


async def test_injected_arguments_of_langchain_come_from_the_user() -> None:
    @langchain_tool
    def book(city: str, user: Annotated[str, InjectedToolArg]) -> str:
        """Book."""
        return f"{city} for {user}"

    with pytest.raises(InvalidInput, match="argument user of tool book is injected"):
        from_langchain(book)
    tool = from_langchain(book, injected={"user": lambda ctx: ctx.context})
    assert list(tool.parameters["properties"]) == ["city"]
    asked = [{"city": "Rome"}, {"city": "Rome", "user": "eve"}]
    good, forged = await results(tool, *asked, context="kim")
    assert good == "Rome for kim"
    assert forged.startswith("ERROR")
    with pytest.raises(InvalidInput, match="no injected argument city"):
        from_langchain(book, injected={"user": str, "city": str})


async def test_langchain_tools_get_the_id_of_the_call() -> None:
    @langchain_tool
    def book(city: str, call: Annotated[str, InjectedToolCallId]) -> str:
        """Book."""
        return f"{city} in {call}"

    (text,) = await results(from_langchain(book), {"city": "Rome"})
    assert text.startswith("Rome in c")


async def test_a_langchain_tool_with_one_text_is_a_tool() -> None:
    made = SingleInputTool(name="up", func=str.upper, description="Shout.")
    assert await results(from_langchain(made), {"tool_input": "a"}) == ["A"]


async def test_a_handled_error_of_langchain_is_a_failed_call() -> None:
    def book(city: str) -> str:
        """Book."""
        raise ToolException(f"{city} is full")

    made = StructuredTool.from_function(book, handle_tool_error=True)
    (text,) = await results(from_langchain(made), {"city": "Rome"})
    assert text.startswith("ERROR")
    assert "Rome is full" in text


async def test_an_error_text_of_the_agents_sdk_does_not_hide_a_failed_call() -> None:
    def explain(_ctx: Any, _error: Exception) -> str:
        return "all is well"

    made = agents.function_tool(failure_error_function=explain, strict_mode=False)
    (text,) = await results(from_openai_agents(made(forecast)), {"city": "Atlantis"})
    assert text.startswith("ERROR")
    assert "no such city" in text


async def test_the_context_of_the_run_reaches_the_other_kits() -> None:
    def of_sdk(ctx: agents.RunContextWrapper[Any], city: str) -> str:
        """Book."""
        return f"{city} for {ctx.context}"

    def of_pydantic(ctx: RunContext[Any], city: str) -> str:
        """Book."""
        return f"{city} for {ctx.deps}"

    sdk = agents.function_tool(of_sdk)
    ours = pydantic_ai.Tool(of_pydantic)
    asked = {"city": "Rome"}
    expected = {"kim": "Rome for kim", "tom": "Rome for tom"}
    for made in (from_openai_agents(sdk), from_pydantic_ai(ours)):
        assert await results(made, asked, context="kim") == [expected["kim"]]
    for made in (
        from_openai_agents(sdk, context=lambda _ctx: "tom"),
        from_pydantic_ai(ours, deps=lambda _ctx: "tom"),
    ):
        assert await results(made, asked, context="kim") == [expected["tom"]]


async def test_a_tool_that_needs_the_model_of_pydantic_ai_fails() -> None:
    def ask(ctx: RunContext[Any], city: str) -> str:
        """Ask."""
        return f"{city} {ctx.model.model_name}"

    (text,) = await results(from_pydantic_ai(pydantic_ai.Tool(ask)), {"city": "Rome"})
    assert "ctx.model.model_name is not there" in text


async def test_checks_of_pydantic_ai_run_and_its_retry_is_a_failed_call() -> None:
    def check(_ctx: RunContext[Any], city: str) -> None:
        if city != "Rome":
            raise ModelRetry("only Rome")

    def book(city: str) -> str:
        """Book."""
        return city

    tool = from_pydantic_ai(pydantic_ai.Tool(book, args_validator=check))
    good, refused = await results(tool, {"city": "Rome"}, {"city": "Oslo"})
    assert good == "Rome"
    assert "only Rome" in refused


# What cannot be carried over ------------------------------------------------


def test_what_would_be_lost_is_refused() -> None:
    @agents.tool_input_guardrail
    def guard(_data: Any) -> Any:
        return agents.ToolGuardrailFunctionOutput.allow()

    guarded = agents.function_tool(forecast, strict_mode=False)
    guarded.tool_input_guardrails = [guard]
    with pytest.raises(InvalidInput, match="would lose its guardrails"):
        from_openai_agents(guarded)
    hidden = agents.function_tool(is_enabled=False, strict_mode=False)(forecast)
    with pytest.raises(InvalidInput, match="would lose its is_enabled"):
        from_openai_agents(hidden)
    assert from_openai_agents(hidden, is_enabled=False).is_enabled is False
    agent_tool = agents.Agent(name="a").as_tool("a", "An agent")
    with pytest.raises(InvalidInput, match="Make an Agent"):
        from_openai_agents(agent_tool)

    async def prepare(_ctx: Any, definition: Any) -> Any:
        return definition

    with pytest.raises(InvalidInput, match="would lose its prepare function"):
        from_pydantic_ai(pydantic_ai.Tool(forecast, prepare=prepare))


@pytest.mark.parametrize("make", [from_langchain, from_openai_agents, from_pydantic_ai])
def test_another_value_is_no_tool(make: Any) -> None:
    for value in (forecast, None, agents.WebSearchTool()):
        with pytest.raises(InvalidInput, match="tool must be a"):
            make(value)
