"""JSON texts: a value comes back equal or is rejected with a typed error."""

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
from tests.sampling import examples

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


@settings(max_examples=examples(200), deadline=None, derandomize=True)
@given(JSON)
def test_any_json_value_comes_back_equal(value: Any) -> None:
    """`dump` and `canonical` keep the value, and a value has one canonical text."""
    assert value == jsontext.parse(jsontext.dump(value))
    assert value == jsontext.parse(jsontext.canonical(value))
    assert jsontext.canonical(value) == jsontext.canonical(
        jsontext.parse(jsontext.canonical(value))
    )


@settings(max_examples=examples(200), deadline=None, derandomize=True)
@given(JSON, st.text(" \t\r\n", max_size=2), st.text(" \t\r\n", max_size=2))
def test_texts_and_values_are_those_of_the_json_module(
    value: Any, before: str, after: str
) -> None:
    """The settings and the white space are those of `json`."""
    options: dict[str, Any] = {"ensure_ascii": False, "separators": (",", ":")}

    assert jsontext.dump(value) == json.dumps(value, **options)
    assert jsontext.canonical(value) == json.dumps(value, sort_keys=True, **options)
    assert jsontext.parse(f"{before}{json.dumps(value)}{after}") == value


@pytest.mark.parametrize("text", HOSTILE)
def test_hostile_text_comes_back_equal(text: str) -> None:
    """The text is both a value and a key."""
    assert {text: [text]} == jsontext.parse(jsontext.dump({text: [text]}))


def test_prototype_keys_are_only_keys() -> None:
    value = {"__proto__": {"admin": True}, "__class__": "x", "constructor": None}

    assert value == jsontext.parse(jsontext.dump(value))


def test_huge_integers_stay_whole() -> None:
    """Integers above 2**53 stay exact, where other languages round."""
    value = [2**53 + 1, -(2**63) - 1, 2**64, 10**400]

    assert value == jsontext.parse(jsontext.dump(value))


def test_true_one_and_one_point_zero_keep_their_types() -> None:
    back = jsontext.parse(jsontext.dump([True, 1, 1.0, 0, False, 0.0, None]))

    assert [bool, int, float, int, bool, float, type(None)] == [type(v) for v in back]


def test_dump_writes_the_same_text_as_the_openai_client() -> None:
    assert '{"b":1,"a":"é\u2028"}' == jsontext.dump({"b": 1, "a": "é\u2028"})


def test_canonical_text_is_the_same_for_equal_values() -> None:
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
def test_dump_rejects_a_value_that_is_not_json(value: object) -> None:
    """Storing raises a typed error instead of changing the value silently."""
    with pytest.raises(NotJson):
        jsontext.dump(value)
    with pytest.raises(NotJson):
        jsontext.canonical(value)


def test_dump_rejects_a_cyclic_value() -> None:
    cycle: list[object] = []
    cycle.append({"again": cycle})

    with pytest.raises(NotJson, match="Circular reference detected"):
        jsontext.dump(cycle)


def test_shared_value_is_not_a_cycle() -> None:
    shared = [1]

    assert "[[1],[1]]" == jsontext.dump([shared, shared])


def test_subclasses_of_dict_and_list_are_accepted() -> None:
    value: OrderedDict[str, int] = OrderedDict(a=1)

    assert '{"a":1}' == jsontext.dump(value)


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
def test_parse_rejects_text_that_is_not_json(text: str) -> None:
    """NaN, and numbers that overflow to infinity, are not JSON."""
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
    """Parse below many Python stack frames."""
    if frames:
        return parse_below_frames(frames - 1, levels)
    return jsontext.parse("[" * levels + "]" * levels)


def test_json_with_100_000_levels_raises_not_json() -> None:
    """The error is typed for texts and values, with lists and with objects."""
    with pytest.raises(NotJson):
        jsontext.parse("[" * 100_000 + "]" * 100_000)
    with pytest.raises(NotJson):
        jsontext.parse('{"a":' * 100_000 + "1" + "}" * 100_000)
    with pytest.raises(NotJson):
        jsontext.dump(nested_lists(100_000))


@pytest.mark.parametrize("frames", [0, 300, 600])
def test_depth_limit_does_not_depend_on_the_caller(frames: int) -> None:
    """A text that was stored by one process must load in every other."""
    limit = jsontext.MAX_DEPTH

    assert isinstance(parse_below_frames(frames, limit), list)
    with pytest.raises(NotJson):
        parse_below_frames(frames, limit + 1)


