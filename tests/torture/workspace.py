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
from continuations_storage.faults import FaultyStore, at, killed, no_faults
from tests import effect_log
from tests.run_environment import RunEnvironment

if TYPE_CHECKING:
    from datetime import datetime
    from pathlib import Path
    from typing import Literal

    from continuations_storage import Store
    from continuations_storage.faults import Fault, FaultPlan, Moment

    PointKind = Literal["operation", "line"]


class SharedClock(SystemClock):
    """The machine's clocks, ahead by what any of the processes said last."""

    def __init__(self) -> None:
        self._page = mmap.mmap(-1, 8)

    @property
    def offset_seconds(self) -> float:
        """How many seconds ahead."""
        found: float = struct.unpack("d", self._page[:8])[0]
        return found

    @offset_seconds.setter
    def offset_seconds(self, seconds: float) -> None:
        self._page[:8] = struct.pack("d", seconds)

    def now(self) -> datetime:
        """Return the wall clock's time."""
        return super().now() + timedelta(seconds=self.offset_seconds)

    def elapsed(self) -> float:
        """Return the other clock's time."""
        return super().elapsed() + self.offset_seconds


class SharedTimeStore:
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


class FreezingStore(FaultyStore):
    """Freezes its process where a plan would have it killed."""

    async def _apply_fault(self, fault: Fault | None, moment: Moment, key: str) -> None:
        if fault is None or not fault.kill:
            await super()._apply_fault(fault, moment, key)
        elif fault.moment == moment:
            # To this very thread: it stands still before the call returns.
            signal.pthread_kill(threading.get_ident(), signal.SIGSTOP)


@dataclass(frozen=True, slots=True)
class CrashPoint:
    """Where a process dies: at its n-th storage operation, or its n-th line.

    A line is an effect of a tool or a turn of a model; before it the tool has begun
    and had no effect, after it the tool has not returned.
    """

    kind: PointKind
    number: int
    moment: Moment

    def __str__(self) -> str:
        return f"{self.moment} {self.kind} {self.number}"

    @classmethod
    def parse(cls, text: str) -> CrashPoint:
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
class Workspace:
    """A folder with a store and the ledgers, and the clock."""

    folder: Path
    clock: SharedClock = field(compare=False)

    @property
    def run_files(self) -> RunEnvironment:
        """The same, to look into."""
        return RunEnvironment(self.folder)

    def copy_to(self, folder: Path) -> Workspace:
        """Return a copy of all that stands here."""
        shutil.copytree(self.folder, folder)
        return Workspace(folder, self.clock)

    def enter(
        self, crash_point: CrashPoint | None = None, *, freeze: bool = False
    ) -> Store:
        """Make this process one that works here, and return the store.

        Its ledgers are those of this place; where it dies is as the point says.
        """
        os.environ[effect_log.EFFECTS_VARIABLE] = str(self.folder / "effects")
        os.environ[effect_log.TURNS_VARIABLE] = str(self.folder / "turns")
        os.environ["TEST_FOLDER"] = str(self.folder)
        plan: FaultPlan = no_faults
        if crash_point is not None and crash_point.kind == "operation":
            plan = at(crash_point.number, killed(crash_point.moment))
        if crash_point is not None and crash_point.kind == "line":
            _kill_at_line(crash_point)
        made = FreezingStore if freeze else FaultyStore
        return made(SharedTimeStore(FileStore(self.folder / "store"), self.clock), plan)

    def line_count(self) -> int:
        """Return how many effects and turns the ledgers have."""
        ours = self.run_files
        return len(ours.effects()) + len(ours.turns())

    def write_value(self, name: str, what: Any) -> None:
        """Keep a value for another process, written whole."""
        path = self.folder / f"{name}.json"
        path.with_suffix(".new").write_text(json.dumps(what), "utf-8")
        path.with_suffix(".new").replace(path)

    def read_value(self, name: str, default: Any = None) -> Any:
        """Return what a process kept."""
        path = self.folder / f"{name}.json"
        return json.loads(path.read_text("utf-8")) if path.exists() else default


def _kill_at_line(point: CrashPoint) -> None:
    plain, numbers = effect_log.append_line, count(1)

    def add(variable: str, **line: Any) -> None:
        here = next(numbers) == point.number
        if here and point.moment == "before":
            os.kill(os.getpid(), signal.SIGKILL)
        plain(variable, **line)
        if here:
            os.kill(os.getpid(), signal.SIGKILL)

    effect_log.append_line = add
