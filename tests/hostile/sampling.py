"""Try a share of all cases, or all of them with HOSTILE=full or TORTURE=1."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import TypeVar

from tests.sampling import RUNS_ALL_CASES

T = TypeVar("T")
RUN_ALL = RUNS_ALL_CASES or os.environ.get("HOSTILE") == "full"


def every_nth(items: Iterable[T], step: int, offset: int = 0) -> list[T]:
    """Return every `step`-th item, from `offset` on; all of them if asked for."""
    return list(items) if RUN_ALL else list(items)[offset % step :: step]
