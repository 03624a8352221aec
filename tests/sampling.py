"""A sample of many similar cases by default, and all of them with TORTURE=1.

The cases start processes or servers, and `make test` would need minutes for all.
`make torture` runs them all.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Sequence

T = TypeVar("T")

RUNS_ALL_CASES = os.environ.get("TORTURE") == "1"


def sample(cases: Sequence[T], step: int) -> Sequence[T]:
    """Return every `step`-th case, beginning with the first one."""
    return cases if RUNS_ALL_CASES else cases[::step]
