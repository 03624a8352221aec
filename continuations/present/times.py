"""Times, lengths and counts as people read them.

A page cannot know the time zone of its reader, so it shows UTC.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from continuations.value_class import dataclass

if TYPE_CHECKING:
    from datetime import datetime, timedelta

_MINUTE = 60
_HOUR = 60 * _MINUTE
_DAY = 24 * _HOUR
_FEW_SECONDS = 9.95
# Not `strftime("%a")` and `strftime("%B")`, which follow the locale of the process.
_DAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
_MONTHS = (
    *("January", "February", "March", "April", "May", "June", "July", "August"),
    *("September", "October", "November", "December"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class TimeView:
    """One moment.

    Attributes:
        iso: The moment for programs.
        text: The moment for people: `Tue 24 Nov 2026, 09:00 UTC`.
    """

    iso: str
    text: str


def time_view(moment: datetime) -> TimeView:
    """Return the view of a moment in UTC."""
    day = _DAYS[moment.weekday()]
    month = _MONTHS[moment.month - 1][:3]
    return TimeView(
        iso=moment.isoformat(),
        text=f"{day} {moment.day} {month} {moment.year}, {moment:%H:%M} UTC",
    )


def duration_text(duration: timedelta) -> str:
    """Return a length of time in its two largest units: `2 d 11 h`."""
    seconds = int(duration.total_seconds())
    if seconds < _MINUTE:
        return "less than a minute"
    days, rest = divmod(seconds, _DAY)
    hours, rest = divmod(rest, _HOUR)
    parts = [(days, "d"), (hours, "h"), (rest // _MINUTE, "min")]
    while not parts[0][0]:
        del parts[0]
    return " ".join(f"{count} {unit}" for count, unit in parts[:2] if count)


def time_left(deadline: datetime | None, now: datetime) -> str:
    """Return the time until a deadline: empty without one, and after it."""
    if deadline is None or deadline <= now:
        return ""
    return duration_text(deadline - now)


def left_text(left: timedelta | None) -> str:
    """Return how much time is left until a deadline, if there is one: `in 2 d 11 h`."""
    if left is None:
        return "no deadline"
    if left.total_seconds() <= 0:
        return "the deadline has passed"
    return f"in {duration_text(left)}"


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
    return f"{moment.day} {_MONTHS[moment.month - 1]} {moment.year}"


def moment_text(moment: datetime, now: datetime) -> str:
    """Return a moment, with its day unless it is today: `22 November 2026, 09:02`."""
    if moment.date() == now.date():
        return f"today {clock_text(moment)}"
    return f"{day_text(moment)}, {clock_text(moment)}"


def counted(count: int, noun: str) -> str:
    """Return a count with its noun, in the plural unless it is one."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"
