"""Moments and lengths of time as people read them, in UTC."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from datetime import datetime, timedelta

_MINUTE = 60
_HOUR = 60 * _MINUTE
_DAY = 24 * _HOUR
_FEW_SECONDS = 9.95
_MONTHS = (
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
)


def length_text(length: timedelta) -> str:
    """Return a length in its two largest units: `1.2 s`, `4 min 05 s`, `2 d 11 h`."""
    exact = max(length.total_seconds(), 0.0)
    if exact < _FEW_SECONDS:
        return f"{exact:.1f} s"
    seconds = round(exact)
    if seconds < _MINUTE:
        return f"{seconds} s"
    if seconds < _HOUR:
        return f"{seconds // _MINUTE} min {seconds % _MINUTE:02} s"
    if seconds < _DAY:
        return f"{seconds // _HOUR} h {seconds % _HOUR // _MINUTE:02} min"
    return f"{seconds // _DAY} d {seconds % _DAY // _HOUR} h"


def clock_text(moment: datetime) -> str:
    """Return the time of day: `09:02`."""
    return f"{moment:%H:%M}"


def day_text(moment: datetime) -> str:
    """Return the day: `22 November 2026`."""
    # Not `strftime("%B")`, which follows the locale of the process.
    return f"{moment.day} {_MONTHS[moment.month - 1]} {moment.year}"


def moment_text(moment: datetime, now: datetime) -> str:
    """Return a moment, with its day unless it is today: `22 November 2026, 09:02`."""
    if moment.date() == now.date():
        return f"today {clock_text(moment)}"
    return f"{day_text(moment)}, {clock_text(moment)}"
