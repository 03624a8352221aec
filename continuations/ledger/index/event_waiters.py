"""The index of the waits for published events: one object for each open wait.

The object is created before the version that opens the wait, and contains the wait with
masked secrets. So a publisher that lists the objects finds every open wait, and can end
it. The object is deleted once the wait has its decision, before the version that closes
the wait.
"""

from __future__ import annotations

import logging
from asyncio import gather
from typing import TYPE_CHECKING

from continuations.core.rows.waits import waits_for_events, withheld
from continuations.errors import Corrupt, StoreError
from continuations.ledger import event_keys, layout
from continuations.ledger.objects import AlreadyExists, NotFound
from continuations.wire.records import WAIT

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterable

    from continuations.core.rows.waits import Wait
    from continuations.ledger.objects import Objects

_log = logging.getLogger("continuations")


async def create(objects: Objects, waits: Iterable[Wait]) -> None:
    """Let publishers find waits; other kinds of waits are left out."""
    await gather(*(_create_one(objects, wait) for wait in waits_for_events(waits)))


async def delete(objects: Objects, waits: Iterable[Wait]) -> None:
    """Let publishers find waits no more, because they have their decisions."""
    keys = map(event_keys.waiter_key, waits_for_events(waits))
    await gather(*(objects.delete(key) for key in keys))


async def delete_if_possible(objects: Objects, waits: Iterable[Wait]) -> None:
    """Delete as `delete` does; log an error, because the next publisher does it too."""
    try:
        await delete(objects, waits)
    except StoreError as error:
        _log.warning("decided waits are still listed for their events: %s", error)


async def listed(objects: Objects, topic: str) -> AsyncIterator[str]:
    """Iterate over the keys of the waits of a topic, page by page."""
    async for key in objects.all_keys(event_keys.waiters_prefix(topic)):
        if event_keys.waiter_in(key) is not None:
            yield key


async def read(objects: Objects, key: str) -> Wait | None:
    """Return the wait under a key; `None` if it was decided and deleted meanwhile.

    Raises:
        Corrupt, FormatError: The object is damaged or has a newer format.
        StoreError: The store failed.
    """
    wait_id = event_keys.waiter_in(key) or ""
    try:
        body = await objects.read(key)
    except NotFound:
        return None
    wait = WAIT.decode(body, key, layout.parse_wait_id(wait_id).run_id)
    takes_events = wait.id == wait_id and bool(waits_for_events([wait]))
    if not takes_events or event_keys.waiter_key(wait) != key:
        msg = (
            f"{key} is damaged: it contains another wait. It was not changed. Delete "
            "it; a sweep or resume of its run creates it again."
        )
        raise Corrupt(msg, wait_id=wait_id)
    return wait


async def _create_one(objects: Objects, wait: Wait) -> None:
    try:
        await objects.create(event_keys.waiter_key(wait), WAIT.encode(withheld(wait)))
    except AlreadyExists:
        return
