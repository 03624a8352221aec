"""The JSON Schema that the model gets for a signature and a docstring."""

from __future__ import annotations

import datetime as dt
import enum
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any, Literal, Optional, Union
from uuid import UUID

import pytest
from pydantic import BaseModel, Field
from typing_extensions import TypedDict  # pydantic wants it before Python 3.12

import continuations.authoring.context as elsewhere
from continuations.authoring.context import ToolContext
from continuations.authoring.tool.tool import tool


class Colour(enum.Enum):
    RED = "red"
    BLUE = "blue"


class Item(BaseModel):
    """A thing with a price."""

    title: str
    description: str = ""
    price: float


@dataclass
class Point:
    x: int
    y: int = 0


class Options(TypedDict, total=False):
    fast: bool


class Cat(BaseModel):
    kind: Literal["cat"]


class Dog(BaseModel):
    kind: Literal["dog"]


class Node(BaseModel):
    children: list[Node] = []


def schema_of(annotation: object) -> dict[str, Any]:
    """Return the schema of one required parameter."""

    def function(value: object) -> None: ...

    function.__annotations__["value"] = annotation
    schema: dict[str, Any] = tool(function).parameters["properties"]["value"]
    return schema


@pytest.mark.parametrize(
    ("annotation", "expected"),
    [
        (str, {"type": "string"}),
        (int, {"type": "integer"}),
        (float, {"type": "number"}),
        (bool, {"type": "boolean"}),
        (None, {"type": "null"}),
        (Any, {}),
        (list[int], {"type": "array", "items": {"type": "integer"}}),
        (
            set[str],
            {"type": "array", "items": {"type": "string"}, "uniqueItems": True},
        ),
        (
            dict[str, int],
            {"type": "object", "additionalProperties": {"type": "integer"}},
        ),
        (str | None, {"anyOf": [{"type": "string"}, {"type": "null"}]}),
        (Optional[str], {"anyOf": [{"type": "string"}, {"type": "null"}]}),  # noqa: UP045
        (Union[int, str], {"anyOf": [{"type": "integer"}, {"type": "string"}]}),  # noqa: UP007
        (Literal["a", "b"], {"enum": ["a", "b"], "type": "string"}),
        (dt.date, {"type": "string", "format": "date"}),
        (dt.datetime, {"type": "string", "format": "date-time"}),
        (UUID, {"type": "string", "format": "uuid"}),
        (Annotated[int, Field(gt=0)], {"type": "integer", "exclusiveMinimum": 0}),
        (
            Annotated[str, Field(max_length=3, description="short")],
            {"type": "string", "maxLength": 3, "description": "short"},
        ),
    ],
)
def test_types_become_json_schema(annotation: object, expected: dict[str, Any]) -> None:
    assert expected == schema_of(annotation)


@pytest.mark.parametrize("annotation", [Colour, Item, Point, Options])
def test_own_types_are_definitions(annotation: type) -> None:
    assert {"$ref": f"#/$defs/{annotation.__name__}"} == schema_of(annotation)


def test_enum_schema_lists_its_values() -> None:
    @tool
    def paint(colour: Colour) -> None: ...

    definition = paint.parameters["$defs"]["Colour"]

    assert ["red", "blue"] == definition["enum"]


def test_discriminated_union_names_its_discriminator() -> None:
    pet = Annotated[Cat | Dog, Field(discriminator="kind")]

    schema = schema_of(pet)

    assert "kind" == schema["discriminator"]["propertyName"]
    assert 2 == len(schema["oneOf"])


def test_type_may_contain_itself() -> None:
    @tool
    def grow(tree: Node) -> None: ...

    assert {"$ref": "#/$defs/Node"} == grow.parameters["properties"]["tree"]


def test_parameter_with_a_default_is_not_required() -> None:
    @tool
    def search(
        words: str, limit: int = 5, colour: Colour = Colour.RED, near: str | None = None
    ) -> None: ...

    properties = search.parameters["properties"]

    assert ["words"] == search.parameters["required"]
    assert 5 == properties["limit"]["default"]
    assert "red" == properties["colour"]["default"]
    assert properties["near"]["default"] is None


def test_no_other_properties_are_allowed() -> None:
    @tool
    def nothing() -> None: ...

    empty: dict[str, Any] = {}
    expected = {"type": "object", "properties": empty, "additionalProperties": False}
    assert expected == nothing.parameters


def test_parameter_may_have_a_name_that_pydantic_reserves() -> None:
    @tool
    def odd(
        copy: int, schema: int, model_config: int, _hidden: int, self_: int
    ) -> None: ...

    expected = ["copy", "schema", "model_config", "_hidden", "self_"]
    assert expected == list(odd.parameters["properties"])


def test_field_as_default_is_used() -> None:
    @tool
    def buy(count: int = Field(gt=0, description="how many")) -> None: ...

    expected = {"type": "integer", "exclusiveMinimum": 0, "description": "how many"}
    assert expected == buy.parameters["properties"]["count"]


def test_schema_uses_the_alias() -> None:
    @tool
    def send(from_: Annotated[str, Field(alias="from")]) -> None:
        """Send.

        Args:
            from_: the sender
        """

    expected = {"from": {"type": "string", "description": "the sender"}}
    assert expected == send.parameters["properties"]


def test_local_types_are_found_under_postponed_annotations() -> None:
    class Local(BaseModel):
        value: int

    @tool
    def plain(argument: Local) -> int:
        return argument.value

    @tool(name="called")
    def second(argument: Local) -> int:
        return argument.value

    assert '{"argument":{"value":1}}' == plain.effective_arguments(
        '{"argument":{"value":1}}'
    )
    assert '{"argument":{"value":1}}' == second.effective_arguments(
        '{"argument":{"value":1}}'
    )


# The context ------------------------------------------------------------------


def plain_context(a: int, ctx: ToolContext) -> None: ...
def other_name(a: int, c: ToolContext) -> None: ...
def optional_context(a: int, ctx: ToolContext | None = None) -> None: ...
def old_optional(a: int, ctx: Optional[ToolContext] = None) -> None: ...  # noqa: UP045
def annotated_context(a: int, ctx: Annotated[ToolContext, "mine"]) -> None: ...
def dotted_context(a: int, ctx: elsewhere.ToolContext) -> None: ...
def dotted_optional(a: int, ctx: elsewhere.ToolContext | None = None) -> None: ...


@pytest.mark.parametrize(
    "function",
    [
        plain_context,
        other_name,
        optional_context,
        old_optional,
        annotated_context,
        dotted_context,
        dotted_optional,
    ],
)
def test_context_parameter_is_not_in_the_schema(function: Callable[..., None]) -> None:
    assert ["a"] == list(tool(function).parameters["properties"])


def test_context_is_found_without_postponed_annotations() -> None:
    def function(a: int, ctx: object) -> None: ...

    function.__annotations__ = {"a": int, "ctx": ToolContext, "return": None}

    assert ["a"] == list(tool(function).parameters["properties"])
