"""How a run stands in the store: whether it can move, and what its version names."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

from continuations.authoring import callables
from continuations.core.calls import Started
from continuations.core.plan import plan
from continuations.core.run import ENDED_STATUSES
from continuations.engine.run_loop import with_messages
from continuations.ledger import layout, markers, waits
from continuations.ledger.objects import AlreadyExists

if TYPE_CHECKING:
    from collections.abc import Iterable

    from continuations.core.state import RunState
    from continuations.core.waits import Wait
    from continuations.engine.ports import Notify
    from continuations.ledger.arrivals import Arrivals
    from continuations.ledger.objects import Objects

_log = logging.getLogger("continuations")


def arrivals_unblock(state: RunState, arrived: Arrivals) -> bool:
    """Tell whether arrivals can move a run that stands in the store."""
    if state.run.status in ENDED_STATUSES:
        return False
    open_waits = state.waits.keys() & arrived.decisions.keys()
    can_hear = with_messages(state, arrived.inbox_messages) is not state
    return bool(open_waits) or can_hear or arrived.cancel_request is not None


def is_runnable(state: RunState) -> bool:
    """Tell whether there is anything to do that waits for nobody."""
    return state.run.status not in ENDED_STATUSES and bool(plan(state))


def needs_worker(state: RunState) -> bool:
    """Tell whether a run can move without anybody: its worker died or gave up."""
    started = any(isinstance(call.state, Started) for call in state.calls.values())
    running = state.run.status == "running"
    return is_runnable(state) or (
        state.run.status not in ENDED_STATUSES and (running or started)
    )


def deadline_key(wait: Wait) -> str:
    """Return the key of the marker of a wait's deadline, empty if it has none."""
    if wait.deadline is None:
        return ""
    name = layout.parse_wait_id(wait.id)
    return markers.for_deadline(wait.id, wait.deadline, name.ulid).key


async def notify_waits(notify: Notify | None, new_waits: Iterable[Wait]) -> None:
    """Tell of waits that are kept, of all at once; what that raises loses nothing."""

    async def notify_one(notify: Notify, wait: Wait) -> None:
        try:
            await callables.call(notify, wait)
        except BaseException as error:
            if callables.is_task_cancellation(error):
                raise
            _log.exception("wait %s is kept, but nobody was told of it", wait.id)

    if notify is not None:
        await asyncio.gather(*(notify_one(notify, wait) for wait in new_waits))


async def publish_waits(objects: Objects, new_waits: Iterable[Wait]) -> None:
    """Make the markers of deadlines and the objects of waits that a version names."""
    new_waits = tuple(new_waits)
    for wait in new_waits:
        key = deadline_key(wait)
        if not key:
            continue
        try:
            await objects.create(key, b"")
        except AlreadyExists:
            continue
    await waits.create(objects, new_waits)
