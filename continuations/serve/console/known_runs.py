"""The runs of the store as this process knows them, so that lists sort and search them.

The index of the store has the ids of live runs, and of ended runs by day. It does not
have titles, states or times. So a process reads each run once, and later only the runs
that changed:

- A live run is read again when its markers or open waits are others than before.
- A live run whose claim ends, or that no process takes, is read again at that time.
- An ended run never changes. Its key appears in the index when it ends.
- The rows of a page are read again before they are shown.

The reading goes on in the background, the live runs first and then the newest days. A
page shows what was read so far, and how much is missing.
"""

from __future__ import annotations

from asyncio import gather
from datetime import UTC, datetime, timedelta
from itertools import islice
from operator import attrgetter
from typing import TYPE_CHECKING, TypeAlias

from continuations.core.rows.run import ENDED_STATUSES
from continuations.core.rows.waits import Wait, withheld
from continuations.core.visible_text import shorten
from continuations.errors import FormatError, RunBusy, RunErased, RunNotFound
from continuations.ledger.arrivals.recorded_decisions import read_decision
from continuations.ledger.arrivals.wait_slots import with_followed_waits
from continuations.ledger.index import run_index
from continuations.ledger.index.run_listing import RunSummary, read_run, summary_of
from continuations.ledger.objects import Objects
from continuations.ledger.versions import Versions
from continuations.present.search_words import SearchWords, search_text
from continuations.serve.console.background import BackgroundReading
from continuations.serve.pages.run_states import (
    StatePill,
    run_state,
    state_until,
    status_pill,
)
from continuations.serve.pages.run_view import wait_title
from continuations.value_class import dataclass
from continuations.wire.fields import to_milliseconds

if TYPE_CHECKING:
    from collections.abc import (
        Callable,
        Iterable,
        Iterator,
        KeysView,
        Mapping,
        Sequence,
    )

    from continuations.core.rows.state import RunState
    from continuations.core.rows.wait_rules import WaitKind
    from continuations.ledger.claims import Clock
    from continuations.serve.console.open_waits import OpenWaits
    from continuations_storage.contract import Store

# So many ended runs are kept, those of the newest days.
MAX_ENDED_RUNS = 200_000
_PARALLEL_READS = 50
# Each listing also looks at so many live runs that were looked at the longest ago.
_LOOKS_AGAIN = 25
# A run that another process erased is forgotten after this time, if no page shows it.
_ALL_AGAIN = timedelta(minutes=10)
# An ended run is listed under the day of its last version: the index may be late.
_LATE = timedelta(days=2)
_KEPT_TITLES = 3
_TITLE_CHARS = 120
_Place: TypeAlias = tuple[int, str]
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True, kw_only=True)
class OtherWait:
    """An open wait that needs no person.

    Attributes:
        kind: Its kind, a key of `WAIT_RULES`.
        wait_id: Its id.
        title: The awaited thing, in words.
        deadline: When it ends at the latest, or `None`.
        opened_at: When it was opened.
    """

    kind: WaitKind
    wait_id: str
    title: str
    deadline: datetime | None
    opened_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownRun:
    """A run of a list.

    Attributes:
        summary: Its summary.
        state: Its state in words.
        awaits: The first calls and questions that people are asked about.
        others: The waits that need no person.
        changed: Its place among the runs, the last change first.
        acted_ms: The time of its last version, vote or decision, in milliseconds.
        search_text: The text in which words are looked for.
    """

    summary: RunSummary
    state: StatePill
    changed: _Place
    acted_ms: int
    awaits: tuple[str, ...] = ()
    others: tuple[OtherWait, ...] = ()
    search_text: str

    @property
    def run_id(self) -> str:
        """The id of the run."""
        return self.summary.run_id

    @property
    def title(self) -> str:
        """Its title, the key of a thread, or its id."""
        summary = self.summary
        return summary.title or summary.thread or summary.run_id

    @property
    def has_ended(self) -> bool:
        """Whether it has ended."""
        return self.summary.status in ENDED_STATUSES

    @property
    def started(self) -> _Place:
        """Its place among the runs, the last start first."""
        at = self.summary.created_at
        return (0 if at is None else -to_milliseconds(at)), self.run_id

    @property
    def acted(self) -> _Place:
        """Its place among the runs, the last version, vote or decision first."""
        return -self.acted_ms, self.run_id

    def place(self, order: str) -> _Place:
        """Return its place in the order `changed`, `started` or `acted`."""
        return _PLACES[order](self)


