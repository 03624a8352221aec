"""One simulated process: its clocks, its dice, and how it freezes or dies."""

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
    """A look at the clocks: when it truly was, and what the wall clock said."""

    true_time: float
    wall_time: float
    awake_seconds: float


# How the code that runs now looked at the clocks last.
LAST_CLOCK_SAMPLE: ContextVar[ClockSample | None] = ContextVar("LOOKED", default=None)


class ProcessKilled(BaseException):
    """What is left of a dead process, when a schedule is cleared away, dies of this."""


def wall_time(seconds: float) -> datetime:
    """Return the true time of day at a virtual time, in whole milliseconds."""
    return EPOCH + timedelta(milliseconds=int(seconds * 1000))


class Process:
    """A process of its own: a clock and ids for a runner, an owner for the loop."""

    def __init__(self, environment: SimEnvironment, name: str) -> None:
        self.environment = environment
        self.name = name
        self.rng = random.Random(f"{environment.seed}/{name}")  # noqa: S311 - not for secrets
        self.stopped = False
        self.dead = False
        self.held_callbacks: list[asyncio.Handle] = []
        self.tasks: list[asyncio.Task[Any]] = []
        self.clock_offset = self._draw_clock_offset()
        self._draws = 0
        self._frozen_for = 0.0
        self._thaws_at = 0.0
        self._started_at = environment.loop.time()

    def _draw_clock_offset(self) -> float:
        weather = self.environment.faults
        chance, size = self.rng.random(), self.rng.random() * 2 - 1
        if chance < weather.rate_of("clock") and weather.record(f"{self.name}/0 clock"):
            # Often by just too much, which is harder to see.
            return size * (120 if chance * 2 < weather.rate_of("clock") else 24)
        if chance < weather.rate_of("skew") and weather.record(f"{self.name}/0 skew"):
            return size * self._max_clock_offset
        return 0.0

    @property
    def _max_clock_offset(self) -> float:
        return self.environment.lease / 4 * 0.95

    def set_clock(self, draw: float) -> None:
        """Have the wall clock set, to another time that is right enough."""
        self.clock_offset = (draw * 2 - 1) * self._max_clock_offset
        self.environment.log_event(
            self.name, "has its clock set", f"{self.clock_offset:.1f} s off"
        )

    # A machine for a runner ----------------------------------------------------

    def now(self) -> datetime:
        """Return the wall clock's time, which may be off."""
        return wall_time(self.environment.loop.time() + self.clock_offset)

    def elapsed(self) -> float:
        """Return seconds since this process began; notes that it was looked at."""
        LAST_CLOCK_SAMPLE.set(self._sample_clocks())
        return self.environment.loop.time() - self._started_at

    def new_ulid(self, now: datetime) -> str:
        """Return a new ULID of this process's dice."""
        randomness = self.rng.randbytes(ulid.RANDOM_BYTES)
        return ulid.encode_ulid(to_milliseconds(now), randomness)

    # Fate ----------------------------------------------------------------------

    @property
    def awake_seconds(self) -> float:
        """How long this process has been able to do anything."""
        return self.environment.loop.time() - self._frozen_for

    @property
    def clock_sample(self) -> ClockSample:
        """How the step that runs now looked at the clocks last.

        Only a freeze may lie between: after time awake, it did not look at all.
        """
        last = LAST_CLOCK_SAMPLE.get()
        only_frozen = (
            last is not None and self.awake_seconds - last.awake_seconds < 1e-9
        )
        return last if last is not None and only_frozen else self._sample_clocks()

    def _sample_clocks(self) -> ClockSample:
        moment = self.environment.next_timestamp
        return ClockSample(moment, moment + self.clock_offset, self.awake_seconds)

    def draw_fault(self, kind: str) -> float | None:
        """Throw for a kind of fault; return a second throw if it strikes."""
        self._draws += 1
        first, second = self.rng.random(), self.rng.random()
        weather = self.environment.faults
        name = f"{self.name}/t{self._draws} {kind}"
        if first < weather.rate_of(kind) and weather.record(name):
            return second
        return None

    def crash(self) -> None:
        """Die: nothing of this process runs any more."""
        if not self.dead:
            self.environment.log_event(self.name, "dies")
        self.dead = self.stopped = True

    def freeze(self, seconds: float) -> None:
        """Stop at the next await, for so long; everybody else goes on."""
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
        """Freeze in front of a call's first byte, or not."""
        struck = self.draw_fault("gap")
        if struck is not None:
            self.freeze(freeze_seconds(struck))
            await asyncio.sleep(0)

    async def die_here(self) -> NoReturn:
        """Die now; what waits for this never goes on."""
        self.crash()
        await asyncio.get_running_loop().create_future()
        raise ProcessKilled

    # Life ----------------------------------------------------------------------

    def run(self, coroutine: Coroutine[Any, Any, None]) -> asyncio.Task[Any]:
        """Begin to do what this process is there for."""
        context = copy_context()
        context.run(OWNER.set, self)
        return self.environment.loop.create_task(coroutine, context=context)

    def cancel_tasks(self) -> None:
        """Clear away what a dead process left; the schedule is over."""
        self.stopped = False
        for task in self.tasks:
            task.cancel()
        self.environment.loop.release_held(self)


def current_process() -> Process:
    """Return the process that runs now."""
    process = OWNER.get()
    assert isinstance(process, Process)
    return process
