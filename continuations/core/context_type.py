"""The declared class of the application's object, `context=`."""

from __future__ import annotations

from contextlib import suppress
from typing import Any


def is_context_class(type_: Any) -> bool:
    """Return whether `isinstance` takes a type; `None` stands for no type."""
    if type_ is None:
        return True
    with suppress(TypeError):
        isinstance(None, type_)
        return not isinstance(type_, tuple)
    return False
