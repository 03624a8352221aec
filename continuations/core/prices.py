"""Prices of models, and the cost of a reply. All numbers are exact."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from decimal import Decimal
from typing import Any, TypeAlias, cast

from continuations.core.usage import UNITS, Usage
from continuations.errors import InvalidInput
from continuations.value_class import dataclass

Amount: TypeAlias = "Decimal | str | int"

_TOKENS = 1_000_000
# A price of a million tokens then is a whole number of units for each token.
_PRICE_PLACES = 6
_AMOUNT_PLACES = 12
_MAX_AMOUNT = Decimal(10**9)
_CURRENCY = re.compile(r"[A-Z]{3}\Z")


@dataclass(frozen=True, slots=True, kw_only=True)
class Price:
    """The price of a model for each million tokens: a `Decimal`, text or integer.

    Attributes:
        input: Price of input tokens.
        output: Price of output tokens.
        cached_input: Price of input tokens that the provider read from its cache.
            `None`: as `input`.
        reasoning: Price of output tokens that the model used for reasoning. `None`: as
            `output`.
    """

    input: Amount
    output: Amount
    cached_input: Amount | None = None
    reasoning: Amount | None = None


@dataclass(frozen=True, slots=True)
class _Rates:
    """Units for each token of a kind."""

    input: int
    output: int
    cached: int
    reasoning: int


class Prices:
    """The prices of models, by the name of the model.

    No prices are shipped: providers change them. Enter those of your contract.

    Args:
        by_model: A `Price` for the name of each model, or a mapping with the same
            names: `{"gpt-5-mini": {"input": "0.25", "output": "2"}}`. A price has at
            most 6 decimal places. A float is refused, because it is not exact.
        currency: The currency of all prices: three capital letters.

    Raises:
        InvalidInput: A price, a name or the currency is invalid.
    """

    def __init__(
        self,
        by_model: Mapping[str, Price | Mapping[str, Amount]],
        *,
        currency: str = "USD",
    ) -> None:
        self._currency = check_currency(currency)
        unchecked: Any = by_model
        if not isinstance(unchecked, Mapping):
            raise InvalidInput(
                "prices must map names of models to Price(...), got "
                f"{type(unchecked).__name__}."
            )
        models = by_model.items()
        self._rates = {str(model): _rates(model, price) for model, price in models}

    def __repr__(self) -> str:
        return f"<Prices of {len(self._rates)} models in {self._currency}>"

    @property
    def currency(self) -> str:
        """The currency of all prices."""
        return self._currency

    def __contains__(self, model: object) -> bool:
        """Return whether the model of this name has a price."""
        return model in self._rates

    def with_cost(self, usage: Usage, model: str) -> Usage:
        """Return the usage of one model with its cost.

        Args:
            usage: The usage of one or more requests to the model.
            model: The name of the model.

        Returns:
            The usage with its cost; unchanged if the model has no price, or if the
            usage has a cost.
        """
        rates = self._rates.get(model)
        if rates is None or usage.currency or not usage.counted:
            return usage
        if not usage.total_tokens and (rates.input or rates.output):
            return usage  # the provider did not say what it bills
        cached = min(usage.cached_tokens, usage.input_tokens)
        reasoning = min(usage.reasoning_tokens, usage.output_tokens)
        units = (
            (usage.input_tokens - cached) * rates.input
            + cached * rates.cached
            + (usage.output_tokens - reasoning) * rates.output
            + reasoning * rates.reasoning
        )
        return replace(
            usage, cost_units=units, priced=usage.counted, currency=self._currency
        )


def check_currency(currency: object) -> str:
    """Return the name of a currency; raises `InvalidInput`."""
    if isinstance(currency, str) and _CURRENCY.match(currency):
        return currency
    msg = f"currency must be three capital letters such as 'USD', got {currency!r:.40}."
    raise InvalidInput(msg)


def check_amount(name: str, amount: object, *, places: int = _AMOUNT_PLACES) -> Decimal:
    """Return an amount of money as a `Decimal`; raises `InvalidInput`."""
    value: Decimal | None = None
    if isinstance(amount, str | int | Decimal) and not isinstance(amount, bool):
        try:
            value = Decimal(amount)
        except ArithmeticError:
            value = None
    if value is not None and value.is_finite() and 0 <= value <= _MAX_AMOUNT:
        exponent = cast("int", value.as_tuple().exponent)
        if -exponent <= places:
            return value
    msg = (
        f"{name} must be a Decimal, a text such as '0.25' or an integer, from 0 to "
        f"{_MAX_AMOUNT:,}, with at most {places} decimal places, got {amount!r:.40}."
    )
    if isinstance(amount, float):
        msg += " A float is not exact: pass it as a text."
    raise InvalidInput(msg)


def amount_units(amount: Decimal) -> int:
    """Return an amount in the units of `Usage.cost_units`."""
    numerator, denominator = amount.as_integer_ratio()
    return numerator * UNITS // denominator


def _rates(model: object, price: object) -> _Rates:
    if not isinstance(model, str) or not model:
        msg = f"prices must have names of models, which are texts, got {model!r:.40}."
        raise InvalidInput(msg)
    given = price if isinstance(price, Price) else _price_of(model, price)

    def rate(name: str, default: int | None = None) -> int:
        amount = getattr(given, name)
        if amount is None and default is not None:
            return default
        where = f"prices[{model!r}].{name}"
        return (
            amount_units(check_amount(where, amount, places=_PRICE_PLACES)) // _TOKENS
        )

    input_rate, output_rate = rate("input"), rate("output")
    return _Rates(
        input=input_rate,
        output=output_rate,
        cached=rate("cached_input", input_rate),
        reasoning=rate("reasoning", output_rate),
    )


def _price_of(model: str, price: object) -> Price:
    if isinstance(price, Mapping):
        fields = cast("Mapping[str, Any]", price)
        try:
            return Price(**fields)
        except TypeError:
            pass
    raise InvalidInput(
        f"prices[{model!r}] must be a Price(input=..., output=...), or a mapping with "
        "these names and cached_input and reasoning."
    )
