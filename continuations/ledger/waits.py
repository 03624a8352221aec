"""Wait objects: the open waits of a committed version, for deciders.

They follow from the version, so any process can create them again. After a crash, the
list of open waits may be incomplete; `decide` and `look` are not affected.
"""

from __future__ import annotations

from asyncio import gather
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from continuations.core.waits import WaitSummary
from continuations.errors import Corrupt, WaitNotFound
from continuations.ledger import layout
from continuations.ledger.objects import AlreadyExists, NotFound
from continuations.wire.records import decode_wait, encode_wait

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterable

    from continuations.core.waits import Wait
    from continuations.ledger.objects import Objects

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


async def create(objects: Objects, waits: Iterable[Wait]) -> None:
    """Create the objects of waits; existing objects stay as they are."""
    await gather(*(_create_one(objects, wait) for wait in waits))


async def recreate_missing(objects: Objects, waits: Iterable[Wait]) -> None:
    """Create the missing objects of undecided waits, after a crash.

    Meanwhile a decider may have decided a wait and removed its object. So the decision
    is looked up again after the create, and a decided wait is not listed as open.
    """
    waits = tuple(waits)
    await create(objects, waits)
    await gather(*(_delete_if_decided(objects, wait) for wait in waits))


async def delete(objects: Objects, wait_ids: Iterable[str]) -> None:
    """Remove the objects of waits that are no longer open."""
    await gather(*(objects.delete(layout.wait_key(wait_id)) for wait_id in wait_ids))


async def list_open(objects: Objects, after: str = "") -> AsyncIterator[WaitSummary]:
    """Iterate over the open waits of the whole store, from keys alone.

    Args:
        objects: The store.
        after: Skip waits up to and including this wait id.
    """
    async for key in objects.all_keys(layout.WAITS_PREFIX, layout.WAITS_PREFIX + after):
        wait_id = key.removeprefix(layout.WAITS_PREFIX)
        try:
            name = layout.parse_wait_id(wait_id)
        except WaitNotFound:
            continue
        since = _EPOCH + timedelta(milliseconds=name.opened_ms)
        yield WaitSummary(
            id=wait_id, run_id=name.run_id, kind=name.kind, created_at=since
        )


async def read(objects: Objects, wait_id: str) -> Wait | None:
    """Return a wait from its object, or `None` if the object does not exist."""
    name = layout.parse_wait_id(wait_id)
    key = layout.wait_key(wait_id)
    try:
        wait = decode_wait(await objects.read(key), key, name.run_id)
    except NotFound:
        return None
    if wait.id != wait_id:
        msg = (
            f"{key} is damaged: it contains wait {wait.id}. It was not changed. "
            "Restore it from a backup."
        )
        raise Corrupt(msg, wait_id=wait_id)
    return wait


async def _create_one(objects: Objects, wait: Wait) -> None:
    try:
        await objects.create(layout.wait_key(wait.id), encode_wait(wait))
    except AlreadyExists:
        return


async def _delete_if_decided(objects: Objects, wait: Wait) -> None:
    if await objects.keys(layout.decision_key(wait.id), limit=1):
        await objects.delete(layout.wait_key(wait.id))
