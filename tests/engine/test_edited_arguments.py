"""Edited arguments: the call runs with the values that the person saw."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, timezone
from decimal import ROUND_HALF_UP, Decimal
from enum import Enum
from itertools import count
from typing import Annotated, Any, TypeAlias
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import AfterValidator, BaseModel, Field, TypeAdapter

from continuations import Approve, Finished, Runner, Suspended, tool
from continuations.errors import DecisionRefused
from continuations_storage import MemoryStore
from tests import effect_log
from tests.engine.agent_builders import make_boss, root_tool_results
from tests.engine.payment_agent import (
    PAY_SCRIPT,
    make_payment_runner,
    start_and_get_wait,
)
from tests.outcomes import expect, single_wait
from tests.scripts import Script, call


def test_edited_arguments_run_and_are_reported_to_the_model() -> None:
    """The original arguments stay in the call and in the assistant's message."""
    runner = make_payment_runner()
    wait = start_and_get_wait(runner)
    assert {"cents": 5, "to": "kim"} == wait.arguments

    runner.decide(wait.id, Approve(arguments={"cents": 3, "to": "jo"}))
    outcome = runner.resume("r1")

    assert ["pay 3 jo"] == effect_log.names()
    [said] = root_tool_results(outcome)
    assert "The person who approved this call changed its arguments." in said
    assert '{"cents":3,"to":"jo"}' in said
    assert said.endswith("paid 3 to jo")
    asked = outcome.continuation.root.messages[2]["tool_calls"][0]
    assert '{"cents": 5}' == asked["function"]["arguments"]


@pytest.mark.parametrize(
    "edit",
    [{}, {"cents": "three"}, {"cents": 3, "more": 1}, {"to": "jo"}, [], "x", 5, {1: 2}],
)
def test_edits_that_the_schema_refuses_are_not_recorded(edit: Any) -> None:
    """An explicit `{}` is an edit too, here an invalid one."""
    runner = make_payment_runner()
    wait = start_and_get_wait(runner)

    with pytest.raises(DecisionRefused):
        runner.decide(wait.id, Approve(arguments=edit))

    # Then the wait is still open and accepts the next decision
    assert wait == runner.wait(wait.id)
    runner.decide(wait.id, Approve())


def test_an_empty_edit_is_an_edit() -> None:
    """`{}` is a valid edit if every argument has a default."""

    @tool(approval=True)
    def pay(cents: int = 1) -> str:
        """Pay."""
        effect_log.append_effect("pay", str(cents))
        return "paid"

    runner = Runner(make_boss(PAY_SCRIPT, pay), store=MemoryStore())
    runner.decide(start_and_get_wait(runner).id, Approve(arguments={}))
    outcome = runner.resume("r1")

    assert ["pay 1"] == effect_log.names()
    assert "changed its arguments" in root_tool_results(outcome)[0]


def test_an_edit_that_the_tool_refuses_opens_a_new_wait() -> None:
    """A rule that no schema can express is checked on resume; nothing runs."""

    def even(number: int) -> int:
        if number % 2:
            raise ValueError("it is odd")
        return number

    @tool(approval=True)
    def pay(cents: Annotated[int, AfterValidator(even)]) -> str:
        """Pay."""
        effect_log.append_effect("pay", str(cents))
        return f"paid {cents}"

    script: Script = {"go": [[call("pay", cents=4)], "end"]}
    runner = Runner(make_boss(script, pay), store=MemoryStore())
    wait = start_and_get_wait(runner)

    # When an odd number passes the schema
    runner.decide(wait.id, Approve(arguments={"cents": 3}))
    again = single_wait(runner.resume("r1"))

    # Then nothing ran, and a new wait shows the original
    assert [] == effect_log.effects()
    assert again.id != wait.id
    assert {"cents": 4} == again.arguments
    assert "odd" in str(again.note)

    # When that one is approved
    runner.decide(again.id, Approve(arguments={"cents": 6}))
    assert isinstance(runner.resume("r1"), Finished)
    assert ["pay 6"] == effect_log.names()


