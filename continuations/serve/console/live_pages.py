"""How the open pages of a console hear of changes: by events, or by asking.

With `events`, a page has a stream of server-sent events, and loads its parts again when
the stream says so. With `poll`, for servers without open connections, the page asks
every 10 seconds with its cursor. Such a request is answered by status 204 if nothing
has changed.
"""

from __future__ import annotations

from dataclasses import field
from secrets import token_hex
from typing import TYPE_CHECKING, Literal, Self, TypeAlias
from urllib.parse import urlencode

from continuations.ledger.objects import Objects
from continuations.serve.console import live_runs
from continuations.serve.console.live import LiveWaits, Sees
from continuations.serve.console.open_waits import Kept
from continuations.serve.console.run_snapshot import find_place, read_snapshot
from continuations.serve.http.problems import RequestRefused
from continuations.value_class import dataclass

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

    from continuations.core.identity import Identity
    from continuations.core.reading.audit import AuditLine
    from continuations.engine.runner.async_runner import AsyncRunner
    from continuations.ledger.claims import Clock
    from continuations.serve.console.known_runs import KnownRuns
    from continuations.serve.console.run_snapshot import RunSnapshot
    from continuations.serve.http.cursors import Cursors

LiveMode: TypeAlias = Literal["events", "poll"]
LIVE_MODES: tuple[LiveMode, ...] = ("events", "poll")
EVENTS_PATH = "/events"
POLL_SECONDS = 10
# The script sends these headers: the cursor of the last event, or the cursor of its
# page if it asks. The response has the new cursor.
AT_HEADER, AFTER_HEADER, CURSOR_HEADER = "x-live-at", "x-live-after", "x-live-cursor"


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitCounts:
    """How many waits there are, in words such as `4` or `1,000+`.

    Attributes:
        revision: The revision of the known waits that were counted.
        at: When they were counted.
        for_person: Those that the person may decide.
        all: Those that the person may see.
    """

    revision: int
    at: datetime
    for_person: str
    all: str


KeptAudit: TypeAlias = "tuple[int, list[AuditLine]]"
_MAX_AUDITS = 5_000


def seal_place(cursors: Cursors, place: str) -> str:
    """Return a place in a log of changes for a page; two pages have no equal ones.

    A limited viewer does not learn whether something has changed that it may not see.
    """
    return cursors.seal(f"{place} {token_hex(4)}") if cursors.are_limited else place


def open_place(cursors: Cursors, text: str) -> str:
    """Return the place that a page sends; "" for that of another process."""
    try:
        return cursors.open(text).partition(" ")[0]
    except RequestRefused:
        return ""


def _no_counts() -> dict[Identity, WaitCounts]:
    return {}


@dataclass(frozen=True, slots=True, kw_only=True)
class LivePages:
    """Tells the open pages of one process about changes.

    Attributes:
        mode: `events` or `poll`.
        runner: The runner whose runs are shown.
        waits: The lister of open waits.
        runs: The followers of runs.
        counts: The last counts of waits of some persons.
        audits: The decisions of some runs, and the time of their last act.
    """

    mode: LiveMode
    runner: AsyncRunner
    waits: LiveWaits
    runs: live_runs.LiveRuns
    counts: dict[Identity, WaitCounts] = field(default_factory=_no_counts)
    audits: Kept[KeptAudit] = field(default_factory=lambda: Kept(_MAX_AUDITS))

    @classmethod
    def of_runner(cls, runner: AsyncRunner, mode: LiveMode, clock: Clock) -> Self:
        """Return the live pages of a runner; with events, they observe its work."""
        waits = LiveWaits(runner, clock=clock)
        runs = live_runs.LiveRuns(runner, waits, interval=live_runs.INTERVAL_SECONDS)
        if mode == "events":
            runner.observers.append(runs)
        return cls(mode=mode, runner=runner, waits=waits, runs=runs)

    @property
    def known_runs(self) -> KnownRuns:
        """The runs of the store, for lists."""
        return self.waits.runs

    @property
    def poll_seconds(self) -> int:
        """Seconds between two questions of a page; 0 with events."""
        return POLL_SECONDS if self.mode == "poll" else 0

    def stream(self, cursor: str, run_id: str = "") -> str:
        """Return the path of the events after a cursor: of a run, or of the waits."""
        fields = {"run": run_id} if run_id else {}
        return f"{EVENTS_PATH}?{urlencode({**fields, 'after': cursor})}"

    def runs_stream(self, cursor: str) -> str:
        """Return the path of the events of the list of runs after a cursor."""
        return f"{EVENTS_PATH}?{urlencode({'list': 'runs', 'after': cursor})}"

    async def waits_cursor(self, sees: Sees | None) -> str:
        """Return the cursor of the listed waits.

        Args:
            sees: Whether the viewer may see a run; `None`: each of them.
        """
        if self.mode == "poll":
            return await self.waits.listed_cursor(sees)
        if sees is not None:
            return self.waits.changed_waits.cursor
        return await self.waits.listed_cursor()

    @property
    def follows_waits(self) -> bool:
        """Whether the lister follows the waits now."""
        return self.mode == "events" and bool(self.waits.cursor)

    async def run_snapshot(
        self, run_id: str, headers: Mapping[str, str]
    ) -> RunSnapshot | None:
        """Return what the pages of a run show; `None` if the page has it already.

        A page that comes after an event shares the reading of its follower.

        Raises:
            RunNotFound, RunErased: The store does not have the run.
            Corrupt, FormatError: A version, decision or message cannot be read.
            StoreError: The store failed.
        """
        wanted = headers.get(AT_HEADER, "")
        shared = await self.runs.snapshot(run_id, wanted) if wanted else None
        if shared is not None:
            return shared
        place = await find_place(Objects(self.runner.store), run_id)
        if headers.get(AFTER_HEADER) == place.cursor:
            return None
        return await read_snapshot(self.runner, place)

    def forget(self, run_id: str) -> None:
        """Keep nothing of a run that may be erased; a list reads it again."""
        self.known_runs.forget(run_id)
        self.audits.pop(run_id, None)
        titles = self.waits.known.titles
        for wait_id in [each for each in titles if each.endswith(f"@{run_id}")]:
            del titles[wait_id]

    def close(self) -> None:
        """End the streams of all viewers, because the server stops."""
        self.waits.close()
        self.runs.close()
