"""The golden objects of threads: states, version headers, messages and requests."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from continuations.core.delta import diff
from continuations.core.events import ThreadClosed, TurnInterrupted, TurnStopping
from continuations.core.messages import user_message
from continuations.core.operator_request import OperatorRequest
from continuations.core.state import ROOT_FRAME_ID
from continuations.wire.arrivals import (
    MESSAGE,
    MESSAGE_ID,
    OPERATOR_REQUEST,
    SIGNAL_ID,
    FirstNumber,
    InboxMessage,
)
from continuations.wire.continuation import Continuation
from continuations.wire.versions import VersionHeader, VersionObject, encode_version
from tests.core.rows import (
    MOMENT,
    RUN,
    apply_events,
    approval_requested_event,
    reply_with_calls,
    reply_with_text,
)
from tests.core.thread_rows import new_thread, posted

if TYPE_CHECKING:
    from continuations.core.state import RunState

ODD_TEXT = "caf\u00e9 \u2028 \x00 \u202e \ud800"


def resting_thread() -> RunState:
    """Return a thread that rests after its first reply."""
    state = apply_events(
        new_thread(key=ODD_TEXT), posted(1, "one", by="ann"), reply_with_text("1: one")
    )
    return replace(state, run=replace(state.run, status="resting"))


def busy_thread() -> RunState:
    """Return a thread that answers its second message, and waits for an approval."""
    state = apply_events(
        resting_thread(), posted(2, "pay", by=ODD_TEXT), reply_with_calls("transfer")
    )
    [call_id] = state.frames[ROOT_FRAME_ID].open_call_ids
    state = apply_events(state, approval_requested_event(call_id))
    return replace(state, run=replace(state.run, status="suspended"))


def stopping_thread() -> RunState:
    """Return a thread whose turn is being stopped."""
    return apply_events(busy_thread(), TurnStopping(reason=ODD_TEXT))


def interrupted_thread() -> RunState:
    """Return a thread that reads message 3 before it asks its model."""
    return apply_events(busy_thread(), TurnInterrupted(number=3))


def closed_thread() -> RunState:
    """Return a thread that was closed after a reply."""
    return apply_events(resting_thread(), ThreadClosed(number=2))


def _version(state: RunState) -> VersionObject:
    header = VersionHeader(
        run_id=RUN,
        number=1,
        root=1,
        base=0,
        base_digest=None,
        status=state.run.status,
        at=MOMENT,
        claimed_until=None,
        markers=(),
        inbox=state.run.last_inbox_number,
        answered=state.run.answered,
    )
    return VersionObject(header, diff(None, state), b"")


def _message(number: int) -> InboxMessage:
    return InboxMessage(
        id="id:message-7",
        number=number,
        at=MOMENT,
        message=user_message(ODD_TEXT),
        by="ann",
        marker="due/1",
    )


def thread_objects() -> dict[str, tuple[bytes, object]]:
    """Return the bytes and the value of each object, by its name."""
    objects: dict[str, tuple[bytes, object]] = {}
    states = (resting_thread, busy_thread, stopping_thread, interrupted_thread)
    for make in (*states, closed_thread):
        continuation = Continuation(make(), 12)
        objects[make.__name__] = (continuation.to_bytes(), continuation)
    for name, state in (
        ("version-resting", resting_thread()),
        ("version-answering", busy_thread()),
    ):
        version = _version(state)
        objects[name] = (encode_version(version.header, version.delta), version)
    for name, message in (
        ("message-merge", replace(_message(3), when_busy="merge")),
        ("message-interrupt", replace(_message(4), when_busy="interrupt")),
        ("message-closes", replace(_message(5), closes=True)),
        ("message-behind-unread", replace(_message(6), unread_bytes=70_000)),
    ):
        objects[name] = (MESSAGE.encode(message, RUN), message)
    objects["message-id"] = (MESSAGE_ID.encode(FirstNumber(5), RUN), 5)
    objects["signal-id"] = (SIGNAL_ID.encode(FirstNumber(7), RUN), 7)
    version = _version(resting_thread())
    version = replace(version, header=replace(version.header, replies=(3, 0, 9)))
    objects["version-replies"] = (
        encode_version(version.header, version.delta),
        version,
    )
    stop = OperatorRequest(
        id="01asked",
        number=3,
        at=MOMENT,
        action="stop",
        message_number=2,
        by="kim",
        reason=ODD_TEXT,
    )
    interrupt = replace(stop, action="interrupt", message_number=3, reason=None)
    drop = replace(
        stop, action="drop", message_number=0, signal_name=ODD_TEXT, signal_number=9
    )
    for request in (stop, interrupt, drop):
        data = OPERATOR_REQUEST.encode(request, RUN)
        objects[f"operator-request-{request.action}"] = (data, request)
    return objects
