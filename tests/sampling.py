"""A sample of many similar cases by default, and all of them with TORTURE=1.

`make test` would need an hour for all cases; `make torture` runs them. A sample is a
fixed rule, and it keeps some cases of each distinct scenario.
"""

from __future__ import annotations

import os
from itertools import product
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

T = TypeVar("T")
U = TypeVar("U")

RUNS_ALL_CASES = os.environ.get("TORTURE") == "1"


def sample(cases: Sequence[T], step: int, start: int = 0) -> Sequence[T]:
    """Return every `step`-th case.

    Args:
        cases: All cases.
        step: The distance of two cases of the sample.
        start: Tests with the same cases take turns if they have different starts.
    """
    return cases if RUNS_ALL_CASES else cases[start % step :: step]


def pairs(first: Iterable[T], second: Iterable[U]) -> list[tuple[T, U]]:
    """Return pairs in which each value of both lists occurs."""
    left, right = list(first), list(second)
    if RUNS_ALL_CASES:
        return list(product(left, right))
    count = max(len(left), len(right))
    return [(left[n % len(left)], right[n % len(right)]) for n in range(count)]


def examples(count: int) -> int:
    """Return how many examples hypothesis makes: a quarter, but ten at least."""
    return count if RUNS_ALL_CASES else max(10, count // 4)
