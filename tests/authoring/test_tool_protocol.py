"""An object with the members of the protocol is a tool, whatever its class."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any, Literal

import pytest

from continuations.authoring.agent.agent import Agent
from continuations.authoring.context import ToolContext
from continuations.authoring.manifest import make_manifest
from continuations.authoring.tool.tool import Tool, tool
from continuations.authoring.tool.tool_protocol import ToolProtocol, is_tool
from continuations.core import jsontext
from continuations.errors import InvalidInput


@tool
def balance(account: str) -> int:
    """Return the balance in cents."""
    return len(account)


def echo(arguments: dict[str, Any]) -> dict[str, Any]:
    return arguments


class OwnTool:
    """A tool with all members of the protocol, and no base class."""

    description = "Return the balance."
    schema_json = '{"type":"object"}'
    contract_digest = "c" * 64
    model_text_digest = "d" * 64
    version = None
    approval = None
    read_only = True
    repeatable = True
    verifiable = False
    timeout = None
    on_timeout: Literal["unknown"] = "unknown"
    sub_agent = None
    secrets: tuple[str, ...] = ()
    retries = None
    on_error = None
    writes_state = False

    def __init__(self, name: str) -> None:
        self.name = name
        self.parameters: dict[str, Any] = {"type": "object"}

    def effective_arguments(self, raw_arguments: str) -> str:
        return jsontext.canonical(jsontext.parse(raw_arguments))

    def find_edit_difference(self, edited_arguments: str) -> str | None:
        return None if edited_arguments == "{}" else "arguments"

    def display_call(self, arguments_json: str) -> None:
        del arguments_json

    async def enabled(self, context: object) -> bool:
        return context is not False

    async def needs_approval(self, arguments_json: str) -> bool:
        return not arguments_json

    async def invoke(self, arguments_json: str, ctx: ToolContext) -> str:
        return f"{ctx.call_id} {arguments_json}"

    @property
    def continues(self) -> bool:
        return False

    @property
    def cancels(self) -> bool:
        return False

    async def cancel_call(self, arguments_json: str, ctx: ToolContext) -> None:
        del arguments_json, ctx

    def check_answer(self, answer_json: str) -> None:
        del answer_json

    async def receive_answer(
        self, arguments_json: str, answer_json: str, ctx: ToolContext
    ) -> str:
        return f"{ctx.call_id} {arguments_json} {answer_json}"

    async def verify_call(self, arguments_json: str, ctx: ToolContext) -> None:
        del arguments_json, ctx


@pytest.mark.parametrize(
    "value",
    [
        balance,
        Tool.from_schema("t", {"type": "object"}, echo),
        Agent("a").as_tool(),
        OwnTool("mine"),
    ],
)
def test_every_implementation_is_a_tool(value: ToolProtocol) -> None:
    assert is_tool(value)
    assert value is Agent("a", tools=[value]).get_tool(value.name)


@pytest.mark.parametrize(
    "value", [None, "t", Tool, OwnTool, Agent("a"), len, SimpleNamespace(name="t")]
)
def test_other_value_is_not_a_tool(value: object) -> None:
    assert not is_tool(value)


def test_tool_without_a_member_is_told_which_one() -> None:
    """Members are added by releases, so an object may lack a new one."""
    missing = {"writes_state", "display_call", "__dict__", "__weakref__"}
    members = {n: each for n, each in vars(OwnTool).items() if n not in missing}
    older: Any = type("Older", (), members)("mine")

    expected = "agent a: Older is not a complete tool: it has no .*writes_state"
    with pytest.raises(InvalidInput, match=expected) as error:
        Agent("a", tools=[older])
    assert "display_call" in str(error.value)
    assert "invoke" not in str(error.value)
    assert "Values without effect: writes_state = False." in str(error.value)


def test_check_does_not_read_the_properties() -> None:
    """Reading `parameters` would import pydantic and build the schema."""

    def unsupported(value: object) -> None: ...

    unsupported.__annotations__["value"] = "Missing"
    made = tool(unsupported)

    assert is_tool(made)
    with pytest.raises(InvalidInput):
        _ = made.parameters


def test_manifest_contains_an_own_implementation() -> None:
    mine: ToolProtocol = OwnTool("mine")
    manifest = make_manifest(Agent("a", tools=[mine]), sdk_version="1")

    [row] = jsontext.parse(manifest)["agents"][0]["tools"].items()
    assert ("mine", {"meaning": "c" * 12, "wording": "d" * 12}) == row


def test_invoke_of_an_agent_tool_is_an_error() -> None:
    ctx = ToolContext(run_id="r", call_id="c", idempotency_key="k", fence=1, attempt=1)

    with pytest.raises(TypeError, match="tool child is an agent"):
        asyncio.run(Agent("child").as_tool().invoke('{"input":"a"}', ctx))
