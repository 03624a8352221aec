"""How a run stands in the store: whether it can move, and what its version names."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

from continuations.authoring import calling
from continuations.core.calls import Started
from continuations.core.plan import plan
from continuations.core.run import ENDED
from continuations.engine.drive import heard
from continuations.ledger import layout, markers, waits
from continuations.ledger.objects import AlreadyExists

if TYPE_CHECKING:
    from collections.abc import Iterable

    from continuations.core.table import Table
    from continuations.core.waits import Wait
    from continuations.engine.ports import Notify
    from continuations.ledger.arrivals import Arrivals
    from continuations.ledger.objects import Objects

_log = logging.getLogger("continuations")


def wakes(table: Table, arrived: Arrivals) -> bool:
    """Tell whether arrivals can move a run that stands in the store."""
    if table.run.status in ENDED:
        return False
    open_waits = table.waits.keys() & arrived.decisions.keys()
    can_hear = heard(table, arrived.letters) is not table
    return bool(open_waits) or can_hear or arrived.cancellation is not None


def can_go_on(table: Table) -> bool:
    """Tell whether there is anything to do that waits for nobody."""
    return table.run.status not in ENDED and bool(plan(table))


def abandoned(table: Table) -> bool:
    """Tell whether a run can move without anybody: its worker died or gave up."""
    started = any(isinstance(call.state, Started) for call in table.calls.values())
    running = table.run.status == "running"
    return can_go_on(table) or (table.run.status not in ENDED and (running or started))


def deadline_key(wait: Wait) -> str:
    """Return the key of the marker of a wait's deadline, empty if it has none."""
    if wait.deadline is None:
        return ""
    name = layout.parse_wait_id(wait.id)
    return markers.of_deadline(wait.id, wait.deadline, name.ulid).key


async def tell(notify: Notify | None, new: Iterable[Wait]) -> None:
    """Tell of waits that are kept, of all at once; what that raises loses nothing."""

    async def one(notify: Notify, wait: Wait) -> None:
        try:
            await calling.call(notify, wait)
        except BaseException as error:
            if calling.is_ours(error):
                raise
            _log.exception("wait %s is kept, but nobody was told of it", wait.id)

    if notify is not None:
        await asyncio.gather(*(one(notify, wait) for wait in new))


async def publish(objects: Objects, new: Iterable[Wait]) -> None:
    """Make the markers of deadlines and the objects of waits that a version names."""
    new = tuple(new)
    for wait in new:
        key = deadline_key(wait)
        if not key:
            continue
        try:
            await objects.create(key, b"")
        except AlreadyExists:
            continue
    await waits.announce(objects, new)