_PLACES: Mapping[str, Callable[[KnownRun], _Place]] = {
    name: attrgetter(name) for name in ("changed", "started", "acted")
}


@dataclass(frozen=True, slots=True, kw_only=True)
class RunQuery:
    """Which runs a list shows.

    Attributes:
        words: Words that a run must have.
        status: A state of `STATE_MENU`, a status, `live` or `ended`; "" for all.
        agent: The name of the root agent; "" for all.
        label: A label `NAME=VALUE`; "" for all.
        started_since: Only runs that were started since.
        ended_since: Only runs that ended since.
        order: `changed` or `started`.
        is_thread: Only threads.
    """

    words: SearchWords = SearchWords.of_query("")
    status: str = ""
    agent: str = ""
    label: str = ""
    started_since: datetime | None = None
    ended_since: datetime | None = None
    order: str = "changed"
    is_thread: bool = False

    def of(self, runs: Sequence[KnownRun]) -> Sequence[KnownRun]:
        """Return those of some runs that belong to the list, in their order."""
        for accepts in self._conditions():
            runs = [run for run in runs if accepts(run)]
        return runs

    def _conditions(self) -> Iterator[Callable[[KnownRun], bool]]:
        """Yield the conditions of the list. There are few, so a search is fast."""
        if self.words:
            yield lambda run: self.words.are_in(run.search_text)
        if self.status:
            yield lambda run: self.status in _states_of(run)
        if self.agent:
            yield lambda run: run.summary.agent == self.agent
        if self.label:
            name, _, value = self.label.partition("=")
            yield lambda run: run.summary.labels.get(name) == value
        if self.is_thread:
            yield lambda run: run.summary.thread is not None
        started, ended = self.started_since, self.ended_since
        if started is not None:
            yield lambda run: _is_since(run.summary.created_at, started)
        if ended is not None:
            yield lambda run: run.has_ended and _is_since(run.summary.updated_at, ended)


def _is_since(at: datetime | None, since: datetime) -> bool:
    return at is not None and at >= since


def _states_of(run: KnownRun) -> tuple[str, ...]:
    # A run whose worker is gone is stored as running, and is not.
    status = run.summary.status if run.summary.status == "suspended" else ""
    return run.state.name, status, "ended" if run.has_ended else "live"


