"""The condition of a grant limits what it names, or it is refused when it is given."""

from __future__ import annotations

import json
from datetime import date
from decimal import Decimal
from typing import Annotated, Any, Literal
from uuid import UUID

import pytest
from pydantic import BaseModel, Field

from continuations import (
    Agent,
    Approve,
    Finished,
    Grant,
    Runner,
    Suspended,
    Wait,
    resume,
    run,
    tool,
)
from continuations.errors import DecisionRefused
from continuations.ledger.decisions import run_grants
from continuations.models.scripted import ScriptedModel, ToolCall
from continuations.tools import Secret
from continuations_storage import MemoryStore
from tests import effect_log
from tests.outcomes import expect, present, single_wait

pytestmark = pytest.mark.usefixtures("environment")


class Address(BaseModel):
    city: str
    floor: int = 0


@tool(approval=True)
def pay(  # noqa: PLR0913, PLR0917 - one of each type
    amount: Decimal,
    cents: int,
    to: str,
    due: date,
    key: UUID,
    blob: bytes,
    urgent: bool = False,
    limit: int | None = None,
    kind: Literal["wage", "refund"] = "wage",
    only: Literal["a"] = "a",
    share: Annotated[int, Field(gt=0, le=100)] = 100,
    rate: float = 1.5,
    sure: bool | None = None,
    hues: dict[str, int] = {},  # noqa: B006 - a default of a tool
    pair: tuple[int, str] = (1, "x"),
    lines: list[int] = [],  # noqa: B006 - a default of a tool
    address: Address | None = None,
) -> str:
    """Pay."""
    del cents, to, due, key, blob, urgent, limit, kind, lines, address
    del only, share, rate, sure, hues, pair
    effect_log.append_effect("pay", str(amount))
    return "paid"


def arguments(amount: str, **more: Any) -> dict[str, Any]:
    return {
        "amount": amount,
        "cents": 900,
        "to": "Jane",
        "due": "2026-11-23",
        "key": "6f1c2f5e-5d0c-4a53-9d7c-0d1f6a3f9f10",
        "blob": "eA==",
        **more,
    }


def start(second: dict[str, Any]) -> tuple[Runner, Wait]:
    """Start a run with two payments; return the wait of the first."""
    first = arguments("100.00", address={"city": "Bonn", "floor": 2})
    model = ScriptedModel([ToolCall("pay", first), ToolCall("pay", second), "Done."])
    runner = Runner(Agent("accounts", tools=[pay], model=model), store=MemoryStore())
    wait = single_wait(runner.start("Pay", run_id="r"))
    return runner, wait


def on(name: str, **schema: Any) -> dict[str, Any]:
    return {"properties": {name: schema}}