class Order(BaseModel):
    """The order that is paid."""

    cents: int
    target: str = "kim"


def test_values_that_the_tool_adds_to_an_edit_open_a_new_wait() -> None:
    """Values that neither the edit nor the schema showed never run."""
    made = count(1)

    def account() -> str:
        return f"account {next(made)}"

    @tool(approval=True)
    def pay(
        order: Order,
        cents: int,
        account: Annotated[str, Field(default_factory=account)],
    ) -> str:
        """Pay."""
        what = f"{cents} {order.cents} {order.target} {account}"
        effect_log.append_effect("pay", what)
        return "paid"

    asked = {"order": {"cents": 1}, "cents": 5, "account": "mine"}
    script: Script = {"go": [[["pay", asked]], "end"]}
    runner = Runner(make_boss(script, pay), store=MemoryStore())
    wait = start_and_get_wait(runner)
    whole = {"order": {"cents": 2, "target": "jo"}, "cents": 3, "account": "hers"}
    edits: list[dict[str, Any]] = [
        {key: value for key, value in whole.items() if key != "account"},
        {**whole, "order": {"cents": 2, "target": "jo", "currency": "EUR"}},
    ]
    for edit in edits:
        # Given an approval of less, or of more, than the tool would run with
        runner.decide(wait.id, Approve(arguments=edit))
        outcome = runner.resume("r1")

        # Then nothing runs, and a new wait shows what the tool would run with
        assert isinstance(outcome, Suspended)
        assert [] == effect_log.names()
        [again] = outcome.waits
        assert again.id != wait.id
        note = again.note or ""
        assert note.startswith("The edited arguments were not used")
        assert note.endswith(
            "An approval without edits runs the call with the arguments shown here."
        )
        assert wait.arguments == again.arguments
        wait = again

    runner.decide(wait.id, Approve(arguments=whole))
    assert isinstance(runner.resume("r1"), Finished)
    assert ["pay 3 2 jo hers"] == effect_log.names()


def test_defaults_that_the_wait_shows_are_part_of_the_edit() -> None:
    """Defaults in the schema were shown to the person who edits."""

    @tool(approval=True)
    def pay(cents: int, currency: str = "EUR") -> str:
        """Pay."""
        effect_log.append_effect("pay", f"{cents} {currency}")
        return "paid"

    script: Script = {"go": [[call("pay", cents=5, currency="USD")], "end"]}
    runner = Runner(make_boss(script, pay), store=MemoryStore())
    wait = start_and_get_wait(runner)
    assert "EUR" == wait.schema["properties"]["currency"]["default"]

    runner.decide(wait.id, Approve(arguments={"cents": 3}))
    outcome = runner.resume("r1")

    assert ["pay 3 EUR"] == effect_log.names()
    assert '{"cents":3,"currency":"EUR"}' in root_tool_results(outcome)[0]


# Values -----------------------------------------------------------------------


@dataclass(frozen=True)
class Refused:
    """`decide` refused the edit."""


@dataclass(frozen=True)
class Reopened:
    """Nothing ran, and a new wait says why."""

    note: str


@dataclass(frozen=True)
class Ran:
    """The tool ran with a value."""

    value: Any


def _decide_with_edit(
    type_: Any, first: Any, edit: dict[str, Any]
) -> Refused | Reopened | Ran:
    """Approve a call of a tool with one parameter, `value`, with an edit."""
    received: list[Any] = []

    def act(value: Any) -> None:
        """Act."""
        received.append(value)

    act.__annotations__ = {"value": type_, "return": None}
    script: Any = {"go": [[["act", {"value": first}]], "end"]}
    runner = Runner(make_boss(script, tool(act, approval=True)), store=MemoryStore())
    wait = start_and_get_wait(runner)
    try:
        runner.decide(wait.id, Approve(by="kim", arguments=edit))
    except DecisionRefused:
        return Refused()
    outcome = runner.resume("r1")
    if isinstance(outcome, Suspended):
        assert [] == received
        [again] = outcome.waits
        assert again.id != wait.id
        assert again.arguments == wait.arguments
        assert again.note
        return Reopened(again.note)
    assert isinstance(outcome, Finished)
    [value] = received
    return Ran(value)


