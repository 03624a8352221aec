"""Usage: the number of model requests and tokens of a run, and what they cost."""

from __future__ import annotations

from typing import TYPE_CHECKING

from continuations.value_class import dataclass

if TYPE_CHECKING:
    from decimal import Decimal

# Their order is part of the stored format.
USAGE_COUNTS = (
    "requests",
    "input_tokens",
    "output_tokens",
    "cached_tokens",
    "reasoning_tokens",
)
# A cost is an integer of these parts of a currency: sums are exact.
UNITS = 10**12
_DIGITS = 12


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """Model usage of a run, summed over all agents and suspensions.

    Attributes:
        requests: Number of responses of models, usable or not.
        input_tokens: Tokens of the requests, including cached tokens.
        output_tokens: Tokens of the replies, including reasoning tokens.
        cached_tokens: Input tokens that the provider read from its cache.
        reasoning_tokens: Output tokens that the model used for reasoning.
        cost_units: The cost of all requests that have a price, in 10⁻¹² of the
            currency. Use `cost`.
        priced: Number of the requests and tokens that `cost_units` covers.
        currency: The currency of the cost, such as `"USD"`; `""` without prices.
    """

    requests: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    cached_tokens: int = 0
    reasoning_tokens: int = 0
    cost_units: int = 0
    priced: int = 0
    currency: str = ""

    @property
    def total_tokens(self) -> int:
        """Input and output tokens together."""
        return self.input_tokens + self.output_tokens

    @property
    def counted(self) -> int:
        """Requests and tokens together: all that may have a price."""
        return self.requests + self.input_tokens + self.output_tokens

    @property
    def cost(self) -> Decimal | None:
        """The exact cost in `currency`; `None` if a part of it has no price."""
        if self.priced != self.counted:
            return None
        from decimal import Decimal  # noqa: PLC0415 - most processes show no cost

        return Decimal(units_text(self.cost_units))

    def __sub__(self, earlier: Usage) -> Usage:
        """Return the usage since an earlier sum."""
        return Usage(
            requests=self.requests - earlier.requests,
            input_tokens=self.input_tokens - earlier.input_tokens,
            output_tokens=self.output_tokens - earlier.output_tokens,
            cached_tokens=self.cached_tokens - earlier.cached_tokens,
            reasoning_tokens=self.reasoning_tokens - earlier.reasoning_tokens,
            cost_units=self.cost_units - earlier.cost_units,
            priced=self.priced - earlier.priced,
            currency=self.currency,
        )

    def __add__(self, other: Usage) -> Usage:
        """Return the sum of both.

        A cost in another currency cannot be added. That part then has no price.
        """
        currency = self.currency or other.currency
        added = other if other.currency in ("", currency) else _NO_COST
        return Usage(
            requests=self.requests + other.requests,
            input_tokens=self.input_tokens + other.input_tokens,
            output_tokens=self.output_tokens + other.output_tokens,
            cached_tokens=self.cached_tokens + other.cached_tokens,
            reasoning_tokens=self.reasoning_tokens + other.reasoning_tokens,
            cost_units=self.cost_units + added.cost_units,
            priced=self.priced + added.priced,
            currency=currency,
        )


_NO_COST = Usage()


def units_text(units: int) -> str:
    """Return a number of units as a decimal number of the currency, `"0.0125"`."""
    whole, part = divmod(units, UNITS)
    return f"{whole}.{part:0{_DIGITS}}".rstrip("0").rstrip(".")


def text_units(text: str) -> int:
    """Return the units of a decimal number with at most 12 decimal places.

    Raises:
        ValueError: The text is no such number.
    """
    whole, _, part = text.partition(".")
    is_number = whole.isascii() and whole.isdigit() and len(part) <= _DIGITS
    if not is_number or not ((part.isascii() and part.isdigit()) or "." not in text):
        msg = "it must be a decimal number of at least 0 with at most 12 decimal places"
        raise ValueError(msg)
    return int(whole) * UNITS + int(part.ljust(_DIGITS, "0"))
