"""Readings of arguments: how people read an amount, and what they must not read."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from continuations.core.reading_texts import CURRENCY, UNITS, MoneyReading
from continuations.errors import InvalidInput
from continuations.value_class import dataclass

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(frozen=True, slots=True)
class Money:
    """An argument is an amount of money: `Annotated[int, Money("EUR", 100)]`.

    People read `€12,400.00` beside the value `1240000`. The tool gets the value.

    Attributes:
        currency: The currency, as ISO 4217 code of three capital letters.
        units: How many units of the value are one of the currency: 100 for cents, 1
            for whole amounts. A power of ten, at most 10^9.

    Raises:
        InvalidInput: `currency` or `units` is invalid.
    """

    currency: str
    units: int = 1

    def __post_init__(self) -> None:
        """Check the options when the tool is declared."""
        if type(self.currency) is not str or not CURRENCY.fullmatch(self.currency):
            msg = (
                "Money: currency must be a code of three capital letters, got "
                f'{self.currency!r}. Pass for example Money("EUR", 100).'
            )
            raise InvalidInput(msg)
        if type(self.units) is not int or self.units not in UNITS:
            msg = (
                "Money: units must be a power of ten from 1 to 10^9, got "
                f"{self.units!r}. Pass 100 if the argument counts cents."
            )
            raise InvalidInput(msg)

    @property
    def reading(self) -> MoneyReading:
        """The reading that waits store."""
        return MoneyReading(self.currency, self.units)


@dataclass(frozen=True, slots=True)
class Secret:
    """People must not read an argument: `pin: Annotated[str, Secret()]`.

    Waits, pages, mails, webhooks and the command line have `"[secret]"` in place of the
    value. The tool gets the value, and an approval is bound to it. The versions of the
    run contain the value: in the call, and in the message that the model wrote.
    """


Reading: TypeAlias = Money | Secret


def split_readings(
    readings: Mapping[str, Reading],
) -> tuple[tuple[tuple[str, MoneyReading], ...], tuple[str, ...]]:
    """Return the amounts with their paths, and the paths of secrets, both sorted."""
    money = [
        (path, each.reading)
        for path, each in sorted(readings.items())
        if isinstance(each, Money)
    ]
    secrets = [
        path for path, each in sorted(readings.items()) if isinstance(each, Secret)
    ]
    return tuple(money), tuple(secrets)