class KnownRuns:
    """Keeps what this process has read of the runs of a store.

    Args:
        store: The store.
        clock: The clock of the console.
        waits: The open waits, whose listings show which runs changed.
    """

    def __init__(self, store: Store, clock: Clock, waits: OpenWaits) -> None:
        self._objects = Objects(store)
        self._clock = clock
        self._waits = waits
        self._reading = BackgroundReading(self._read_missing)
        self._runs: dict[str, KnownRun] = {}
        self._live: dict[str, None] = {}
        self._listed_at: datetime | None = None
        # The days of the ended runs, the oldest first; `None` before their listing.
        self._ended: dict[str, str] | None = None
        self._listed_ended_at: datetime | None = None
        self._listed_all_at: datetime | None = None
        # Whether the reading lists all ended runs before it reads them.
        self._lists_all = False
        # The mark of each live run at its last look, the oldest look first.
        self._looks: dict[str, int] = {}
        self._looked_ended: set[str] = set()
        # When the states of live runs change although nothing is stored.
        self._until: dict[str, datetime] = {}
        self._revision = 0
        # The runs that changed since the last `take_changed`.
        self._changed: set[str] = set()
        self._lists_ended = False
        self.listing = BackgroundReading(self.refresh)
        self._sorted: dict[str, tuple[int, list[KnownRun]]] = {}

    @property
    def listed_at(self) -> datetime | None:
        """When the runs were listed; `None` before."""
        return self._listed_at

    @property
    def has_ended_runs(self) -> bool:
        """Whether all ended runs were listed."""
        return self._ended is not None

    @property
    def total(self) -> int:
        """How many runs the listings showed."""
        return len(self._live) + len(self._ended or ())

    @property
    def live_ids(self) -> KeysView[str]:
        """The ids of the live runs of the last listing."""
        return self._live.keys()

    @property
    def missing_live(self) -> int:
        """How many live runs were not read yet."""
        return sum(run_id not in self._runs for run_id in self._unread_live())

    @property
    def missing(self) -> int:
        """How many runs were not read yet."""
        return self.missing_live + len(self._unread_ended())

    @property
    def is_cut(self) -> bool:
        """Whether the store has more ended runs than are kept."""
        return len(self._ended or ()) >= MAX_ENDED_RUNS

    @property
    def agents(self) -> list[str]:
        """The agents of the runs."""
        names = {run.summary.agent for run in self._runs.values()}
        return sorted(filter(None, names))

    def get(self, run_id: str) -> KnownRun | None:
        """Return a run that was read, or `None`."""
        return self._runs.get(run_id)

    def live_runs(self) -> list[KnownRun]:
        """Return the runs that have not ended."""
        found = (self._runs.get(run_id) for run_id in self._live)
        return [run for run in found if run is not None and not run.has_ended]

    def find(self, query: RunQuery) -> Sequence[KnownRun]:
        """Return the runs of a list, the newest first.

        A run whose id is the whole query comes first.
        """
        found = query.of(self._in_order(query.order))
        exact = self._runs.get(query.words.query)
        if exact is None or not query.of([exact]):
            return found
        return [exact, *(run for run in found if run is not exact)]

    def by_act(self) -> list[KnownRun]:
        """Return the runs in the order of their last decisions, the newest first."""
        return self._in_order("acted")

    def _in_order(self, order: str) -> list[KnownRun]:
        revision, runs = self._sorted.get(order, (-1, []))
        if revision != self._revision:
            runs = sorted(self._runs.values(), key=_PLACES[order])
            self._sorted[order] = self._revision, runs
        return runs

    # Listing -----------------------------------------------------------------------

    async def renew(
        self, seconds: float | None, *, with_ended: bool, max_age: timedelta
    ) -> bool:
        """List the runs, and wait so long for the end.

        A listing of the waits shows which of them changed.

        Args:
            seconds: The longest time; `None` for no limit.
            with_ended: Whether ended runs are listed too, from now on.
            max_age: The age of a listing that is new enough.

        Returns:
            Whether the listing is new enough.

        Raises:
            StoreError: The store failed.
        """
        is_new = with_ended and not self._lists_ended
        self._lists_ended |= with_ended
        at = self._listed_at
        if not is_new and at is not None and self._clock.now() - at < max_age:
            return True
        return await self.listing.renew(seconds)

    async def refresh(self, looks: int | None = None) -> None:
        """List the runs.

        Args:
            looks: How many live runs are read again that were read the longest ago.

        Raises:
            StoreError: The store failed.
        """
        began = self._clock.now()
        await self._list(_LOOKS_AGAIN if looks is None else looks)
        self._listed_at = began

    def take_changed(self) -> frozenset[str]:
        """Return the runs that changed since the last call."""
        changed, self._changed = frozenset(self._changed), set()
        return changed

    async def read(self, seconds: float) -> None:
        """Read the runs that changed for so many seconds.

        The reading of the others goes on in the background.

        Raises:
            StoreError: The store failed.
        """
        await self._reading.wait(seconds)

    async def _list(self, looks: int) -> None:
        listings = [self._list_live()]
        now, all_at = self._clock.now(), self._listed_all_at
        if self._lists_ended and (all_at is None or now - all_at > _ALL_AGAIN):
            self._lists_all = True
        if self._listed_ended_at is not None:
            listings.append(self._list_ended(self._listed_ended_at - _LATE))
        await gather(*listings)
        self._forget_missing()
        late = [
            run_id
            for run_id, until in self._until.items()
            if until <= now and run_id in self._looks
        ]
        for run_id in (*islice(self._looks, looks), *late):
            self._looks[run_id] = -1

    async def _list_live(self) -> None:
        live: dict[str, None] = {}
        async for key in self._objects.all_keys(run_index.LIVE_PREFIX):
            run_id = run_index.indexed_run_id(key)
            if run_id is not None:
                live[run_id] = None
        self._live = live

    async def _list_ended(self, since: datetime | None) -> None:
        """List the runs that ended after a day; `None` lists all of them anew."""
        now = self._clock.now()
        after = "" if since is None else run_index.key_after_ended(since)
        found = {} if since is None else dict(self._ended or {})
        days: dict[str, str] = {}
        async for key in self._objects.all_keys(run_index.ENDED_PREFIX, after):
            run_id = run_index.indexed_run_id(key)
            if run_id is not None:
                day = key.rpartition("/")[0]
                found[run_id] = days.setdefault(day, day)
        if len(found) > MAX_ENDED_RUNS:
            newest = sorted(found.items(), key=lambda item: item[1])
            found = dict(newest[-MAX_ENDED_RUNS:])
        self._ended, self._listed_ended_at = found, now
        if since is None:
            self._listed_all_at, self._lists_all = now, False
            self._forget_missing()

    def _forget_missing(self) -> None:
        ended = self._ended or {}
        for run_id in [each for each in self._looks if each not in self._live]:
            del self._looks[run_id]
        self._looked_ended &= ended.keys()
        gone = [
            run_id
            for run_id in self._runs
            if run_id not in self._looks and run_id not in self._looked_ended
        ]
        for run_id in gone:
            self._drop(run_id)

    def forget(self, run_id: str) -> None:
        """Keep nothing of a run; it is read again if the index still has it."""
        self._looked_ended.discard(run_id)
        self._looks.pop(run_id, None)
        self._drop(run_id)

    def _drop(self, run_id: str) -> None:
        self._until.pop(run_id, None)
        if self._runs.pop(run_id, None) is not None:
            self._changed.add(run_id)
            self._revision += 1

    def close(self) -> None:
        """Read no more, because the server stops."""
        self.listing.close()
        self._reading.close()

    # Reading -----------------------------------------------------------------------

    def _unread_live(self) -> Iterable[str]:
        marks, looks = self._waits.marks, self._looks
        return (each for each in self._live if looks.get(each) != marks.get(each, 0))

    def _unread_ended(self) -> list[str]:
        if self._ended is None or len(self._looked_ended) == len(self._ended):
            return []
        looked, live = self._looked_ended, self._live
        return [e for e in self._ended if e not in looked and e not in live]

    async def _read_missing(self) -> None:
        ended: list[str] = []
        while True:
            live = [*islice(self._unread_live(), _PARALLEL_READS)]
            if self._lists_all and not live:
                await self._list_ended(None)
            # The newest days are at the end.
            ended = ended or self._unread_ended()
            group = live or ended[-_PARALLEL_READS:]
            if not group:
                return
            await gather(*map(self._read, group))
            if not live:
                del ended[-_PARALLEL_READS:]

    async def read_rows(self, run_ids: Sequence[str]) -> None:
        """Read runs that a page shows, as they are now.

        Raises:
            StoreError: The store failed.
        """
        await gather(*map(self._read, run_ids))

    async def _read(self, run_id: str) -> None:
        mark = self._waits.marks.get(run_id, 0)
        self._until.pop(run_id, None)
        run: KnownRun | None
        try:
            if run_id in self._live:
                run = await self._live_run(run_id)
            else:
                run = await self._ended_run(run_id)
        except (RunBusy, RunErased, RunNotFound):
            run = None  # it is being copied, or it was erased meanwhile
        except FormatError:
            run = _known(RunSummary(run_id=run_id, status="unreadable", cursor=""))
        if run_id in self._live:
            self._looks.pop(run_id, None)
            self._looks[run_id] = mark
        else:
            self._looked_ended.add(run_id)
        if run is None:
            self._drop(run_id)
        elif run != self._runs.get(run_id):
            self._runs[run_id] = run
            self._changed.add(run_id)
            self._revision += 1

    async def _ended_run(self, run_id: str) -> KnownRun | None:
        found = await read_run(self._objects, run_id)
        if found is None:
            return None
        header, row = found
        if header.status not in ENDED_STATUSES:
            return await self._live_run(run_id)  # a repair brought it back to life
        summary = summary_of(
            row,
            version=header.number,
            status=header.status,
            at=header.at,
            messages=header.inbox,
        )
        return _known(summary)

    async def _live_run(self, run_id: str) -> KnownRun:
        loaded = await Versions(self._objects, run_id).load_newest()
        state = await with_followed_waits(self._objects, loaded.state)
        run = state.run
        summary = summary_of(
            run,
            version=loaded.number,
            status=run.status,
            at=loaded.at,
            messages=0 if run.thread_key is None else run.last_inbox_number,
        )
        decided = await self._decided(state)
        now = self._clock.now()
        pill = run_state(state, now, decided=decided, changed_at=loaded.at)
        until = state_until(pill, state, loaded.at)
        if until is not None:
            self._until[run_id] = until
        waits = [w for w in state.waits.values() if w.id not in decided]
        acts = [vote.at for wait in state.waits.values() for vote in wait.votes]
        return _known(
            summary, pill, sorted(waits, key=_urgency), (*acts, *decided.values())
        )

    async def _decided(self, state: RunState) -> dict[str, datetime]:
        """Return when waits were decided whose decision is not yet applied."""
        listed = self._waits.ids
        unlisted = [
            wait.id
            for wait in state.waits.values()
            if wait.rules.asks_person and wait.id not in listed
        ]
        found = await gather(*(read_decision(self._objects, each) for each in unlisted))
        return {each.wait_id: each.at for each in found if each is not None}


