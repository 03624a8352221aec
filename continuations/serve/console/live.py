"""Tell the viewers of open pages about changes: one lister for all of a process.

While there is a viewer, the lister reads the keys of the open waits, page by page. It
tells each viewer when the keys are others than before. No viewer, no request. A page
that lists the waits itself tells the viewers too.

A cursor is a hash of the keys, so it is the same in each process. A viewer that comes
back with the cursor of its page learns at once whether it missed something.

A viewer who may see some runs only hears of changes of these runs alone. Such a viewer
has no cursor: a hash of all keys would tell when the waits of hidden runs change. Its
first event comes at once, and one more after each change that it may see.
"""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass, field
from hashlib import sha256
from itertools import count
from typing import TYPE_CHECKING, TypeAlias

from continuations.engine.ports import SystemClock
from continuations.errors import ContinuationsError
from continuations.serve.console.open_waits import OpenWaits

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Awaitable, Callable

    from continuations.engine.runner.async_runner import AsyncRunner
    from continuations.ledger.claims import Clock

_log = logging.getLogger("continuations")
INTERVAL_SECONDS = 2.0
# The pause after an unexpected error.
PAUSE_SECONDS = 30.0
_CURSOR_DIGITS = 16
# A new wait has its deadline in its object too, so markers are listed less often.
_MARKERS_EVERY = 5

Sees: TypeAlias = "Callable[[str], Awaitable[bool]]"
"""Returns whether a viewer may see a run."""


@dataclass(slots=True, eq=False)
class _LimitedViewer:
    """A viewer who may see some runs only, and the runs that changed."""

    changed: asyncio.Event = field(default_factory=asyncio.Event)
    runs: set[str] = field(default_factory=set[str])


class LiveWaits:
    """Lists the open waits for the viewers of one process.

    Args:
        runner: The runner whose waits are listed.
        interval: Seconds between two listings while there is a viewer.
        clock: The clock for deadlines; the system clock by default.
    """

    def __init__(
        self,
        runner: AsyncRunner,
        *,
        interval: float = INTERVAL_SECONDS,
        clock: Clock | None = None,
    ) -> None:
        # The open waits, as far as this process knows them.
        self.known = OpenWaits(runner.store, clock or SystemClock())
        self._interval = interval
        self._viewers: set[asyncio.Event] = set()
        self._limited: set[_LimitedViewer] = set()
        # The listed waits and their runs, for limited viewers; `None` without one.
        self._listed: frozenset[tuple[str, str]] | None = None
        self._cursor = ""
        self._lister: asyncio.Task[None] | None = None
        self._is_closed = False

    @property
    def cursor(self) -> str:
        """The newest cursor; empty without a viewer."""
        return self._cursor

    @property
    def viewers(self) -> int:
        """How many viewers there are."""
        return len(self._viewers)

    async def changes(self, after: str) -> AsyncGenerator[str]:
        """Yield a new cursor whenever the waits are others than those of the last one.

        Args:
            after: The cursor that the viewer has; an empty text for none.
        """
        changed = asyncio.Event()
        self.join(changed)
        try:
            while not self._is_closed:
                await changed.wait()
                changed.clear()
                if self._cursor and self._cursor != after and not self._is_closed:
                    after = self._cursor
                    yield after
        finally:
            self.leave(changed)

    async def changes_of(self, sees: Sees) -> AsyncGenerator[str]:
        """Yield an empty text first, and after each change that a viewer may see.

        Args:
            sees: Whether the viewer may see a run.
        """
        viewer = _LimitedViewer()
        self._limited.add(viewer)
        self.join(viewer.changed)
        is_new = True
        try:
            while not self._is_closed:
                await viewer.changed.wait()
                viewer.changed.clear()
                if self._listed is None or self._is_closed:
                    continue  # no listing yet that later ones are compared with
                runs, viewer.runs = viewer.runs, set()
                if is_new or await _sees_any(sees, runs):
                    is_new = False
                    yield ""
        finally:
            self._limited.discard(viewer)
            if not self._limited:
                self._listed = None
            self.leave(viewer.changed)

    def join(self, changed: asyncio.Event) -> None:
        """Set an event whenever the waits change, until `leave`."""
        if changed in self._viewers:
            return
        self._viewers.add(changed)
        if self._cursor:
            changed.set()
        if self._lister is None or self._lister.done():
            self._lister = asyncio.get_running_loop().create_task(self._list_waits())

    def leave(self, changed: asyncio.Event) -> None:
        """Stop setting an event; the last one that leaves ends the lister."""
        if changed not in self._viewers:
            return
        self._viewers.discard(changed)
        if not self._viewers:
            if self._lister is not None:
                self._lister.cancel()
            self._lister, self._cursor = None, ""

    def close(self) -> None:
        """End the streams of all viewers, because the server stops."""
        self._is_closed = True
        self.known.close()
        self._tell_viewers()

    async def _list_waits(self) -> None:
        for number in count():
            seconds = self._interval
            # A viewer keeps the rows that it has while the store is away.
            try:
                await self.look(with_markers=number % _MARKERS_EVERY == 0)
            except ContinuationsError:
                pass
            except Exception:  # noqa: BLE001 - the viewers of all pages depend on it
                # Such as a fault of a store of the application.
                _log.exception("the console cannot list the open waits: it tries again")
                seconds = max(PAUSE_SECONDS, seconds)
            await asyncio.sleep(seconds)

    async def look(self, sees: Sees | None = None, *, with_markers: bool = True) -> str:
        """List the open waits, tell the viewers of changes, and return the cursor.

        Args:
            sees: Whether the viewer may see a run; `None`: each of them.
            with_markers: Whether the markers with the deadlines are listed too.
        """
        await self.known.refresh(with_markers=with_markers)
        rows = list(self.known.rows())
        cursor = _cursor_of(rows)
        if self._viewers:
            self._apply(cursor, rows)
        if sees is None:
            return cursor
        return _cursor_of([row for row in rows if await sees(_run_of(row))])

    def _apply(self, cursor: str, rows: list[str]) -> None:
        before = self._listed
        listed = {(row, _run_of(row)) for row in rows} if self._limited else None
        self._listed = None if listed is None else frozenset(listed)
        is_first = before is None and listed is not None
        if cursor == self._cursor and not is_first:
            return
        self._cursor = cursor
        if before is not None and listed is not None:
            runs = {run_id for _, run_id in before ^ listed}
            for viewer in self._limited:
                viewer.runs |= runs
        self._tell_viewers()

    def _tell_viewers(self) -> None:
        for changed in self._viewers:
            changed.set()


async def _sees_any(sees: Sees, run_ids: set[str]) -> bool:
    for run_id in run_ids:
        if await sees(run_id):
            return True
    return False


def _run_of(row: str) -> str:
    return row.partition(" ")[0].partition("@")[2]


def _cursor_of(rows: list[str]) -> str:
    text = "".join(f"{row}\n" for row in rows)
    return sha256(text.encode()).hexdigest()[:_CURSOR_DIGITS]
