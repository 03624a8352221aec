"""The options of agents, their tools, their input and their output."""

from __future__ import annotations

import asyncio
import inspect
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import pytest
from pydantic import BaseModel, Field
from typing_extensions import TypedDict  # pydantic wants it before Python 3.12

from continuations.authoring.agent.agent import Agent, AgentTool
from continuations.authoring.agent.agent_options import OPTIONS
from continuations.authoring.errors import ArgumentsInvalid, OutputInvalid
from continuations.authoring.tool.tool import Tool, tool
from continuations.authoring.tool.tool_options import SchemaToolOptions, ToolOptions
from continuations.errors import InvalidInput


@tool
def balance(account: str) -> int:
    """Balance in cents."""
    return len(account)


def plain_balance(account: str) -> int:
    """Return the balance in cents."""
    return len(account)


class Request(BaseModel):
    city: str
    days: int = Field(default=1, ge=1)


@dataclass
class Order:
    city: str
    days: int = 1


class TripRequest(TypedDict):
    city: str


class Node(BaseModel):
    children: list[Node] = []


class FakeModel:
    name = "fake-1"

    async def reply(self, request: Any) -> Any:
        return request


# Tools ------------------------------------------------------------------------


def test_tools_agents_and_functions_are_usable() -> None:
    child = Agent("child")
    agent = Agent("a", tools=[balance, plain_balance, child, child.as_tool("second")])

    assert ["balance", "plain_balance", "child", "second"] == list(agent.tools_by_name)
    assert balance is agent.get_tool("balance")
    assert isinstance(agent.get_tool("plain_balance"), Tool)
    assert isinstance(agent.get_tool("child"), AgentTool)
    assert agent.get_tool("missing") is None


def test_agents_may_call_each_other_recursively() -> None:
    calls: list[str] = []

    def tools() -> list[Agent]:
        calls.append("asked")
        return [second, first]

    first = Agent("first", tools=tools)
    second = Agent("second", tools=[first])

    found = first.get_tool("second")
    assert isinstance(found, AgentTool)
    back = found.sub_agent.get_tool("first")
    assert isinstance(back, AgentTool)
    assert first is back.sub_agent
    assert first is back.sub_agent.tools_by_name["first"].sub_agent
    assert ["asked"] == calls


@pytest.mark.parametrize(
    ("tools", "expected_text"),
    [
        ([balance, balance], "two tools named balance"),
        ([balance, Agent("balance")], "two tools named balance"),
        ([Agent("no good")], "a tool's name must be 1 to 64"),
        ([Agent("x" * 65)], "a tool's name must be 1 to 64"),
        ([3], "tools must be a list of functions"),
        ([None], "tools must be a list of functions"),
        (balance, "tools must be a list, or a function"),
        ("balance", "tools must be a list, or a function"),
        ({"balance": balance}, "tools must be a list, or a function"),
        ([lambda: 1], "a lambda has no name and no types"),
    ],
)
def test_invalid_tools_are_rejected_when_the_agent_is_made(
    tools: Any, expected_text: str
) -> None:
    with pytest.raises(InvalidInput, match="agent head") as caught:
        Agent("head", tools=tools)

    assert expected_text in str(caught.value)


@pytest.mark.parametrize(
    ("tools", "expected_text"),
    [
        (lambda: [balance, balance], "two tools named balance"),
        (lambda: balance, "tools must be a list, or a function"),
    ],
)
def test_tools_of_a_function_are_checked_on_first_use(
    tools: Any, expected_text: str
) -> None:
    agent = Agent("head", tools=tools)

    with pytest.raises(InvalidInput, match="agent head") as caught:
        _ = agent.tools_by_name

    assert expected_text in str(caught.value)


def test_a_root_agent_may_have_any_name() -> None:
    assert "Human Resources, 2nd floor" == Agent("Human Resources, 2nd floor").name


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("", {}),
        (3, {}),
        ("a", {"instructions": None}),
        ("a", {"description": 3}),
        ("a", {"model": 3}),
        ("a", {"max_turns": 0}),
        ("a", {"max_turns": True}),
        ("a", {"output_type": "int"}),
        ("a", {"settings": 3}),
    ],
)
def test_invalid_agent_option_error_names_the_option(
    name: Any, options: dict[str, Any]
) -> None:
    with pytest.raises(InvalidInput) as caught:
        Agent(name, **options)

    assert f"{next(iter(options), 'name')} must be" in str(caught.value)