# Spellings of one value --------------------------------------------------------


class Color(Enum):
    RED = "red"
    PRICE = 2.5


@dataclass
class Line:
    price: float
    count: int = 1


class Discount(BaseModel):
    rate: Decimal = Decimal("0.5")
    until: datetime = datetime(2026, 1, 1, tzinfo=UTC)


class ShownOrder(BaseModel):
    line: Line
    discount: Discount = Discount()
    tags: set[str] = {"b", "a"}
    note: str | None = None


INSTANT = datetime(2026, 7, 1, 12, 30, tzinfo=UTC)
KEY = UUID("6e1bd1b2-9e0e-4a7c-8b3a-0a1b2c3d4e5f")
WHOLE_ORDER = {
    "line": {"price": 1.5, "count": 1},
    "discount": {"rate": "0.5", "until": "2026-01-01T00:00:00Z"},
    "tags": ["a", "b"],
    "note": None,
}
SPELLINGS: list[tuple[str, Any, Any, Any, Any]] = [
    ("whole float as integer", float, 1.5, 500, 500.0),
    ("whole float", float, 1.5, 500.0, 500.0),
    ("floats", list[float], [1.5], [500, 2.0, 2.5], [500.0, 2.0, 2.5]),
    ("large float", float, 1.5, 1e22, 1e22),
    ("integer as float", int, 1, 5.0, 5),
    ("decimal as number", Decimal, "1.5", 12.34, Decimal("12.34")),
    ("decimal as integer", Decimal, "1.5", 12, Decimal(12)),
    ("decimal with zeros", Decimal, "1.5", "012.340", Decimal("12.340")),
    ("set", set[int], [1], [3, 1, 2], {1, 2, 3}),
    (
        "set of decimals",
        set[Decimal],
        ["1.5"],
        [0.012, "770302.480"],
        {Decimal("0.012"), Decimal("770302.480")},
    ),
    ("set of floats", frozenset[float], [1.5], [3, 1.5, 2], frozenset({1.5, 2.0, 3.0})),
    ("offset", datetime, "2026-01-01T00:00:00Z", "2026-07-01T12:30:00+00:00", INSTANT),
    ("no seconds", datetime, "2026-01-01T00:00:00Z", "2026-07-01 12:30Z", INSTANT),
    ("uuid", UUID, str(KEY), str(KEY).upper(), KEY),
    ("uuid without hyphens", UUID, str(KEY), KEY.hex, KEY),
    ("duration", timedelta, "PT1S", "PT90M", timedelta(minutes=90)),
    ("enum of numbers", Color, "red", 2.5, Color.PRICE),
    ("optional", float | None, None, 5, 5.0),
    ("dict", dict[str, float], {}, {"a": 1, "b": 2.5}, {"a": 1.0, "b": 2.5}),
    ("tuple", tuple[float, Decimal], [1.5, "1"], [2, 2], (2.0, Decimal(2))),
    (
        "nested defaults",
        ShownOrder,
        WHOLE_ORDER,
        {"line": {"price": 2}},
        ShownOrder(line=Line(price=2.0)),
    ),
    (
        "defaults inside of a member",
        ShownOrder,
        WHOLE_ORDER,
        {"line": {"price": 2, "count": 3}, "discount": {"rate": 0.25}},
        ShownOrder(
            line=Line(price=2.0, count=3), discount=Discount(rate=Decimal("0.25"))
        ),
    ),
    (
        "models in a list",
        list[ShownOrder],
        [],
        [{"line": {"price": 2}, "tags": ["b", "a"]}],
        [ShownOrder(line=Line(price=2.0))],
    ),
]


