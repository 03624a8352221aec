"""JSON as text: equal when it comes back, refused by name when it could not be."""

from __future__ import annotations

import datetime as dt
import json
import math
import time
from collections import OrderedDict
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from continuations.core import jsontext
from continuations.core.jsontext import NotJson

TEXT = st.text(st.characters(exclude_categories=()), max_size=20)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | TEXT,
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(TEXT, inner, max_size=4)
    ),
    max_leaves=12,
).filter(lambda value: "inf" not in repr(value))

HOSTILE = [
    "\ud800",
    "\udfff\ud800",
    "\x00",
    "\u2028\u2029",
    "\u202e\u0661 right to left",
    "\U0001f9d1\u200d\U0001f680",
    "e\u0301",
    "\u00e9",
    "\ufeffbom",
    '"\\/\b\f\n\r\t',
    "</script><!--",
    "",
]


@dataclass
class LiveObject:
    name: str


@settings(max_examples=200, deadline=None, derandomize=True)
@given(JSON)
def test_any_json_value_comes_back_equal(value: Any) -> None:
    """R-I2, R-I3: through both spellings, and only once each."""
    assert value == jsontext.parse(jsontext.dump(value))
    assert value == jsontext.parse(jsontext.canonical(value))
    assert jsontext.canonical(value) == jsontext.canonical(
        jsontext.parse(jsontext.canonical(value))
    )


@pytest.mark.parametrize("text", HOSTILE)
def test_hostile_text_comes_back_equal(text: str) -> None:
    """R-I2: as a value and as a key."""
    assert {text: [text]} == jsontext.parse(jsontext.dump({text: [text]}))


def test_prototype_keys_are_only_keys() -> None:
    """R-I2."""
    value = {"__proto__": {"admin": True}, "__class__": "x", "constructor": None}

    assert value == jsontext.parse(jsontext.dump(value))


def test_huge_integers_stay_whole() -> None:
    """R-I2: past 2**53, where other languages round."""
    value = [2**53 + 1, -(2**63) - 1, 2**64, 10**400]

    assert value == jsontext.parse(jsontext.dump(value))


def test_true_and_one_and_one_point_zero_stay_apart() -> None:
    back = jsontext.parse(jsontext.dump([True, 1, 1.0, 0, False, 0.0, None]))

    assert [bool, int, float, int, bool, float, type(None)] == [type(v) for v in back]


def test_dump_writes_what_the_openai_client_writes() -> None:
    assert '{"b":1,"a":"é\u2028"}' == jsontext.dump({"b": 1, "a": "é\u2028"})


def test_canonical_text_is_one_for_equal_values() -> None:
    assert '{"a":[1,{"c":2,"d":3}],"b":1}' == jsontext.canonical(
        {"b": 1, "a": [1, {"d": 3, "c": 2}]}
    )


@pytest.mark.parametrize(
    "value",
    [
        math.nan,
        math.inf,
        -math.inf,
        {"deep": [math.nan]},
        b"bytes",
        {1, 2},
        frozenset({1}),
        (1, 2),
        {"pair": (1, 2)},
        {1: "one"},
        {None: "none"},
        {True: "yes"},
        {1.5: "x"},
        {(1, 2): "tuple"},
        dt.datetime(2026, 1, 1, tzinfo=dt.UTC),
        dt.date(2026, 1, 1),
        Decimal("1.10"),
        LiveObject("x"),
        ValueError("x"),
        (n for n in range(3)),
        object(),
        range(3),
        1j,
        10**5000,
    ],
    ids=lambda value: type(value).__name__,
)
def test_value_that_is_not_json_is_refused(value: object) -> None:
    """R-I3, R-I5: a typed error when it is saved, never a silent change."""
    with pytest.raises(NotJson):
        jsontext.dump(value)
    with pytest.raises(NotJson):
        jsontext.canonical(value)


def test_cyclic_value_is_refused() -> None:
    """R-I3."""
    ring: list[object] = []
    ring.append({"again": ring})

    with pytest.raises(NotJson):
        jsontext.dump(ring)


def test_shared_value_is_not_a_cycle() -> None:
    same = [1]

    assert "[[1],[1]]" == jsontext.dump([same, same])


def test_subclasses_of_dict_and_list_are_accepted() -> None:
    kind: OrderedDict[str, int] = OrderedDict(a=1)

    assert '{"a":1}' == jsontext.dump(kind)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "NaN",
        "Infinity",
        "[-Infinity]",
        '{"a": NaN}',
        "1e999",
        "[-1e999]",
        "9" * 5000,
        "{'a': 1}",
        '{"a":1} x',
        "\ufeff{}",
        "[1,]",
        "undefined",
        '"\x00"',
    ],
    ids=lambda text: text[:12],
)
def test_text_that_is_not_json_is_refused(text: str) -> None:
    """R-I3: NaN and what overflows to infinity are no numbers."""
    with pytest.raises(NotJson):
        jsontext.parse(text)


# Depth ------------------------------------------------------------------------


