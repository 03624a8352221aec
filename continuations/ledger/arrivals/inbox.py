"""The inbox messages of a run, in dense numbers, and its cancel request."""

from __future__ import annotations

from asyncio import gather
from typing import TYPE_CHECKING

from continuations.core.changes.threads import is_by_same
from continuations.errors import FormatError, InboxFull, InvalidInput, RunNotFound
from continuations.ledger import layout, markers
from continuations.ledger.arrivals.arrival_logs import MESSAGES
from continuations.ledger.arrivals.arrivals import read_cancel_request
from continuations.ledger.objects import AlreadyExists, NotFound
from continuations.value_class import replace
from continuations.wire.arrivals import (
    CANCEL_REQUEST,
    CancelRequest,
    InboxMessage,
)

if TYPE_CHECKING:
    from continuations.ledger.objects import Objects

MAX_UNREAD_MESSAGES = 1_000
MAX_UNREAD_BYTES = 16 * 2**20


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
    message = await _with_room(objects, run_id, message, last_read, number)
    return await _post_from(
        objects, run_id, message, number, last_read, nonce=message.id
    )


async def check_room(
    objects: Objects, run_id: str, message: InboxMessage, last_read: int
) -> None:
    """Raise `InboxFull` if a message cannot be posted now; nothing is written."""
    number = await MESSAGES.next_number(objects, run_id, last_read)
    await _with_room(objects, run_id, message, last_read, number)


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
    posted = await MESSAGES.find(objects, run_id, message.id)
    if posted is not None:
        return _checked_repeat(posted, message, run_id)
    number = await MESSAGES.next_number(objects, run_id, last_read)
    try:
        message = await _with_room(objects, run_id, message, last_read, number)
    except InboxFull:
        # Another process may have posted it since the first look.
        posted = await MESSAGES.find(objects, run_id, message.id)
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
    return await MESSAGES.find(objects, run_id, own_id) is not None


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
            message = _behind(message, existing)
            unread = existing.number - last_read
            _check_unread(run_id, message, unread)
        return message

    return await MESSAGES.append(
        objects, run_id, message, number, nonce=nonce, behind=behind
    )


# Unread messages ------------------------------------------------------------------
# Each message tells how many bytes the run had not read when it was posted. So a sender
# reads the newest unread message and the oldest one, and not those between them.


async def _with_room(
    objects: Objects, run_id: str, message: InboxMessage, last_read: int, number: int
) -> InboxMessage:
    """Return a message with the bytes that are unread before it.

    Without an unread message this costs no request, else one or two reads.

    Args:
        objects: The store.
        run_id: Id of the run.
        message: The message that would be posted.
        last_read: Number of the last message that the run has read.
        number: The number that the message would have.

    Raises:
        InboxFull: With the message, the run would have too many unread ones.
        RunNotFound: The run was erased meanwhile.
    """
    unread = number - 1 - last_read
    if unread > 0:
        before = await _unread_bytes(objects, run_id, last_read + 1, number - 1)
        message = replace(message, unread_bytes=before)
    _check_unread(run_id, message, unread)
    return message


def _behind(message: InboxMessage, existing: InboxMessage) -> InboxMessage:
    """Return a message that another one came before at the same time."""
    return replace(message, unread_bytes=existing.unread_bytes + existing.size)


def _check_unread(run_id: str, message: InboxMessage, unread: int) -> None:
    """Raise `InboxFull` if a run has too many unread messages for another one."""
    if message.closes:
        return  # the thread ends, so no message follows
    in_all = message.unread_bytes + message.size
    if unread >= MAX_UNREAD_MESSAGES:
        why = f"it has {unread} unread messages, and {MAX_UNREAD_MESSAGES} are allowed"
    elif in_all > MAX_UNREAD_BYTES:
        why = (
            f"its unread messages would have {in_all} bytes together, and "
            f"{MAX_UNREAD_BYTES} are allowed"
        )
    else:
        return
    msg = (
        f"The message was not sent to run {run_id}: {why}. Let the run read them "
        "first: resume it, or decide what it waits for. Send large data as attachments."
    )
    raise InboxFull(msg, run_id=run_id)


async def _unread_bytes(objects: Objects, run_id: str, first: int, last: int) -> int:
    """Return the bytes of the messages with these numbers and those between them."""
    numbers = {first, last}
    try:
        read = await gather(
            *(MESSAGES.read(objects, run_id, number) for number in sorted(numbers))
        )
    except FormatError:
        return 0  # a message that cannot be read keeps no sender out
    except NotFound:
        msg = f"The message to run {run_id} was not sent: the run was erased meanwhile."
        raise RunNotFound(msg, run_id=run_id) from None
    oldest, newest = read[0], read[-1]
    in_all = newest.unread_bytes + newest.size
    # The newest one counts from a later message if its sender knew that the run had
    # read the oldest one.
    return in_all - oldest.unread_bytes if in_all > oldest.unread_bytes else in_all


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
