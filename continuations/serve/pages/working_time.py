"""The time axis of a run: it counts working time.

A run works for seconds and sleeps for days. Each claim of a worker is a segment to
scale. A sleep has the logarithm of its length as its width. No segment takes more than
60 % of the axis beside another one.
"""

from __future__ import annotations

import dataclasses
from bisect import bisect_right
from datetime import datetime, timedelta
from functools import cached_property
from math import log10
from typing import TYPE_CHECKING

from continuations.core.rows.run import ENDED_STATUSES
from continuations.present.times import TimeView, clock_view, length_text
from continuations.value_class import dataclass

if TYPE_CHECKING:
    from continuations.core.reading.run_past import VersionEvents, VersionWindow

AXIS_WIDTH = 1000
_LARGEST_WIDTH = 600
_ALL_SLEEPS_WIDTH = 400
# A sleep of some seconds has the first width, and each factor of ten adds the other.
_SLEEP_WIDTH, _DECADE_WIDTH = 70, 25
# A worker that died at once is visible: this width comes before the scale.
_LEAST_WORK_WIDTH = 24
_LEAST_LABEL_WIDTH = 80
# A shorter sleep is no column: the next worker followed at once.
_SHORTEST_SLEEP = timedelta(seconds=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Stretch:
    """A stretch of time in which one worker held the run, or no worker.

    Attributes:
        begin: Its begin.
        end: Its end; not before the begin.
        worker: Id of the worker; `None` for a sleep.
        is_open: Whether the worker works at the end of the axis.
        is_lost: Whether the worker was gone without a release of its claim.
    """

    begin: datetime
    end: datetime
    worker: str | None = None
    is_open: bool = False
    is_lost: bool = False

    @property
    def length(self) -> timedelta:
        """Its length."""
        return self.end - self.begin


@dataclass(frozen=True, slots=True, kw_only=True)
class Segment:
    """A stretch and its place on the axis.

    Attributes:
        stretch: The stretch.
        x: Its left end, from 0 to `AXIS_WIDTH`.
        width: Its width.
        title: Its first line: the number of the worker, or that the run was asleep.
        text: Its second line: when it began, and how long it was.
    """

    stretch: Stretch
    x: int
    width: int
    title: str
    text: tuple[str | TimeView, ...]

    @property
    def is_wide(self) -> bool:
        """Whether its words fit above the table; they are read out in any case."""
        return self.width >= _LEAST_LABEL_WIDTH

    @property
    def x_percent(self) -> str:
        """Its left end, for an attribute of SVG."""
        return f"{self.x / AXIS_WIDTH:.1%}"

    @property
    def width_percent(self) -> str:
        """Its width, for an attribute of SVG."""
        return f"{self.width / AXIS_WIDTH:.1%}"


@dataclasses.dataclass(frozen=True, kw_only=True)
class WorkingTime:
    """The time axis of a run.

    Attributes:
        segments: The segments from left to right; each begins where the one before
            ends, and the last one ends at `AXIS_WIDTH`.
    """

    segments: tuple[Segment, ...]

    @property
    def worked(self) -> timedelta:
        """The working time: the sum of all stretches with a worker."""
        lengths = (each.stretch.length for each in self.segments if each.stretch.worker)
        return sum(lengths, timedelta())

    @property
    def slept(self) -> timedelta:
        """The sum of all sleeps."""
        sleeps = (each.stretch for each in self.segments if not each.stretch.worker)
        return sum((each.length for each in sleeps), timedelta())

    @property
    def workers(self) -> int:
        """The number of workers."""
        return len({each.stretch.worker for each in self.segments} - {None})

    @cached_property
    def _begins(self) -> list[datetime]:
        return [each.stretch.begin for each in self.segments]

    def x(self, moment: datetime) -> int:
        """Return the place of a moment; a later one is never further left."""
        found = self.segments[max(bisect_right(self._begins, moment) - 1, 0)]
        stretch = found.stretch
        if moment >= stretch.end:
            return found.x + found.width
        if moment <= stretch.begin:
            return found.x
        return found.x + round(
            found.width * ((moment - stretch.begin) / stretch.length)
        )

    def end_of_work(self, moment: datetime) -> datetime:
        """Return when the worker stopped that worked at a moment."""
        for each in reversed(self.segments):
            if each.stretch.worker and each.stretch.begin <= moment:
                return max(each.stretch.end, moment)
        return moment

    def worked_between(self, begin: datetime, end: datetime) -> timedelta:
        """Return how much working time lies between two moments."""
        total = timedelta()
        for each in self.segments:
            if each.stretch.worker:
                first = max(begin, each.stretch.begin)
                last = min(end, each.stretch.end)
                total += max(last - first, timedelta())
        return total


def working_time(window: VersionWindow, now: datetime) -> WorkingTime:
    """Return the time axis of some versions of a run.

    Args:
        window: The versions. If the last one is the newest, the time until now counts.
        now: The time of the report.
    """
    return WorkingTime(segments=_placed(_stretches(window, now)))


def _stretches(window: VersionWindow, now: datetime) -> list[Stretch]:
    found: list[Stretch] = []
    work: _Work | None = None
    latest = window.versions[0].at
    for version in window.versions:
        at = latest = max(latest, version.at)
        claim = version.run.claim
        if work is not None and (claim is None or claim.worker != work.worker):
            # A worker writes nothing after its claim: another process did.
            by_worker = claim is None and at <= work.until
            _add(found, work.stretch(at if by_worker else None))
            work = None
        if claim is not None:
            if work is None:
                work = _Work(claim.worker, at)
            work.seen(version, at)
    if work is not None and not window.is_newest:
        _add(found, work.stretch(work.last, opens=True))
    elif work is not None:
        works = now < work.until
        _add(found, work.stretch(max(now, work.last) if works else None, opens=works))
    last = window.versions[-1]
    if window.is_newest and last.run.status not in ENDED_STATUSES:
        _add_sleep(found, found[-1].end if found else latest, now)
    return found or [Stretch(begin=latest, end=latest)]


class _Work:
    """The work of one worker, while its versions are read."""

    def __init__(self, worker: str, begin: datetime) -> None:
        self.worker = worker
        self._begin = begin
        self.last = self.until = begin

    def seen(self, version: VersionEvents, at: datetime) -> None:
        claim = version.run.claim
        self.last = at
        self.until = claim.until if claim else at

    def stretch(self, released: datetime | None, *, opens: bool = False) -> Stretch:
        """Return the work; without a release it ends with its last version."""
        return Stretch(
            begin=self._begin,
            end=max(self.last, released or self.last),
            worker=self.worker,
            is_open=opens,
            is_lost=released is None,
        )


def _add(found: list[Stretch], work: Stretch) -> None:
    """Add the work of a worker, and the sleep before it."""
    if found:
        _add_sleep(found, found[-1].end, work.begin)
    found.append(work)


def _add_sleep(found: list[Stretch], begin: datetime, end: datetime) -> None:
    if end - begin >= _SHORTEST_SLEEP:
        found.append(Stretch(begin=begin, end=end))


def _placed(stretches: list[Stretch]) -> tuple[Segment, ...]:
    workers: dict[str, int] = {}
    segments: list[Segment] = []
    # The exact place, so that rounding never adds up.
    place = 0.0
    for each, width in zip(stretches, _widths(stretches), strict=True):
        if each.worker is None:
            title = "asleep"
            text: tuple[str | TimeView, ...] = (length_text(each.length),)
        else:
            number = workers.setdefault(each.worker, len(workers) + 1)
            title = f"Worker {number}"
            text = (clock_view(each.begin), f", {length_text(each.length)}")
        x, place = round(place), place + width
        end = AXIS_WIDTH if each is stretches[-1] else round(place)
        segments.append(
            Segment(stretch=each, x=x, width=end - x, title=title, text=text)
        )
    return tuple(segments)


def _widths(stretches: list[Stretch]) -> list[float]:
    """Return the width of each stretch; their sum is that of the axis."""
    sleeps = [
        _SLEEP_WIDTH + _DECADE_WIDTH * log10(1 + each.length.total_seconds())
        for each in stretches
        if each.worker is None
    ]
    works = len(stretches) - len(sleeps)
    room = min(sum(sleeps), _ALL_SLEEPS_WIDTH) if works else AXIS_WIDTH
    factor = room / sum(sleeps) if sleeps else 0.0
    room = AXIS_WIDTH - room if works else 0.0
    least = min(_LEAST_WORK_WIDTH, room / (2 * max(works, 1)))
    worked = sum((each.length for each in stretches if each.worker), timedelta())
    widths: list[float] = []
    asleep = iter(sleeps)
    for each in stretches:
        if each.worker is None:
            widths.append(next(asleep) * factor)
        else:
            share = each.length / worked if worked else 1 / works
            widths.append(least + (room - least * works) * share)
    return _limited(widths)


def _limited(widths: list[float]) -> list[float]:
    """Return the widths, of which none has more than its share of the axis."""
    largest = max(widths)
    if largest <= _LARGEST_WIDTH or len(widths) == 1:
        return widths
    factor = (AXIS_WIDTH - _LARGEST_WIDTH) / (sum(widths) - largest)
    return [_LARGEST_WIDTH if width == largest else width * factor for width in widths]
