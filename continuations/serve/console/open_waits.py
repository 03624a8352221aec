"""The open waits that people are asked about, as this process knows them.

One listing of keys shows the waits of the whole store, and one of markers their
deadlines. Each wait is read once in a process: its object never changes. Only votes are
read again, for the rows of a page. So a filter searches all waits without a request.

The order of the inbox:

1. waits that are due within a day, the next deadline first
2. unknown outcomes: their runs stand still, and money may be lost
3. later deadlines
4. waits without a deadline, the oldest first
"""

from __future__ import annotations

import logging
from asyncio import gather
from datetime import timedelta
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from continuations.core.rows.wait_rules import WAIT_RULES
from continuations.core.rows.waits import Wait
from continuations.errors import FormatError
from continuations.ledger import layout
from continuations.ledger.decisions.worklist import with_votes
from continuations.ledger.index import waits
from continuations.ledger.objects import Objects, in_batches, pieces
from continuations.ledger.store_clock import StoreClock
from continuations.present.wait_view import RowTexts, row_texts, searched_text
from continuations.serve.console.background import BackgroundReading
from continuations.serve.http.request_fields import digits
from continuations.value_class import dataclass, replace
from continuations.wire.fields import to_milliseconds

if TYPE_CHECKING:
    from collections.abc import Iterator, KeysView, Sequence
    from datetime import datetime

    from continuations.core.rows.decisions import Decision
    from continuations.ledger.claims import Clock
    from continuations_storage.contract import Store

T = TypeVar("T")

_log = logging.getLogger("continuations")
_MAX_TITLES = 10_000
_SOON_MS = timedelta(days=1) // timedelta(milliseconds=1)
_NO_DEADLINE = 10**15
_MAX_DIGITS = 16
_UNKNOWN_KINDS = {kind for kind in WAIT_RULES if WAIT_RULES[kind].may_have_run}


class Kept(dict[str, T]):
    """Values by id, at most so many.

    Args:
        limit: The largest number of values.
    """

    def __init__(self, limit: int) -> None:
        super().__init__()
        self._limit = limit

    def put(self, name: str, value: T) -> None:
        """Keep a value as the newest one."""
        self.pop(name, None)
        self[name] = value
        if len(self) > self._limit:
            del self[next(iter(self))]


class WaitPlace(NamedTuple):
    """The place of a wait in the inbox.

    Attributes:
        group: The number of its group in the order of the inbox.
        due_ms: Its deadline in milliseconds since 1970; a late time for none.
        opened_ms: When it was opened.
        wait_id: Its id.
    """

    group: int
    due_ms: int
    opened_ms: int
    wait_id: str

    @property
    def run_id(self) -> str:
        """The run that waits."""
        return self.wait_id.partition("@")[2]

    @property
    def cursor(self) -> str:
        """The place as a text, for the next page."""
        return "/".join(map(str, self))

    @classmethod
    def of_cursor(cls, cursor: str) -> WaitPlace | None:
        """Return the place of a cursor, or `None` for another text."""
        group, _, rest = cursor.partition("/")
        due, _, rest = rest.partition("/")
        opened, _, wait_id = rest.partition("/")
        numbers = (group, due, opened)
        if any(digits(text, _MAX_DIGITS) is None for text in numbers):
            return None
        return cls(int(group), int(due), int(opened), wait_id)


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownWait:
    """An open wait.

    Attributes:
        stored: The wait as its object has it. One that takes no votes lacks its
            arguments and schemas, which are not needed any more.
        current: The wait as its votes and its escalation left it.
        texts: Its texts in a list.
        search_text: The text in which words are looked for.
    """

    stored: Wait
    current: Wait | Decision
    texts: RowTexts
    search_text: str


