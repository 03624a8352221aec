"""A JSON Schema is written in the strict mode of structured outputs, or not at all."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import Annotated, Any, Literal

import pytest
from annotated_types import Ge
from pydantic import BaseModel

from continuations.authoring.arguments.typed_values import make_output_spec
from continuations.core import jsontext
from continuations.models.chat_request import to_strict_schema


class Color(Enum):
    RED = "red"
    BLUE = "blue"


class Part(BaseModel):
    name: str
    color: Color = Color.RED
    count: Annotated[int, Ge(1)] | None = None


class Cat(BaseModel):
    kind: Literal["cat"]


class Dog(BaseModel):
    kind: Literal["dog"]
    parts: list[Part]


@dataclass
class Order:
    parts: list[Part]
    pet: Cat | Dog
    note: str = ""
    nested: dict[str, Part] | None = field(default=None)


def schema_of(type_: Any) -> dict[str, Any]:
    return dict(make_output_spec(type_, agent_name="a").output_schema.schema)


def objects_in(schema: Any) -> list[dict[str, Any]]:
    if isinstance(schema, list):
        return [found for each in schema for found in objects_in(each)]  # pyright: ignore[reportUnknownVariableType]
    data = jsontext.as_object(schema)
    if data is None:
        return []
    own = [dict(data)] if data.get("type") == "object" else []
    return own + [found for each in data.values() for found in objects_in(each)]


@pytest.mark.parametrize("type_", [Part, Dog, Cat | Dog, list[Part], int, Color])
def test_every_property_is_required_and_no_other_is_allowed(type_: Any) -> None:
    strict = to_strict_schema(schema_of(type_))

    assert strict is not None
    found = objects_in(strict)
    assert found
    for each in found:
        assert each["required"] == list(each["properties"])
        assert each["additionalProperties"] is False
    assert "default" not in jsontext.dump(strict)


@pytest.mark.parametrize(
    "type_", [Order, dict[str, int], tuple[int, str], Any, set[int]], ids=str
)
def test_schema_with_free_keys_or_unknown_keywords_has_no_strict_form(
    type_: Any,
) -> None:
    assert to_strict_schema(schema_of(type_)) is None


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "object", "properties": []},
        {"type": "object", "properties": {"a": True}},
        {"type": "object", "properties": {"a": {"anyOf": {}}}},
        {"type": "object"},
        {"type": "string"},
        {},
    ],
)
def test_schema_of_another_form_has_no_strict_form(schema: dict[str, Any]) -> None:
    assert to_strict_schema(schema) is None


def test_schema_of_great_depth_has_no_strict_form() -> None:
    schema: dict[str, Any] = {"type": "string"}
    for _ in range(100_000):
        schema = {"type": "array", "items": schema}

    assert to_strict_schema(schema) is None
