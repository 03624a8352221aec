"""How often a tool's function is called again after it raised, and when.

A worker waits between two attempts and keeps its claim. So the waits are short: a call
that must wait longer returns `sleep(...)` or `external(...)`.
"""

from __future__ import annotations

from dataclasses import field
from typing import TYPE_CHECKING, TypeAlias, TypeGuard, cast

from continuations.authoring.periods import to_seconds
from continuations.errors import InvalidInput
from continuations.value_class import dataclass

if TYPE_CHECKING:
    from collections.abc import Sequence

    from continuations.authoring.periods import Duration

_MAX_TIMES = 10
_MAX_DELAY_SECONDS = 300.0


@dataclass(frozen=True, slots=True)
class Retries:
    """How a call is tried again after the function of its tool raised.

    The wait before attempt n + 1 is at most `first_delay` doubled n - 1 times, at most
    `max_delay`, and at least half of that. It is random, so that calls which failed
    together do not return together.

    Attributes:
        times: How often the function is called again, 1 to 10.
        first_delay: The longest wait before the second attempt: a timedelta, or
            seconds. At most 300 seconds. Default: 1 second.
        max_delay: The longest wait before any attempt, as above. Default: 30 seconds.
        on: The exceptions after which the function is called again. `TimeoutError`
            includes a call that ran out of time. Default: every `Exception`.

    Raises:
        InvalidInput: A value is invalid.
    """

    times: int
    first_delay: Duration = field(default=1.0, kw_only=True)
    max_delay: Duration = field(default=30.0, kw_only=True)
    on: Sequence[type[Exception]] = field(default=(Exception,), kw_only=True)

    def __post_init__(self) -> None:
        """Check the values."""
        if not is_count(self.times, 1):
            msg = (
                f"Retries: times must be an integer from 1 to {_MAX_TIMES}, got "
                f"{self.times!r}."
            )
            raise InvalidInput(msg)
        _delay_seconds("first_delay", self.first_delay)
        _delay_seconds("max_delay", self.max_delay)
        _check_classes(self.on)

    def covers(self, error: BaseException, attempts: int) -> bool:
        """Return whether the function is called again after an error.

        Args:
            error: The exception that the function raised.
            attempts: How often the call was started, this attempt included.

        Returns:
            `False` if the model reads the error.
        """
        return attempts <= self.times and isinstance(error, tuple(self.on))

    def delay(self, attempts: int, fraction: float) -> float:
        """Return how long to wait after an attempt, in seconds.

        Args:
            attempts: How often the call was started.
            fraction: A random number from 0 to 1.

        Returns:
            The seconds.
        """
        first = _delay_seconds("first_delay", self.first_delay)
        longest = _delay_seconds("max_delay", self.max_delay)
        limit = min(longest, first * 2.0 ** (attempts - 1))
        return limit * (0.5 + fraction / 2)


RetriesOption: TypeAlias = int | Retries


def checked_retries(
    tool_name: str, option: object, *, repeatable: bool
) -> Retries | None:
    """Return the retries of a tool's option, `None` for none; raises `InvalidInput`."""
    if isinstance(option, Retries):
        retries = option
    elif is_count(option, 0):
        if not option:
            return None
        retries = Retries(option)
    else:
        msg = (
            f"tool {tool_name}: retries must be an integer from 0 to {_MAX_TIMES} or "
            f"Retries(...), got {option!r}."
        )
        raise InvalidInput(msg)
    if not repeatable:
        msg = (
            f"tool {tool_name}: retries needs a tool that may be repeated, because a "
            "call that raised may have had its effect. Declare idempotent=True or "
            "read_only=True, or leave out retries."
        )
        raise InvalidInput(msg)
    return retries


def is_count(value: object, lowest: int) -> TypeGuard[int]:
    """Return whether a value is a number of retries."""
    return type(value) is int and lowest <= value <= _MAX_TIMES


def _delay_seconds(name: str, delay: object) -> float:
    seconds = to_seconds(delay, f"Retries: {name}")
    if seconds is not None and seconds <= _MAX_DELAY_SECONDS:
        return seconds
    msg = (
        f"Retries: {name} must be at most {_MAX_DELAY_SECONDS:g} seconds, got"
        f" {delay!r}. Return sleep(...) from the tool to wait longer."
    )
    raise InvalidInput(msg)


def _check_classes(classes: object) -> None:
    if isinstance(classes, list | tuple):
        given = cast("Sequence[object]", classes)
        if given and all(
            isinstance(each, type) and issubclass(each, Exception) for each in given
        ):
            return
    msg = (
        f"Retries: on must be a list of classes of exceptions, got {classes!r}. Pass "
        "for example on=[ConnectionError, TimeoutError]."
    )
    raise InvalidInput(msg)