def _urgency(wait: Wait) -> tuple[bool, datetime, str]:
    return wait.deadline is None, wait.deadline or wait.created_at, wait.id


def _known(
    summary: RunSummary,
    state: StatePill | None = None,
    waits: Sequence[Wait] = (),
    acts: Iterable[datetime] = (),
) -> KnownRun:
    waits = [withheld(wait) for wait in waits]
    awaits = [wait_title(wait) for wait in waits if wait.rules.asks_person]
    changed_at = summary.updated_at or _EPOCH
    labels = (f"{name}={value}" for name, value in summary.labels.items())
    texts = (
        *(summary.title, summary.thread, summary.run_id),
        *(summary.agent, summary.requester, *labels, *awaits),
    )
    return KnownRun(
        summary=summary,
        state=state or status_pill(summary.status),
        changed=(-to_milliseconds(changed_at), summary.run_id),
        acted_ms=max(map(to_milliseconds, (*acts, changed_at))),
        awaits=tuple(filter(None, awaits[:_KEPT_TITLES])),
        others=tuple(
            OtherWait(
                kind=wait.kind,
                wait_id=wait.id,
                title=shorten(_other_title(wait), _TITLE_CHARS),
                deadline=wait.deadline,
                opened_at=wait.created_at,
            )
            for wait in waits
            if not wait.rules.asks_person and not wait.rules.ended_by_unpause
        ),
        search_text=search_text(texts),
    )


def _other_title(wait: Wait) -> str:
    """Return what a wait awaits that no person ends."""
    path = " \N{SINGLE RIGHT-POINTING ANGLE QUOTATION MARK} ".join(wait.path)
    if wait.event is not None:
        return wait_title(wait)
    return wait.note or wait.question or path
