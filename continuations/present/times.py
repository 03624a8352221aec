"""Times, lengths and counts as people read them.

A server does not know the time zone of its reader. So each time on a page is a
`TimeView`: it says UTC, and `times.js` writes it again in the reader's zone. The last
line of a page names the zone. The title of each time is exact, and UTC: `Mon 23 Nov
2026, 18:48:30 UTC`. Each form has one place:

- `long`, on the page of one thing: `Mon 23 Nov 2026, 18:48 CET`.
- `short`, in lists and sentences: `today 18:48`; another day is
  `Mon 23 Nov 2026, 18:48`.
- `clock`, on an axis: `18:48`.
- `second`, in a line below a `day`: `18:48:30`.
- `day`, as a heading: `Mon 23 Nov 2026`.
- `left`, for a deadline: `in 3 h 46 min`, counted down.

Without script, all but `second` and `left` end with `UTC`.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Literal, TypeAlias

from continuations.value_class import dataclass

if TYPE_CHECKING:
    from datetime import timedelta

_MINUTE = 60
_HOUR = 60 * _MINUTE
_DAY = 24 * _HOUR
_FEW_SECONDS = 9.95
_MILLISECONDS = 0.9995
# Not `strftime("%a")` and `strftime("%B")`, which follow the locale of the process.
_DAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
_MONTHS = (
    *("Jan", "Feb", "Mar", "Apr", "May", "Jun"),
    *("Jul", "Aug", "Sep", "Oct", "Nov", "Dec"),
)

TimeForm: TypeAlias = Literal["long", "short", "clock", "second", "day", "left"]


@dataclass(frozen=True, slots=True)
class TimeView:
    """One moment on a page; a template prints it as a `<time>` element.

    Attributes:
        at: The moment, in UTC.
        form: How it is written.
        text: The words without script, such as `Tue 24 Nov 2026, 09:00 UTC`.
    """

    at: datetime
    form: TimeForm
    text: str

    @property
    def iso(self) -> str:
        """The moment for programs."""
        return self.at.isoformat(timespec="milliseconds").replace("+00:00", "Z")

    @property
    def attributes(self) -> str:
        """The attributes of its element; each character is safe in HTML."""
        exact = f"{_day(self.at)}, {self.at:%H:%M:%S} UTC"
        return f'datetime="{self.iso}" title="{exact}" data-time="{self.form}"'

    @property
    def html(self) -> str:
        """Its element; each character is safe in HTML."""
        return f"<time {self.attributes}>{self.text}</time>"


# A text on a page that may have moments in it: a template prints all parts.
PageText: TypeAlias = str | TimeView | tuple[str | TimeView, ...]


def plain_text(text: PageText) -> str:
    """Return a text of a page as one text, with its moments in UTC."""
    parts = text if isinstance(text, tuple) else (text,)
    return "".join(each if isinstance(each, str) else each.text for each in parts)


def time_view(moment: datetime, now: datetime | None = None) -> TimeView:
    """Return a moment in the form `long`; with the time of the page, `short`."""
    at = moment.astimezone(UTC)
    clock = f"{at:%H:%M} UTC"
    if now is not None and at.date() == now.astimezone(UTC).date():
        return TimeView(at, "short", f"today {clock}")
    return TimeView(at, "long" if now is None else "short", f"{_day(at)}, {clock}")


def clock_view(moment: datetime) -> TimeView:
    """Return the time of day, for a place that stands for a day."""
    at = moment.astimezone(UTC)
    return TimeView(at, "clock", f"{at:%H:%M} UTC")


def second_view(moment: datetime) -> TimeView:
    """Return the time of day with its seconds, for a line below a `day_view`."""
    at = moment.astimezone(UTC)
    return TimeView(at, "second", f"{at:%H:%M:%S}")


def day_view(moment: datetime) -> TimeView:
    """Return the day, as the heading of lines that have a `second_view`."""
    at = moment.astimezone(UTC)
    return TimeView(at, "day", f"{_day(at)}, UTC")


def left_view(deadline: datetime, now: datetime) -> TimeView:
    """Return a deadline by the time that is left: `in 3 h 46 min`."""
    return TimeView(deadline.astimezone(UTC), "left", left_text(deadline - now))


def _day(at: datetime) -> str:
    return f"{_DAYS[at.weekday()]} {at.day} {_MONTHS[at.month - 1]} {at.year}"


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
    """Return a length in its two largest units: `380 ms`, `1.2 s`, `4 min 05 s`."""
    exact = max(length.total_seconds(), 0.0)
    if exact < _MILLISECONDS:
        return f"{round(exact * 1000)} ms"
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


def counted(count: int, noun: str) -> str:
    """Return a count with its noun, in the plural unless it is one."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"
