"""Raw arguments become effective arguments, or they are rejected."""

from __future__ import annotations

import datetime as dt
import enum
import json
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Annotated, Any, Literal
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, PlainSerializer

from continuations.authoring.errors import ArgumentsInvalid
from continuations.authoring.tool.tool import Tool, tool
from continuations.core import jsontext
from tests.sampling import examples


class Colour(enum.Enum):
    RED = "red"


class Item(BaseModel):
    price: float
    count: int = 1


class Cat(BaseModel):
    kind: Literal["cat"]
    lives: int = 9


class Dog(BaseModel):
    kind: Literal["dog"]


@dataclass
class Point:
    x: int
    y: int = 0
    tags: list[str] = field(default_factory=list[str])


@tool
def transfer(source: str, cents: int, target: str = "savings") -> None: ...


def tool_with_parameter(annotation: object) -> Tool[..., None]:
    """Return a tool with one required parameter `value`."""

    def function(value: object) -> None: ...

    function.__annotations__["value"] = annotation
    return tool(function)


def rejection_text(tool: Tool[..., Any], raw_arguments: str) -> str:
    with pytest.raises(ArgumentsInvalid) as caught:
        tool.effective_arguments(raw_arguments)
    return str(caught.value)


def test_defaults_are_filled_in_and_keys_are_sorted() -> None:
    effective = transfer.effective_arguments(' {"source": "a",\n "cents": 5} ')

    assert '{"cents":5,"source":"a","target":"savings"}' == effective


@pytest.mark.parametrize("raw_arguments", ["", "  ", "{}", "\n"])
def test_empty_text_means_no_arguments(raw_arguments: str) -> None:
    @tool
    def now(zone: str | None = None) -> None: ...

    assert '{"zone":null}' == now.effective_arguments(raw_arguments)


@pytest.mark.parametrize(
    ("annotation", "raw", "effective"),
    [
        (int, "5", "5"),
        (int, str(10**40), str(10**40)),
        (float, "1", "1.0"),
        (str, '"\\u2028\\u0000\\ud83d\\ude00"', '"\u2028\\u0000😀"'),
        (str | None, "null", "null"),
        (int | str, '"5"', '"5"'),
        (dt.date, '"2026-02-03"', '"2026-02-03"'),
        (dt.timedelta, '"PT60M"', '"PT1H"'),
        (Decimal, '"1.10"', '"1.10"'),
        (Decimal, "0.1", '"0.1"'),
        (UUID, f'"{UUID(int=1)}"', f'"{UUID(int=1)}"'),
        (bytes, '"a"', '"a"'),
        (Colour, '"red"', '"red"'),
        (set[str], '["b","a","b"]', '["a","b"]'),
        (frozenset[int], "[2,1,10]", "[1,10,2]"),
        (tuple[int, str], '[1,"a"]', '[1,"a"]'),
        (dict[int, str], '{"1":"a"}', '{"1":"a"}'),
        (dict[str, set[str]], '{"k":["b","a"]}', '{"k":["a","b"]}'),
        (Item, '{"price":1}', '{"count":1,"price":1.0}'),
        (list[Item], '[{"price":1}]', '[{"count":1,"price":1.0}]'),
        (Point, '{"x":1}', '{"tags":[],"x":1,"y":0}'),
        (
            Annotated[Cat | Dog, Field(discriminator="kind")],
            '{"kind":"cat"}',
            '{"kind":"cat","lives":9}',
        ),
        (Any, '{"b":[1,2.5,null],"a":true}', '{"a":true,"b":[1,2.5,null]}'),
        (Annotated[int, Field(strict=False)], '"5"', "5"),
        (Annotated[str, Field(pattern="^a")], '"ab"', '"ab"'),
    ],
)
def test_raw_arguments_become_effective_arguments(
    annotation: object, raw: str, effective: str
) -> None:
    subject = tool_with_parameter(annotation)

    arguments_json = subject.effective_arguments(f'{{"value":{raw}}}')

    assert f'{{"value":{effective}}}' == arguments_json
    assert arguments_json == subject.effective_arguments(arguments_json)


