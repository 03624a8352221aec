"""How much of all that could be tried is tried: a share, or with HOSTILE=full all."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Iterable

T = TypeVar("T")
RUN_ALL = os.environ.get("HOSTILE") == "full"


def every_nth(items: Iterable[T], step: int, offset: int = 0) -> list[T]:
    """Return one item in so many; who counts `first` up leaves none out."""
    return list(items) if RUN_ALL else list(items)[offset % step :: step]
