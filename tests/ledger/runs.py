"""Small runs in a store: their tables, their waits, and how to put them there."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeVar

from continuations.core import jsontext
from continuations.core import messages as said
from continuations.core.calls import CallRow, Proposed, State, Unknown, Waiting
from continuations.core.frames import FrameRow, Log
from continuations.core.run import RunRow
from continuations.core.table import ROOT, Table
from continuations.core.waits import Wait, WaitKind
from continuations.ledger import layout
from continuations.ledger.objects import Objects
from continuations.ledger.versions import Versions
from continuations.ledger.waits import announce
from continuations_storage import MemoryStore
from tests.ledger.machine import MOMENT, ulid_of

if TYPE_CHECKING:
    from collections.abc import Coroutine
    from datetime import datetime

    from continuations.core.run import Status
    from continuations.ledger.versions import Loaded
    from continuations_storage.contract import Store

T = TypeVar("T")

RUN = "jane-1"
SCHEMA = (
    '{"additionalProperties":false,"properties":{"cents":{"type":"integer"},'
    '"to":{"type":"string"}},"type":"object"}'
)


def does(body: Coroutine[Any, Any, T]) -> T:
    """Return what a coroutine returns."""
    return asyncio.run(body)


def wait_id(number: int = 1, kind: WaitKind = "approval", run_id: str = RUN) -> str:
    """Return the id of a wait."""
    return layout.wait_id(kind, ulid_of(number), run_id)


def a_wait(
    number: int = 1,
    kind: WaitKind = "approval",
    *,
    run_id: str = RUN,
    deadline: datetime | None = None,
) -> Wait:
    """Return a wait of call `c{number + 2}`."""
    return Wait(
        id=wait_id(number, kind, run_id),
        run_id=run_id,
        call_id=f"c{number + 2}",
        kind=kind,
        path=("hr", "transfer"),
        tool="transfer",
        arguments_json='{"cents":500,"to":"jane"}',
        schema_json=SCHEMA,
        digest=jsontext.digest(run_id, str(number)),
        created_at=MOMENT,
        deadline=deadline,
    )


def a_table(*waits: Wait, run_id: str = RUN, status: Status = "suspended") -> Table:
    """Return a run that stands at some waits, or one that is about to ask."""
    calls: dict[str, CallRow] = {}
    for wait in waits:
        state: State = Waiting(wait.id)
        if wait.kind == "unknown":
            state = Unknown(wait.id)
        calls[wait.call_id] = CallRow(
            id=wait.call_id,
            frame=ROOT,
            tool=wait.tool,
            provider_id=f"p-{wait.call_id}",
            written="{}",
            state=state,
            arguments=wait.arguments_json,
        )
    frame = FrameRow(id=ROOT, agent="hr", call=None, open=tuple(calls))
    return Table.of(
        run=RunRow(
            id=run_id,
            birth=f"birth of {run_id}",
            agent="hr",
            created_at=MOMENT,
            input_digest="0a" * 32,
            status=status,
            next_id=1000,
        ),
        manifest='{"agents":{}}',
        frames={ROOT: frame},
        calls=calls,
        waits={wait.id: wait for wait in waits},
        logs={ROOT: Log(2, (said.user("Onboard Jane"),))},
    )


def said_more(table: Table, text: str) -> Table:
    """Return the run with one more message in its root frame."""
    log = table.logs[ROOT].appended(said.user(text))
    return replace(table, logs={**table.logs, ROOT: log})


def proposed(table: Table, call_id: str) -> Table:
    """Return the run with one more call of its root frame."""
    row = CallRow(
        id=call_id,
        frame=ROOT,
        tool="transfer",
        provider_id="p",
        written='{"cents":1}',
        state=Proposed(),
    )
    frame = table.frames[ROOT]
    frame = replace(frame, open=(*frame.open, call_id))
    return replace(
        table,
        calls={**table.calls, call_id: row},
        frames={**table.frames, ROOT: frame},
    )


def objects(store: Store | None = None) -> Objects:
    """Return the ledger's view of a store, by default a new one in memory."""
    return Objects(store if store is not None else MemoryStore())


async def suspended_at(
    place: Objects, *waits: Wait, run_id: str = RUN, shown: bool = True
) -> Loaded:
    """Put a run that stands at waits into a store, and their objects if `shown`."""
    table = a_table(*waits, run_id=run_id)
    loaded = await Versions(place, run_id).append(None, table, at=MOMENT)
    if shown:
        await announce(place, waits)
    return loaded


async def keys(place: Objects, prefix: str = "") -> list[str]:
    """Return every key of a prefix."""
    return [key async for key in place.all_keys(prefix)]


async def moved(store: Store, source: str, target: str, *, over: bool = False) -> None:
    """Copy an object's bytes to another key, as somebody with access could."""
    body = await store.read(source)
    if over:
        await store.delete(target)
    await store.create(target, body)
