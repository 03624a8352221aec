"""`summary=`, `reversible=`, `Money` and `Secret`: checked when a tool is declared."""

from __future__ import annotations

import dataclasses
import logging
import subprocess
import sys
from datetime import date
from decimal import Decimal
from enum import Enum
from typing import Annotated, Any, NotRequired

import pytest
from pydantic import BaseModel, Field
from typing_extensions import TypedDict

from continuations import Agent, ToolContext, tool
from continuations.core import jsontext
from continuations.errors import InvalidInput
from continuations.tools import Money, Secret, Tool

Pin = Annotated[str, Secret()]


class Card(BaseModel):
    """A card with a secret number."""

    owner: str
    number: Annotated[str, Secret()]
    code: Annotated[str, Field(max_length=4), Secret()] = "0"


@dataclasses.dataclass
class Fee:
    """A fee in cents."""

    cents: Annotated[int, Money("EUR", 100)]
    key: Annotated[str | None, Secret()] = None


class Login(TypedDict):
    """A name and a password."""

    name: str
    password: NotRequired[Annotated[str, Secret()]]


class Tree(BaseModel):
    """A type that contains itself, with a secret."""

    value: Annotated[str, Secret()]
    inner: list[Tree] = []


class Color(Enum):
    """A color."""

    RED = "red"


def shown(made: Any, **arguments: Any) -> Any:
    """Return what people read about a call."""
    return made.display_call(made.effective_arguments(jsontext.dump(arguments)))


def test_template_gets_the_effective_arguments() -> None:
    @tool(summary="Send {cents} to {to} on {day:date} ({color})", reversible=False)
    def send(
        to: str,
        cents: Annotated[int, Money("EUR", 100)],
        day: date,
        color: Color = Color.RED,
    ) -> str:
        """Send."""
        return f"{to}{cents}{day}{color}"

    display = shown(send, to="Kim", cents=1240000, day="2026-11-24")

    title = "Send €12,400.00 to Kim on Tuesday, 24 November 2026 (red)"
    assert (title, False) == (display.title, display.reversible)
    edited = {"to": "Lee", "cents": 1, "day": "2026-11-25", "color": "red"}
    assert display.title_of(edited).startswith("Send €0.01 to Lee on Wednesday")


def test_function_gets_the_values_that_it_declares() -> None:
    def title(amount: Decimal, **others: Any) -> str:
        return f"Pay {amount + 1} of {sorted(others)}\nnow"

    @tool(summary=title)
    def pay(amount: Decimal, to: str) -> str:
        """Pay."""
        return f"{amount}{to}"

    display = shown(pay, amount="2.50", to="Kim")

    assert r"Pay 3.50 of ['to']\nnow" == display.title
    assert display.title_of({"amount": "9.00", "to": "Kim"}) is None


@pytest.mark.parametrize(
    "result", [5, None, "", "  ", ValueError("9876"), SystemExit("9876")]
)
def test_failing_function_leaves_the_call_without_a_title(
    result: Any, caplog: pytest.LogCaptureFixture
) -> None:
    """The wait is opened also then, and the log has no argument."""

    def title(pin: str) -> str:
        del pin
        if isinstance(result, BaseException):
            raise result
        text: str = result
        return text

    @tool(summary=title)
    def enter(pin: Annotated[str, Secret()]) -> str:
        """Enter."""
        return pin

    with caplog.at_level(logging.WARNING):
        display = shown(enter, pin="9876")

    assert display.title is None
    assert ("pin",) == display.secrets
    assert "no title" in caplog.text
    assert "9876" not in caplog.text


def test_function_cannot_show_a_secret() -> None:
    def title(pin: str) -> str:
        return f"Enter {pin}"

    @tool(summary=title)
    def enter(pin: Annotated[str, Secret()]) -> str:
        """Enter."""
        return pin

    assert "Enter [secret]" == shown(enter, pin="9876").title


def test_readings_are_found_at_every_depth() -> None:
    @tool
    def pay(  # noqa: PLR0913, PLR0917
        card: Card,
        cards: list[Card],
        fees: dict[str, Fee],
        login: Login | None,
        pair: tuple[int, Annotated[str, Secret()]],
        pin: Pin,
        total: Annotated[int, Field(ge=0), Money("CHF", 1)],
        secret: Annotated[Card, Secret()],
        named: Annotated[str, Field(alias="as/shown"), Secret()],
    ) -> str:
        """Pay."""
        return f"{card}{cards}{fees}{login}{pair}{pin}{total}{secret}{named}"

    assert {
        "card/number",
        "card/code",
        "cards/*/number",
        "cards/*/code",
        "fees/*/key",
        "login/password",
        "pair/*",
        "pin",
        "secret",
        "as~1shown",
    } == set(pay.secrets)
    money = dict(vars(pay)["_display"].money)
    assert {"fees/*/cents", "total"} == set(money)


def test_reading_changes_neither_schema_nor_digest() -> None:
    """The model reads the same tool, so old approvals stay valid."""

    def with_readings(
        cents: Annotated[int, Money("EUR", 100)], pin: Annotated[str, Secret()]
    ) -> str:
        """Pay."""
        return f"{cents}{pin}"

    def without(cents: int, pin: str) -> str:
        """Pay."""
        return f"{cents}{pin}"

    one = Tool(with_readings, name="pay", summary="Pay {cents}", reversible=True)
    other = Tool(without, name="pay")

    assert other.parameters == one.parameters
    assert other.contract_digest == one.contract_digest
    assert other.model_text_digest == one.model_text_digest


