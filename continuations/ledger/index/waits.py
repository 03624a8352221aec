"""Wait objects: the open waits of a committed version, for deciders.

They follow from the version, so any process can create them again. After a crash, the
list of open waits may be incomplete; `decide` and `look` are not affected.
"""

from __future__ import annotations

from bisect import bisect
from contextlib import suppress
from functools import lru_cache
from typing import TYPE_CHECKING, cast

from continuations.core.rows.wait_rules import WAIT_KINDS, WAIT_RULES
from continuations.core.rows.waits import WaitSummary, waits_for_events, withheld
from continuations.errors import Corrupt, InvalidInput
from continuations.ledger import layout, markers
from continuations.ledger.objects import (
    AlreadyExists,
    NotFound,
    gather_all,
    in_batches,
    pieces,
)
from continuations.wire.records import WAIT
from continuations_storage.contract import is_last_page

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Collection, Iterable, Mapping

    from continuations.core.rows.wait_rules import WaitKind
    from continuations.core.rows.waits import Wait
    from continuations.ledger.objects import Objects
    from continuations.ledger.store_clock import StoreClock

# The kinds of waits that ask a person.
PEOPLES_KINDS: frozenset[WaitKind] = frozenset(
    kind for kind in WAIT_RULES if WAIT_RULES[kind].asks_person
)
_PREFIX_LENGTH = len(layout.WAITS_PREFIX)
# A process keeps so small bodies of the waits that it has decoded.
_MAX_SMALL_BODY = 4096


def wait_kinds(kinds: object) -> frozenset[str]:
    """Return the kinds of waits to list; raises `InvalidInput`."""
    if kinds is None:
        return PEOPLES_KINDS
    if isinstance(kinds, list | tuple | set | frozenset):
        chosen = frozenset(cast("Collection[object]", kinds))
        if chosen <= WAIT_KINDS:
            return cast("frozenset[str]", chosen)
    raise InvalidInput(
        f"kinds must be a list of kinds of waits ({', '.join(sorted(WAIT_KINDS))}), "
        f"got {kinds!r}."
    )


def bodies(waits: Iterable[Wait]) -> dict[str, bytes]:
    """Return the bodies of the objects of waits, by key."""
    return {layout.wait_key(each.id): WAIT.encode(withheld(each)) for each in waits}


async def create(objects: Objects, waits: Iterable[Wait]) -> None:
    """Create the objects of waits; existing objects stay as they are."""
    created = (_create_one(objects, *each) for each in bodies(waits).items())
    await gather_all(created)


async def recreate_missing(objects: Objects, waits: Iterable[Wait]) -> None:
    """Create the missing objects of undecided waits, after a crash.

    Meanwhile a decider may have decided a wait and removed its object. So the decision
    is looked up again after the create, and a decided wait is not listed as open.
    """
    waits = tuple(wait for wait in waits if wait.rules.has_object)
    for_events = waits_for_events(waits)
    if for_events:
        from continuations.ledger.index import event_waiters  # noqa: PLC0415 - not to decide

        await event_waiters.create(objects, for_events)
    await create(objects, waits)
    await gather_all(_delete_if_decided(objects, wait) for wait in waits)


async def delete(objects: Objects, wait_ids: Iterable[str]) -> None:
    """Remove the objects of waits that are no longer open."""
    await gather_all(objects.delete(layout.wait_key(each)) for each in wait_ids)


async def list_open(
    objects: Objects,
    clock: StoreClock,
    after: str = "",
    kinds: frozenset[str] = PEOPLES_KINDS,
) -> AsyncIterator[list[WaitSummary]]:
    """Iterate over the open waits of the whole store in batches, from keys alone.

    Besides the pages of waits, one listing shows the deadlines that have passed.

    Args:
        objects: The store.
        clock: The store's time, to compare deadlines with.
        after: Skip waits up to and including this wait id.
        kinds: The kinds of the waits; by default those that ask a person.
    """
    rows_only = await _rows_only(objects, after, kinds)
    expired: set[str] | None = None
    async for wait_ids in _with_rows(list_ids(objects, after, kinds), rows_only):
        if expired is None:
            expired = await markers.list_expired(objects, clock)
        if not expired:
            yield WaitSummary.of_open_waits(wait_ids)
            continue
        yield [
            WaitSummary(id=wait_id, expired=wait_id.partition("-")[2] in expired)
            for wait_id in wait_ids
        ]


