"""The waits of one filter in the order of the inbox, for its pages and its neighbours.

The waits are those that the process knows, so a filter searches all of them without a
request. If the application limits rights, it is asked about at most 500 waits for a
page. A wait that a person may not see is neither counted nor found.
"""

from __future__ import annotations

import asyncio
from asyncio import gather
from datetime import timedelta
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

from continuations.core.rows.wait_rules import WAIT_RULES
from continuations.ledger.index.waits import PEOPLES_KINDS
from continuations.present.search_words import MAX_QUERY_CHARS, SearchWords
from continuations.present.times import counted, length_text
from continuations.serve.console.background import finish_within
from continuations.serve.console.live_pages import AT_HEADER, WaitCounts
from continuations.serve.http import problems
from continuations.serve.rights import approver_of
from continuations.value_class import dataclass, replace

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence

    from continuations.ledger.decisions.worklist import Approver
    from continuations.serve.console.live import Sees
    from continuations.serve.console.open_waits import KnownWait, WaitPlace
    from continuations.serve.console.page import Page
    from continuations.serve.pages.environment import Shell

PAGE_ROWS = 50
MAX_CHECKED = 500
# A page waits so many seconds for the listings, and for what was not read yet. Another
# part of the time is for the rows that it shows.
SECONDS, ROW_SECONDS = 0.2, 0.15
# A page that is open, and that is loaded again, takes a listing of this age.
OPEN_AGE = timedelta(seconds=10)
_MINUTE = 60
_MAX_KEPT_COUNTS = 200
_COUNTS_SECONDS = 15


