"""The open waits that people are asked about, those with the next deadline first.

A page lists the keys of all these waits, and one page of markers. The markers are
sorted by time, so that page has the next deadlines. Only the waits of the page are
read, at the same time.
"""

from __future__ import annotations

import re
from asyncio import gather
from heapq import nsmallest
from itertools import chain
from typing import TYPE_CHECKING, TypeAlias

from continuations.core.identity import Identity
from continuations.core.rows.decisions import Decision
from continuations.core.rows.slots import find_own_vote
from continuations.core.rows.wait_rules import WAIT_RULES
from continuations.core.rows.waits import Wait
from continuations.errors import InvalidInput
from continuations.ledger import layout
from continuations.ledger.arrivals import wait_slots
from continuations.ledger.index import waits
from continuations.ledger.objects import in_batches
from continuations.value_class import dataclass
from continuations.wire.fields import to_milliseconds

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence

    from continuations.core.rows.quorum import Quorum
    from continuations.core.rows.waits import WaitSummary
    from continuations.ledger.arrivals.wait_slots import GroupsOf
    from continuations.ledger.objects import Objects
    from continuations.ledger.store_clock import StoreClock


MAX_PAGE = 1000
# The time of the last deadline that counts, then the place of a wait: its deadline,
# the time when it was opened, and its id.
_CURSOR = re.compile(r"([0-9]{1,16})/([0-9]{1,16})/([0-9]{1,16})/([^/]{1,300})\Z")
_NO_DEADLINE = 10**15
_Place: TypeAlias = tuple[int, int, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedWait:
    """A row of the worklist.

    Attributes:
        wait: The wait, with its tool, arguments and deadline.
        expired: Whether the deadline has passed. Then the next sweep records that.
    """

    wait: Wait
    expired: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Worklist:
    """One page of the worklist.

    Attributes:
        waits: The waits: those with the next deadlines first, then the oldest ones. A
            wait that is decided meanwhile is left out.
        next: Pass it as `after` for the next page; `None` on the last one.
    """

    waits: tuple[ListedWait, ...]
    next: str | None


async def read_worklist(
    objects: Objects,
    clock: StoreClock,
    *,
    after: object,
    limit: object,
    kinds: frozenset[str] = waits.PEOPLES_KINDS,
    approver: Approver | None = None,
) -> Worklist:
    """Return one page of the worklist; raises `InvalidInput`.

    The keys are read page by page, and only the places of this page are kept. So a long
    list takes no more memory than a short one.
    """
    if type(limit) is not int or not 1 <= limit <= MAX_PAGE:
        msg = f"limit must be a number from 1 to {MAX_PAGE}, got {limit!r:.60}."
        raise InvalidInput(f"{msg} Pass for example limit=100.")
    horizon, last = _parse_cursor(after)
    deadlines, horizon = await _next_deadlines(objects, clock, horizon)
    shown = await _next_places(objects, kinds, deadlines, last, limit + 1)
    has_more = len(shown) > limit
    del shown[limit:]
    now_ms = to_milliseconds(clock.now())
    bodies = await objects.read_many([layout.wait_key(each[2]) for each in shown])
    rows: list[ListedWait] = []
    for (due, _, wait_id), body in zip(shown, bodies, strict=True):
        if body is not None:
            wait = await _followed(objects, clock, waits.decode_open(wait_id, body))
            is_expired = due < now_ms
            if approver is not None:
                wait = await with_votes(objects, wait)
                if is_expired or not await approver.may_decide(wait):
                    continue
            if isinstance(wait, Wait):
                rows.append(ListedWait(wait=wait, expired=is_expired))
    following = None
    if has_more:
        due, opened, wait_id = shown[-1]
        following = f"{horizon}/{due}/{opened}/{wait_id}"
    return Worklist(waits=tuple(rows), next=following)


async def _next_places(
    objects: Objects,
    kinds: frozenset[str],
    deadlines: dict[str, int],
    last: _Place | None,
    count: int,
) -> list[_Place]:
    """Return the next waits after a place: their deadlines, times and ids, sorted."""
    places: list[_Place] = []
    async for wait_ids in waits.list_ids(objects, kinds=kinds & waits.PEOPLES_KINDS):
        found: list[_Place] = [
            (
                deadlines.get(wait_id.partition("-")[2], _NO_DEADLINE),
                layout.parse_wait_id(wait_id).opened_ms,
                wait_id,
            )
            for wait_id in wait_ids
        ]
        following = (place for place in found if last is None or place > last)
        places = nsmallest(count, chain(places, following))
    return places


async def _followed(objects: Objects, clock: StoreClock, wait: Wait) -> Wait | Decision:
    """Return a wait as its escalation left it, or its decision.

    The object of a wait never changes. So its approvers may be those of before the
    deadline. Only waits past such a deadline cost a listing and their slots.
    """
    is_past = wait.deadline is not None and wait.deadline < clock.now()
    if not (is_past and wait.escalates):
        return wait
    return await wait_slots.follow(objects, wait)


def _parse_cursor(after: object) -> tuple[int | None, tuple[int, int, str] | None]:
    if after == "":
        return None, None
    match = _CURSOR.match(after) if isinstance(after, str) else None
    if match is None:
        msg = f"after must be the `next` of a page of this listing, got {after!r:.60}."
        raise InvalidInput(f"{msg} Pass Worklist.next.")
    horizon, due, opened, wait_id = match.groups()
    return int(horizon), (int(due), int(opened), wait_id)


async def _next_deadlines(
    objects: Objects, clock: StoreClock, horizon: int | None
) -> tuple[dict[str, int], int]:
    """Return the next deadlines by `{ulid}@{run}`, and the last time that counts.

    That time stays the same for all pages of one listing. So no wait moves between the
    waits with a deadline and the other ones.
    """
    deadlines: dict[str, int] = {}
    after = ""
    while True:
        page = await clock.list_keys(
            objects, layout.MARKERS_PREFIX, after, objects.listing_size
        )
        found = [each for each in map(layout.parse_marker, page) if each is not None]
        for marker in found:
            is_late = horizon is not None and marker.due_ms > horizon
            if marker.reason == "e" and not is_late:
                # A deadline that was extended has a second, later marker.
                deadlines[f"{marker.target}@{marker.run_id}"] = marker.due_ms
        last = found[-1].due_ms if found else _NO_DEADLINE
        if len(page) < objects.listing_size:
            return deadlines, _NO_DEADLINE if horizon is None else horizon
        if horizon is None:
            return deadlines, last
        if last > horizon:
            return deadlines, horizon
        after = page[-1]


class Approver:
    """A person, whose groups are looked up once, and only if a wait needs them."""

    def __init__(self, identity: Identity, groups_of: GroupsOf | None) -> None:
        self._identity = identity
        self._groups_of = groups_of
        self._groups: frozenset[str] | None = None

    @classmethod
    def from_argument(cls, approver: object, groups_of: GroupsOf | None) -> Approver:
        """Return the person of `waiting(approver=...)`; raises `InvalidInput`."""
        if isinstance(approver, Identity):
            return cls(approver, groups_of)
        if isinstance(approver, str):
            try:
                return cls(Identity(approver), groups_of)
            except InvalidInput:
                pass
        raise InvalidInput(
            "approver must be the name of a person, of 1 to 255 bytes, or an Identity, "
            f"got {approver!r:.60}. Pass the name that decisions are recorded under."
        )

    async def may_decide(self, wait: Wait | Decision) -> bool:
        """Return whether the person may decide a wait, as its slots left it."""
        if isinstance(wait, Decision):
            return False
        name, quorum = self._identity.name, wait.quorum
        if quorum is None:
            return True
        if find_own_vote(wait, name) is not None:
            return False
        return quorum.objection(name, await self._groups_for(quorum)) is None

    async def _groups_for(self, quorum: Quorum) -> frozenset[str]:
        own = frozenset(self._identity.groups)
        if self._groups_of is None or not quorum.needs_groups_of(self._identity.name):
            return own
        if self._groups is None:
            self._groups = own | {*await self._groups_of(self._identity.name)}
        return self._groups


async def list_decidable(
    objects: Objects,
    clock: StoreClock,
    approver: Approver,
    after: str,
    kinds: frozenset[str],
) -> AsyncIterator[list[WaitSummary]]:
    """Iterate over the open waits that a person may decide, in batches.

    A wait whose deadline has passed is left out: no decision of it is accepted.
    """
    decided = {kind for kind in WAIT_RULES if WAIT_RULES[kind].verdicts}
    async for batch in waits.list_open(objects, clock, after, kinds & decided):
        open_waits = [summary for summary in batch if not summary.expired]
        for group in in_batches(open_waits):
            yield await _decidable(objects, approver, group)


async def _decidable(
    objects: Objects, approver: Approver, group: Sequence[WaitSummary]
) -> list[WaitSummary]:
    bodies = await objects.read_many([layout.wait_key(each.id) for each in group])
    stored = [
        (summary, waits.decode_open(summary.id, body))
        for summary, body in zip(group, bodies, strict=True)
        if body is not None
    ]
    after = await gather(*(with_votes(objects, wait) for _, wait in stored))
    return [
        summary
        for (summary, _), wait in zip(stored, after, strict=True)
        if await approver.may_decide(wait)
    ]


async def with_votes(objects: Objects, wait: Wait | Decision) -> Wait | Decision:
    """Return a wait with its votes, or its decision."""
    if isinstance(wait, Decision) or not wait.takes_votes:
        return wait
    return await wait_slots.follow_by_number(objects, wait)