@pytest.mark.parametrize(
    ("annotation", "raw"),
    [
        (int, '"5"'),
        (int, "5.0"),
        (int, "true"),
        (int, "null"),
        (bool, "1"),
        (bool, '"yes"'),
        (str, "5"),
        (float, '"NaN"'),
        (dt.datetime, "0"),
        (Colour, '"green"'),
        (Literal["a"], '"b"'),
        (tuple[int, str], "[1]"),
        (Item, "[]"),
        (Item, '{"price":"much"}'),
        (Point, '{"x":1,"z":2}'),
        (Annotated[int, Field(gt=0)], "0"),
        (Annotated[Cat | Dog, Field(discriminator="kind")], '{"kind":"cow"}'),
    ],
)
def test_values_of_a_wrong_type_are_rejected(annotation: object, raw: str) -> None:
    text = rejection_text(tool_with_parameter(annotation), f'{{"value":{raw}}}')

    assert text.startswith("The arguments are not valid:\n- value")


def test_rejection_names_every_invalid_field() -> None:
    text = rejection_text(transfer, '{"cents":"5","amount":1}')

    expected = """\
The arguments are not valid:
- source: Field required
- cents: Input should be a valid integer
- amount: Extra inputs are not permitted"""
    assert expected == text


def test_rejection_names_nested_fields() -> None:
    text = rejection_text(
        tool_with_parameter(list[Item | None]), '{"value":[null,{"price":"x"}]}'
    )

    assert "- value[1].price: Input should be a valid number" in text


def test_rejection_of_many_errors_is_short() -> None:
    wrong = ["x" * 5_000] * 500
    text = rejection_text(
        tool_with_parameter(list[int]), json.dumps({"value": wrong, "y" * 9_999: 1})
    )

    assert len(text) < 2_000
    assert text.endswith("- and 491 more")


@pytest.mark.parametrize(
    ("raw_arguments", "expected_text"),
    [
        ("{", "valid JSON"),
        ("nope", "valid JSON"),
        ("{'source': 1}", "valid JSON"),
        ("[]", "JSON object"),
        ("null", "JSON object"),
        ('"text"', "JSON object"),
        ('{"source":"a","source":"b","cents":1}', "'source' occurs twice"),
        ('{"source":"a","cents":1,"x":[{"y":1,"y":1}]}', "'y' occurs twice"),
        ('{"cents":NaN}', "NaN is not a JSON number"),
        ('{"cents":-Infinity}', "-Infinity is not a JSON number"),
        ('{"cents":1e999}', "too large"),
        ('{"cents":' + "9" * 5_000 + "}", "too large"),
        ('{"source":"\\ud800","cents":1}', "surrogate"),
        ('{"source":"\ud800","cents":1}', "surrogate"),
        ('{"\\udfff":1}', "surrogate"),
        ('{"source":' + "[" * 100_000, "nested deeper"),
        ('{"source":' + "[" * 100_000 + "]" * 100_000 + "}", "nested deeper"),
        ('{"a":' * 100_000 + "1" + "}" * 100_000, "nested deeper"),
    ],
)
def test_invalid_json_is_rejected(raw_arguments: str, expected_text: str) -> None:
    assert expected_text in rejection_text(transfer, raw_arguments)


@pytest.mark.parametrize("levels", [150, 250, 500, 900])
def test_deep_nesting_is_rejected_or_accepted_without_a_crash(levels: int) -> None:
    raw_arguments = '{"value":' + "[" * levels + "]" * levels + "}"

    try:
        effective = tool_with_parameter(Any).effective_arguments(raw_arguments)
    except ArgumentsInvalid as error:
        assert len(str(error)) < 500  # noqa: PT017 - both results are right
    else:
        assert raw_arguments == effective


def test_rejection_contains_no_python_internals() -> None:
    subjects = [
        tool_with_parameter(int | list[Item]),
        tool_with_parameter(Cat | Dog),
        transfer,
    ]
    texts = [rejection_text(each, '{"value":{"kind":3}}') for each in subjects]

    for word in ("Traceback", "pydantic", "class", "function-", "0x", "p0"):
        assert word not in "".join(texts)


# Stable arguments -------------------------------------------------------------


def add_one(value: Any) -> Any:
    return value + 1 if isinstance(value, int) else value


def fail(value: Any) -> Any:
    raise KeyError(value)