@pytest.mark.parametrize(
    ("type_", "first", "edit", "expected"),
    [case[1:] for case in SPELLINGS],
    ids=[case[0] for case in SPELLINGS],
)
def test_other_spelling_of_a_value_runs_with_that_value(
    type_: Any, first: Any, edit: Any, expected: Any
) -> None:
    assert Ran(expected) == _decide_with_edit(type_, first, {"value": edit})


# Values that nobody saw --------------------------------------------------------


def _cap(value: float) -> float:
    return min(value, 100.0)


def _in_utc(value: datetime) -> datetime:
    return value.astimezone(UTC)


def _round(value: Decimal) -> Decimal:
    return value.quantize(Decimal("0.1"), ROUND_HALF_UP)


def _without_one(numbers: set[int]) -> set[int]:
    return numbers - {1}


class Cat(BaseModel):
    lives: int = 9
    name: str


class Robot(BaseModel):
    lives: int = 1
    name: str


CHANGES: list[tuple[str, Any, Any, Any]] = [
    ("cap", Annotated[float, AfterValidator(_cap)], 1.5, 500),
    ("lower case", Annotated[str, AfterValidator(str.lower)], "a", "B"),
    ("spaces", Annotated[str, AfterValidator(str.strip)], "a", " b "),
    ("order", Annotated[list[int], AfterValidator(sorted)], [1], [2, 1]),
    (
        "another clock",
        Annotated[datetime, AfterValidator(_in_utc)],
        "2026-01-01T00:00:00Z",
        "2026-07-01T12:30:00+02:00",
    ),
    ("rounding", Annotated[Decimal, AfterValidator(_round)], "1.5", 1.25),
    ("digits of a float", float, 1.5, 2**53 + 1),
    (
        "digits of a second",
        datetime,
        "2026-01-01T00:00:00Z",
        "2026-07-01T12:30:00.123456789Z",
    ),
    ("a number of seconds", datetime, "2026-01-01T00:00:00Z", "20260701"),
    ("a month", timedelta, "PT1S", "P1M"),
    (
        "unknown members",
        Cat,
        {"lives": 9, "name": "a"},
        {"lives": 9, "name": "b", "age": 3},
    ),
    (
        "default of one of two types",
        Cat | Robot,
        {"lives": 1, "name": "a"},
        {"name": "b"},
    ),
    (
        "default factory",
        Annotated[ShownOrder, Field()],
        WHOLE_ORDER,
        {"line": {"price": 2}, "more": 1},
    ),
    (
        "members of a set",
        Annotated[set[int], AfterValidator(_without_one)],
        [2],
        [1, 2],
    ),
    ("keys", dict[int, str], {}, {"1": "a", "01": "b"}),
]


@pytest.mark.parametrize(
    ("type_", "first", "edit"),
    [case[1:] for case in CHANGES],
    ids=[case[0] for case in CHANGES],
)
def test_value_that_the_tool_would_change_does_not_run(
    type_: Any, first: Any, edit: Any
) -> None:
    end = expect(_decide_with_edit(type_, first, {"value": edit}), Reopened)

    assert end.note.startswith("The edited arguments were not used")


KNOWN_AT_DECIDE: list[tuple[Any, Any, Any]] = [
    (datetime, "2026-01-01T00:00:00Z", "tomorrow"),
    (UUID, str(KEY), "not a uuid"),
    (float, 1.5, "500"),
    (str, "a", "\ud800"),
    (list[datetime], [], ["2026-13-01T00:00:00Z"]),
    (set[int], [1], [1, 1]),
    (Annotated[int, Field(le=10)], 1, 11),
]


@pytest.mark.parametrize(("type_", "first", "edit"), KNOWN_AT_DECIDE)
def test_edit_that_the_schema_excludes_is_refused_at_once(
    type_: Any, first: Any, edit: Any
) -> None:
    assert Refused() == _decide_with_edit(type_, first, {"value": edit})


