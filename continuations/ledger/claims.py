"""The right to move a run on, for a limited time.

A claim is a version that says who works on the run and until when. It is measured
from before its create was sent, on two clocks (see `Lease`), so that a process which
was frozen finds that its time is over.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import timedelta
from typing import TYPE_CHECKING, Protocol

from continuations.core.run import Claim
from continuations.errors import ClockOff, RunBusy

if TYPE_CHECKING:
    from datetime import datetime

    from continuations.core.run import RunRow, RunStatus
    from continuations.core.state import RunState


class Clock(Protocol):
    """The two clocks of a machine."""

    def now(self) -> datetime:
        """Return the wall clock's time, aware, UTC, in whole milliseconds."""
        ...

    def elapsed(self) -> float:
        """Return seconds of a clock that only goes forward, also during sleep."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Lease:
    """How long a claim lasts on this machine's clocks.

    `length` is in seconds. No model or tool call starts with less than half of it
    left: two workers' clocks may each be a quarter off the store's, so the one that
    is ahead may believe half a claim too early that it is over. From two thirds on it
    is renewed, so that a worker which is not held up never comes to that. `slack` is
    how long the request took in which the store told its time: by so much less is
    known of our clock.
    """

    clock: Clock
    seconds: float
    until: datetime
    until_elapsed: float
    clock_uncertainty: float = 0.0

    @classmethod
    def start_now(cls, clock: Clock, seconds: float) -> Lease:
        """Return a lease that begins before anything is sent."""
        until = clock.now() + timedelta(seconds=seconds)
        return cls(
            clock=clock,
            seconds=seconds,
            until=until,
            until_elapsed=clock.elapsed() + seconds,
        )

    @property
    def seconds_left(self) -> float:
        """Seconds that are left, by the clock that says less."""
        wall = (self.until - self.clock.now()).total_seconds()
        return min(wall, self.until_elapsed - self.clock.elapsed())

    @property
    def can_start_call(self) -> bool:
        """Whether enough is left to begin a model or tool call."""
        return self.seconds_left > self.seconds / 2 + self.clock_uncertainty

    @property
    def needs_renewal(self) -> bool:
        """Whether a third of it is gone."""
        return self.seconds_left < self.seconds * 2 / 3


def claimed(state: RunState, *, worker: str, lease: Lease, attempt: int) -> RunState:
    """Return the run as one that a worker has claimed."""
    claim = Claim(worker=worker, until=lease.until, attempt=attempt)
    return replace(state, run=replace(state.run, status="running", claim=claim))


def released(state: RunState, status: RunStatus = "suspended") -> RunState:
    """Return the run with its claim given up, unless it has ended."""
    ended = state.run.status not in ("running", "suspended")
    status = state.run.status if ended else status
    return replace(state, run=replace(state.run, status=status, claim=None))


def next_attempt(run: RunRow) -> int:
    """Return the number of the next attempt.

    Only claims count that take over from a worker which died before it made
    progress: a claim given up in order begins anew at 1.
    """
    return run.claim.attempt + 1 if run.claim else 1


def check_free(run: RunRow, now: datetime) -> None:
    """Raise `RunBusy` if another worker's claim still lasts."""
    claim = run.claim
    if claim is None or claim.until <= now:
        return
    msg = (
        f"Run {run.id} is being worked on, by a process whose claim lasts until "
        f"{claim.until.isoformat()}. Nothing was done here. Resume it after that time "
        "if it has not moved on by then."
    )
    raise RunBusy(msg, run_id=run.id, until=claim.until)


@dataclass(frozen=True, slots=True)
class ClockReading:
    """The store's time of something, and when it was sent and answered by our clock."""

    sent_at: datetime
    store_time: datetime | None
    received_at: datetime


def check_clock(reading: ClockReading, lease_seconds: float, run_id: str) -> None:
    """Raise `ClockOff` if the store's time says that ours is wrong.

    A quarter of a claim is the most that they may differ.
    """
    if reading.store_time is None:
        return
    most = timedelta(seconds=lease_seconds / 4)
    if reading.sent_at - most <= reading.store_time <= reading.received_at + most:
        return
    off = (reading.store_time - reading.received_at).total_seconds()
    msg = (
        f"This machine's clock and the store's differ by {abs(off):.1f} s, more than a "
        f"quarter of a claim. Run {run_id} was not worked on. Set this machine's clock."
    )
    raise ClockOff(msg, run_id=run_id)