def test_tool_with_readings_of_plain_types_does_not_import_pydantic() -> None:
    """A cold resume of an approved call stays cheap."""
    code = """
import sys
from typing import Annotated
from continuations import tool
from continuations.tools import Money, Secret
@tool(approval=True, summary="Pay {cents} to {to}", reversible=False)
def pay(
    to: str, cents: Annotated[int, Money("EUR", 100)], pin: Annotated[str, Secret()]
) -> str:
    "Pay."
    return "paid"
text = '{"cents":500,"pin":"1","to":"Kim"}'
display = pay.display_call(text)
assert "Pay €5.00 to Kim" == display.title, display
assert ("pin",) == pay.secrets
assert {"cents": 500, "pin": "1", "to": "Kim"} == pay._parameters.values_by_name(text)
print("pydantic" in sys.modules)
"""
    done = subprocess.run(
        [sys.executable, "-X", "utf8", "-c", code],
        capture_output=True,
        text=True,
        check=True,
    )
    assert "False" == done.stdout.strip()


def function(cents: int, to: str, card: Card, ctx: ToolContext, flag: bool) -> str:
    """Do it."""
    return f"{cents}{to}{card}{ctx}{flag}"


def pays(who: str) -> str:
    """Return a title."""
    return who


async def later(to: str) -> str:
    """Return a title."""
    return to


@pytest.mark.parametrize(
    ("summary", "named"),
    [
        ("Send {cent}", "'cent'"),
        ("Send {card.name}", "'name'"),
        ("Send {card.number}", "Secret"),
        ("Send {card}", "Secret"),
        ("Send {to:money/100}", "'money'"),
        ("Send {cents:date}", "'date'"),
        ("Send {to:count}", "'count'"),
        ("Send {flag:money/1}", "'money'"),
        ("Send {cents:.2f}", "money/100"),
        ("Send {", "template"),
        ("", "template"),
        (5, "int"),
        (pays, "'who'"),
        (later, "async"),
    ],
)
def test_wrong_summary_is_refused_when_the_tool_is_declared(
    summary: Any, named: str
) -> None:
    with pytest.raises(InvalidInput, match="tool function: summary") as caught:
        Tool(function, summary=summary)
    assert named in str(caught.value)


def test_names_that_are_defined_later_are_checked_as_far_as_possible() -> None:
    def late(what: Any, to: str) -> str:
        """Do it."""
        return f"{what}{to}"

    late.__annotations__["what"] = "NotDefinedYet"
    Tool(late, summary="Do {what.now} for {to}")
    with pytest.raises(InvalidInput):
        Tool(late, summary="Do {who}")


def test_readings_in_a_type_that_contains_itself_are_refused() -> None:
    """Its secrets have no last place, so they could not all be masked."""

    @tool
    def grow(tree: Tree) -> str:
        """Grow."""
        return str(tree)

    @tool
    def hide(tree: Annotated[Tree, Secret()]) -> str:
        """Hide."""
        return str(tree)

    with pytest.raises(InvalidInput, match="contains itself"):
        _ = grow.secrets
    assert ("tree",) == hide.secrets


@pytest.mark.parametrize("wrong", [Secret, Money])
def test_class_in_place_of_its_instance_is_refused(wrong: Any) -> None:
    @tool
    def enter(pin: Annotated[str, wrong]) -> str:
        """Enter."""
        return pin

    with pytest.raises(InvalidInput, match=wrong.__name__):
        _ = enter.secrets


@pytest.mark.parametrize(
    ("currency", "units"),
    [("eur", 1), ("EURO", 1), ("", 1), (5, 1), ("EUR", 0), ("EUR", 7), ("EUR", True)],
)
def test_invalid_money_is_refused(currency: Any, units: Any) -> None:
    with pytest.raises(InvalidInput):
        Money(currency, units)


def test_schema_tool_declares_readings_by_path() -> None:
    schema = {
        "type": "object",
        "properties": {
            "cents": {"type": "integer"},
            "card": {"type": "object"},
        },
    }

    def run(arguments: dict[str, Any]) -> str:
        return str(arguments)

    made = Tool.from_schema(
        "pay",
        schema,
        run,
        summary="Pay {cents}",
        reversible=True,
        readings={"cents": Money("EUR", 100), "card/number": Secret()},
    )

    display = shown(made, cents=500, card={"number": "4111"})
    assert ("Pay €5.00", True) == (display.title, display.reversible)
    assert ("card/number",) == display.secrets
    for wrong in ({"cent": Secret()}, {"cents": "secret"}, [Secret()]):
        with pytest.raises(InvalidInput, match="readings"):
            Tool.from_schema("pay", schema, run, readings=wrong)  # type: ignore[arg-type]
    with pytest.raises(InvalidInput, match="Secret"):
        Tool.from_schema(
            "pay",
            schema,
            run,
            summary="Pay with {card}",
            readings={"card/number": Secret()},
        )


def test_sub_agent_has_a_summary_of_its_input() -> None:
    made = Agent("hr").as_tool(approval=True, summary="Ask hr: {input}")

    assert "Ask hr: Pay Kim" == shown(made, input="Pay Kim").title
    with pytest.raises(InvalidInput, match="'task'"):
        Agent("hr").as_tool(summary="Ask {task}")


@pytest.mark.parametrize("reversible", [0, "no", 1.0])
def test_reversible_must_be_a_bool(reversible: Any) -> None:
    with pytest.raises(InvalidInput, match="reversible"):
        Tool(function, reversible=reversible)