@pytest.mark.parametrize(
    "annotation",
    [
        Annotated[int, BeforeValidator(add_one)],
        Annotated[int, PlainSerializer(lambda value: value + 1)],
        Annotated[int, PlainSerializer(lambda _: "lost")],
        Annotated[int, Field(validation_alias="value", serialization_alias="other")],
        Annotated[int, BeforeValidator(fail)],
        Annotated[int, BeforeValidator(lambda _: "text")],
    ],
)
def test_unstable_arguments_are_rejected(annotation: object) -> None:
    rejection_text(tool_with_parameter(annotation), '{"value":1}')


def test_rejection_explains_unstable_arguments() -> None:
    text = rejection_text(
        tool_with_parameter(Annotated[int, BeforeValidator(add_one)]), '{"value":1}'
    )

    assert "would not be the arguments that run" in text


def test_validator_may_normalize_arguments() -> None:
    subject = tool_with_parameter(
        Annotated[str, BeforeValidator(lambda value: value.strip())]
    )

    assert '{"value":"a"}' == subject.effective_arguments('{"value":" a "}')


def test_infinity_in_a_pydantic_model_does_not_become_null() -> None:
    class Loose(BaseModel):
        ratio: float | None = None

    rejection_text(tool_with_parameter(Loose), '{"value":{"ratio":"Infinity"}}')


def test_pydantic_model_config_applies_inside_the_model() -> None:
    class Open(BaseModel):
        model_config = ConfigDict(extra="allow")
        count: int

    effective = tool_with_parameter(Open).effective_arguments(
        '{"value":{"count":"5","note":"n"}}'
    )

    assert '{"value":{"count":5,"note":"n"}}' == effective


def test_default_of_a_mutable_type_is_not_shared() -> None:
    @tool
    def collect(names: list[str] = [], box: Item = Item(price=1)) -> None: ...  # noqa: B006, B008

    expected = '{"box":{"count":1,"price":1.0},"names":[]}'
    assert expected == collect.effective_arguments("")


def test_default_factory_inside_annotated_is_used() -> None:
    @tool
    def collect(names: Annotated[list[str], Field(default_factory=list)]) -> None: ...

    assert '{"names":[]}' == collect.effective_arguments("")


json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"])),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.text(max_size=3), inner, max_size=3)
    ),
    max_leaves=10,
)


@given(json_values)
def test_any_json_value_is_unchanged(value: Any) -> None:
    try:
        effective = tool_with_parameter(Any).effective_arguments(
            json.dumps({"value": value})
        )
    except ArgumentsInvalid as error:
        assert "surrogate" in str(error)  # noqa: PT017 - a key may have a surrogate
        return

    assert {"value": value} == jsontext.parse(effective)


@pytest.fixture(scope="module")
def loose() -> Tool[..., None]:
    @tool
    def loose(
        count: Annotated[int, Field(strict=False)] = 1,
        tags: set[str] | None = None,
        items: list[Item] | dict[str, Item] | str = "none",
    ) -> None: ...

    return loose


@settings(max_examples=examples(300))
@given(
    st.fixed_dictionaries(
        {},
        optional={
            "count": st.integers() | st.text() | st.floats(),
            "tags": st.lists(st.text()) | st.none(),
            "items": st.lists(json_values) | json_values,
            "other": st.none(),
        },
    )
)
def test_effective_arguments_are_a_fixed_point(
    loose: Tool[..., None], value: dict[str, Any]
) -> None:
    try:
        effective = loose.effective_arguments(json.dumps(value))
    except ArgumentsInvalid:
        return

    assert effective == loose.effective_arguments(effective)
    assert effective == jsontext.canonical(jsontext.parse(effective))


@given(st.text() | st.binary().map(lambda data: data.decode("utf-8", "replace")))
def test_arbitrary_text_is_rejected_without_a_crash(raw_arguments: str) -> None:
    try:
        transfer.effective_arguments(raw_arguments)
    except ArgumentsInvalid as error:
        assert str(error)  # noqa: PT017 - the expected exception
    else:
        pytest.fail("transfer needs arguments")


def test_effective_arguments_do_not_call_the_function() -> None:
    calls: list[int] = []

    def function(value: int) -> None:
        calls.append(value)

    tool(function).effective_arguments('{"value":1}')

    assert [] == calls
