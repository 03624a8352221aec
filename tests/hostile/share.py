"""How much of all that could be tried is tried: a share, or with HOSTILE=full all."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Iterable

T = TypeVar("T")
FULL = os.environ.get("HOSTILE") == "full"


def share(items: Iterable[T], of: int, first: int = 0) -> list[T]:
    """Return one item in so many; who counts `first` up leaves none out."""
    return list(items) if FULL else list(items)[first % of :: of]
