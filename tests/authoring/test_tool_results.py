"""A result becomes text for the model, or an error with its place."""

from __future__ import annotations

import datetime as dt
import enum
import io
import json
import math
import re
from collections import OrderedDict, deque
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, field
from decimal import Decimal
from ipaddress import ip_address
from pathlib import Path
from types import MappingProxyType, SimpleNamespace
from typing import Annotated, Any, NamedTuple
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import (
    AnyUrl,
    BaseModel,
    ConfigDict,
    Field,
    PlainSerializer,
    RootModel,
    SecretStr,
)
from pydantic.dataclasses import dataclass as pydantic_dataclass

from continuations.authoring.errors import ResultNotSerializable
from continuations.authoring.tool.tool_results import serialize_result


class Colour(enum.Enum):
    RED = "red"


class Word(str, enum.Enum):  # noqa: UP042 - older code has these
    YES = "yes"


class Level(enum.IntEnum):
    HIGH = 3


class Pair(NamedTuple):
    left: int
    right: str


@dataclass
class Point:
    x: int
    label: str = "p"
    inner: list[Any] = field(default_factory=list[Any])


@pydantic_dataclass
class ValidatedDate:
    at: dt.date


class Item(BaseModel):
    price: float = 1.5
    from_: str = Field(default="a", serialization_alias="from")
    secret: SecretStr = SecretStr("hush")
    tags: set[str] = {"b", "a"}


class Holder(BaseModel):
    model_config = ConfigDict(arbitrary_types_allowed=True)
    items: list[Any] = []
    by_name: dict[str, Any] = {}
    by_number: dict[int, str] = {}


class Numbers(RootModel[list[float]]):
    pass


class CustomSerialized(BaseModel):
    model_config = ConfigDict(ser_json_bytes="base64")
    ratio: Annotated[float, PlainSerializer(str, when_used="json")] = math.inf
    data: bytes = b"\xff"


STORABLE: list[tuple[Any, str]] = [
    ("as it is", "as it is"),
    ('{"a": 1}', '{"a": 1}'),
    ("", ""),
    ("\ud800", "\ud800"),
    (Word.YES, "yes"),
    (None, "null"),
    (True, "true"),
    (0, "0"),
    (-(10**40), str(-(10**40))),
    (1.5, "1.5"),
    ([1, "a", None], '[1,"a",null]'),
    ((1, "a"), '[1,"a"]'),
    (Pair(1, "a"), '[1,"a"]'),
    (deque([1]), "[1]"),
    ({"b", "a"}, '["a","b"]'),
    (frozenset({2, 10}), "[10,2]"),
    ({"b": 1, "a": [{}]}, '{"b":1,"a":[{}]}'),
    (OrderedDict(b=1, a=2), '{"b":1,"a":2}'),
    (MappingProxyType({"a": 1}), '{"a":1}'),
    ({Word.YES: 1}, '{"yes":1}'),
    (Colour.RED, '"red"'),
    (Level.HIGH, "3"),
    ([Word.YES, Level.HIGH], '["yes",3]'),
    (Decimal("1.10"), '"1.10"'),
    (UUID(int=1), f'"{UUID(int=1)}"'),
    (dt.date(2026, 2, 3), '"2026-02-03"'),
    (dt.datetime(2026, 2, 3, tzinfo=dt.UTC), '"2026-02-03T00:00:00Z"'),
    (dt.timedelta(hours=1), '"PT1H"'),
    (Path("/a"), '"/a"'),
    (AnyUrl("https://a.example/"), '"https://a.example/"'),
    (ip_address("127.0.0.1"), '"127.0.0.1"'),
    (re.compile("a+"), '"a+"'),
    (1 + 2j, '"1+2j"'),
    (b"text", '"text"'),
    (bytearray(b"text"), '"text"'),
    (SecretStr("hush"), '"**********"'),
    (Point(1), '{"x":1,"label":"p","inner":[]}'),
    (ValidatedDate(dt.date(2026, 2, 3)), '{"at":"2026-02-03"}'),
    (Item(), '{"price":1.5,"from":"a","secret":"**********","tags":["a","b"]}'),
    ([Point(1)], '[{"x":1,"label":"p","inner":[]}]'),
    (Numbers([1.0]), "[1.0]"),
    (CustomSerialized(), '{"ratio":"inf","data":"_w=="}'),
]