def test_wrong_model_is_named_by_its_type_only() -> None:
    """A client of a model may show its API key, or fail to show itself."""

    class Client:
        def __repr__(self) -> str:
            raise AssertionError

    client: Any = Client()
    with pytest.raises(InvalidInput, match=r"and `reply`, got Client\.$"):
        Agent("a", model=client)


def test_context_type_that_is_no_class_is_refused_with_the_alternative() -> None:
    with pytest.raises(InvalidInput, match="or None for any object"):
        Agent("a", context_type=Any)


def test_models_have_names() -> None:
    assert Agent("a").model_name is None
    assert "gpt" == Agent("a", model="gpt").model_name
    assert "fake-1" == Agent("a", model=FakeModel()).model_name


def test_settings_are_a_copy() -> None:
    settings = {"temperature": 0}
    agent = Agent("a", settings=settings)
    settings["temperature"] = 2

    assert {"temperature": 0} == agent.settings


def test_instructions_digest_changes_with_the_instructions() -> None:
    one, same, other = (Agent("a", instructions=text) for text in ("x", "x", "y"))

    assert one.instructions_digest == same.instructions_digest
    assert one.instructions_digest != other.instructions_digest


# An agent as a tool -----------------------------------------------------------


def test_agent_tool_takes_one_string_by_default() -> None:
    child = Agent("child", description="Knows the weather.").as_tool()

    assert "Knows the weather." == child.description
    assert ["input"] == list(child.parameters["properties"])
    assert ["input"] == child.parameters["required"]
    assert "hello" == child.sub_agent.first_user_message(
        child.effective_arguments('{"input":"hello"}')
    )
    with pytest.raises(ArgumentsInvalid):
        child.effective_arguments('{"input":3}')


def test_as_tool_overrides_name_and_description() -> None:
    child = Agent("child").as_tool(name="ask", description="Ask it.", approval=True)

    assert ("ask", "Ask it.") == (child.name, child.description)
    assert child.approval is not None
    assert not child.repeatable
    assert (None, None, None) == (child.timeout, child.verify, child.version)


@pytest.mark.parametrize(
    ("type_", "properties", "raw_arguments", "first_message"),
    [
        (str, ["input"], '{"input":"a"}', "a"),
        (Request, ["city", "days"], '{"city":"a"}', '{"city":"a","days":1}'),
        (Order, ["city", "days"], '{"city":"a"}', '{"city":"a","days":1}'),
        (TripRequest, ["city"], '{"city":"a"}', '{"city":"a"}'),
        (Node, ["children"], '{"children":[{}]}', '{"children":[{"children":[]}]}'),
        (list[int], ["input"], '{"input":[1]}', '{"input":[1]}'),
        (int, ["input"], '{"input":1}', '{"input":1}'),
        (Literal["a"], ["input"], '{"input":"a"}', '{"input":"a"}'),
        (dict[str, int], ["input"], '{"input":{"a":1}}', '{"input":{"a":1}}'),
        (Request | Node, ["input"], '{"input":{}}', '{"input":{"children":[]}}'),
    ],
)
def test_agent_tool_takes_its_input_type(
    type_: Any, properties: list[str], raw_arguments: str, first_message: str
) -> None:
    child = Agent("child", input_type=type_).as_tool()

    assert "object" == child.parameters["type"]
    assert properties == list(child.parameters["properties"])
    assert first_message == child.sub_agent.first_user_message(
        child.effective_arguments(raw_arguments)
    )


@pytest.mark.parametrize("type_", [Request, Order, TripRequest])
def test_a_policy_sees_the_fields_of_a_type(type_: Any) -> None:
    def far(city: str) -> bool:
        return city == "far"

    child = Agent("child", input_type=type_).as_tool(approval=far)

    assert asyncio.run(
        child.needs_approval(child.effective_arguments('{"city":"far"}'))
    )
    assert not asyncio.run(
        child.needs_approval(child.effective_arguments('{"city":"near"}'))
    )