async def read_open(
    objects: Objects, after: str = "", kinds: frozenset[str] = PEOPLES_KINDS
) -> AsyncIterator[Wait]:
    """Iterate over the open waits of the whole store with all their fields.

    Their objects are read in parallel. A wait that is decided meanwhile is left out.
    """
    rows_only = await _rows_only(objects, after, kinds)
    async for wait_ids in _with_rows(list_ids(objects, after, kinds), rows_only):
        for group in in_batches(wait_ids):
            stored = [wait_id for wait_id in group if wait_id not in rows_only]
            bodies = await objects.read_many(list(map(layout.wait_key, stored)))
            found = dict(zip(stored, bodies, strict=True))
            for wait_id in group:
                body = found.get(wait_id)
                if wait_id in rows_only:
                    yield rows_only[wait_id]
                elif body is not None:
                    yield decode_open(wait_id, body)


async def _rows_only(
    objects: Objects, after: str, kinds: frozenset[str]
) -> Mapping[str, Wait]:
    """Return the waits of these kinds that have no object, by id in their order."""
    if all(WAIT_RULES[kind].has_object for kind in WAIT_RULES if kind in kinds):
        return {}
    from continuations.ledger.index import waits_without_object  # noqa: PLC0415 - rarely listed

    return {w.id: w for w in await waits_without_object.read_all(objects, after, kinds)}


async def _with_rows(
    pages: AsyncIterator[list[str]], rows_only: Mapping[str, Wait]
) -> AsyncIterator[list[str]]:
    """Yield the pages with the ids of waits that have no object at their places."""
    left = list(rows_only)
    async for page in pages:
        if not left or not page:
            yield page
            continue
        count = bisect(left, page[-1])
        yield sorted([*page, *left[:count]])
        del left[:count]
    if left:
        yield left


async def list_ids_of_run(objects: Objects, run_id: str) -> list[str]:
    """Return the ids of the listed waits of a run."""
    suffix = f"@{run_id}"
    return [
        wait_id
        async for wait_ids in list_ids(objects)
        for wait_id in wait_ids
        if wait_id.endswith(suffix)
    ]


async def list_ids(
    objects: Objects, after: str = "", kinds: frozenset[str] = WAIT_KINDS
) -> AsyncIterator[list[str]]:
    """Yield the ids of the listed waits of these kinds, sorted; page by page."""
    limit = objects.listing_size
    wanted = tuple(f"{kind}-" for kind in sorted(kinds))
    if not wanted:
        return
    after = max(after, wanted[0])
    while True:
        page = await objects.keys(
            layout.WAITS_PREFIX, layout.WAITS_PREFIX + after, limit
        )
        async for piece in pieces(page):
            yield layout.listed_wait_ids(piece, kinds)
        if is_last_page(page, limit):
            return
        last = page[-1][_PREFIX_LENGTH:]
        # Ids begin with their kind, so kinds that are not wanted are skipped at once.
        following = [kind for kind in wanted if kind > last or last.startswith(kind)]
        if not following:
            return
        after = max(last, following[0])


async def read(objects: Objects, wait_id: str) -> Wait | None:
    """Return a wait from its object, or `None` if the object does not exist."""
    try:
        body = await objects.read(layout.wait_key(wait_id))
    except NotFound:
        return None
    return decode_open(wait_id, body)


def decode_open(wait_id: str, body: bytes) -> Wait:
    """Return the wait that an object of the list contains; raises `Corrupt`.

    A process that lists the same waits again decodes small ones once.
    """
    is_small = len(body) <= _MAX_SMALL_BODY
    return _decode_small(wait_id, body) if is_small else _decode(wait_id, body)


def _decode(wait_id: str, body: bytes) -> Wait:
    key = layout.wait_key(wait_id)
    wait = WAIT.decode(body, key, layout.parse_wait_id(wait_id).run_id)
    if wait.id != wait_id:
        msg = (
            f"{key} is damaged: it contains wait {wait.id}. It was not changed. "
            "Restore it from a backup."
        )
        raise Corrupt(msg, wait_id=wait_id)
    return wait


# The same bytes are the same wait, whatever the store has now.
_decode_small = lru_cache(maxsize=8192)(_decode)


async def _create_one(objects: Objects, key: str, body: bytes) -> None:
    with suppress(AlreadyExists):
        await objects.create(key, body)


async def _delete_if_decided(objects: Objects, wait: Wait) -> None:
    if await objects.keys(layout.decision_key(wait.id), limit=1):
        await objects.delete(layout.wait_key(wait.id))
        if wait.event is not None:
            from continuations.ledger.index import event_waiters  # noqa: PLC0415 - see above

            await event_waiters.delete(objects, [wait])
