"""Measure functions in turns, A B A B ..., so that noise affects all alike."""

from __future__ import annotations

from statistics import median
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable


def interleaved_medians(
    rounds: int, *measures: Callable[[], float]
) -> tuple[float, ...]:
    """Return the median of each measure over some rounds.

    One round before is not counted: after it, files are compiled and in memory.
    """
    for measure in measures:
        measure()
    results = [tuple(measure() for measure in measures) for _ in range(rounds)]
    return tuple(median(column) for column in zip(*results, strict=True))
