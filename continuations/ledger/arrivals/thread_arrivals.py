"""The keys of the new arrivals of a thread, without a listing of the old ones.

A thread keeps all its arrivals: messages, decisions, signals. The newest version knows
which of them it has taken in, so the next ones are read by their numbers.
"""

from __future__ import annotations

from asyncio import gather
from typing import TYPE_CHECKING, Any

from continuations.core.rows.state import early_wait_ulids
from continuations.ledger import layout
from continuations.ledger.arrivals import arrival_logs

if TYPE_CHECKING:
    from continuations.core.rows.run import RunRow
    from continuations.core.rows.state import RunState
    from continuations.ledger.arrivals.arrival_logs import ArrivalLog
    from continuations.ledger.objects import Objects

_PAGE_LIMIT = 100


async def list_new_keys(objects: Objects, state: RunState) -> tuple[str, ...]:
    """Return the keys of the arrivals that a thread may not have taken in."""
    run = state.run
    logs: list[ArrivalLog[Any]] = [arrival_logs.SIGNALS]
    if run.grants or state.waits:  # the decision of a wait may give a grant
        logs.append(arrival_logs.REVOCATIONS)
    slots = [wait for wait in state.waits.values() if wait.has_slots]
    wait_ids = [*state.waits, *_ids_known_early(state)]
    found = await gather(
        _late_keys(objects, state),
        *(_if_exists(objects, layout.decision_key(each)) for each in wait_ids),
        *(_new_keys(objects, log, run) for log in logs),
        *(_all_keys(objects, layout.slots_prefix(wait.id)) for wait in slots),
    )
    return tuple(key for keys in found for key in keys)


def _ids_known_early(state: RunState) -> list[str]:
    """Return the ids of waits that another system can answer before they are opened."""
    calls = early_wait_ulids(state).values()
    return [layout.known_wait_id(state.run, call) for call in calls]


async def _late_keys(objects: Objects, state: RunState) -> list[str]:
    """Return the keys of unread messages, of new requests, and of a cancel request.

    They sort between the last message that was read and the versions. The requests that
    the thread has taken in stand among them, and are passed over in one step.
    """
    run = state.run
    if objects.lists_whole_folders:
        return await next_late_keys(objects, run)
    prefix, arrivals = layout.run_prefix(run.id), layout.arrivals_prefix(run.id)
    first = arrival_logs.REQUESTS.key(run.id, 0)
    taken = arrival_logs.REQUESTS.key(run.id, run.last_operator_number)
    after = arrival_logs.MESSAGES.key(run.id, run.last_inbox_number)
    keys: list[str] = []
    while True:
        page = await objects.keys(prefix, after, _PAGE_LIMIT)
        late = [key for key in page if key.startswith(arrivals)]
        keys += [key for key in late if not first < key <= taken]
        if len(late) < _PAGE_LIMIT:
            return keys
        after = max(late[-1], taken) if late[-1] > first else late[-1]


async def next_late_keys(objects: Objects, run: RunRow) -> list[str]:
    """Return the keys of `_late_keys`, found by their numbers and not by a listing."""
    found = await gather(
        _new_keys(objects, arrival_logs.MESSAGES, run),
        _new_keys(objects, arrival_logs.REQUESTS, run),
        _if_exists(objects, layout.cancel_request_key(run.id)),
    )
    return [key for keys in found for key in keys]


async def _new_keys(objects: Objects, log: ArrivalLog[Any], run: RunRow) -> list[str]:
    """Return the keys of new arrivals; they are dense, so the next number tells."""
    keys: list[str] = []
    while True:
        key = log.key(run.id, log.last_taken(run) + 1 + len(keys))
        if not await objects.exists(key):
            return keys
        keys.append(key)


async def _if_exists(objects: Objects, key: str) -> list[str]:
    return [key] if await objects.exists(key) else []


async def _all_keys(objects: Objects, prefix: str) -> list[str]:
    return [key async for key in objects.all_keys(prefix)]
