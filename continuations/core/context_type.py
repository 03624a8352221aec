"""The declared class of the application's object, `context=`."""

from __future__ import annotations

from typing import Any


def is_context_class(type_: Any) -> bool:
    """Return whether `isinstance` takes a type; `None` stands for no type."""
    if type_ is None:
        return True
    try:
        isinstance(None, type_)
    except TypeError:
        return False
    return not isinstance(type_, tuple)
