"""Try a share of all cases, or all of them with HOSTILE=full or TORTURE=1."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, TypeVar

from tests.sampling import RUNS_ALL_CASES

if TYPE_CHECKING:
    from collections.abc import Iterable

T = TypeVar("T")
RUN_ALL = RUNS_ALL_CASES or os.environ.get("HOSTILE") == "full"


def every_nth(items: Iterable[T], step: int, offset: int = 0) -> list[T]:
    """Return every `step`-th item, from `offset` on; all of them if asked for."""
    return list(items) if RUN_ALL else list(items)[offset % step :: step]