USELESS: dict[str, tuple[dict[str, Any], str]] = {
    "a number for a decimal": (on("amount", maximum=100), "amount is a value of"),
    "a typed number for a decimal": (
        on("amount", type="number", maximum=100),
        "amount is a value of the type string",
    ),
    "a number for a date": (on("due", maximum=100), "due has the type string"),
    "a number for a UUID": (on("key", maximum=100), "key has the type string"),
    "a number for bytes": (on("blob", maximum=100), "blob has the type string"),
    "a number of a text": (on("to", const=5), "to has the type string"),
    "a length of a number": (on("cents", maxLength=2), "cents has the type integer"),
    "two types": (
        on("amount", type=["string", "number"], maximum=5),
        "'maximum' does not limit a value of the type string",
    ),
    "a misspelled argument": (on("cent", maximum=100), "no argument 'cent'"),
    "a misspelled member": (on("address", **on("town", const="Bonn")), "'town'"),
    "a misspelled keyword": (on("cents", maximun=100), "'maximun' is not a keyword"),
    "values for a schema": ({"cents": 100}, "'cents' is not a keyword"),
    "a value for a schema": ({"properties": {"cents": 100}}, "JSON Schema"),
    "true for a schema": ({"properties": {"cents": True}}, "a JSON Schema is needed"),
    "nothing": ({}, "every value"),
    "no property": ({"properties": {}}, "every value"),
    "an empty property": (on("cents"), "on cents lets every value"),
    "the known type": (on("cents", type="integer"), "every value"),
    "a wider type": (on("cents", type="number"), "every value"),
    "an argument that is always there": ({"required": ["cents"]}, "every value"),
    "an empty pattern": (on("to", pattern=".*"), "every value"),
    "no shortest text": (on("to", minLength=0), "every value"),
    "all values": (on("kind", enum=["refund", "wage", "other"]), "every value"),
    "both values": (on("urgent", enum=[True, False]), "every value"),
    "a branch": ({"anyOf": [on("cents", maximum=5), on("to")]}, "every value"),
    "a negation": ({"not": on("cents", minimum=100)}, "'not' is not a keyword"),
    "an open object": ({"additionalProperties": True}, "can only be false"),
    "a format that is not checked": (on("to", format="email"), "not checked"),
    "a keyword of the top": ({"maximum": 100}, "has the type object"),
    "items of no list": (on("to", items={"const": 1}), "to has the type string"),
    **{
        f"the pattern {pattern}": (on("to", pattern=pattern), "condition on to lets")
        for pattern in ("[0-9]*", "^a*", "(.*)", "x|.*", "[\\s\\S]*", "^.*$", ".+", "")
    },
    "a pattern of each date": (on("due", pattern="^[0-9-]*$"), "on due lets every"),
    "a pattern of each decimal": (on("amount", pattern="^[-0-9.E+]+$"), "on amount"),
    "the only type of a decimal": (on("amount", type="string"), "on amount lets"),
    "each integer": (on("cents", multipleOf=1), "on cents lets every value"),
    "each half": (on("cents", multipleOf=0.5), "on cents lets every value"),
    "a bound below an open one": (on("share", minimum=0), "on share lets every"),
    "the first integer": (on("share", minimum=1), "on share lets every value"),
    "an open bound above": (on("share", exclusiveMaximum=101), "on share lets"),
    "its own bound": (on("share", type="number", maximum=100), "on share lets"),
    "the length of a date": (on("due", maxLength=10), "on due lets every value"),
    "the length of a UUID": (on("key", maxLength=36), "on key lets every value"),
    "true, false and null": (on("sure", enum=[True, False, None]), "on sure lets"),
    "the one value": (on("only", const="a"), "on only lets every value"),
    "a member of a mapping": (on("hues", **on("a", type="integer")), "hues.a lets"),
    "items of a tuple": (on("pair", items={"type": ["integer", "string"]}), "lets"),
    "parts that cover all": (
        on("cents", anyOf=[{"maximum": 100}, {"minimum": 101}]),
        "on cents lets every value",
    ),
    "conditions that cover all": (
        {"anyOf": [on("cents", maximum=100), on("cents", minimum=101)]},
        "the condition lets every value",
    ),
    "conditions on two arguments that cover all": (
        {
            "anyOf": [
                {"properties": {"urgent": {"const": True}, "kind": {"const": "wage"}}},
                on("urgent", const=False),
                on("kind", const="refund"),
            ]
        },
        "the condition lets every value",
    ),
    "ranges that meet": (
        on("rate", anyOf=[{"maximum": 2}, {"exclusiveMinimum": 2}]),
        "on rate lets every value",
    ),
    "a misspelled name that is required": (
        {"required": ["centz"], **on("cents", maximum=5)},
        "no argument 'centz'",
    ),
    "a misspelled member that is required": (
        on("address", required=["town"]),
        "no argument 'town'",
    ),
    "useless items": (on("lines", items={"type": "integer"}), "every value"),
}


@pytest.mark.parametrize("name", USELESS)
def test_condition_that_does_not_limit_is_refused_with_one_that_works(
    name: str,
) -> None:
    """The error has a condition that the tool's schema fits."""
    condition, why = USELESS[name]
    runner, wait = start(arguments("1.00"))

    with pytest.raises(DecisionRefused) as refused:
        runner.decide(wait.id, Approve(by="kim", remember=Grant("pay", condition)))

    assert why in str(refused.value)
    assert [] == runner.grants("r")
    text = str(refused.value).partition("for example with arguments=")[2]
    works = Grant("pay", json.loads(text.removesuffix(".")))
    runner.decide(wait.id, Approve(by="kim", remember=works))
    assert 1 == len(runner.grants("r"))


