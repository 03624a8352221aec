"""The inbox messages of a run, in dense numbers, and its cancel request."""

from __future__ import annotations

from typing import TYPE_CHECKING

from continuations.core.changes.threads import is_by_same
from continuations.errors import (
    InboxFull,
    InvalidInput,
    RunNotFound,
)
from continuations.ledger import layout, markers
from continuations.ledger.arrivals import inbox_limits
from continuations.ledger.arrivals.arrival_logs import MESSAGES
from continuations.ledger.arrivals.arrivals import read_cancel_request
from continuations.ledger.objects import AlreadyExists
from continuations.value_class import replace
from continuations.wire.arrivals import (
    CANCEL_REQUEST,
    CancelRequest,
    InboxMessage,
)

if TYPE_CHECKING:
    from continuations.ledger.objects import Objects


async def post(
    objects: Objects, run_id: str, message: InboxMessage, last_read: int = 0
) -> InboxMessage:
    """Create an inbox message under the next free number; return it with its number.

    A crash leaves the message posted, with a marker that is due, or not posted.

    Args:
        objects: The store.
        run_id: Id of the run.
        message: The message, whose number is not known yet.
        last_read: Number of the last message that the run has read, or 0. The limits
            count from it.

    Raises:
        InboxFull: The run has too many unread messages.
        RunNotFound: The run was erased meanwhile.
        Corrupt, FormatError: Another message cannot be read.
        StoreError: The message may or may not be posted.
    """
    number = await MESSAGES.next_number(objects, run_id, last_read)
    message = await inbox_limits.with_room(objects, run_id, message, last_read, number)
    return await _post_from(
        objects, run_id, message, number, last_read, nonce=message.id
    )


async def check_room(
    objects: Objects, run_id: str, message: InboxMessage, last_read: int
) -> None:
    """Raise `InboxFull` if a message cannot be posted now; nothing is written."""
    number = await MESSAGES.next_number(objects, run_id, last_read)
    await inbox_limits.with_room(objects, run_id, message, last_read, number)


async def post_once(
    objects: Objects, run_id: str, message: InboxMessage, last_read: int, nonce: str
) -> InboxMessage:
    """Create an inbox message whose id the caller chose, unless it was posted before.

    An object keeps the lowest number that the message can have. Every repeat begins
    there, so all of them meet the message that was posted. `nonce` is new random text.

    Raises:
        InvalidInput: A message with this id has another text or sender.
        InboxFull: The run has too many unread messages, and this one is new.
        RunNotFound: The run was erased meanwhile.
        Corrupt, FormatError: Another message cannot be read.
        StoreError: The message may or may not be posted.
    """
    posted = await find_posted(objects, run_id, message.id)
    if posted is not None:
        return _checked_repeat(posted, message, run_id)
    number = await MESSAGES.next_number(objects, run_id, last_read)
    try:
        message = await inbox_limits.with_room(
            objects, run_id, message, last_read, number
        )
    except InboxFull:
        # Another process may have posted it since the first look.
        posted = await find_posted(objects, run_id, message.id)
        if posted is None:
            raise
        return _checked_repeat(posted, message, run_id)
    number = await MESSAGES.keep_lowest(
        objects, run_id, message.id, number, taken=last_read
    )
    posted = await _post_from(objects, run_id, message, number, last_read, nonce=nonce)
    return _checked_repeat(posted, message, run_id)


def _checked_repeat(
    posted: InboxMessage, message: InboxMessage, run_id: str
) -> InboxMessage:
    """Return a posted message; raises `InvalidInput` if its id has another text."""
    if posted.message != message.message or not is_by_same(posted.by, message.by):
        msg = (
            f"The message was not sent to {run_id}: its id names message "
            f"{posted.number}, which has another text or sender. Use a new id."
        )
        raise InvalidInput(msg, run_id=run_id)
    return posted


async def has_id(objects: Objects, run_id: str, own_id: str) -> bool:
    """Return whether a message with an id of its caller was posted, or is being."""
    return await MESSAGES.lowest_number(objects, run_id, own_id) is not None


async def is_posted(objects: Objects, run_id: str, own_id: str) -> bool:
    """Return whether a message with an id of its caller is posted for certain."""
    return await find_posted(objects, run_id, own_id) is not None


async def find_posted(
    objects: Objects, run_id: str, own_id: str
) -> InboxMessage | None:
    """Return the message with an id of its caller, or `None`."""
    return await MESSAGES.find(objects, run_id, own_id)


async def _post_from(
    objects: Objects,
    run_id: str,
    message: InboxMessage,
    number: int,
    last_read: int,
    *,
    nonce: str,
) -> InboxMessage:
    def behind(message: InboxMessage, existing: InboxMessage) -> InboxMessage:
        if existing.number > last_read:
            message = inbox_limits.behind(message, existing)
            unread = existing.number - last_read
            inbox_limits.check_room(run_id, message, unread)
        return message

    return await MESSAGES.append(
        objects, run_id, message, number, nonce=nonce, behind=behind
    )


async def record_cancel_request(
    objects: Objects, run_id: str, request: CancelRequest
) -> CancelRequest:
    """Record a cancel request; return the first one that was recorded.

    A crash leaves the request recorded, with a marker that is due, or not recorded.

    Raises:
        RunNotFound: The run was erased meanwhile.
        StoreError: The request may or may not be recorded.
    """
    marker = markers.for_cancel_request(run_id, request.id)
    request = replace(request, marker=marker.key)
    await markers.create(objects, marker)
    try:
        await objects.create(
            layout.cancel_request_key(run_id), CANCEL_REQUEST.encode(request, run_id)
        )
    except AlreadyExists:
        first = await read_cancel_request(objects, run_id)
        if first is None:
            await objects.delete(marker.key)
            msg = f"run {run_id} was not cancelled: it was erased meanwhile."
            raise RunNotFound(msg, run_id=run_id) from None
        if first.marker != marker.key:
            await objects.delete(marker.key)
        return first
    return request
