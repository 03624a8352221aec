"""What an approval is bound to: what a tool means, not how it is described."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING, Annotated, Any, Literal

import pytest
from pydantic import BaseModel, Field

from continuations.authoring.meaning import meaning_of
from continuations.authoring.tool import Tool, tool

if TYPE_CHECKING:
    from collections.abc import Callable


class Item(BaseModel):
    """Words."""

    price: Annotated[float, Field(description="words", examples=[1])]


def item_in_other_words() -> type[BaseModel]:
    class Item(BaseModel):
        """Other words."""

        price: Annotated[float, Field(description="other", examples=[2], title="P")]

    return Item


def pay(amount: int, note: str = "") -> None: ...
def named(**options: Any) -> Tool[..., Any]:
    return tool(pay, **options)


def taking(annotation: Any, default: Any = ...) -> Tool[..., Any]:
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
        (named(), named(description="Other words.")),
        (named(), named(approval=True, read_only=True, timeout=3)),
        (taking(Item), taking(item_in_other_words())),
        (taking(int), taking(Annotated[int, Field(description="d", title="t")])),
    ],
)
def test_words_do_not_change_the_meaning(
    one: Tool[..., Any], other: Tool[..., Any]
) -> None:
    assert one.meaning == other.meaning


@pytest.mark.parametrize(
    "changed",
    [
        named(name="pay2"),
        named(version="1"),
        named(version=""),
        taking(int),
    ],
)
def test_everything_else_changes_the_meaning(changed: Tool[..., Any]) -> None:
    assert named().meaning != changed.meaning


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (taking(int), taking(float)),
        (taking(int), taking(int | None)),
        (taking(int), taking(int, 3)),
        (taking(int, 3), taking(int, 4)),
        (taking(int), taking(Annotated[int, Field(gt=0)])),
        (taking(Literal["a"]), taking(Literal["b"])),
        (taking(Literal["title"]), taking(Literal["description"])),
    ],
)
def test_a_changed_parameter_changes_the_meaning(
    one: Tool[..., Any], other: Tool[..., Any]
) -> None:
    assert one.meaning != other.meaning


def test_a_description_changes_the_wording() -> None:
    assert named().wording != named(description="Other words.").wording
    assert taking(Item).wording != taking(item_in_other_words()).wording


STRING = {"type": "string"}


@pytest.mark.parametrize("name", ["title", "description", "examples"])
@pytest.mark.parametrize("keyword", ["properties", "$defs", "patternProperties"])
def test_a_property_with_the_name_of_a_word_counts(name: str, keyword: str) -> None:
    one = {keyword: {name: STRING}}
    other = {keyword: {name: {"type": "integer"}}}
    without: dict[str, Any] = {keyword: {}}

    meanings = {meaning_of("t", None, each) for each in (one, other, without)}

    assert 3 == len(meanings)


@pytest.mark.parametrize("keyword", ["default", "const", "enum", "x-anything"])
def test_data_that_looks_like_words_counts(keyword: str) -> None:
    one = schema({"a": {keyword: {"title": "x"}}})
    other = schema({"a": {keyword: {"title": "y"}}})

    assert meaning_of("t", None, one) != meaning_of("t", None, other)


PLACES: list[Callable[[Any], dict[str, Any]]] = [
    lambda inner: schema({"a": inner}),
    lambda inner: schema({"a": {"items": inner}}),
    lambda inner: schema({"a": {"prefixItems": [inner]}}),
    lambda inner: schema({"a": {"anyOf": [{"oneOf": [inner]}]}}),
    lambda inner: schema({"title": {"additionalProperties": inner}}),
    lambda inner: schema({}, **{"$defs": {"A": {"properties": {"b": inner}}}}),
]


@pytest.mark.parametrize("place", PLACES)
def test_words_are_left_out_at_any_depth(place: Any) -> None:
    words = {"title": "t", "description": "d", "examples": [1]}
    plain: dict[str, Any] = place(STRING)
    worded: dict[str, Any] = place({**STRING, **words})

    assert meaning_of("t", None, plain) == meaning_of("t", None, worded)


def test_the_order_of_parameters_means_nothing() -> None:
    def one(a: int, b: int) -> None: ...
    def other(b: int, a: int) -> None: ...

    assert tool(one, name="t").meaning == tool(other, name="t").meaning


PROGRAM = """
import enum
from typing import Literal
from pydantic import BaseModel
from continuations.authoring.tool import tool
from continuations.authoring.agent import Agent

class Item(BaseModel):
    tags: set[str] = {"a", "b", "c", "d", "e"}

@tool
def buy(
    items: list[Item],
    names: set[str] = {"v", "w", "x", "y", "z"},
    kinds: frozenset[Literal["k", "l", "m"]] = frozenset({"k", "l", "m"}),
) -> None:
    "Buy."

print(buy.meaning, buy.wording, Agent("a").as_tool().meaning)
print(buy.bind('{"items":[{}],"names":["one","two","three","four"]}'))
"""


def test_every_process_agrees() -> None:
    said = {
        subprocess.run(
            [sys.executable, "-W", "error", "-c", PROGRAM],
            env={**os.environ, "PYTHONHASHSEED": seed},
            check=True,
            capture_output=True,
            text=True,
        ).stdout
        for seed in ("0", "1", "2", "3")
    }

    assert 1 == len(said)
