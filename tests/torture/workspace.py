"""A folder with a store and logs, and a clock that all processes share.

The clock's offset is in memory that forked processes share. So one process can end the
claim of another without sleeping. The store tells the time of this clock.
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
from continuations_storage import FileStore, SQLiteStore
from continuations_storage.faults import FaultyStore, at, killed, no_faults
from tests import effect_log
from tests.run_environment import RunEnvironment
from tests.sampling import RUNS_ALL_CASES

if TYPE_CHECKING:
    from collections.abc import Iterable
    from datetime import datetime
    from pathlib import Path
    from typing import Literal

    from continuations.ledger.claims import Clock
    from continuations_storage import Store
    from continuations_storage.faults import Fault, FaultPlan, Moment

    PointKind = Literal["operation", "line"]


# The values of TORTURE_STORE for the tests of this folder.
STORES = ("files", "sqlite") if RUNS_ALL_CASES else ("files",)


class SharedClock(SystemClock):
    """The machine's clocks plus an offset that any process may set."""

    def __init__(self) -> None:
        self._page = mmap.mmap(-1, 8)

    @property
    def offset_seconds(self) -> float:
        seconds: float = struct.unpack("d", self._page[:8])[0]
        return seconds

    @offset_seconds.setter
    def offset_seconds(self, seconds: float) -> None:
        self._page[:8] = struct.pack("d", seconds)

    def now(self) -> datetime:
        """Return the wall clock's time plus the offset."""
        return super().now() + timedelta(seconds=self.offset_seconds)

    def elapsed(self) -> float:
        """Return the monotonic clock's time plus the offset."""
        return super().elapsed() + self.offset_seconds


class SharedTimeStore:
    """A store that tells the time of a clock."""

    def __init__(self, inner: Store, clock: Clock) -> None:
        self._inner = inner
        self._clock = clock
        self.read, self.delete, self.probe = inner.read, inner.delete, inner.probe

    async def create(self, key: str, body: bytes) -> datetime:
        """Create an object if its key is absent."""
        await self._inner.create(key, body)
        return self._clock.now()

    async def keys(self, prefix: str, after: str = "", limit: int = 1000) -> list[str]:
        """List keys, without the time of the inner store."""
        return list(await self._inner.keys(prefix, after, limit))


class FreezingStore(FaultyStore):
    """A store that freezes its process where a plan would kill it."""

    async def _apply_fault(self, fault: Fault | None, moment: Moment, key: str) -> None:
        if fault is None or not fault.kill:
            await super()._apply_fault(fault, moment, key)
        elif fault.moment == moment:
            # To this thread: it stops before the call returns.
            signal.pthread_kill(threading.get_ident(), signal.SIGSTOP)


@dataclass(frozen=True, slots=True)
class CrashPoint:
    """The place where a process dies: before or after an operation or a log line.

    A line is an effect of a tool or a turn of a model. Before the line the tool has
    begun and had no effect; after the line the tool has not returned.
    """

    kind: PointKind
    number: int
    moment: Moment

    def __str__(self) -> str:
        return f"{self.moment} {self.kind} {self.number}"

    @classmethod
    def parse(cls, text: str) -> CrashPoint:
        """Return the point that a text names, for example `after line 2`."""
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
    """A folder with a store and the logs of effects and turns, and the clock."""

    folder: Path
    clock: SharedClock = field(compare=False)

    @property
    def run_files(self) -> RunEnvironment:
        """The folder's files, for reading."""
        return RunEnvironment(self.folder)

    def copy_to(self, folder: Path) -> Workspace:
        shutil.copytree(self.folder, folder)
        return Workspace(folder, self.clock)

    def enter(
        self, crash_point: CrashPoint | None = None, *, freeze: bool = False
    ) -> Store:
        """Let this process work here, and return the store.

        The process writes its logs here and dies, or freezes, at the crash point.
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
        return made(SharedTimeStore(self.open_store(), self.clock), plan)

    def open_store(self) -> Store:
        """Open the store without faults; TORTURE_STORE=sqlite chooses SQLite."""
        is_sqlite = os.environ.get("TORTURE_STORE") == "sqlite"
        return (SQLiteStore if is_sqlite else FileStore)(self.folder / "store")

    def line_count(self) -> int:
        """Return how many effects and turns were recorded."""
        return len(self.run_files.effects()) + len(self.run_files.turns())

    def write_value(self, name: str, what: Any) -> None:
        """Store a value for another process, atomically."""
        path = self.folder / f"{name}.json"
        path.with_suffix(".new").write_text(json.dumps(what), "utf-8")
        path.with_suffix(".new").replace(path)

    def read_value(self, name: str, default: Any = None) -> Any:
        """Return a value that a process stored."""
        path = self.folder / f"{name}.json"
        return json.loads(path.read_text("utf-8")) if path.exists() else default

    def store_violations(self, violations: Iterable[str]) -> None:
        """Store the violations of this workspace, instead of earlier ones."""
        self.write_value("violations", list(violations))

    def violations(self) -> list[str]:
        """Return the violations that a process stored."""
        stored: list[str] = self.read_value("violations")
        return stored


def _kill_at_line(point: CrashPoint) -> None:
    original, numbers = effect_log.append_line, count(1)

    def append_line(variable: str, **line: Any) -> None:
        is_here = next(numbers) == point.number
        if is_here and point.moment == "before":
            os.kill(os.getpid(), signal.SIGKILL)
        original(variable, **line)
        if is_here:
            os.kill(os.getpid(), signal.SIGKILL)

    effect_log.append_line = append_line
