"""Tell the viewers of open pages about changes: one lister for all of a process.

While there is a viewer, the lister reads the keys of the open waits, page by page. It
tells each viewer when the keys are others than before. No viewer, no request. A page
that lists the waits itself tells the viewers too. While a list of runs is open, the
lister also lists the runs, and reads those that changed.

The cursor of the waits is a hash of their keys, so it is the same in each process. A
viewer that comes back with the cursor of its page learns at once whether it missed
something.

A viewer who may see some runs only hears of changes of these runs alone. A hash of all
keys would tell when the waits of hidden runs change. So such a viewer has a place in a
log of changes, and so has a viewer of a list of runs.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from contextlib import aclosing
from hashlib import sha256
from itertools import count, islice
from secrets import token_hex
from typing import TYPE_CHECKING, Any, TypeAlias

from continuations.engine.ports import SystemClock
from continuations.errors import ContinuationsError
from continuations.serve.console.background import BackgroundReading
from continuations.serve.console.known_runs import KnownRuns
from continuations.serve.console.open_waits import OpenWaits
from continuations.serve.http.request_fields import digits
from continuations.value_class import dataclass

if TYPE_CHECKING:
    from collections.abc import (
        AsyncGenerator,
        Awaitable,
        Callable,
        Collection,
        Coroutine,
        Iterable,
    )
    from datetime import datetime, timedelta

    from continuations.engine.runner.async_runner import AsyncRunner
    from continuations.ledger.claims import Clock

_log = logging.getLogger("continuations")
INTERVAL_SECONDS = 2.0
# The pause after an unexpected error.
PAUSE_SECONDS = 30.0
# A store that has not answered a listing for so long is away.
AWAY_SECONDS = 10.0
_CURSOR_DIGITS = 16
# A new wait has its deadline in its object too, so markers are listed less often.
_MARKERS_EVERY = 5
# With the markers, the lister looks at so many live runs again.
_LOOKS_AGAIN = 5
# The lister waits so long for the runs that changed.
_READ_SECONDS = 1.0
_MAX_CHANGES, _MAX_DIGITS = 500, 15

Sees: TypeAlias = "Callable[[str], Awaitable[bool]]"
"""Returns whether a viewer may see a run."""


@dataclass(frozen=True, slots=True)
class Away:
    """The store does not answer since a time; `None`: it answers again."""

    since: datetime | None


async def look_at_store(
    work: Coroutine[Any, Any, None],
    what: str,
    began: datetime,
    set_away: Callable[[datetime | None], None],
) -> float:
    """Look at a store, and say since when it is away, or that it answers.

    Args:
        work: The requests to the store.
        what: Their purpose, for the log.
        began: Since when the store is away if it does not answer now.
        set_away: Hears it. Viewers keep what they have while the store is away.

    Returns:
        The least pause before the next look, in seconds.
    """
    task = asyncio.create_task(work)
    try:
        done, _ = await asyncio.wait({task}, timeout=AWAY_SECONDS)
        if not done:
            set_away(began)
        await task
    except ContinuationsError:
        set_away(began)
    except Exception:  # noqa: BLE001 - the viewers of open pages depend on it
        # Such as a fault of a store of the application.
        _log.exception("the console cannot %s: it tries again", what)
        set_away(began)
        return PAUSE_SECONDS
    else:
        set_away(None)
    finally:
        task.cancel()
    return 0.0


class ChangeLog:
    """The last changes, each with the runs that it changed.

    Its cursors say nothing in another process.
    """

    def __init__(self) -> None:
        self._name = token_hex(4)
        self._number = 0
        self._changes: deque[frozenset[str]] = deque(maxlen=_MAX_CHANGES)

    @property
    def cursor(self) -> str:
        """The place after the last change."""
        return f"{self._name}.{self._number}"

    def add(self, run_ids: Collection[str]) -> None:
        """Add a change, if a run has changed."""
        if run_ids:
            self._number += 1
            self._changes.append(frozenset(run_ids))

    def since(self, cursor: str) -> frozenset[str] | None:
        """Return the runs that changed after a place; `None` if it is not known."""
        name, _, text = cursor.partition(".")
        number = digits(text, _MAX_DIGITS)
        if name != self._name or number is None:
            return None
        missed = self._number - number
        if not 0 <= missed <= len(self._changes):
            return None
        last = islice(reversed(self._changes), missed)
        return frozenset[str]().union(*last)


class LiveWaits:
    """Lists the open waits, and the runs, for the viewers of one process.

    Args:
        runner: The runner whose waits are listed.
        interval: Seconds between two listings while there is a viewer.
        clock: The clock for deadlines; the system clock by default.

    Attributes:
        clock: The clock for deadlines.
        known: The open waits, as far as this process knows them.
        runs: The runs, in the same way.
        listing: The listing of the waits, for pages.
        changed_waits: The changes of the waits, after the first limited viewer.
        changed_runs: The changes of the runs.
        away_since: Since when the lister gets no answer, or `None`.
    """

    def __init__(
        self,
        runner: AsyncRunner,
        *,
        interval: float = INTERVAL_SECONDS,
        clock: Clock | None = None,
    ) -> None:
        self.clock = clock or SystemClock()
        self.known = OpenWaits(runner.store, self.clock)
        self.runs = KnownRuns(runner.store, self.clock, self.known)
        self.listing = BackgroundReading(self.look)
        self.changed_waits, self.changed_runs = ChangeLog(), ChangeLog()
        self.away_since: datetime | None = None
        self._interval = interval
        self._viewers: set[asyncio.Event] = set()
        self._run_viewers = 0
        # The rows of the last listing, for limited viewers; `None` without one.
        self._rows: frozenset[str] | None = None
        self._has_limits = False
        self._cursor = ""
        self._lister: asyncio.Task[None] | None = None
        self._is_closed = False

    @property
    def cursor(self) -> str:
        """The newest cursor of the waits; empty without a viewer."""
        return self._cursor

    @property
    def viewers(self) -> int:
        """How many viewers there are."""
        return len(self._viewers)

    @property
    def follows_runs(self) -> bool:
        """Whether the lister lists the runs."""
        return bool(self._run_viewers and self._cursor)

    # Viewers -----------------------------------------------------------------------

    async def changes(self, after: str) -> AsyncGenerator[str | Away]:
        """Yield a new cursor whenever the waits are others than those of the last one.

        Args:
            after: The cursor that the viewer has; an empty text for none.
        """
        async with aclosing(self._wakings()) as wakings:
            async for away in wakings:
                if away is not None:
                    yield away
                elif self._cursor and self._cursor != after:
                    after = self._cursor
                    yield after

    async def changes_of(
        self, log: ChangeLog, after: str, sees: Sees | None
    ) -> AsyncGenerator[str | Away]:
        """Yield a place of a log after each change that a viewer may see.

        Args:
            log: The log: `changed_waits` or `changed_runs`.
            after: The place that the viewer has; an empty text for none.
            sees: Whether the viewer may see a run; `None`: each of them.
        """
        if sees is not None:
            self.keep_rows()
        is_of_runs = log is self.changed_runs
        self._run_viewers += is_of_runs
        try:
            async with aclosing(self._wakings()) as wakings:
                async for away in wakings:
                    now, changed = log.cursor, log.since(after)
                    if away is not None:
                        yield away
                    elif now != after and self._cursor:
                        after = now
                        if changed is None or await _sees_any(sees, changed):
                            yield now
        finally:
            self._run_viewers -= is_of_runs

    async def _wakings(self) -> AsyncGenerator[Away | None]:
        """Yield whenever something may have changed, or the store is away or back."""
        changed, told = asyncio.Event(), Away(None)
        self.join(changed)
        try:
            while True:
                await changed.wait()
                changed.clear()
                if self._is_closed:
                    return
                if told.since != self.away_since:
                    told = Away(self.away_since)
                    yield told
                yield None
        finally:
            self.leave(changed)

    def join(self, changed: asyncio.Event) -> None:
        """Set an event whenever the waits change, until `leave`."""
        if changed in self._viewers:
            return
        self._viewers.add(changed)
        if self._cursor or self.away_since:
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
            self._lister, self._cursor, self.away_since = None, "", None

    def close(self) -> None:
        """End the streams of all viewers, because the server stops."""
        self._is_closed = True
        for reading in (self.listing, self.known, self.runs):
            reading.close()
        self._tell_viewers()

    def keep_rows(self) -> None:
        """Compare the rows of each listing with those before, for limited viewers."""
        self._has_limits = True

    # The lister --------------------------------------------------------------------

    async def _list_waits(self) -> None:
        for number in count():
            began = self.away_since or self.clock.now()
            listing = self._list(with_markers=number % _MARKERS_EVERY == 0)
            pause = await look_at_store(
                listing, "list the open waits", began, self._set_away
            )
            await asyncio.sleep(max(pause, self._interval))

    async def _list(self, *, with_markers: bool) -> None:
        await self.look(with_markers=with_markers)
        if self._run_viewers:
            looks = _LOOKS_AGAIN if with_markers else 0
            await self.runs.refresh(looks=looks)
            await self.runs.read(_READ_SECONDS)
            self.publish_runs()

    async def look(self, *, with_markers: bool = True) -> None:
        """List the open waits, and tell the viewers of changes."""
        await self.known.refresh(with_markers=with_markers)
        rows = list(self.known.rows())
        before = self._rows
        self._rows = frozenset(rows) if self._has_limits else None
        if before is not None and self._rows is not None:
            self.changed_waits.add({_run_of(row) for row in before ^ self._rows})
        if self._viewers:
            cursor = _cursor_of(rows)
            if cursor != self._cursor:
                self._cursor = cursor
                self._tell_viewers()

    def is_listed(self, max_age: timedelta) -> bool:
        """Return whether the waits were listed within some time."""
        at = self.known.listed_at
        return at is not None and self.clock.now() - at < max_age

    async def listed_cursor(self, sees: Sees | None = None) -> str:
        """Return the cursor of the waits of the last listing.

        Args:
            sees: Whether the viewer may see a run; `None`: each of them.
        """
        rows = self.known.rows()
        if sees is None:
            return _cursor_of(rows)
        return _cursor_of([row for row in rows if await sees(_run_of(row))])

    def publish_runs(self) -> str:
        """Tell the viewers which runs changed; return the cursor of the runs."""
        changed = self.runs.take_changed()
        self.changed_runs.add(changed)
        if changed:
            self._tell_viewers()
        return self.changed_runs.cursor

    def _set_away(self, since: datetime | None) -> None:
        if since != self.away_since:
            self.away_since = since
            self._tell_viewers()

    def _tell_viewers(self) -> None:
        for changed in self._viewers:
            changed.set()


async def _sees_any(sees: Sees | None, run_ids: Collection[str]) -> bool:
    if sees is None:
        return bool(run_ids)
    for run_id in run_ids:
        if await sees(run_id):
            return True
    return False


def _run_of(row: str) -> str:
    return row.partition(" ")[0].partition("@")[2]


def _cursor_of(rows: Iterable[str]) -> str:
    text = "".join(f"{row}\n" for row in rows)
    return sha256(text.encode()).hexdigest()[:_CURSOR_DIGITS]
