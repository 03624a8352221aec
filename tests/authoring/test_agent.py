"""Agents: their tools, their words, what they take and what they give."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any, Literal

import pytest
from pydantic import BaseModel, Field
from typing_extensions import TypedDict  # pydantic wants it before Python 3.12

from continuations.authoring.agent import Agent
from continuations.authoring.faults import ArgumentsInvalid, OutputInvalid
from continuations.authoring.subagent import AgentTool
from continuations.authoring.tool import Tool, tool
from continuations.errors import InvalidInput


@tool
def balance(account: str) -> int:
    """Balance in cents."""
    return len(account)


def plain(account: str) -> int:
    """Of a plain function."""
    return len(account)


class Request(BaseModel):
    city: str
    days: int = Field(default=1, ge=1)


@dataclass
class Order:
    city: str
    days: int = 1


class Wish(TypedDict):
    city: str


class Node(BaseModel):
    children: list[Node] = []


class Fake:
    name = "fake-1"

    async def reply(self, request: Any) -> Any:
        return request


# Tools ----------------------------------------------------------------------------


def test_tools_agents_and_functions_are_usable() -> None:
    child = Agent("child")
    agent = Agent("a", tools=[balance, plain, child, child.as_tool("second")])

    assert ["balance", "plain", "child", "second"] == list(agent.toolbox)
    assert balance is agent.tool("balance")
    assert isinstance(agent.tool("plain"), Tool)
    assert isinstance(agent.tool("child"), AgentTool)
    assert agent.tool("missing") is None


def test_specs_are_what_a_model_is_told() -> None:
    agent = Agent("a", tools=[balance])

    expected = [("balance", "Balance in cents.", balance.parameters)]
    assert expected == agent.specs


def test_agents_may_call_each_other_in_a_circle() -> None:
    calls: list[str] = []

    def tools() -> list[Agent]:
        calls.append("asked")
        return [second, first]

    first = Agent("first", tools=tools)
    second = Agent("second", tools=[first])

    found = first.tool("second")
    assert isinstance(found, AgentTool)
    back = found.agent.tool("first")
    assert isinstance(back, AgentTool)
    assert first is back.agent
    assert first is back.agent.toolbox["first"].agent  # type: ignore[union-attr]  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType]
    assert ["asked"] == calls


@pytest.mark.parametrize(
    ("tools", "named"),
    [
        ([balance, balance], "two tools named balance"),
        ([balance, Agent("balance")], "two tools named balance"),
        ([Agent("no good")], "a tool's name is 1 to 64"),
        ([Agent("x" * 65)], "a tool's name is 1 to 64"),
        ([3], "neither a tool nor an agent"),
        ([None], "neither a tool nor an agent"),
        (balance, "its tools are a list"),
        ("balance", "its tools are a list"),
        ({"balance": balance}, "its tools are a list"),
        (lambda: balance, "its tools are a list"),
        ([lambda: 1], "<lambda>"),
    ],
)
def test_unsound_tools_are_refused_on_first_use(tools: Any, named: str) -> None:
    agent = Agent("head", tools=tools)

    with pytest.raises(InvalidInput, match="agent head") as caught:
        _ = agent.toolbox

    assert named in str(caught.value)


def test_a_root_agent_may_have_any_name() -> None:
    assert "Human Resources, 2nd floor" == Agent("Human Resources, 2nd floor").name


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("", {}),
        (3, {}),
        ("a", {"instructions": None}),
        ("a", {"model": 3}),
        ("a", {"max_turns": 0}),
    ],
)
def test_an_unsound_agent_is_refused(name: Any, options: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput):
        Agent(name, **options)


def test_models_have_names() -> None:
    assert Agent("a").model_name is None
    assert "gpt" == Agent("a", model="gpt").model_name
    assert "fake-1" == Agent("a", model=Fake()).model_name


def test_settings_are_a_copy() -> None:
    given = {"temperature": 0}
    agent = Agent("a", settings=given)
    given["temperature"] = 2

    assert {"temperature": 0} == agent.settings


def test_the_prompt_digest_follows_the_instructions() -> None:
    one, same, other = (Agent("a", instructions=text) for text in ("x", "x", "y"))

    assert one.prompt_digest == same.prompt_digest
    assert one.prompt_digest != other.prompt_digest
    assert "x" == one.system_message


# As a tool ------------------------------------------------------------------------


def test_an_agent_takes_one_string() -> None:
    child = Agent("child", description="Knows the weather.").as_tool()

    assert "Knows the weather." == child.description
    assert ["input"] == list(child.parameters["properties"])
    assert ["input"] == child.parameters["required"]
    assert "hello" == child.opening(child.bind('{"input":"hello"}'))
    with pytest.raises(ArgumentsInvalid):
        child.bind('{"input":3}')


def test_an_agent_can_be_given_other_words() -> None:
    child = Agent("child").as_tool(name="ask", description="Ask it.", approval=True)

    assert ("ask", "Ask it.") == (child.name, child.description)
    assert child.approval is not None
    assert not child.repeatable
    assert (None, None, None) == (child.timeout, child.verify, child.version)


@pytest.mark.parametrize(
    ("type_", "properties", "written", "opening"),
    [
        (str, ["input"], '{"input":"a"}', "a"),
        (Request, ["city", "days"], '{"city":"a"}', '{"city":"a","days":1}'),
        (Order, ["city", "days"], '{"city":"a"}', '{"city":"a","days":1}'),
        (Wish, ["city"], '{"city":"a"}', '{"city":"a"}'),
        (Node, ["children"], '{"children":[{}]}', '{"children":[{"children":[]}]}'),
        (list[int], ["input"], '{"input":[1]}', '{"input":[1]}'),
        (int, ["input"], '{"input":1}', '{"input":1}'),
        (Literal["a"], ["input"], '{"input":"a"}', '{"input":"a"}'),
        (dict[str, int], ["input"], '{"input":{"a":1}}', '{"input":{"a":1}}'),
        (Request | Node, ["input"], '{"input":{}}', '{"input":{"children":[]}}'),
    ],
)
def test_an_agent_takes_a_type(
    type_: Any, properties: list[str], written: str, opening: str
) -> None:
    child = Agent("child", input_type=type_).as_tool()

    assert "object" == child.parameters["type"]
    assert properties == list(child.parameters["properties"])
    assert opening == child.opening(child.bind(written))


@pytest.mark.parametrize("type_", [Request, Order, Wish])
def test_a_policy_sees_the_fields_of_a_type(type_: Any) -> None:
    def far(city: str) -> bool:
        return city == "far"

    child = Agent("child", input_type=type_).as_tool(approval=far)

    assert asyncio.run(child.needs_approval(child.bind('{"city":"far"}')))
    assert not asyncio.run(child.needs_approval(child.bind('{"city":"near"}')))


def test_an_input_type_is_refused_by_name() -> None:
    class Opaque:
        pass

    child = Agent("child", input_type=Opaque).as_tool()

    with pytest.raises(InvalidInput, match="agent child: its input_type"):
        _ = child.parameters


# What it gives ----------------------------------------------------------------------


@pytest.mark.parametrize("type_", [None, str])
def test_without_a_type_the_output_is_the_text(type_: Any) -> None:
    agent = Agent("a", output_type=type_)

    assert "anything" == agent.parse_output("anything")
    assert agent.response_format is None


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
    ("text", "named"),
    [
        ("It is fine.", "The output is not valid JSON"),
        ("", "The output is not valid JSON"),
        ("[" * 100_000, "too deep"),
        ('{"days":2}', "- city: Field required"),
        ('{"city":"a","days":0}', "- days: Input should be greater than"),
        ('{"city":"a","city":"b"}', "twice"),
    ],
)
def test_another_output_is_refused_in_words(text: str, named: str) -> None:
    with pytest.raises(OutputInvalid) as caught:
        Agent("a", output_type=Request).parse_output(text)

    assert named in str(caught.value)


def test_a_provider_is_asked_for_the_type() -> None:
    asked = Agent("a", output_type=Request).response_format

    assert asked is not None
    assert "json_schema" == asked["type"]
    assert "Request" == asked["json_schema"]["name"]
    assert ["city", "days"] == list(asked["json_schema"]["schema"]["properties"])


def test_what_is_no_object_is_wrapped_in_one() -> None:
    asked = Agent("a", output_type=list[Node]).response_format

    assert asked is not None
    schema = asked["json_schema"]["schema"]
    assert ("object", ["output"]) == (schema["type"], list(schema["properties"]))
    assert ["Node"] == list(schema["$defs"])
