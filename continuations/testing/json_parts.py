"""JSON values with the types that type checkers know."""

from __future__ import annotations

from typing import Any, cast


def fields_of(value: object) -> dict[str, Any] | None:
    """Return a JSON object, or `None` for another value."""
    return cast("dict[str, Any]", value) if isinstance(value, dict) else None


def items_of(value: object) -> list[Any] | None:
    """Return the items of a list or tuple, or `None` for another value."""
    if isinstance(value, list | tuple):
        return list(cast("list[Any]", value))
    return None