@pytest.mark.parametrize("extra", [-1, 0, 1, 2])
@pytest.mark.parametrize("inner", [None, 1, "x", {}])
def test_dump_accepts_exactly_what_parse_accepts(extra: int, inner: object) -> None:
    """Otherwise a run could be stored that never loads again."""
    value = nested_lists(jsontext.MAX_DEPTH + extra)
    bottom = value
    while bottom:
        bottom = bottom[0]
    if inner is not None:
        bottom.append(inner)
    text = json.dumps(value)

    def accepts(function: Any, argument: object) -> bool:
        try:
            function(argument)
        except NotJson:
            return False
        return True

    assert accepts(jsontext.parse, text) == accepts(jsontext.dump, value)
    assert accepts(jsontext.parse, text) == accepts(jsontext.canonical, value)


def test_text_with_too_many_containers_is_rejected(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Text that is small in bytes and large in memory is neither stored nor read."""
    monkeypatch.setattr(jsontext, "MAX_CONTAINERS", 1000)
    largest: list[dict[str, object]] = [{} for _ in range(999)]
    text = json.dumps(largest)

    assert largest == jsontext.parse(text)
    assert ["[" * 2000] == jsontext.parse(json.dumps(["[" * 2000]))
    for act in (
        lambda: jsontext.parse(f"[{text[1:-1]},[]]"),
        lambda: jsontext.dump([*largest, {}]),
        lambda: jsontext.canonical([*largest, {}]),
    ):
        with pytest.raises(NotJson, match="more than"):
            act()


def test_brackets_inside_strings_are_not_levels() -> None:
    """A tool result that contains JSON is an ordinary string."""
    value = {"content": "[{" * 5000, "more": '\\"[' * 5000}

    assert value == jsontext.parse(json.dumps(value))


def test_depth_check_takes_linear_time() -> None:
    """A model's text is read or rejected in linear time."""
    texts = [
        "[" * 150 + '"' + '\\"' * 100_000 + "[" * 60,
        "[" * 150 + '"' + "\\" * 200_001 + "[" * 60,
        '"[' * 100_000,
    ]
    started = time.process_time()
    for text in texts:
        with pytest.raises(NotJson):
            jsontext.parse(text)

    # A quadratic search takes minutes here, a linear one milliseconds.
    assert time.process_time() - started < 5


# Digests ----------------------------------------------------------------------


def test_digest_depends_on_the_list_and_not_on_the_joined_text() -> None:
    assert jsontext.digest("ab", "c") != jsontext.digest("a", "bc")
    assert jsontext.digest("a") != jsontext.digest("a", "")
    assert jsontext.digest() != jsontext.digest("")


def test_digest_accepts_lone_surrogates() -> None:
    assert jsontext.digest("\ud800") != jsontext.digest("\ud801")
    assert 64 == len(jsontext.digest("\ud800"))


@pytest.mark.parametrize("text", HOSTILE)
def test_escape_surrogates_returns_valid_utf8_that_parses_equal(text: str) -> None:
    """Reports are valid UTF-8 for other programs."""
    value = {text: text}
    written = jsontext.escape_surrogates(jsontext.dump(value))

    assert value == json.loads(written.encode("utf-8"))


@pytest.mark.parametrize(
    "text", ['{"a":1,"a":1}', '[{"b":{"a":1,"a":2}}]', '{"a":1,"\\u0061":1}']
)
def test_lossless_parse_rejects_a_repeated_key(text: str) -> None:
    assert jsontext.parse(text)
    with pytest.raises(NotJson, match="twice"):
        jsontext.parse(text, lossless=True)

    assert [{"a": {"a": 1}}] == jsontext.parse('[{"a":{"a":1}}]', lossless=True)


ROUNDED_NUMBERS = [
    "90071992547409.93123",
    "12345678901234567890.5",
    "0.1000000000000000055511151231257827",
    "1e-400",
    "1e-99999999999999999999",
    "123456789012345678e5",
]


@pytest.mark.parametrize("digits", ROUNDED_NUMBERS)
def test_lossless_parse_rejects_a_number_that_a_float_rounds(digits: str) -> None:
    assert isinstance(jsontext.parse(digits), float)
    with pytest.raises(NotJson, match=r"^the number .* write it as a string$"):
        jsontext.parse(f'{{"a": [{digits}]}}', lossless=True)


@pytest.mark.parametrize(
    "digits",
    ["0.1", "-0.0", "0e9", "1.10", "5E-1", "1e22", "5e-324", "90071992547409931234567"],
)
def test_lossless_parse_accepts_a_number_that_is_kept(digits: str) -> None:
    number = jsontext.parse(digits, lossless=True)

    assert Decimal(digits) == Decimal(repr(number))


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_lossless_parse_accepts_each_float(number: float) -> None:
    assert number == jsontext.parse(jsontext.dump(number), lossless=True)
