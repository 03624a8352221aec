"""Prices and costs are exact: integers inside, `Decimal` outside, never a float."""

from __future__ import annotations

import decimal
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from continuations.core.usage import text_units, units_text
from continuations.errors import InvalidInput
from continuations.prices import Price, Prices, Usage

MINI = Price(input="0.25", cached_input="0.025", output="2")
O_MODEL = Price(input=Decimal("1.1"), output=4, reasoning="4.4")
PRICES = Prices({"mini": MINI, "o": O_MODEL})

COUNT = st.integers(0, 10**9)


@st.composite
def usages(draw: st.DrawFn) -> tuple[Usage, str]:
    """Draw what one reply of a model used, and the name of the model."""
    inputs, outputs = draw(COUNT), draw(COUNT)
    usage = Usage(
        requests=draw(st.integers(0, 3)),
        input_tokens=inputs,
        output_tokens=outputs,
        cached_tokens=draw(st.integers(0, inputs)),
        reasoning_tokens=draw(st.integers(0, outputs)),
    )
    return usage, draw(st.sampled_from(["mini", "o"]))


def naive_cost(usage: Usage, model: str) -> Decimal:
    """Return the cost, computed in another way."""
    price = {"mini": MINI, "o": O_MODEL}[model]
    cached = Decimal(price.input if price.cached_input is None else price.cached_input)
    thought = Decimal(price.output if price.reasoning is None else price.reasoning)
    with decimal.localcontext(prec=80):
        millions = (
            (usage.input_tokens - usage.cached_tokens) * Decimal(price.input)
            + usage.cached_tokens * cached
            + (usage.output_tokens - usage.reasoning_tokens) * Decimal(price.output)
            + usage.reasoning_tokens * thought
        )
        return millions / 1_000_000


def test_cost_of_a_reply_has_a_price_for_each_kind_of_token() -> None:
    usage = Usage(
        requests=1,
        input_tokens=1000,
        cached_tokens=400,
        output_tokens=70,
        reasoning_tokens=50,
    )

    mini, o = PRICES.with_cost(usage, "mini"), PRICES.with_cost(usage, "o")

    assert (Decimal("0.0003"), "USD") == (mini.cost, mini.currency)
    assert Decimal("0.0014") == o.cost
    assert usage.total_tokens == mini.total_tokens


def has_tokens(reply: tuple[Usage, str]) -> bool:
    """Tell whether the provider said what it bills."""
    return reply[0].total_tokens > 0


@given(st.lists(usages().filter(has_tokens), max_size=8))
def test_cost_of_a_sum_is_the_sum_of_the_costs(
    replies: list[tuple[Usage, str]],
) -> None:
    priced = [PRICES.with_cost(usage, model) for usage, model in replies]

    total = sum(priced, Usage())

    with decimal.localcontext(prec=80):
        expected = sum((naive_cost(*reply) for reply in replies), Decimal(0))
    assert expected == total.cost
    assert total == sum(reversed(priced), Usage())
    assert type(total.cost) is Decimal
    assert type(total.cost_units) is int


@given(st.lists(usages(), min_size=1), st.data())
def test_one_reply_without_a_price_makes_the_cost_unknown(
    replies: list[tuple[Usage, str]], data: st.DataObject
) -> None:
    priced = [PRICES.with_cost(usage, model) for usage, model in replies]
    unknown = data.draw(usages())[0] + Usage(requests=1)
    place = data.draw(st.integers(0, len(priced)))

    total = sum([*priced[:place], unknown, *priced[place:]], Usage())

    assert total.cost is None
    # The part after it has a cost again: a message of an old thread, for example.
    later = PRICES.with_cost(Usage(requests=1, input_tokens=5), "mini")
    assert later.cost == (total + later - total).cost


def test_costs_of_two_currencies_are_not_added() -> None:
    euros = Prices({"mini": MINI}, currency="EUR")
    usage = Usage(requests=1, input_tokens=10)

    total = PRICES.with_cost(usage, "mini") + euros.with_cost(usage, "mini")

    assert (None, "USD") == (total.cost, total.currency)


def test_cost_ignores_the_context_of_decimals() -> None:
    with decimal.localcontext(prec=2):
        usage = PRICES.with_cost(Usage(requests=1, input_tokens=123_457), "mini")
        cost = usage.cost
    assert Decimal("0.03086425") == cost


def test_a_usage_that_has_a_cost_keeps_it() -> None:
    """A model that asks other models sets the cost itself."""
    usage = PRICES.with_cost(Usage(requests=1, input_tokens=10), "mini")
    assert usage is PRICES.with_cost(usage, "o")


def test_a_model_without_a_price_has_no_cost() -> None:
    usage = Usage(requests=1, input_tokens=10)
    assert usage is PRICES.with_cost(usage, "other")
    assert usage.cost is None
    assert Decimal(0) == Usage().cost


def test_a_free_model_costs_nothing() -> None:
    free = Prices({"local": {"input": 0, "output": 0}})
    usage = free.with_cost(Usage(requests=1, input_tokens=10), "local")
    assert Decimal(0) == usage.cost


@given(st.integers(0, 10**25))
def test_text_of_units_is_read_back(units: int) -> None:
    assert units == text_units(units_text(units))


@pytest.mark.parametrize("text", ["", ".", "1.", "-1", "1e3", "1.0000000000001", "²"])
def test_text_that_is_no_cost_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="decimal number"):
        text_units(text)


INVALID: list[Any] = [
    7,
    [MINI],
    {"": MINI},
    {3: MINI},
    {"mini": 0.25},
    {"mini": {"input": "1"}},
    {"mini": {"input": "1", "output": "2", "other": "3"}},
    {"mini": Price(input=0.25, output="2")},  # type: ignore[arg-type]
    {"mini": Price(input="-1", output="2")},
    {"mini": Price(input="NaN", output="2")},
    {"mini": Price(input="0.0000001", output="2")},
    {"mini": Price(input="1", output="a lot")},
    {"mini": Price(input=True, output="2")},
    {"mini": Price(input=10**12, output="2")},
]


@pytest.mark.parametrize("prices", INVALID)
def test_invalid_prices_are_refused(prices: Any) -> None:
    with pytest.raises(InvalidInput, match="prices"):
        Prices(prices)


@pytest.mark.parametrize("currency", ["", "usd", "Euro", 7, "$"])
def test_invalid_currency_is_refused(currency: Any) -> None:
    with pytest.raises(InvalidInput, match="currency"):
        Prices({}, currency=currency)
