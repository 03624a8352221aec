"""Claims: the exclusive right to advance a run for a limited time.

A claim is a version that records the worker and the end of the claim. Its time starts
before its create is sent and is measured on two clocks (see `Lease`). So a process that
was frozen sees that its claim has ended.
"""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Protocol

from continuations.core.rows.run import Claim
from continuations.errors import ClockOff, RunBusy
from continuations.value_class import dataclass, replace
from continuations.wire.fields import readable_time

if TYPE_CHECKING:
    from datetime import datetime

    from continuations.core.rows.run import RunRow, RunStatus
    from continuations.core.rows.state import RunState


class Clock(Protocol):
    """The two clocks of a machine."""

    def now(self) -> datetime:
        """Return the wall clock's time (aware, UTC) in whole milliseconds."""
        ...

    def elapsed(self) -> float:
        """Return seconds of a clock that never goes back and runs during sleep."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Lease:
    """The time of a claim on the clocks of this machine.

    No model or tool call starts when less than half of the time is left. The reason:
    the clocks of two workers may each differ from the store's by a quarter of a claim.
    So a worker whose clock is ahead may take over half a claim too early. A claim is
    renewed when a third of its time is gone, so a worker without delays never reaches
    that limit.

    Attributes:
        clock: The clocks of this machine.
        seconds: The length of the claim.
        until: The end on the wall clock.
        until_elapsed: The end on the monotonic clock.
        clock_uncertainty: The difference of the clocks is known only to this, in
            seconds; see `ClockReading.uncertainty`.
    """

    clock: Clock
    seconds: float
    until: datetime
    until_elapsed: float
    clock_uncertainty: float = 0.0

    @classmethod
    def start_now(cls, clock: Clock, seconds: float) -> Lease:
        """Return a lease that begins now; call it before the claim is sent."""
        until = clock.now() + timedelta(seconds=seconds)
        return cls(
            clock=clock,
            seconds=seconds,
            until=until,
            until_elapsed=clock.elapsed() + seconds,
        )

    @property
    def seconds_left(self) -> float:
        """The seconds that are left, on the clock that has less."""
        wall = (self.until - self.clock.now()).total_seconds()
        return min(wall, self.until_elapsed - self.clock.elapsed())

    @property
    def can_start_action(self) -> bool:
        """Whether enough time is left to start a model or tool call."""
        return self.seconds_left > self.seconds / 2 + self.clock_uncertainty

    @property
    def seconds_to_renewal(self) -> float:
        """The seconds until a third of the time is gone, at least 0."""
        return max(0.0, self.seconds_left - self.seconds * 2 / 3)


def claimed(state: RunState, *, worker: str, lease: Lease, attempt: int) -> RunState:
    """Return the state with a claim of a worker."""
    claim = Claim(worker=worker, until=lease.until, attempt=attempt)
    return replace(state, run=replace(state.run, status="running", claim=claim))


def released(state: RunState, status: RunStatus = "suspended") -> RunState:
    """Return the state without a claim; an ended run keeps its status.

    A thread without an open call or wait rests.
    """
    run = state.run
    if run.has_ended:
        status = run.status
    elif run.rests and not state.waits:
        status = "resting"
    return replace(state, run=replace(run, status=status, claim=None))


def next_attempt(run: RunRow) -> int:
    """Return the number of the next attempt at the point where the run stands.

    The number grows with each worker that dies. It is 1 after a claim that was
    released, and 1 again as soon as a worker saves progress.
    """
    return run.claim.attempt + 1 if run.claim else 1


def check_free(run: RunRow, now: datetime) -> None:
    """Raise `RunBusy` if another worker's claim still lasts."""
    claim = run.claim
    if claim is None or claim.until <= now:
        return
    # Rounded up, so that a resume after the printed time finds the run free.
    whole_second = claim.until + timedelta(milliseconds=999)
    msg = (
        f"run {run.id} is busy: another process holds its claim until "
        f"{readable_time(whole_second)}. Nothing was done here. If that process died, "
        "its claim still lasts until this time. Call again after it."
    )
    raise RunBusy(msg, run_id=run.id, until=claim.until)


@dataclass(frozen=True, slots=True)
class ClockReading:
    """The store's time of a request, and the wall clock before and after it.

    Attributes:
        sent_at: The wall clock before the request.
        store_time: The store's time, rounded down to its resolution, or `None`.
        received_at: The wall clock after the reply.
        resolution: The store's true time is less than this later than `store_time`.
    """

    sent_at: datetime
    store_time: datetime | None
    received_at: datetime
    resolution: timedelta = timedelta()

    @property
    def uncertainty(self) -> float:
        """The seconds by which the difference of the clocks is not known."""
        if self.store_time is None:
            return 0.0
        return (self.received_at - self.sent_at + self.resolution).total_seconds()

    @property
    def correction(self) -> timedelta:
        """The store's time minus the machine's.

        It is 0 unless the reading proves that the clocks differ. So a right clock keeps
        its milliseconds, although the store tells whole seconds.
        """
        if self.store_time is None:
            return timedelta()
        if self.store_time > self.received_at:
            return self.store_time - self.received_at
        latest = self.store_time + self.resolution
        return min(latest - self.sent_at, timedelta())


def check_clock(reading: ClockReading, lease_seconds: float, run_id: str) -> None:
    """Raise `ClockOff` if the clocks differ by more than a quarter of a claim."""
    difference = abs(reading.correction)
    if difference <= timedelta(seconds=lease_seconds / 4):
        return
    msg = (
        f"run {run_id} was not resumed: the clock of this machine and the clock of the "
        f"store differ by {difference.total_seconds():.1f} s, which is more than a "
        "quarter of a claim. Correct the clock of this machine."
    )
    raise ClockOff(msg, run_id=run_id)


def check_clock_for(
    state: RunState, reading: ClockReading, lease_seconds: float
) -> None:
    """Check the clock if it disagrees with the store about the end of a claim or wait.

    Raises `ClockOff` as `check_clock` does. Otherwise the store's time decides.
    """
    claim, machine_time = state.run.claim, reading.received_at
    ends = [wait.deadline for wait in state.waits.values()]
    ends += [claim.until] if claim else []
    between = sorted((machine_time, machine_time + reading.correction))
    if any(end is not None and between[0] <= end <= between[1] for end in ends):
        check_clock(reading, lease_seconds, state.run.id)
