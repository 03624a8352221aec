"""Check the types of options; an error names the option and never shows its value."""

from __future__ import annotations

from typing import TYPE_CHECKING

from continuations.engine.runner.async_runner import AsyncRunner
from continuations.engine.worker_options import is_count, is_number
from continuations.errors import InvalidInput

if TYPE_CHECKING:
    from types import UnionType


def check_type(
    name: str, value: object, types: type | UnionType, expected: str
) -> None:
    """Raise `InvalidInput` unless the value has one of the types."""
    if not isinstance(value, types):
        raise InvalidInput(f"{name} must be {expected}, got {type(value).__name__}.")


def check_callable(name: str, value: object, expected: str) -> None:
    """Raise `InvalidInput` unless the value is `None` or can be called."""
    if value is not None and not callable(value):
        msg = f"{name} must be {expected}, or None, got {type(value).__name__}."
        raise InvalidInput(msg)


def check_seconds(name: str, value: object, *, above_zero: bool) -> None:
    """Raise `InvalidInput` unless the value is a number of seconds."""
    if is_number(value) and (value > 0 or (value == 0 and not above_zero)):
        return
    lowest = "above 0" if above_zero else "of at least 0"
    raise InvalidInput(f"{name} must be a number of seconds {lowest}, got {value!r}.")


def check_count(name: str, value: object) -> None:
    """Raise `InvalidInput` unless the value is a positive integer."""
    if not is_count(value):
        raise InvalidInput(f"{name} must be an integer, at least 1, got {value!r}.")


def check_dispatcher(name: str, value: object) -> None:
    """Raise `InvalidInput` unless the value has a method `wake`."""
    if not callable(getattr(value, "wake", None)):
        raise InvalidInput(
            f"{name} must be a Dispatcher, an object with the coroutine method wake, "
            f"got {type(value).__name__}."
        )


def check_async_runner(runner: object) -> None:
    """Raise `InvalidInput` unless the value is an `AsyncRunner`."""
    if isinstance(runner, AsyncRunner):
        return
    advice = " Pass runner.async_runner." if hasattr(runner, "async_runner") else ""
    msg = f"runner must be an AsyncRunner, got {type(runner).__name__}.{advice}"
    raise InvalidInput(msg)
