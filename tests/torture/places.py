"""Where a run is tortured: a store in a folder, a clock that everybody shares.

The clock stands in memory that forked processes share, so one of them can make a
claim of another run out without anybody sleeping. What the store tells is that time.
"""

from __future__ import annotations

import json
import mmap
import os
import shutil
import signal
import struct
import threading
from dataclasses import dataclass, field
from datetime import timedelta
from itertools import count
from typing import TYPE_CHECKING, Any

from continuations.engine.ports import SystemClock
from continuations_storage import FileStore
from continuations_storage.faults import FaultyStore, at, killed, nothing
from tests.engine import ledgers
from tests.engine.world import World

if TYPE_CHECKING:
    from datetime import datetime
    from pathlib import Path
    from typing import Literal

    from continuations_storage import Store
    from continuations_storage.faults import Fault, Moment, Plan

    Kind = Literal["operation", "line"]


class SharedClock(SystemClock):
    """The machine's clocks, ahead by what any of the processes said last."""

    def __init__(self) -> None:
        self._page = mmap.mmap(-1, 8)

    @property
    def ahead(self) -> float:
        """How many seconds ahead."""
        found: float = struct.unpack("d", self._page[:8])[0]
        return found

    @ahead.setter
    def ahead(self, seconds: float) -> None:
        self._page[:8] = struct.pack("d", seconds)

    def now(self) -> datetime:
        """Return the wall clock's time."""
        return super().now() + timedelta(seconds=self.ahead)

    def elapsed(self) -> float:
        """Return the other clock's time."""
        return super().elapsed() + self.ahead


class Timed:
    """A store that tells the shared clock's time."""

    def __init__(self, inner: Store, clock: SharedClock) -> None:
        self._inner = inner
        self._clock = clock
        self.read, self.keys = inner.read, inner.keys
        self.delete, self.probe = inner.delete, inner.probe

    async def create(self, key: str, body: bytes) -> datetime:
        """Put the body if the key is absent."""
        await self._inner.create(key, body)
        return self._clock.now()


class Freezing(FaultyStore):
    """Freezes its process where a plan would have it killed."""

    async def _suffer(self, fault: Fault | None, moment: Moment, key: str) -> None:
        if fault is None or not fault.kill:
            await super()._suffer(fault, moment, key)
        elif fault.moment == moment:
            # To this very thread: it stands still before the call returns.
            signal.pthread_kill(threading.get_ident(), signal.SIGSTOP)


@dataclass(frozen=True, slots=True)
class Point:
    """Where a process dies: at its n-th storage operation, or its n-th line.

    A line is an effect of a tool or a turn of a model; before it the tool has begun
    and had no effect, after it the tool has not returned.
    """

    kind: Kind
    number: int
    moment: Moment

    def __str__(self) -> str:
        return f"{self.moment} {self.kind} {self.number}"

    @classmethod
    def of(cls, text: str) -> Point:
        """Return the point of its text, `after line 2`."""
        moment, kind, number = text.split()
        assert moment in ("before", "after")
        assert kind in ("operation", "line")
        return cls(
            "line" if kind == "line" else "operation",
            int(number),
            "before" if moment == "before" else "after",
        )


@dataclass(frozen=True)
class Place:
    """A folder with a store and the ledgers, and the clock."""

    folder: Path
    clock: SharedClock = field(compare=False)

    @property
    def world(self) -> World:
        """The same, to look into."""
        return World(self.folder)

    def copied(self, folder: Path) -> Place:
        """Return a copy of all that stands here."""
        shutil.copytree(self.folder, folder)
        return Place(folder, self.clock)

    def entered(self, dies: Point | None = None, *, freezes: bool = False) -> Store:
        """Make this process one that works here, and return the store.

        Its ledgers are those of this place; where it dies is as the point says.
        """
        os.environ[ledgers.EFFECTS] = str(self.folder / "effects")
        os.environ[ledgers.TURNS] = str(self.folder / "turns")
        os.environ["TEST_FOLDER"] = str(self.folder)
        plan: Plan = nothing
        if dies is not None and dies.kind == "operation":
            plan = at(dies.number, killed(dies.moment))
        if dies is not None and dies.kind == "line":
            _die_at_a_line(dies)
        made = Freezing if freezes else FaultyStore
        return made(Timed(FileStore(self.folder / "store"), self.clock), plan)

    def lines(self) -> int:
        """Return how many effects and turns the ledgers have."""
        ours = self.world
        return len(ours.effects()) + len(ours.turns())

    def keep(self, name: str, what: Any) -> None:
        """Keep a value for another process, written whole."""
        path = self.folder / f"{name}.json"
        path.with_suffix(".new").write_text(json.dumps(what), "utf-8")
        path.with_suffix(".new").replace(path)

    def kept(self, name: str, default: Any = None) -> Any:
        """Return what a process kept."""
        path = self.folder / f"{name}.json"
        return json.loads(path.read_text("utf-8")) if path.exists() else default


def _die_at_a_line(point: Point) -> None:
    plain, numbers = ledgers.add, count(1)

    def add(ledger: str, **line: Any) -> None:
        here = next(numbers) == point.number
        if here and point.moment == "before":
            os.kill(os.getpid(), signal.SIGKILL)
        plain(ledger, **line)
        if here:
            os.kill(os.getpid(), signal.SIGKILL)

    ledgers.add = add