def test_unsupported_input_type_error_names_the_agent() -> None:
    class Opaque:
        pass

    child = Agent("child", input_type=Opaque).as_tool()

    with pytest.raises(InvalidInput, match="agent child: input_type"):
        _ = child.parameters


# Output -----------------------------------------------------------------------


@pytest.mark.parametrize("type_", [None, str])
def test_without_a_type_the_output_is_the_text(type_: Any) -> None:
    agent = Agent("a", output_type=type_)

    assert "anything" == agent.parse_output("anything")
    assert agent.output_schema is None


@pytest.mark.parametrize(
    ("type_", "text", "expected"),
    [
        (Request, '{"city":"a"}', Request(city="a")),
        (Order, '{"city":"a"}', Order("a")),
        (list[int], '{"output":[1]}', [1]),
        (list[int], "[1]", [1]),
        (int, " 3 ", 3),
        (dict[str, int], '{"output":{"a":1}}', {"a": 1}),
        (dict[str, int], '{"a":1}', {"a": 1}),
        (Literal["yes", "no"], '{"output":"yes"}', "yes"),
    ],
)
def test_a_declared_output_is_parsed(type_: Any, text: str, expected: Any) -> None:
    assert expected == Agent("a", output_type=type_).parse_output(text)


@pytest.mark.parametrize(
    ("text", "expected_text"),
    [
        ("It is fine.", "The output is not valid JSON"),
        ("", "The output is not valid JSON"),
        ("[" * 100_000, "nested deeper"),
        ('{"days":2}', "- city: Field required"),
        ('{"city":"a","days":0}', "- days: Input should be greater than"),
        ('{"city":"a","city":"b"}', "twice"),
    ],
)
def test_invalid_output_error_names_the_problem(text: str, expected_text: str) -> None:
    with pytest.raises(OutputInvalid) as caught:
        Agent("a", output_type=Request).parse_output(text)

    assert expected_text in str(caught.value)


def test_output_schema_describes_the_output_type() -> None:
    output = Agent("a", output_type=Request).output_schema

    assert output is not None
    assert "Request" == output.name
    assert ["city", "days"] == list(output.schema["properties"])


def test_output_type_that_is_no_object_is_wrapped_in_an_object() -> None:
    output = Agent("a", output_type=list[Node]).output_schema

    assert output is not None
    assert ("object", ["output"]) == (
        output.schema["type"],
        list(output.schema["properties"]),
    )
    assert ["Node"] == list(output.schema["$defs"])


def test_signature_of_agent_names_each_option_with_its_default() -> None:
    class Support(Agent[str]):
        model = "gpt-5-mini"

    class Shop(Agent[str]):
        def __init__(self, shop: str) -> None:
            super().__init__(shop)

    options = inspect.signature(Agent).parameters

    assert ["name", *OPTIONS] == list(options)
    assert 100 == options["max_turns"].default
    assert "int | None" == options["max_turns"].annotation
    assert "gpt-5-mini" == inspect.signature(Support).parameters["model"].default
    assert ["shop"] == list(inspect.signature(Shop).parameters)


def test_signature_of_tool_names_each_option_with_its_default() -> None:
    parameters = inspect.signature(tool).parameters

    assert {"function", *ToolOptions.__annotations__} == set(parameters)
    assert "unknown" == parameters["on_timeout"].default
    of_schema = inspect.signature(Tool.from_schema).parameters
    assert {"name", "schema", "function", *SchemaToolOptions.__annotations__} == set(
        of_schema
    )
    assert "" == of_schema["description"].default


def test_option_of_other_packages_names_the_page_that_helps() -> None:
    options: Any = {"mcp_servers": []}
    page = "docs/how-to/mcp-client.md"

    with pytest.raises(InvalidInput, match=re.escape(page)):
        Agent("support", **options)
    with pytest.raises(InvalidInput, match=re.escape(page)):
        type("Support", (Agent,), options)("support")

    assert (Path(__file__).parents[2] / page).exists()