class OpenWaits:
    """Lists the open waits of a store, and keeps what it has read.

    Args:
        store: The store.
        clock: The clock for deadlines.
    """

    def __init__(self, store: Store, clock: Clock) -> None:
        self._objects = Objects(store)
        self._clock = StoreClock(clock)
        # It grows with each change of the waits or of what is known of them.
        self.revision = 0
        # A text that changes with the markers and waits of a run, by run id.
        self.marks: dict[str, int] = {}
        self._opened: dict[str, int] = {}
        self._deadlines: dict[str, int] = {}
        self._known: dict[str, KnownWait] = {}
        # The ids of waits that cannot be read.
        self.damaged: set[str] = set()
        # The titles of decided waits, as far as a page or the last listing had them.
        self.titles: Kept[str] = Kept(_MAX_TITLES)
        self._began = self._applied = 0
        self._listed_at: datetime | None = None
        self._reading = BackgroundReading(self._read_missing)

    @property
    def ids(self) -> KeysView[str]:
        """The ids of the waits of the last listing."""
        return self._opened.keys()

    @property
    def listed_at(self) -> datetime | None:
        """When the waits were listed; `None` before."""
        return self._listed_at

    @property
    def missing(self) -> int:
        """How many of the listed waits were not read yet."""
        return len(self._opened) - len(self._known) - len(self.damaged)

    def now_ms(self) -> int:
        """Return the store's time in milliseconds since 1970."""
        return to_milliseconds(self._clock.now())

    def get(self, wait_id: str) -> KnownWait | None:
        """Return a wait that was read, or `None`."""
        return self._known.get(wait_id)

    def forget(self, wait_id: str) -> None:
        """Leave out a wait that was decided, before the next listing does."""
        if self._opened.pop(wait_id, None) is None:
            return
        self.damaged.discard(wait_id)
        known = self._known.pop(wait_id, None)
        if known is not None:
            self.titles.put(wait_id, known.texts.title)
        self.revision += 1

    # Listing -----------------------------------------------------------------------

    async def refresh(self, *, with_markers: bool = True) -> None:
        """List the waits, and the markers with their deadlines.

        Raises:
            StoreError: The store failed.
        """
        self._began += 1
        number, began_at = self._began, self._clock.now()
        opened, found = await gather(
            self._list_waits(), self._list_markers(wanted=with_markers)
        )
        if number < self._applied:
            return  # a listing that began later is known already
        self._applied, self._listed_at = number, began_at
        if found is not None:
            self._deadlines, self.marks = found
            for wait_id in opened:
                run_id = wait_id.partition("@")[2]
                self.marks[run_id] = self.marks.get(run_id, 0) ^ hash(wait_id)
        if opened.keys() != self._opened.keys():
            for wait_id in self._known.keys() - opened.keys():
                self.titles.put(wait_id, self._known.pop(wait_id).texts.title)
            self.damaged &= opened.keys()
            self.revision += 1
        self._opened = opened

    async def _list_waits(self) -> dict[str, int]:
        """Return the open waits, and when each was opened."""
        opened: dict[str, int] = {}
        async for page in waits.list_ids(self._objects, kinds=waits.PEOPLES_KINDS):
            async for piece in pieces(page):
                for wait_id in piece:
                    ms = self._opened.get(wait_id)
                    if ms is None:
                        ms = layout.parse_wait_id(wait_id).opened_ms
                    opened[wait_id] = ms
        return opened

    async def _list_markers(
        self, *, wanted: bool
    ) -> tuple[dict[str, int], dict[str, int]] | None:
        """Return the deadlines by `{ulid}@{run}`, and the marks of runs."""
        if not wanted:
            return None
        deadlines: dict[str, int] = {}
        marks: dict[str, int] = {}
        after, size = "", self._objects.listing_size
        while True:
            page = await self._clock.list_keys(
                self._objects, layout.MARKERS_PREFIX, after, size
            )
            async for piece in pieces(page):
                for key in piece:
                    marker = layout.parse_marker(key)
                    if marker is None:
                        continue
                    run_id = marker.run_id
                    marks[run_id] = marks.get(run_id, 0) ^ hash(key)
                    if marker.reason == "e":
                        # A deadline that was extended has a second, later marker.
                        deadlines[f"{marker.target}@{run_id}"] = marker.due_ms
            if len(page) < size:
                return deadlines, marks
            after = page[-1]

    # Order -------------------------------------------------------------------------

    def rows(self) -> Iterator[str]:
        """Yield each wait with whether its deadline has passed, for a cursor."""
        now_ms, soon_ms = self.now_ms(), 0
        for wait_id, opened_ms in self._opened.items():
            due_ms = self._place(wait_id, opened_ms, soon_ms).due_ms
            yield f"{wait_id} {due_ms < now_ms}"

    def ordered(self, kind: str = "") -> list[WaitPlace]:
        """Return the places of the waits, in the order of the inbox."""
        soon_ms = self.now_ms() + _SOON_MS
        prefix = f"{kind}-" if kind else ""
        places = [
            self._place(wait_id, opened, soon_ms)
            for wait_id, opened in self._opened.items()
            if wait_id.startswith(prefix)
        ]
        places.sort()
        return places

    def _place(self, wait_id: str, opened_ms: int, soon_ms: int) -> WaitPlace:
        kind, _, name = wait_id.partition("-")
        due_ms = self._deadlines.get(name, _NO_DEADLINE)
        known = self._known.get(wait_id)
        if known is not None and isinstance(known.current, Wait):
            deadline = known.current.deadline
            due_ms = _NO_DEADLINE if deadline is None else to_milliseconds(deadline)
        if due_ms <= soon_ms:
            return WaitPlace(0, due_ms, opened_ms, wait_id)
        if kind in _UNKNOWN_KINDS:
            return WaitPlace(1, due_ms, opened_ms, wait_id)
        return WaitPlace(2, due_ms, opened_ms, wait_id)

    # Reading -----------------------------------------------------------------------

    async def read(self, seconds: float) -> None:
        """Read the waits that were not read yet, for so many seconds.

        The reading of the others goes on in the background.

        Raises:
            StoreError: The store failed.
        """
        if self.missing:
            await self._reading.wait(seconds)

    def close(self) -> None:
        """Read no more, because the server stops."""
        self._reading.close()

    async def _read_missing(self) -> None:
        # In the order of the inbox.
        while missing := [
            place.wait_id
            for place in self.ordered()
            if place.wait_id not in self._known and place.wait_id not in self.damaged
        ]:
            for group in in_batches(missing):
                await self._read_group(group)

    async def _read_group(self, wait_ids: Sequence[str]) -> None:
        try:
            await self._read(wait_ids)
        except FormatError:
            await gather(*map(self._read_alone, wait_ids))

    async def _read_alone(self, wait_id: str) -> None:
        try:
            await self._read([wait_id])
        except FormatError as error:
            # A row says so, and its page says why. It hides no other waits.
            self.damaged.add(wait_id)
            _log.warning("wait %s is not searched: %s", wait_id, error)

    async def _read(self, wait_ids: Sequence[str]) -> None:
        bodies = await self._objects.read_many(list(map(layout.wait_key, wait_ids)))
        stored: list[Wait] = []
        for wait_id, body in zip(wait_ids, bodies, strict=True):
            if body is None:
                self._opened.pop(wait_id, None)  # decided since it was listed
            else:
                stored.append(waits.decode_open(wait_id, body))
        for known in await gather(*(self._known_of(wait) for wait in stored)):
            if known.stored.id in self._opened:
                self._known[known.stored.id] = known
        self.revision += 1

    async def _known_of(self, wait: Wait) -> KnownWait:
        current = await with_votes(self._objects, wait)
        texts = row_texts(current if isinstance(current, Wait) else wait)
        text = searched_text(wait, texts)
        if not wait.takes_votes:
            wait = current = _without_arguments(wait)
        return KnownWait(stored=wait, current=current, texts=texts, search_text=text)

    async def read_rows(self, wait_ids: Sequence[str]) -> None:
        """Read the waits that a page shows, with their votes of now.

        Raises:
            Corrupt, FormatError: A vote is damaged.
            StoreError: The store failed.
        """
        unread = [
            each
            for each in wait_ids
            if each not in self._known and each not in self.damaged
        ]
        if unread:
            await self._read_group(unread)
        found = [self._known[each] for each in wait_ids if each in self._known]
        await gather(*map(self._read_votes, found))

    async def _read_votes(self, known: KnownWait) -> None:
        if not known.stored.takes_votes:
            return
        current = await with_votes(self._objects, known.stored)
        if current != known.current and known.stored.id in self._known:
            texts = known.texts
            if isinstance(current, Wait):
                texts = row_texts(current)
            self._known[known.stored.id] = replace(known, current=current, texts=texts)
            self.revision += 1


def _without_arguments(wait: Wait) -> Wait:
    return replace(
        wait,
        arguments_json="{}",
        schema_json="{}",
        answer_schema_json=None,
        form_schema_json=None,
        display=None,
    )