@dataclass(frozen=True, slots=True)
class Filter:
    """The choice of waits that a person makes.

    Attributes:
        whose: `me` for the waits that the person may decide, or `all`.
        kind: One kind, or an empty text.
        q: Words that a row, its run or its labels must have.
    """

    whose: str
    kind: str
    q: str

    @classmethod
    def of_query(cls, query: Mapping[str, str]) -> Filter:
        """Return the filter of a query; an unknown value is refused."""
        whose, kind = query.get("for", "me"), query.get("kind", "")
        if whose not in ("me", "all") or kind not in {"", *PEOPLES_KINDS}:
            kinds = ", ".join(sorted(PEOPLES_KINDS))
            msg = f'"for" must be "me" or "all", and "kind" one of {kinds}.'
            raise problems.malformed(msg)
        return cls(whose, kind, query.get("q", "").strip()[:MAX_QUERY_CHARS])

    def query_text(self, **more: str) -> str:
        """Return the filter as a query with a question mark; empty for the default."""
        own = {"for": self.whose, "kind": self.kind, "q": self.q, **more}
        chosen = {k: v for k, v in own.items() if v and (k, v) != ("for", "me")}
        return f"?{urlencode(chosen)}" if chosen else ""


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundWaits:
    """The waits that a filter leaves.

    Attributes:
        places: Their places, in the order of the inbox.
        last: The last place that was looked at; `None` if all were.
    """

    places: Sequence[WaitPlace]
    last: WaitPlace | None = None

    @property
    def is_complete(self) -> bool:
        """Whether these are all waits of the filter."""
        return self.last is None


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitList:
    """The waits of one filter, in the order of the inbox.

    Attributes:
        page: The request, whose query has the filter.
        chosen: The filter.
    """

    page: Page
    chosen: Filter

    @classmethod
    def of(cls, page: Page) -> WaitList:
        """Return the list of a request."""
        return cls(page=page, chosen=Filter.of_query(page.query))

    @property
    def query(self) -> str:
        """The filter as a query with a question mark; empty for the default."""
        return self.chosen.query_text()

    async def find(
        self, after: WaitPlace | None = None, limit: int | None = None
    ) -> FoundWaits:
        """Return the waits that the filter leaves, from what the process knows.

        Args:
            after: Only waits after this place.
            limit: The largest number of waits; `None` for all.
        """
        known = self.page.live.waits.known
        accepts = self._filter()
        sees = _Sight(self.page, decides=self.chosen.whose == "me")
        found: list[WaitPlace] = []
        for place in known.ordered(self.chosen.kind):
            if (after is not None and place <= after) or not await accepts(place):
                continue
            if limit is not None and len(found) == limit:
                return FoundWaits(places=found, last=found[-1])
            if sees.asked == MAX_CHECKED:
                return FoundWaits(places=found, last=sees.last)
            if await sees(place):
                found.append(place)
        return FoundWaits(places=found)

    def _filter(self) -> Callable[[WaitPlace], Awaitable[bool]]:
        """Return what says whether a wait belongs to the list, without rights."""
        page, words = self.page, SearchWords.of_query(self.chosen.q)
        known, runs = page.live.waits.known, page.live.known_runs
        person, now_ms = approver_of(page.runner, page.identity), known.now_ms()
        is_mine = self.chosen.whose == "me"

        async def accepts(place: WaitPlace) -> bool:
            wait = known.get(place.wait_id)
            if place.wait_id in known.damaged:
                return not words  # its people are not known
            if is_mine and not await _is_for(person, place, wait, now_ms):
                return False
            if not words:
                return True
            run = runs.get(place.run_id)
            text = "" if wait is None else wait.search_text
            return words.are_in(text if run is None else f"{text}\n{run.search_text}")

        return accepts

    async def crumbs(self, wait_id: str) -> dict[str, str]:
        """Return the way back to the list, the place in it, and the neighbours.

        `place`, `previous` and `next` are empty texts without such a place.
        """
        live = self.page.live
        await live.waits.listing.renew(time_limit(self.page))
        await live.waits.known.read(SECONDS)
        found = await self.find()
        ids = self._undecided(found)
        place = ids.index(wait_id) if wait_id in ids else None
        before = "" if not place else ids[place - 1]
        after = "" if place is None else next(iter(ids[place + 1 :]), "")
        more = "" if found.is_complete else "+"
        return {
            "list": self.page.url(f"/inbox{self.query}"),
            "name": "Inbox",
            "place": "" if place is None else f"{place + 1:,} of {len(ids):,}{more}",
            "previous": before and self._address(before),
            "next": after and self._address(after),
        }

    async def following(self, wait_id: str) -> str:
        """Return the address of the next wait, or an empty text.

        Call it before the wait is decided: afterwards the wait has no place any more.
        """
        known = self.page.live.waits.known
        if known.listed_at is None:
            await self.page.live.waits.listing.renew(time_limit(self.page))
        await known.read(SECONDS)
        ids = self._undecided(await self.find())
        if wait_id not in ids:
            return ""
        after = ids[ids.index(wait_id) + 1 :]
        return self._address(after[0]) if after else ""

    def _undecided(self, found: FoundWaits) -> list[str]:
        """Return the waits whose deadline has not passed."""
        now_ms = self.page.live.waits.known.now_ms()
        return [place.wait_id for place in found.places if place.due_ms >= now_ms]

    def _address(self, wait_id: str) -> str:
        return self.page.url(f"/waits/{wait_id}{self.query}")


async def _is_for(
    person: Approver, place: WaitPlace, wait: KnownWait | None, now_ms: int
) -> bool:
    """Return whether a person may decide a wait now."""
    if wait is None or place.due_ms < now_ms:
        return False
    return await person.may_decide(wait.current)


class _Sight:
    """Asks the application once for each run whether the person may see it.

    For the waits of a person, the run must also give the right to decide.
    """

    def __init__(self, page: Page, *, decides: bool) -> None:
        self._page, self._decides = page, decides
        self._sees = page.sees
        self._runs: dict[str, bool] = {}
        self.asked = 0
        self.last: WaitPlace | None = None

    async def __call__(self, place: WaitPlace) -> bool:
        if self._sees is None:
            return True
        self.last = place
        if place.run_id not in self._runs:
            self.asked += 1
            self._runs[place.run_id] = await self._is_shown(self._sees, place.run_id)
        return self._runs[place.run_id]

    async def _is_shown(self, sees: Sees, run_id: str) -> bool:
        if not await sees(run_id):
            return False
        page = self._page
        return not self._decides or (
            await page.rights.allow(page.identity, "decide", run_id)
        )