USEFUL: dict[str, tuple[dict[str, Any], dict[str, Any], bool]] = {
    "a number": (on("cents", maximum=1000), {}, True),
    "a number too large": (on("cents", maximum=1000), {"cents": 1001}, False),
    "a decimal": (on("amount", const="100.00"), {}, True),
    "another decimal": (on("amount", const="100.00"), {"amount": "1000000"}, False),
    "a pattern": (on("amount", pattern=r"^[0-9]{1,3}(\.[0-9]+)?$"), {}, True),
    "a number or null": (on("limit", maximum=5), {"limit": 5}, True),
    "null instead": (on("limit", maximum=5), {"limit": None}, False),
    "a member": (on("address", **on("floor", maximum=3)), {}, False),
    "a member there": (
        on("address", **on("floor", maximum=3)),
        {"address": {"city": "Bonn", "floor": 1}},
        True,
    ),
    "a default": (on("kind", const="wage"), {}, True),
    "items": (on("lines", items={"maximum": 3}, maxItems=2), {"lines": [1, 3]}, True),
    "a large item": (on("lines", items={"maximum": 3}), {"lines": [4]}, False),
    "one of two": (
        {"anyOf": [on("to", enum=["Jane", "Lee"]), on("cents", maximum=5)]},
        {"to": "Eve", "cents": 6},
        False,
    ),
    "a date": (on("due", const="2026-11-23"), {}, True),
    "true": (on("urgent", const=False), {"urgent": True}, False),
    "a beginning": (on("to", pattern="^J"), {"to": "Eve"}, False),
    "a step": (on("cents", multipleOf=100), {"cents": 950}, False),
    "a bound inside": (on("share", maximum=99), {"share": 100}, False),
    "one bound inside": (on("share", minimum=2), {"share": 2}, True),
    "two of three": (on("sure", enum=[True, None]), {"sure": False}, False),
    "ranges with a gap": (
        on("rate", anyOf=[{"maximum": 2}, {"minimum": 3}]),
        {"rate": 2.5},
        False,
    ),
    "a year": (on("due", pattern="^2026-"), {"due": "2027-01-01"}, False),
    "a member that must be there": (on("hues", required=["a"]), {"hues": {}}, False),
    "a member of a mapping": (
        on("hues", **on("a", maximum=3)),
        {"hues": {"a": 3}},
        True,
    ),
    "a short list": (on("lines", maxItems=1), {"lines": [1, 2]}, False),
    "different items": (on("lines", uniqueItems=True), {"lines": [1, 1]}, False),
}


@pytest.mark.parametrize("name", USEFUL)
def test_condition_that_limits_covers_what_it_names(name: str) -> None:
    condition, changed, is_covered = USEFUL[name]
    runner, wait = start(arguments("100.00") | changed)

    runner.decide(wait.id, Approve(by="kim", remember=Grant("pay", condition)))

    assert is_covered == isinstance(runner.resume("r"), Finished)
    assert 1 + is_covered == len(effect_log.names())