def nested_lists(levels: int) -> list[Any]:
    """Return lists in lists; the innermost is empty."""
    value: list[Any] = []
    for _ in range(levels - 1):
        value = [value]
    return value


def parse_below_frames(frames: int, levels: int) -> object:
    """Parse with many Python frames below."""
    if frames:
        return parse_below_frames(frames - 1, levels)
    return jsontext.parse("[" * levels + "]" * levels)


def test_json_of_a_hundred_thousand_levels_is_a_typed_error() -> None:
    """R-I4: as text, as a value, with objects, from wherever it is called."""
    with pytest.raises(NotJson):
        jsontext.parse("[" * 100_000 + "]" * 100_000)
    with pytest.raises(NotJson):
        jsontext.parse('{"a":' * 100_000 + "1" + "}" * 100_000)
    with pytest.raises(NotJson):
        jsontext.dump(nested_lists(100_000))


@pytest.mark.parametrize("frames", [0, 300, 600])
def test_depth_limit_does_not_depend_on_the_caller(frames: int) -> None:
    """R-I4, B-2: what was saved in one place must load in every other."""
    most = jsontext.MAX_DEPTH

    assert isinstance(parse_below_frames(frames, most), list)
    with pytest.raises(NotJson):
        parse_below_frames(frames, most + 1)


@pytest.mark.parametrize("extra", [-1, 0, 1, 2])
@pytest.mark.parametrize("inner", [None, 1, "x", {}])
def test_dump_takes_exactly_what_parse_takes(extra: int, inner: object) -> None:
    """B-18: else a run is saved that never loads."""
    value = nested_lists(jsontext.MAX_DEPTH + extra)
    bottom = value
    while bottom:
        bottom = bottom[0]
    if inner is not None:
        bottom.append(inner)
    text = json.dumps(value)

    def takes(act: Any, given: object) -> bool:
        try:
            act(given)
        except NotJson:
            return False
        return True

    assert takes(jsontext.parse, text) == takes(jsontext.dump, value)
    assert takes(jsontext.parse, text) == takes(jsontext.canonical, value)


def test_a_text_of_a_million_empty_objects_is_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """R-I4, B-18: what is large only in memory is neither saved nor read."""
    monkeypatch.setattr(jsontext, "MAX_CONTAINERS", 1000)
    most: list[dict[str, object]] = [{} for _ in range(999)]
    text = json.dumps(most)

    assert most == jsontext.parse(text)
    assert ["[" * 2000] == jsontext.parse(json.dumps(["[" * 2000]))
    for refused in (
        lambda: jsontext.parse(f"[{text[1:-1]},[]]"),
        lambda: jsontext.dump([*most, {}]),
        lambda: jsontext.canonical([*most, {}]),
    ):
        with pytest.raises(NotJson, match="more than"):
            refused()


def test_brackets_inside_strings_are_not_levels() -> None:
    """A tool result that is JSON itself is a string like any other."""
    value = {"content": "[{" * 5000, "more": '\\"[' * 5000}

    assert value == jsontext.parse(json.dumps(value))


def test_depth_check_takes_linear_time() -> None:
    """B-20: whatever a model wrote is refused or read at once."""
    texts = [
        "[" * 150 + '"' + '\\"' * 100_000 + "[" * 60,
        "[" * 150 + '"' + "\\" * 200_001 + "[" * 60,
        '"[' * 100_000,
    ]
    began = time.process_time()
    for text in texts:
        with pytest.raises(NotJson):
            jsontext.parse(text)

    # A quadratic search takes minutes here, a linear one milliseconds.
    assert time.process_time() - began < 5


# Digests ----------------------------------------------------------------------


def test_a_digest_is_of_the_list_and_not_of_the_joined_text() -> None:
    assert jsontext.digest("ab", "c") != jsontext.digest("a", "bc")
    assert jsontext.digest("a") != jsontext.digest("a", "")
    assert jsontext.digest() != jsontext.digest("")


def test_a_digest_takes_any_text() -> None:
    assert jsontext.digest("\ud800") != jsontext.digest("\ud801")
    assert 64 == len(jsontext.digest("\ud800"))


@pytest.mark.parametrize("text", HOSTILE)
def test_printable_text_is_valid_utf8_and_parses_equal(text: str) -> None:
    """R-I2: for people and other programs."""
    value = {text: text}
    written = jsontext.escape_surrogates(jsontext.dump(value))

    assert value == json.loads(written.encode("utf-8"))


@pytest.mark.parametrize(
    "text", ['{"a":1,"a":1}', '[{"b":{"a":1,"a":2}}]', '{"a":1,"\\u0061":1}']
)
def test_parse_with_unique_refuses_a_repeated_key(text: str) -> None:
    assert jsontext.parse(text)
    with pytest.raises(NotJson, match="twice"):
        jsontext.parse(text, unique_keys=True)

    assert [{"a": {"a": 1}}] == jsontext.parse('[{"a":{"a":1}}]', unique_keys=True)
