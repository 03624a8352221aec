"""One simulated process: its clocks and random numbers, its freezes and its death."""

from __future__ import annotations

import asyncio
import random
from contextvars import ContextVar, copy_context
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, NoReturn

from continuations.core import ulid
from continuations.wire.fields import to_milliseconds
from tests.simulation.fault_schedule import freeze_seconds
from tests.simulation.virtual_loop import NO_PROCESS, OWNER

if TYPE_CHECKING:
    from collections.abc import Coroutine

    from tests.simulation.sim_environment import SimEnvironment

EPOCH = datetime(2030, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class ClockSample:
    """A reading of a process's clocks, in seconds, with the true time."""

    true_time: float
    wall_time: float
    awake_seconds: float


# The last clock reading of the task that runs now.
LAST_CLOCK_SAMPLE: ContextVar[ClockSample | None] = ContextVar(
    "LAST_CLOCK_SAMPLE", default=None
)


class ProcessKilled(BaseException):
    """Ends the tasks of a dead process when its schedule is over."""


def wall_time(seconds: float) -> datetime:
    """Return the true time at a virtual time, in whole milliseconds."""
    return EPOCH + timedelta(milliseconds=int(seconds * 1000))


class Process:
    """A process: the clock and the ids of a runner, and the owner of callbacks."""

    def __init__(self, environment: SimEnvironment, name: str) -> None:
        self.environment = environment
        self.name = name
        self.rng = random.Random(f"{environment.seed}/{name}")  # noqa: S311 - not for secrets
        self.stopped = False
        self.dead = False
        self.held_callbacks: list[asyncio.Handle] = []
        self.tasks: list[asyncio.Task[Any]] = []
        self.cancelled_itself = False
        self.clock_offset = self._draw_days_off() or self._draw_clock_offset()
        self._draws = 0
        self._frozen_for = 0.0
        self._started_at = environment.loop.time()

    def _draw_clock_offset(self) -> float:
        faults = self.environment.faults
        chance, size = self.rng.random(), self.rng.random() * 2 - 1
        far_off, skew = faults.rate_of("clock_far_off"), faults.rate_of("skew")
        if chance < far_off and faults.record(f"{self.name}/0 clock_far_off"):
            # Half of them are off by little more than allowed: harder to notice.
            return size * (120 if chance * 2 < far_off else 24)
        if chance < skew and faults.record(f"{self.name}/0 skew"):
            return size * self._max_clock_offset
        return 0.0

    def _draw_days_off(self) -> float:
        """Return an offset of hours or of months, or 0 without that fault.

        No offset lies in between: the final sweeps wait for days, but not for months.
        """
        faults = self.environment.faults
        rng = random.Random(f"{self.environment.seed}/{self.name}/days")  # noqa: S311 - not for secrets
        draws = [rng.random() for _ in range(3)]
        kind = "clock_wrong_by_days"
        if draws[0] >= faults.rate_of(kind) or self.name == "starter":
            return 0.0
        if not faults.record(f"{self.name}/0 {kind}"):
            return 0.0
        sign = 1 if draws[1] < 0.5 else -1
        hours = (
            1 + draws[2] * 22 if draws[1] % 0.5 < 0.2 else 24 * (40 + draws[2] * 360)
        )
        return sign * hours * 3600

    @property
    def _max_clock_offset(self) -> float:
        return self.environment.lease / 4 * 0.95

    def set_clock(self, draw: float) -> None:
        """Set the wall clock to another time within the allowed difference."""
        self.clock_offset = (draw * 2 - 1) * self._max_clock_offset
        self.environment.log_event(
            self.name, "clock set", f"{self.clock_offset:.1f} s off"
        )

    # Clock and ids of a runner -------------------------------------------------

    def now(self) -> datetime:
        """Return the wall clock's time, which may be off."""
        return wall_time(self.environment.loop.time() + self.clock_offset)

    def elapsed(self) -> float:
        """Return seconds since this process began, and record the reading."""
        LAST_CLOCK_SAMPLE.set(self._sample_clocks())
        return self.environment.loop.time() - self._started_at

    def new_ulid(self, now: datetime) -> str:
        """Return a new ULID from this process's random numbers."""
        randomness = self.rng.randbytes(ulid.RANDOM_BYTES)
        return ulid.encode_ulid(to_milliseconds(now), randomness)

    # Faults --------------------------------------------------------------------

    @property
    def awake_seconds(self) -> float:
        """For how long this process was not frozen."""
        return self.environment.loop.time() - self._frozen_for

    @property
    def clock_sample(self) -> ClockSample:
        """The clock reading on which the current step relies.

        It is the last one of the task, if only a freeze lies in between. If the process
        was awake since then, the step relies on no reading, and a new one is taken.
        """
        last = LAST_CLOCK_SAMPLE.get()
        only_frozen = (
            last is not None and self.awake_seconds - last.awake_seconds < 1e-9
        )
        return last if last is not None and only_frozen else self._sample_clocks()

    def _sample_clocks(self) -> ClockSample:
        now = self.environment.next_timestamp
        return ClockSample(now, now + self.clock_offset, self.awake_seconds)

    def draw_fault(self, kind: str) -> float | None:
        """Draw a fault of a kind; returns a second draw if the fault occurs."""
        self._draws += 1
        first, second = self.rng.random(), self.rng.random()
        faults = self.environment.faults
        name = f"{self.name}/t{self._draws} {kind}"
        if first < faults.rate_of(kind) and faults.record(name):
            return second
        return None

    def crash(self) -> None:
        """Die: none of this process's callbacks runs any more."""
        if not self.dead:
            self.environment.log_event(self.name, "crashes")
        self.dead = self.stopped = True

    def freeze(self, seconds: float) -> None:
        """Freeze at the next await for some seconds; other processes continue."""
        if self.stopped:
            return
        self.environment.log_event(self.name, "freezes", f"{seconds:.1f} s")
        self.stopped = True
        self.environment.loop.call_later(
            seconds, self._thaw, seconds, context=NO_PROCESS
        )

    def _thaw(self, seconds: float) -> None:
        self._frozen_for += seconds
        if self.dead:
            return
        self.environment.log_event(self.name, "wakes")
        self.stopped = False
        self.environment.loop.release_held(self)

    async def freeze_before_call(self) -> None:
        """Freeze right before the first byte of a call, if that fault occurs."""
        draw = self.draw_fault("freeze_before_call")
        if draw is not None:
            self.freeze(freeze_seconds(draw))
            await asyncio.sleep(0)

    async def die_here(self) -> NoReturn:
        """Die now; this coroutine never returns."""
        self.crash()
        await asyncio.get_running_loop().create_future()
        raise ProcessKilled

    # Tasks ---------------------------------------------------------------------

    def run(self, coroutine: Coroutine[Any, Any, None]) -> asyncio.Task[Any]:
        context = copy_context()
        context.run(OWNER.set, self)
        return self.environment.loop.create_task(coroutine, context=context)

    def cancel_tasks(self) -> None:
        """Cancel what is left of this process at the end of the schedule."""
        self.stopped = False
        for task in self.tasks:
            task.cancel()
        self.environment.loop.release_held(self)


def current_process() -> Process:
    process = OWNER.get()
    assert isinstance(process, Process)
    return process
