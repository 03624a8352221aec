"""Small runs in a store: their states, waits and objects."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from dataclasses import replace
from datetime import datetime
from typing import Any, TypeVar

from continuations.core import jsontext
from continuations.core import messages as chat_messages
from continuations.core.rows.calls import CallRow, CallState, Proposed, Unknown, Waiting
from continuations.core.rows.frames import FrameRow, MessageLog
from continuations.core.rows.run import RunRow, RunStatus
from continuations.core.rows.state import ROOT_FRAME_ID, RunState
from continuations.core.rows.wait_rules import WaitKind
from continuations.core.rows.waits import Wait
from continuations.ledger import layout
from continuations.ledger.index.waits import create
from continuations.ledger.objects import Objects
from continuations.ledger.versions import LoadedVersion, Versions
from continuations.wire.arrivals import CancelRequest, InboxMessage
from continuations_storage import MemoryStore
from continuations_storage.contract import Store
from tests.ledger.fake_clock import MOMENT, make_ulid

T = TypeVar("T")

RUN = "jane-1"
SCHEMA = (
    '{"additionalProperties":false,"properties":{"cents":{"type":"integer"},'
    '"to":{"type":"string"}},"type":"object"}'
)


def run_async(coroutine: Coroutine[Any, Any, T]) -> T:
    return asyncio.run(coroutine)


def make_wait_id(
    number: int = 1, kind: WaitKind = "approval", run_id: str = RUN
) -> str:
    return layout.build_wait_id(kind, make_ulid(number), run_id)


def make_wait(
    number: int = 1,
    kind: WaitKind = "approval",
    *,
    run_id: str = RUN,
    deadline: datetime | None = None,
) -> Wait:
    """Return a wait of call `c{number + 2}`."""
    return Wait(
        id=make_wait_id(number, kind, run_id),
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


def make_state(
    *waits: Wait, run_id: str = RUN, status: RunStatus = "suspended"
) -> RunState:
    """Return a run with open waits, or a run before its first model call."""
    calls: dict[str, CallRow] = {}
    for wait in waits:
        state: CallState = Waiting(wait.id)
        if wait.kind == "unknown":
            state = Unknown(wait.id)
        calls[wait.call_id] = CallRow(
            id=wait.call_id,
            frame_id=ROOT_FRAME_ID,
            tool=wait.tool,
            tool_call_id=f"p-{wait.call_id}",
            raw_arguments="{}",
            state=state,
            arguments=wait.arguments_json,
        )
    frame = FrameRow(
        id=ROOT_FRAME_ID, agent="hr", parent_call_id=None, open_call_ids=tuple(calls)
    )
    return RunState.from_rows(
        run=RunRow(
            id=run_id,
            run_nonce=f"birth of {run_id}",
            agent="hr",
            created_at=MOMENT,
            input_digest="0a" * 32,
            status=status,
            next_id=1000,
        ),
        manifest='{"agents":{}}',
        frames={ROOT_FRAME_ID: frame},
        calls=calls,
        waits={wait.id: wait for wait in waits},
        logs={
            ROOT_FRAME_ID: MessageLog(2, (chat_messages.user_message("Onboard Jane"),))
        },
    )


def with_message(state: RunState, text: str) -> RunState:
    """Return the run with one more message in its root frame."""
    log = state.logs[ROOT_FRAME_ID].appended(chat_messages.user_message(text))
    return replace(state, logs={**state.logs, ROOT_FRAME_ID: log})


def with_proposed_call(state: RunState, call_id: str) -> RunState:
    """Return the run with one more call of its root frame."""
    row = CallRow(
        id=call_id,
        frame_id=ROOT_FRAME_ID,
        tool="transfer",
        tool_call_id="p",
        raw_arguments='{"cents":1}',
        state=Proposed(),
    )
    frame = state.frames[ROOT_FRAME_ID]
    frame = replace(frame, open_call_ids=(*frame.open_call_ids, call_id))
    return replace(
        state,
        calls={**state.calls, call_id: row},
        frames={**state.frames, ROOT_FRAME_ID: frame},
    )


def make_objects(store: Store | None = None) -> Objects:
    """Return `Objects` over a store; by default a new store in memory."""
    return Objects(store if store is not None else MemoryStore())


async def store_suspended_run(
    objects: Objects, *waits: Wait, run_id: str = RUN, announce_waits: bool = True
) -> LoadedVersion:
    """Store a run with open waits, and the wait objects if `shown`."""
    state = make_state(*waits, run_id=run_id)
    loaded = await Versions(objects, run_id).append(None, state, at=MOMENT)
    if announce_waits:
        await create(objects, waits)
    return loaded


async def all_keys(objects: Objects, prefix: str = "") -> list[str]:
    return [key async for key in objects.all_keys(prefix)]


async def copy_object(
    store: Store, source: str, target: str, *, overwrite: bool = False
) -> None:
    """Copy an object to another key, as an attacker with access can."""
    body = await store.read(source)
    if overwrite:
        await store.delete(target)
    await store.create(target, body)


def make_inbox_message(number: int) -> InboxMessage:
    """Return an inbox message that no one has numbered."""
    message = chat_messages.user_message(f"letter {number}")
    return InboxMessage(
        id=make_ulid(number), number=0, at=MOMENT, message=message, by="kim"
    )


def make_cancel_request(number: int = 1, reason: str | None = None) -> CancelRequest:
    return CancelRequest(
        id=make_ulid(number), at=MOMENT, by=f"person {number}", reason=reason
    )