@pytest.mark.parametrize(("value", "text"), STORABLE)
def test_result_is_converted_to_one_text(value: object, text: str) -> None:
    assert text == serialize_result(value)


def self_containing_list() -> list[Any]:
    values: list[Any] = []
    values.append({"again": values})
    return values


def deep_list(levels: int) -> list[Any]:
    values: list[Any] = []
    for _ in range(levels):
        values = [values]
    return values


def number_generator() -> Iterator[int]:
    yield 1


async def async_number_generator() -> AsyncIterator[int]:
    yield 1


def self_containing_model() -> Holder:
    holder = Holder()
    holder.items.append(holder)
    return holder


UNSTORABLE: list[tuple[Any, str]] = [
    (math.nan, "result is nan"),
    ([1, math.inf], "result[1] is inf"),
    ({"items": [1, 2, 3, {"price": math.nan}]}, "result.items[3].price is nan"),
    ({"a b": math.nan}, "result['a b'] is nan"),
    (Decimal("NaN"), "result is NaN"),
    (10**5_000, "result is an integer of too many digits"),
    (b"\xff", "result is bytes that are not UTF-8"),
    ({"k": [b"\xff"]}, "result.k[0] is bytes"),
    ({1: "a"}, "result has a key of type int, not a string"),
    ({"a": {None: 1}}, "result.a has a key"),
    ({(1, 2): 1}, "result has a key of type tuple, not a string"),
    ({True: 1}, "result has a key"),
    (number_generator(), "result is of type generator, which can be read only once"),
    ([iter([1])], "result[0] is of type list_iterator"),
    (map(str, [1]), "result is of type map"),
    (async_number_generator(), "result is of type async_generator"),
    (io.StringIO("a"), "result is of type StringIO"),
    (self_containing_list(), "result[0].again contains itself"),
    (deep_list(200), "is nested deeper than 100 levels"),
    (deep_list(100_000), "is nested deeper than 100 levels"),
    (object(), "result is of type object, which has no JSON form"),
    (ValueError("no"), "result is of type ValueError"),
    (SimpleNamespace(a=1), "result is of type SimpleNamespace"),
    (range(3), "result is of type range"),
    ({}.keys(), "result is of type dict_keys"),
    (Item, "result is of type ModelMetaclass"),
    (Point, "result is of type type"),
    (print, "result is of type builtin_function_or_method"),
    (memoryview(b"a"), "result is of type memoryview"),
    (Point(1, inner=[object()]), "result.inner[0] is of type object"),
    (Item(price=math.nan), "result.price is nan"),
    ([Item(price=math.inf)], "result[0].price is inf"),
    (Numbers([math.nan]), "result[0] is nan"),
    (Holder(items=[{"x": object()}]), "result.items[0].x is of type object"),
    (Holder(items=[b"\xff"]), "result.items[0] is bytes"),
    (Holder(by_name={"a": {1: 1}}), "result.by_name.a has a key"),
    (Holder(by_number={1: "a"}), "result.by_number has a key"),
    (Holder(items=[number_generator()]), "result.items[0] is of type"),
    (self_containing_model(), "result"),
    (Item.model_construct(price="much"), "result"),
]


@pytest.mark.parametrize(
    ("value", "place"), UNSTORABLE, ids=[each for _, each in UNSTORABLE]
)
def test_unstorable_result_error_names_its_path(value: object, place: str) -> None:
    with pytest.raises(ResultNotSerializable) as caught:
        serialize_result(value)

    assert place in str(caught.value)
    assert len(str(caught.value)) < 1_000


def test_object_that_raises_while_it_is_read_is_refused() -> None:
    @dataclass
    class Broken:
        value: int

        def __getattribute__(self, name: str) -> Any:
            if name == "value":
                msg = "gone"
                raise RuntimeError(msg)
            return super().__getattribute__(name)

    with pytest.raises(ResultNotSerializable, match="gone"):
        serialize_result(Broken(1))


def test_shared_value_is_not_a_cycle() -> None:
    shared = [1]

    assert '{"a":[1],"b":[1]}' == serialize_result({"a": shared, "b": shared})


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=10,
)


@given(json_values.filter(lambda value: not isinstance(value, str)))
def test_json_value_is_unchanged_or_refused(value: Any) -> None:
    try:
        text = serialize_result(value)
    except ResultNotSerializable as error:
        assert "inf" in str(error)  # noqa: PT017 - the expected exception
        return

    assert isinstance(text, str)
    assert value == json.loads(text)