@pytest.mark.parametrize(
    "text",
    ["2026-07-01T12:30:00", "2026-07-01T12:30:00z", "2026-07-01T12:30:00.5+02:00"],
)
def test_time_that_the_tool_takes_is_not_refused_at_once(text: str) -> None:
    """JSON Schema wants an offset; `datetime` does not."""
    end = _decide_with_edit(datetime, "2026-01-01T00:00:00Z", {"value": text})

    assert isinstance(end, Ran | Reopened)


# Any edit of any type ----------------------------------------------------------

# Types that are drawn are no types to a type checker.
A: Any = Annotated
LIST: Any = list
SET: Any = set
DICT: Any = dict
TUPLE: Any = tuple

# A strategy of pairs: JSON that a person may write, and the value that it stands for.
Pairs: TypeAlias = "st.SearchStrategy[tuple[Any, Any]]"

ZONES: Any = st.sampled_from([UTC, timezone(timedelta(hours=2)), None])
FIRST_DAY, LAST_DAY = (datetime(year, 1, 1) for year in (1990, 2100))  # noqa: DTZ001 - the zone is drawn
MOMENTS = st.datetimes(FIRST_DAY, LAST_DAY, timezones=ZONES)
SMALL_FLOATS = st.floats(-1e6, 1e6)


def _float_spellings(number: float) -> list[Any]:
    return [number, *([int(number)] if number.is_integer() else [])]


def _integer_spellings(number: int) -> list[Any]:
    return [number, *([float(number)] if abs(number) < 2**53 else [])]


def _decimal_spellings(number: Decimal) -> list[Any]:
    is_exact = Decimal(repr(float(number))) == number
    return [str(number), f"{number}0", *([float(number)] if is_exact else [])]


def _moment_spellings(moment: datetime) -> list[Any]:
    text = moment.isoformat()
    return [text, text.replace("T", " "), text.replace("+00:00", "Z")]


def _key_spellings(key: UUID) -> list[Any]:
    return [str(key), str(key).upper(), key.hex, f"{{{key}}}", key.urn]


def _duration_spellings(duration: timedelta) -> list[Any]:
    seconds = duration // timedelta(seconds=1)
    return [f"PT{seconds}S", f"P0DT{seconds // 60}M{seconds % 60}S"]


def _unchanged(value: object) -> list[Any]:
    return [value]


def _pairs(values: Any, spellings: Callable[[Any], list[Any]]) -> Pairs:
    def with_spelling(value: Any) -> Pairs:
        return st.tuples(st.sampled_from(spellings(value)), st.just(value))

    pairs: Pairs = values.flatmap(with_spelling)
    return pairs


FLOATS = st.floats(allow_nan=False, allow_infinity=False)
TEXTS = st.text(st.characters(exclude_categories=["Cs"]))
DURATIONS = st.integers(0, 10**6).map(lambda seconds: timedelta(seconds=seconds))
LEAVES: list[tuple[Any, Pairs]] = [
    (float, _pairs(FLOATS, _float_spellings)),
    (int, _pairs(st.integers(-(2**60), 2**60), _integer_spellings)),
    (bool, _pairs(st.booleans(), _unchanged)),
    (str, _pairs(TEXTS, _unchanged)),
    (Decimal, _pairs(st.decimals(-(10**6), 10**6, places=3), _decimal_spellings)),
    (datetime, _pairs(MOMENTS, _moment_spellings)),
    (UUID, _pairs(st.uuids(), _key_spellings)),
    (timedelta, _pairs(DURATIONS, _duration_spellings)),
]


