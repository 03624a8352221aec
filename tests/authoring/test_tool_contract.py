"""An approval is bound to the contract of a tool, not to its description."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from typing import Annotated, Any, Literal

import pytest
from pydantic import BaseModel, Field

from continuations.authoring.tool.tool import Tool, tool
from continuations.authoring.tool_contract import compute_contract_digest


class Item(BaseModel):
    """Words."""

    price: Annotated[float, Field(description="words", examples=[1])]


def item_with_other_descriptions() -> type[BaseModel]:
    class Item(BaseModel):
        """Other words."""

        price: Annotated[float, Field(description="other", examples=[2], title="P")]

    return Item


def pay(amount: int, note: str = "") -> None: ...
def pay_tool(**options: Any) -> Tool[..., Any]:
    return tool(pay, **options)


def pay_tool_with_parameter(annotation: Any, default: Any = ...) -> Tool[..., Any]:
    def pay(value: object) -> None: ...

    def pay_by_default(value: object = default) -> None: ...

    function = pay if default is ... else pay_by_default
    function.__annotations__["value"] = annotation
    return tool(function, name="pay")


def schema(properties: dict[str, Any], **others: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties, **others}


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (pay_tool(), pay_tool(description="Other words.")),
        (pay_tool(), pay_tool(approval=True, read_only=True, timeout=3)),
        (
            pay_tool_with_parameter(Item),
            pay_tool_with_parameter(item_with_other_descriptions()),
        ),
        (
            pay_tool_with_parameter(int),
            pay_tool_with_parameter(Annotated[int, Field(description="d", title="t")]),
        ),
    ],
)
def test_descriptions_do_not_change_the_contract_digest(
    one: Tool[..., Any], other: Tool[..., Any]
) -> None:
    assert one.contract_digest == other.contract_digest


@pytest.mark.parametrize(
    "changed",
    [
        pay_tool(name="pay2"),
        pay_tool(version="1"),
        pay_tool(version=""),
        pay_tool_with_parameter(int),
    ],
)
def test_name_version_and_parameters_change_the_contract_digest(
    changed: Tool[..., Any],
) -> None:
    assert pay_tool().contract_digest != changed.contract_digest


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (pay_tool_with_parameter(int), pay_tool_with_parameter(float)),
        (pay_tool_with_parameter(int), pay_tool_with_parameter(int | None)),
        (pay_tool_with_parameter(int), pay_tool_with_parameter(int, 3)),
        (pay_tool_with_parameter(int, 3), pay_tool_with_parameter(int, 4)),
        (
            pay_tool_with_parameter(int),
            pay_tool_with_parameter(Annotated[int, Field(gt=0)]),
        ),
        (pay_tool_with_parameter(Literal["a"]), pay_tool_with_parameter(Literal["b"])),
        (
            pay_tool_with_parameter(Literal["title"]),
            pay_tool_with_parameter(Literal["description"]),
        ),
    ],
)
def test_changed_parameter_changes_the_contract_digest(
    one: Tool[..., Any], other: Tool[..., Any]
) -> None:
    assert one.contract_digest != other.contract_digest


def test_description_changes_the_model_text_digest() -> None:
    assert (
        pay_tool().model_text_digest
        != pay_tool(description="Other words.").model_text_digest
    )
    assert (
        pay_tool_with_parameter(Item).model_text_digest
        != pay_tool_with_parameter(item_with_other_descriptions()).model_text_digest
    )


STRING = {"type": "string"}


@pytest.mark.parametrize("name", ["title", "description", "examples"])
@pytest.mark.parametrize("keyword", ["properties", "$defs", "patternProperties"])
def test_property_named_like_a_description_keyword_counts(
    name: str, keyword: str
) -> None:
    one = {keyword: {name: STRING}}
    other = {keyword: {name: {"type": "integer"}}}
    without: dict[str, Any] = {keyword: {}}

    digests = {
        compute_contract_digest("t", None, each) for each in (one, other, without)
    }

    assert 3 == len(digests)


@pytest.mark.parametrize("keyword", ["default", "const", "enum", "x-anything"])
def test_data_under_a_description_key_counts(keyword: str) -> None:
    one = schema({"a": {keyword: {"title": "x"}}})
    other = schema({"a": {keyword: {"title": "y"}}})

    assert compute_contract_digest("t", None, one) != compute_contract_digest(
        "t", None, other
    )


PLACES: list[Callable[[Any], dict[str, Any]]] = [
    lambda inner: schema({"a": inner}),
    lambda inner: schema({"a": {"items": inner}}),
    lambda inner: schema({"a": {"prefixItems": [inner]}}),
    lambda inner: schema({"a": {"anyOf": [{"oneOf": [inner]}]}}),
    lambda inner: schema({"title": {"additionalProperties": inner}}),
    lambda inner: schema({}, **{"$defs": {"A": {"properties": {"b": inner}}}}),
]


@pytest.mark.parametrize("place", PLACES)
def test_descriptions_are_ignored_at_any_depth(place: Any) -> None:
    descriptions = {"title": "t", "description": "d", "examples": [1]}
    plain: dict[str, Any] = place(STRING)
    described: dict[str, Any] = place({**STRING, **descriptions})

    assert compute_contract_digest("t", None, plain) == compute_contract_digest(
        "t", None, described
    )


def test_parameter_order_does_not_change_the_contract_digest() -> None:
    def one(a: int, b: int) -> None: ...
    def other(b: int, a: int) -> None: ...

    assert tool(one, name="t").contract_digest == tool(other, name="t").contract_digest


PROGRAM = """
import enum
from typing import Literal
from pydantic import BaseModel
from continuations.authoring.tool.tool import tool
from continuations.authoring.agent.agent import Agent

class Item(BaseModel):
    tags: set[str] = {"a", "b", "c", "d", "e"}

@tool
def buy(
    items: list[Item],
    names: set[str] = {"v", "w", "x", "y", "z"},
    kinds: frozenset[Literal["k", "l", "m"]] = frozenset({"k", "l", "m"}),
) -> None:
    "Buy."

print(buy.contract_digest, buy.model_text_digest, Agent("a").as_tool().contract_digest)
print(buy.effective_arguments('{"items":[{}],"names":["one","two","three","four"]}'))
"""


def test_digests_are_equal_in_every_process() -> None:
    outputs = {
        subprocess.run(
            [sys.executable, "-W", "error", "-c", PROGRAM],
            env={**os.environ, "PYTHONHASHSEED": seed},
            check=True,
            capture_output=True,
            text=True,
        ).stdout
        for seed in ("0", "1", "2", "3")
    }

    assert 1 == len(outputs)