async def read_lists(
    page: Page,
    *,
    with_ended: bool = False,
    lists_waits: bool = True,
    max_age: timedelta = timedelta(),
) -> str:
    """List waits and runs, and read what the process does not know, for a short time.

    Both go on in the background, and the page shows what the process knows. A server
    without open connections has no background, so its pages wait for the listings.

    Args:
        page: The request.
        with_ended: Whether the page shows ended runs.
        lists_waits: Whether the waits are listed.
        max_age: The age of a listing of runs that is new enough.

    Returns:
        How old the list is, in words; "" if it is of now.

    Raises:
        StoreError: The store failed.
    """
    live, loop = page.live, asyncio.get_running_loop()
    began, limit = loop.time(), time_limit(page)
    if AT_HEADER in page.request.headers:
        # An open page looks again after 2 s, also while a listing takes longer.
        max_age = max(max_age, OPEN_AGE)
    if page.sees is not None:
        live.waits.keep_rows()
    listings = [live.known_runs.renew(limit, with_ended=with_ended, max_age=max_age)]
    if lists_waits and not live.waits.is_listed(max_age):
        listings.append(live.waits.listing.renew(limit))
    is_new = all(await gather(*listings))
    left = SECONDS if limit is None else max(0, limit - (loop.time() - began))
    await gather(live.waits.known.read(left), live.known_runs.read(left))
    times = live.waits.known.listed_at, live.known_runs.listed_at
    if is_new or None in times:
        return ""  # another note says that nothing was listed yet
    age = page.clock.now() - min(filter(None, times))
    seconds = max(1, round(age.total_seconds()))
    return (
        f"This list is {length_text(age) if seconds > _MINUTE else f'{seconds} s'} old."
    )


def time_limit(page: Page) -> float | None:
    """Return how long a page waits for a listing; `None`: until its end."""
    return SECONDS if page.live.mode == "events" else None


async def read_rows(page: Page, reading: Coroutine[Any, Any, object]) -> str:
    """Read the rows that a page shows for a short time; the rest in the background.

    Returns:
        Which rows may be old, in words; "" if all are of now.
    """
    limit = None if page.live.mode == "poll" else ROW_SECONDS
    is_new = await finish_within(limit, reading)
    return "" if is_new else "The store is slow: these rows are not of now."


# Counts ---------------------------------------------------------------------------


async def count_waits(page: Page) -> WaitCounts | None:
    """Return how many waits there are for a person, from what the process knows.

    It costs no request. `None`: the process does not know all waits.
    """
    known, kept = page.live.waits.known, page.live.counts
    now, listed_at = page.clock.now(), known.listed_at
    if listed_at is None or known.missing:
        return None
    counts = kept.get(page.identity)
    if (
        counts is None
        or counts.revision != known.revision
        or (now - counts.at).total_seconds() >= _COUNTS_SECONDS
    ):
        if len(kept) >= _MAX_KEPT_COUNTS:
            kept.clear()
        mine = await WaitList(page=page, chosen=Filter("me", "", "")).find()
        every = await WaitList(page=page, chosen=Filter("all", "", "")).find()
        counts = kept[page.identity] = WaitCounts(
            revision=known.revision,
            at=now,
            for_person=_count_text(mine),
            all=_count_text(every),
        )
    return counts


_STALE_SECONDS = 60


async def count_for_navigation(page: Page) -> str | None:
    """Return the count beside "Inbox"; `None` if it is not known, or is old."""
    listed_at = page.live.waits.known.listed_at
    if listed_at is None:
        return None
    if abs((page.clock.now() - listed_at).total_seconds()) > _STALE_SECONDS:
        return None
    counts = await count_waits(page)
    return None if counts is None else counts.for_person


async def counted_shell(page: Page) -> Shell:
    """Return the frame of a page that has listed the waits itself."""
    return replace(page.shell, open_waits=await count_for_navigation(page))


def shown_range(skipped: int, shown: int, count: int | None, noun: str) -> str:
    """Return the places of the rows of a page: `26 to 50 of 120 runs`.

    Args:
        skipped: How many rows the earlier pages have.
        shown: How many rows the page has.
        count: How many rows there are; `None` if the person may not know.
        noun: The word for a row.
    """
    if count is None or not shown:
        return ""
    if shown == count:
        return counted(count, noun)
    return f"{skipped + 1:,} to {skipped + shown:,} of {counted(count, noun)}"


def _count_text(found: FoundWaits) -> str:
    return f"{len(found.places):,}{'' if found.is_complete else '+'}"


KINDS: Mapping[str, str] = {
    kind: WAIT_RULES[kind].words.word for kind in sorted(PEOPLES_KINDS)
}
