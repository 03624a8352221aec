"""Tools that are made from a JSON Schema and a callable."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from continuations.authoring.agent.agent import Agent
from continuations.authoring.approval import ApprovalPolicy
from continuations.authoring.context import ToolContext
from continuations.authoring.errors import ArgumentsInvalid, ResultNotSerializable
from continuations.authoring.manifest import compare_manifests, make_manifest
from continuations.authoring.tool.tool import Tool, tool
from continuations.authoring.tool.tool_protocol import is_tool
from continuations.core import jsontext
from continuations.core.rows.decisions import Answer
from continuations.errors import InvalidInput

CTX = ToolContext(run_id="r", call_id="c1", idempotency_key="k", fence=1, attempt=1)
SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "city": {"type": "string"},
        "days": {"type": "integer", "default": 3, "minimum": 1},
        "tags": {"type": "array", "items": {"$ref": "#/$defs/Tag"}, "default": []},
    },
    "required": ["city"],
    "additionalProperties": False,
    "$defs": {"Tag": {"type": "object", "properties": {"name": {"type": "string"}}}},
}


def echo(arguments: dict[str, Any]) -> dict[str, Any]:
    return arguments


def opaque(_arguments: dict[str, Any]) -> object:
    return object()


def in_town(town: str) -> bool:
    return town == "a"


def make_tool(
    function: Callable[..., Any] = echo,
    schema: Any = SCHEMA,
    **options: Any,
) -> Tool[..., Any]:
    return Tool.from_schema("forecast", schema, function, **options)


def invoke(subject: Tool[..., Any], raw_arguments: str) -> str:
    arguments_json = subject.effective_arguments(raw_arguments)
    result = asyncio.run(subject.invoke(arguments_json, CTX))
    assert isinstance(result, str)
    return result


# Declaring --------------------------------------------------------------------


def test_schema_tool_is_a_tool_with_its_own_schema() -> None:
    made = make_tool(description="Tell the weather.", version="2", timeout=3)

    assert is_tool(made)
    assert SCHEMA == made.parameters
    assert jsontext.canonical(SCHEMA) == made.schema_json
    assert ("Tell the weather.", "2", 3.0) == (
        made.description,
        made.version,
        made.timeout,
    )
    assert (None, False, False) == (made.sub_agent, made.repeatable, made.verifiable)
    assert make_tool(read_only=True).repeatable
    assert make_tool(idempotent=True).repeatable
    assert "<Tool forecast>" == repr(made)
    assert made is Agent("a", tools=[made]).get_tool("forecast")


def test_later_change_of_the_schema_does_not_change_the_tool() -> None:
    schema: dict[str, Any] = {"type": "object", "properties": {"city": {"default": []}}}
    made = make_tool(schema=schema)
    schema["properties"] = {}

    assert '{"city":[]}' == made.effective_arguments("")


@pytest.mark.parametrize(
    ("schema", "expected"),
    [
        ({}, '"type": "object"'),
        ({"type": "string"}, '"type": "object"'),
        (True, '"type": "object"'),
        ({"type": "object", "properties": {"a": {1, 2}}}, "is not JSON"),
        ({"type": "object", 1: 2}, "is not JSON"),
    ],
)
def test_schema_that_is_no_object_schema_is_rejected_at_declaration(
    schema: Any, expected: str
) -> None:
    with pytest.raises(InvalidInput, match="tool forecast: schema") as caught:
        make_tool(schema=schema)

    assert expected in str(caught.value)


@pytest.mark.parametrize(
    ("rest", "expected"),
    [
        ({"properties": {"a": {"type": "nope"}}}, "not a valid JSON Schema"),
        ({"properties": {"a": {"pattern": "("}}}, "not a valid JSON Schema"),
        ({"properties": {"a": {"$ref": "#/$defs/b"}}}, "not a valid JSON Schema"),
        ({"properties": {"a": {"type": "string", "default": 3}}}, "a: the value"),
        (
            {"properties": {"a": {"$ref": "https://localhost:1/x.json"}}},
            "refers to another document",
        ),
        ({"properties": {"a": {"$ref": "file:///etc/x"}}}, "another document"),
    ],
)
def test_invalid_schema_is_rejected_on_first_use(
    rest: dict[str, Any], expected: str
) -> None:
    """A reference to another document is refused and not fetched."""
    made = make_tool(schema={"type": "object", **rest})

    with pytest.raises(InvalidInput, match="tool forecast: ") as caught:
        _ = made.parameters

    assert expected in str(caught.value)


def takes_nothing() -> None: ...
def takes_two(city: str, days: int) -> None: ...
def takes_a_keyword(*, arguments: dict[str, Any]) -> None: ...
def takes_the_context_only(ctx: ToolContext) -> None: ...


@pytest.mark.parametrize(
    "function", [takes_nothing, takes_two, takes_a_keyword, takes_the_context_only]
)
def test_function_that_does_not_take_one_dict_is_rejected(
    function: Callable[..., Any],
) -> None:
    with pytest.raises(InvalidInput, match="all arguments as one dict"):
        make_tool(function)
    with pytest.raises(InvalidInput, match="verify has the parameters"):
        make_tool(verify=function)


@pytest.mark.parametrize(
    "options",
    [
        {"function": 3},
        {"description": None},
        {"version": 2},
        {"read_only": 1},
        {"timeout": -1},
        {"verify": "check"},
        {"approval": "yes"},
        {"approval": in_town},
    ],
)
def test_invalid_option_is_rejected(options: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput):
        make_tool(**options)
    with pytest.raises(InvalidInput, match="a tool's name"):
        Tool.from_schema("no good", SCHEMA, make_tool().function)


# Arguments --------------------------------------------------------------------


@pytest.mark.parametrize(
    ("raw_arguments", "expected"),
    [
        (' {"city": "a"} ', '{"city":"a","days":3,"tags":[]}'),
        ('{"days":1,"city":"a"}', '{"city":"a","days":1,"tags":[]}'),
        ('{"city":"a","days":2.0}', '{"city":"a","days":2,"tags":[]}'),
        (
            '{"city":"a","tags":[{"b":1,"a":2}]}',
            '{"city":"a","days":3,"tags":[{"a":2,"b":1}]}',
        ),
    ],
)
def test_effective_arguments_contain_the_defaults(
    raw_arguments: str, expected: str
) -> None:
    made = make_tool()

    assert expected == made.effective_arguments(raw_arguments)
    assert expected == made.effective_arguments(expected)


@pytest.mark.parametrize(
    ("raw_arguments", "expected"),
    [
        ("", '- "city" is a required property'),
        ('{"city":1}', '- city: the value is not of type "string"'),
        ('{"city":"a","days":0}', "- days: the value is less than the minimum of 1"),
        ('{"city":"a","tags":[{"name":1}]}', "- tags[0].name: the value"),
        ('{"city":"a","more":1}', "'more' was unexpected"),
        ('{"city":"a","city":"b"}', "twice"),
        ("[]", "not a JSON object"),
        ("{", "not valid JSON"),
        ('{"city":NaN}', "not valid JSON"),
        ('{"city":' + "[" * 300 + "]" * 300 + "}", "not valid JSON"),
    ],
)
def test_invalid_arguments_are_described_for_the_model(
    raw_arguments: str, expected: str
) -> None:
    with pytest.raises(ArgumentsInvalid) as caught:
        make_tool().effective_arguments(raw_arguments)

    assert expected in str(caught.value)


def test_error_of_invalid_arguments_does_not_contain_their_values() -> None:
    """The text may become the note of a wait, which other people read."""
    with pytest.raises(ArgumentsInvalid) as caught:
        make_tool().effective_arguments('{"city":"a","days":"s3cret"}')

    assert "s3cret" not in str(caught.value)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=20,
)


@given(arguments=st.dictionaries(st.text(), JSON))
def test_effective_arguments_are_a_fixed_point(arguments: dict[str, Any]) -> None:
    """A second validation does not change the approved text."""
    made = make_tool(
        schema={"type": "object", "properties": {"a": {"default": {"b": 1.0}}}}
    )
    try:
        raw_arguments = jsontext.dump(arguments)
        effective = made.effective_arguments(raw_arguments)
    except (jsontext.NotJson, ArgumentsInvalid):
        return

    assert effective == made.effective_arguments(effective)


# Calling ----------------------------------------------------------------------


def plain(arguments: dict[str, Any]) -> Any:
    return arguments["city"]


async def with_context(arguments: dict[str, Any], ctx: ToolContext) -> Any:
    return [arguments["city"], ctx.call_id]


def with_late_context(arguments: dict[str, Any], *, context: ToolContext | None) -> Any:
    return [arguments["city"], None if context is None else context.call_id]


def forward(prefix: str, arguments: dict[str, Any]) -> Any:
    return {prefix: arguments["city"]}


class Forwarder:
    async def __call__(self, arguments: dict[str, Any]) -> Any:
        return arguments["days"]


@pytest.mark.parametrize(
    ("function", "expected"),
    [
        (plain, "oslo"),
        (with_context, '["oslo","c1"]'),
        (with_late_context, '["oslo","c1"]'),
        (partial(forward, "to"), '{"to":"oslo"}'),
        (Forwarder(), "3"),
        (sorted, '["city","days","tags"]'),
        (len, "3"),
    ],
)
def test_callable_gets_the_arguments_as_one_dict(
    function: Callable[..., Any], expected: str
) -> None:
    assert expected == invoke(make_tool(function), '{"city":"oslo"}')


def test_changes_that_a_function_makes_to_its_arguments_do_not_last() -> None:
    def greedy(arguments: dict[str, Any]) -> int:
        arguments["tags"].append("x")
        return len(arguments["tags"])

    made = make_tool(greedy)

    assert ["1", "1"] == [invoke(made, '{"city":"a"}') for _ in range(2)]


@pytest.mark.parametrize(
    "arguments_json",
    ['{"city":"a"}', '{"tags":[],"days":3,"city":"a"}', '{"city":1}', "{}", ""],
)
def test_arguments_that_are_not_effective_do_not_run(arguments_json: str) -> None:
    calls: list[Any] = []

    with pytest.raises(ArgumentsInvalid):
        asyncio.run(make_tool(calls.append).invoke(arguments_json, CTX))

    assert [] == calls


def test_result_without_a_json_form_is_refused() -> None:
    with pytest.raises(ResultNotSerializable):
        invoke(make_tool(opaque), '{"city":"a"}')


def test_verify_is_called_like_the_function() -> None:
    async def verify(arguments: dict[str, Any], ctx: ToolContext) -> Answer:
        return Answer([arguments["days"], ctx.attempt])

    made = make_tool(verify=verify)
    arguments_json = made.effective_arguments('{"city":"a"}')

    assert made.verifiable
    assert Answer([3, 1]) == asyncio.run(made.verify_call(arguments_json, CTX))
    unsure = make_tool(verify=echo)
    assert asyncio.run(unsure.verify_call(arguments_json, CTX)) is None
    assert asyncio.run(make_tool().verify_call(arguments_json, CTX)) is None


def test_policy_gets_the_properties_by_name() -> None:
    def long(days: int) -> bool:
        return days > 5

    made = make_tool(approval=ApprovalPolicy(when=long))
    texts = [f'{{"city":"a","days":{days}}}' for days in (5, 6)]
    short, longer = [made.effective_arguments(text) for text in texts]

    assert not asyncio.run(made.needs_approval(short))
    assert asyncio.run(made.needs_approval(longer))

    def in_a(**arguments: Any) -> bool:
        return bool(arguments["city"] == "a")

    everything = make_tool(approval=in_a)
    assert asyncio.run(everything.needs_approval(short))


# Contract ---------------------------------------------------------------------


def test_schema_tool_has_the_contract_of_a_function_with_the_same_schema() -> None:
    @tool(description="Words.")
    def forecast(city: str, days: int = 3) -> str:
        return f"{city} {days}"

    twin = make_tool(schema=dict(forecast.parameters), description="Other words.")

    assert forecast.contract_digest == twin.contract_digest
    assert forecast.model_text_digest != twin.model_text_digest


@pytest.mark.parametrize(
    ("changed", "kind", "what"),
    [
        (
            make_tool(schema={**SCHEMA, "required": []}),
            "incompatible",
            "parameters changed",
        ),
        (make_tool(version="2"), "incompatible", "version"),
        (make_tool(description="Better words."), "compatible", "description changed"),
        (make_tool(approval=True), "compatible", "approval policy changed"),
        (Agent("b").as_tool("forecast"), "incompatible", "is now an agent"),
    ],
)
def test_manifest_reports_a_changed_schema_tool(
    changed: Any, kind: str, what: str
) -> None:
    old, new = (
        make_manifest(Agent("a", tools=[each]), sdk_version="1")
        for each in (make_tool(), changed)
    )

    [change] = compare_manifests(old, new)
    assert (kind, "a/forecast") == (change.kind, change.where)
    assert what in change.what


PROGRAM = """
import sys
from continuations.authoring.agent.agent import Agent
from continuations.authoring.tool.tool import Tool
made = Tool.from_schema("t", {"type": "object"}, lambda arguments: "ok")
Agent("a", tools=[made]).tools_by_name
print(*sorted({name.partition(".")[0] for name in sys.modules}))
made.effective_arguments("{}")
print(*sorted({name.partition(".")[0] for name in sys.modules}))
"""


def test_schema_tool_needs_no_pydantic() -> None:
    """Declaring it does not import `jsonschema_rs` either."""
    declared, used = subprocess.run(
        [sys.executable, "-c", PROGRAM], check=True, capture_output=True, text=True
    ).stdout.splitlines()

    assert "jsonschema_rs" not in declared.split()
    assert "jsonschema_rs" in used.split()
    assert "pydantic" not in used.split()
