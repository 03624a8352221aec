"""Periods of time that an application passes as options."""

from __future__ import annotations

import math
from datetime import timedelta
from typing import TypeAlias

from continuations.errors import InvalidInput

Duration: TypeAlias = timedelta | float
# A longer period would be a mistake in the unit, and its end may be after the last day
# that `datetime` can represent.
MAX_PERIOD = timedelta(days=3650)


def to_seconds(duration: object, label: str) -> float | None:
    """Return a duration in seconds; raises `InvalidInput` with a label."""
    if duration is None:
        return None
    if isinstance(duration, timedelta):
        seconds = duration.total_seconds()
    elif isinstance(duration, int | float) and not isinstance(duration, bool):
        seconds = float(duration)
    else:
        seconds = math.nan
    if 0 < seconds <= MAX_PERIOD.total_seconds():
        return seconds
    got = f"{duration!r} ({type(duration).__name__})"
    msg = (
        f"{label} must be a timedelta or seconds, above 0 and at most "
        f"{MAX_PERIOD.days} days, got {got}."
    )
    raise InvalidInput(msg)
