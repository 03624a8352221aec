"""One simulated process: its clocks, its dice, and how it freezes or dies."""

from __future__ import annotations

import asyncio
import random
from contextvars import ContextVar, copy_context
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, NoReturn

from continuations.core import ulid
from continuations.wire.fields import milliseconds
from tests.simulation.loop import NOBODY, OWNER
from tests.simulation.weather import length_of_freeze

if TYPE_CHECKING:
    from collections.abc import Coroutine

    from tests.simulation.world import World

EPOCH = datetime(2030, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Look:
    """A look at the clocks: when it truly was, and what the wall clock said."""

    at: float
    wall: float
    awake: float


# How the code that runs now looked at the clocks last.
LOOKED: ContextVar[Look | None] = ContextVar("LOOKED", default=None)


class Crash(BaseException):
    """What is left of a dead process, when a schedule is cleared away, dies of this."""


def wall(seconds: float) -> datetime:
    """Return the true time of day at a virtual time, in whole milliseconds."""
    return EPOCH + timedelta(milliseconds=int(seconds * 1000))


class Process:
    """A process of its own: a clock and ids for a runner, an owner for the loop."""

    def __init__(self, world: World, name: str) -> None:
        self.world = world
        self.name = name
        self.dice = random.Random(f"{world.seed}/{name}")  # noqa: S311 - not for secrets
        self.stopped = False
        self.dead = False
        self.held: list[asyncio.Handle] = []
        self.tasks: list[asyncio.Task[Any]] = []
        self.skew = self._drawn_skew()
        self._throws = 0
        self._frozen_for = 0.0
        self._thaws_at = 0.0
        self._birth = world.loop.time()

    def _drawn_skew(self) -> float:
        weather = self.world.weather
        chance, size = self.dice.random(), self.dice.random() * 2 - 1
        if chance < weather.has("clock") and weather.strikes(f"{self.name}/0 clock"):
            # Often by just too much, which is harder to see.
            return size * (120 if chance * 2 < weather.has("clock") else 24)
        if chance < weather.has("skew") and weather.strikes(f"{self.name}/0 skew"):
            return size * self._most_skew
        return 0.0

    @property
    def _most_skew(self) -> float:
        return self.world.lease / 4 * 0.95

    def set_clock(self, dice: float) -> None:
        """Have the wall clock set, to another time that is right enough."""
        self.skew = (dice * 2 - 1) * self._most_skew
        self.world.note(self.name, "has its clock set", f"{self.skew:.1f} s off")

    # A machine for a runner ----------------------------------------------------

    def now(self) -> datetime:
        """Return the wall clock's time, which may be off."""
        return wall(self.world.loop.time() + self.skew)

    def elapsed(self) -> float:
        """Return seconds since this process began; notes that it was looked at."""
        LOOKED.set(self._look())
        return self.world.loop.time() - self._birth

    def ulid(self, now: datetime) -> str:
        """Return a new ULID of this process's dice."""
        randomness = self.dice.randbytes(ulid.RANDOM_BYTES)
        return ulid.ulid(milliseconds(now), randomness)

    # Fate ----------------------------------------------------------------------

    @property
    def awake(self) -> float:
        """How long this process has been able to do anything."""
        return self.world.loop.time() - self._frozen_for

    @property
    def looked(self) -> Look:
        """How the step that runs now looked at the clocks last.

        Only a freeze may lie between: after time awake, it did not look at all.
        """
        last = LOOKED.get()
        only_frozen = last is not None and self.awake - last.awake < 1e-9
        return last if last is not None and only_frozen else self._look()

    def _look(self) -> Look:
        moment = self.world.moment
        return Look(moment, moment + self.skew, self.awake)

    def throw(self, kind: str) -> float | None:
        """Throw for a kind of fault; return a second throw if it strikes."""
        self._throws += 1
        first, second = self.dice.random(), self.dice.random()
        weather = self.world.weather
        name = f"{self.name}/t{self._throws} {kind}"
        if first < weather.has(kind) and weather.strikes(name):
            return second
        return None

    def crash(self) -> None:
        """Die: nothing of this process runs any more."""
        if not self.dead:
            self.world.note(self.name, "dies")
        self.dead = self.stopped = True

    def freeze(self, seconds: float) -> None:
        """Stop at the next await, for so long; everybody else goes on."""
        if self.stopped:
            return
        self.world.note(self.name, "freezes", f"{seconds:.1f} s")
        self.stopped = True
        self.world.loop.call_later(seconds, self._thaw, seconds, context=NOBODY)

    def _thaw(self, seconds: float) -> None:
        self._frozen_for += seconds
        if self.dead:
            return
        self.world.note(self.name, "wakes")
        self.stopped = False
        self.world.loop.release(self)

    async def gap(self) -> None:
        """Freeze in front of a call's first byte, or not."""
        struck = self.throw("gap")
        if struck is not None:
            self.freeze(length_of_freeze(struck))
            await asyncio.sleep(0)

    async def die_here(self) -> NoReturn:
        """Die now; what waits for this never goes on."""
        self.crash()
        await asyncio.get_running_loop().create_future()
        raise Crash

    # Life ----------------------------------------------------------------------

    def live(self, story: Coroutine[Any, Any, None]) -> asyncio.Task[Any]:
        """Begin to do what this process is there for."""
        context = copy_context()
        context.run(OWNER.set, self)
        return self.world.loop.create_task(story, context=context)

    def bury(self) -> None:
        """Clear away what a dead process left; the schedule is over."""
        self.stopped = False
        for task in self.tasks:
            task.cancel()
        self.world.loop.release(self)


def myself() -> Process:
    """Return the process that runs now."""
    process = OWNER.get()
    assert isinstance(process, Process)
    return process
