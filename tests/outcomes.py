"""Values whose type a test expects."""

from __future__ import annotations

from typing import TypeVar

from continuations import Suspended, Wait

T = TypeVar("T")


def expect(value: object, kind: type[T]) -> T:
    """Return a value, for example an outcome, that must have a type."""
    assert isinstance(value, kind), value
    return value


def present(value: T | None) -> T:
    """Return a value that must not be None."""
    assert value is not None
    return value


def single_wait(outcome: object) -> Wait:
    """Return the wait of a suspended run that has no other."""
    [wait] = expect(outcome, Suspended).waits
    return wait