@pytest.mark.parametrize(
    "condition",
    [
        on("amount", maximum=100),
        on("amount", type=["string", "number"], maximum=100),
        on("cent", maximum=100),
        on("cents", maximun=100),
        {"cents": 100},
        {"not": on("amount", minimum=101)},
        on("cents", items=5),
    ],
)
def test_stored_condition_that_does_not_limit_covers_nothing(
    condition: dict[str, Any],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Another program may have stored a grant that no door accepts now."""
    runner, wait = start(arguments("1000000"))

    def find_problem(wait: Wait, grant: object) -> None:
        del wait, grant

    monkeypatch.setattr(run_grants, "find_problem", find_problem)
    runner.decide(wait.id, Approve(by="kim", remember=Grant("pay", condition)))

    assert isinstance(runner.resume("r"), Suspended)

    assert 1 == len(runner.grants("r"))
    assert 1 == len(effect_log.names())


def test_suggested_condition_is_accepted_for_each_kind_of_argument() -> None:
    """`share` is at its bound, and `only` has one value."""
    runner, wait = start(arguments("1.00"))
    for name in wait.arguments:
        grant = Grant("pay", on(name, maximun=1))
        text = present(run_grants.example_condition(wait, grant))
        suggested = json.loads(text)
        assert run_grants.find_problem(wait, Grant("pay", suggested)) is None, text
        assert (name == "only") == (name not in suggested["properties"]), text
    assert [] == runner.grants("r")


@tool(approval=True)
def close(kind: Literal["wage"] = "wage") -> str:
    """Close the books."""
    return f"closed {kind}"


def test_error_suggests_no_condition_where_none_works() -> None:
    model = ScriptedModel([ToolCall("close", {}), ToolCall("close", {}), "Done."])
    runner = Runner(Agent("books", tools=[close], model=model), store=MemoryStore())
    wait = single_wait(runner.start("Close", run_id="r"))

    useless = Grant("close", on("kind", const="wage"))

    with pytest.raises(DecisionRefused, match="Decide again, without arguments:"):
        runner.decide(wait.id, Approve(remember=useless))

    runner.decide(wait.id, Approve(remember=Grant("close")))
    assert isinstance(runner.resume("r"), Finished)


class Card(BaseModel):
    holder: str
    number: Annotated[str, Secret()]


@tool(approval=True)
def charge(
    cents: int,
    card: Card,
    pin: Annotated[int, Secret()],
    codes: Annotated[list[str], Secret()],
) -> str:
    """Charge a card."""
    del card, pin, codes
    return f"charged {cents}"


SECRETS: list[tuple[dict[str, Any], str]] = [
    (on("pin", const=9876), "pin"),
    (on("pin", maximum=9876), "pin"),
    (on("card", const={"holder": "Jane", "number": "4000"}), "card"),
    (on("card", **on("number", pattern="^4")), "card.number"),
    (on("codes", items={"enum": ["a", "b"]}), "codes"),
    ({"anyOf": [on("cents", maximum=5), on("pin", const=9876)]}, "pin"),
    ({"const": {"cents": 5}}, "card"),
]


def start_charge(another_pin: int = 0) -> tuple[Runner, Wait]:
    """Start a run with calls that have secret arguments; return the first wait."""
    card = {"holder": "Jane", "number": "4000123412341234"}
    call = {"cents": 5, "card": card, "pin": 9876, "codes": ["a"]}
    other = {**call, "pin": another_pin}
    model = ScriptedModel(
        [ToolCall("charge", call), ToolCall("charge", other), "Done."]
    )
    runner = Runner(Agent("till", tools=[charge], model=model), store=MemoryStore())
    return runner, single_wait(runner.start("Charge", run_id="r"))


def find_no_problem(wait: Wait, grant: object) -> None:
    """Accept each grant, as another program may."""
    del wait, grant


@pytest.mark.parametrize(("condition", "name"), SECRETS)
def test_condition_on_a_secret_argument_is_refused(
    condition: dict[str, Any], name: str
) -> None:
    """Everybody who may see the run can read its grants."""
    runner, wait = start_charge()

    with pytest.raises(DecisionRefused) as refused:
        runner.decide(wait.id, Approve(remember=Grant("charge", condition)))

    assert f"names the secret argument '{name}" in str(refused.value)
    assert "9876" not in str(refused.value)
    text = str(refused.value).partition("for example with arguments=")[2]
    works = Grant("charge", json.loads(text.removesuffix(".")))
    runner.decide(wait.id, Approve(remember=works))


def test_stored_condition_on_a_secret_argument_is_masked(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Another program may have stored a grant that no door accepts."""
    runner, wait = start_charge(another_pin=1234)
    grant = Grant("charge", on("pin", const=9876))
    with monkeypatch.context() as patched:
        patched.setattr(run_grants, "find_problem", find_no_problem)
        runner.decide(wait.id, Approve(remember=grant))
        assert isinstance(runner.resume("r"), Suspended)

    assert [{"const": "[secret]"}] == [each.arguments for each in runner.grants("r")]


def test_condition_beside_a_secret_is_accepted() -> None:
    runner, wait = start_charge()
    beside = Grant("charge", on("card", **on("holder", const="Jane")))

    runner.decide(wait.id, Approve(remember=beside))

    assert [beside.arguments] == [each.arguments for each in runner.grants("r")]


def test_condition_that_does_not_limit_is_refused_without_a_store() -> None:
    model = ScriptedModel([ToolCall("pay", arguments("1.00")), "Done."])
    agent = Agent("accounts", tools=[pay], model=model)
    outcome = expect(run(agent, "Pay"), Suspended)
    useless = Approve(by="kim", remember=Grant("pay", {"cents": 100}))

    with pytest.raises(DecisionRefused, match="not a keyword"):
        resume(outcome.continuation, agent, answers={outcome.waits[0].id: useless})

    assert [] == effect_log.names()