@st.composite
def typed_edits(draw: st.DrawFn) -> tuple[Any, Any, Any]:
    """Draw a type, an edit, and the value that the edit stands for."""
    leaf, pairs = draw(st.sampled_from(LEAVES))
    edit, value = draw(pairs)
    items = draw(st.lists(pairs, max_size=4, unique_by=lambda pair: pair[1]))
    edits, values = [each for each, _ in items], [each for _, each in items]
    member = ("member", leaf)
    members: list[Any] = [member, ("count", int, 3), ("other", leaf | None, None)]
    made: Any = dataclasses.make_dataclass("Made", members)
    drawn: tuple[Any, Any, Any] = draw(
        st.sampled_from(
            [
                (leaf, edit, value),
                (leaf | None, edit, value),
                (LIST[leaf], edits, values),
                (SET[leaf], edits, set(values)),
                (DICT[str, leaf], {"k": edit}, {"k": value}),
                (TUPLE[leaf, leaf], [edit, edit], (value, value)),
                (made, {"member": edit}, made(value)),
                (LIST[made], [{"member": edit}], [made(value)]),
            ]
        )
    )
    return drawn


@given(typed_edits())
def test_each_spelling_of_a_value_runs_with_the_value(
    drawn: tuple[Any, Any, Any],
) -> None:
    """No approval is asked for twice because of a spelling."""
    type_, edit, value = drawn
    first = TypeAdapter(type_).dump_python(value, mode="json")

    assert Ran(value) == _decide_with_edit(type_, first, {"value": edit})


def _cap_at_hundred(number: float) -> float:
    return min(number, 100.0)


def _to_whole(number: float) -> float:
    return float(round(number))


def _to_positive(numbers: set[int]) -> set[int]:
    return {abs(number) for number in numbers}


def _only_positive(prices: dict[str, float]) -> dict[str, float]:
    return {key: price for key, price in prices.items() if price > 0}


def _to_second(moment: datetime) -> datetime:
    return moment.replace(microsecond=0)


def _at_least_one(line: Line) -> Line:
    return dataclasses.replace(line, count=max(line.count, 1))


@dataclass(frozen=True)
class Tampering:
    """A validator that changes some values of a type, and edits for that type."""

    type: Any
    change: Callable[[Any], Any]
    first: Any
    edits: st.SearchStrategy[Any]


NUMBERS = SMALL_FLOATS | st.integers(-1000, 1000)
TAMPERINGS = [
    Tampering(float, _cap_at_hundred, 1.0, NUMBERS),
    Tampering(float, _to_whole, 1.0, NUMBERS),
    Tampering(str, str.lower, "a", st.text(alphabet="aB ", max_size=4)),
    Tampering(str, str.strip, "a", st.text(alphabet="aB ", max_size=4)),
    Tampering(list[float], sorted, [], st.lists(NUMBERS, max_size=3)),
    Tampering(
        set[int],
        _to_positive,
        [],
        st.lists(st.integers(-3, 3), max_size=3, unique=True),
    ),
    Tampering(
        Decimal,
        _round,
        "1.0",
        st.decimals(-100, 100, places=2).map(str) | st.integers(-9, 9),
    ),
    Tampering(
        dict[str, float],
        _only_positive,
        {},
        st.dictionaries(st.sampled_from("ab"), st.integers(-2, 2)),
    ),
    Tampering(
        datetime, _to_second, "2026-01-01T00:00:00Z", MOMENTS.map(datetime.isoformat)
    ),
    Tampering(
        Line,
        _at_least_one,
        {"price": 1.0, "count": 1},
        st.fixed_dictionaries(
            {"price": st.integers(0, 9)}, optional={"count": st.integers(-2, 2)}
        ),
    ),
]


@given(st.data(), st.sampled_from(TAMPERINGS))
def test_a_validator_never_changes_an_edit_silently(
    data: st.DataObject, tampering: Tampering
) -> None:
    """The tool runs with what the plain type makes of the edit, or not at all."""
    edit = data.draw(tampering.edits)
    seen = TypeAdapter(tampering.type).validate_python(edit)
    type_ = A[tampering.type, AfterValidator(tampering.change)]

    end = _decide_with_edit(type_, tampering.first, {"value": edit})

    if seen == tampering.change(seen):
        assert Ran(seen) == end
    else:
        assert isinstance(end, Reopened)
