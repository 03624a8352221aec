"""Two things measured side by side: A B A B ..., so that noise meets both alike."""

from __future__ import annotations

from statistics import median
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable


def interleaved_medians(
    rounds: int, *measures: Callable[[], float]
) -> tuple[float, ...]:
    """Return the median of each measure, taken in turns.

    Each is taken once before, unmeasured: files are in memory then, and compiled.
    """
    for measure in measures:
        measure()
    taken = [tuple(measure() for measure in measures) for _ in range(rounds)]
    return tuple(median(column) for column in zip(*taken, strict=True))
