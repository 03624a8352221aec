"""The inbox messages of a run, in dense numbers, and its cancel request."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from continuations.core.threads import is_by_same
from continuations.errors import (
    Corrupt,
    FormatError,
    InboxFull,
    InvalidInput,
    RunNotFound,
)
from continuations.ledger import inbox_limits, layout, markers
from continuations.ledger.arrivals import read_cancel_request, read_inbox_message
from continuations.ledger.objects import AlreadyExists, NotFound
from continuations.ledger.thread_keys import message_id_key
from continuations.value_class import replace
from continuations.wire.arrivals import (
    CANCEL_REQUEST,
    MESSAGE,
    MESSAGE_ID,
    CancelRequest,
    FirstNumber,
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
        last_read: Number of a message that exists for certain, or 0.

    Raises:
        InboxFull: The run has too many unread messages.
        RunNotFound: The run was erased meanwhile.
        Corrupt, FormatError: Another message cannot be read.
        StoreError: The message may or may not be posted.
    """
    number = await _next_number(objects, run_id, last_read)
    message = await inbox_limits.with_room(objects, run_id, message, last_read, number)
    return await _post_from(
        objects, run_id, message, number, last_read, nonce=message.id
    )


async def check_room(
    objects: Objects, run_id: str, message: InboxMessage, last_read: int
) -> None:
    """Raise `InboxFull` if a message cannot be posted now; nothing is written."""
    number = await _next_number(objects, run_id, last_read)
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
    key = message_id_key(run_id, message.id)
    posted = await find_posted(objects, run_id, message.id)
    if posted is not None:
        return _checked_repeat(posted, message, run_id)
    number = await _next_number(objects, run_id, last_read)
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
    try:
        await objects.create(key, MESSAGE_ID.encode(FirstNumber(number), run_id))
    except AlreadyExists:
        first = MESSAGE_ID.decode(await objects.read(key), key, run_id).number
        # Others may have posted since the listing.
        number = await _next_number(objects, run_id, last_read)
        if not 0 < first <= number:
            msg = (
                f"{key} is damaged: it says that its message has at least number "
                f"{first}, and run {run_id} has {number - 1} messages. Nothing was "
                "posted. Restore it from a backup."
            )
            raise Corrupt(msg, run_id=run_id) from None
        number = first
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
    key = message_id_key(run_id, own_id)
    try:
        MESSAGE_ID.decode(await objects.read(key), key, run_id)
    except NotFound:
        return False
    return True


async def is_posted(objects: Objects, run_id: str, own_id: str) -> bool:
    """Return whether a message with an id of its caller is posted for certain."""
    return await find_posted(objects, run_id, own_id) is not None


async def find_posted(
    objects: Objects, run_id: str, own_id: str
) -> InboxMessage | None:
    """Return the message with an id of its caller, or `None`."""
    key = message_id_key(run_id, own_id)
    try:
        first = MESSAGE_ID.decode(await objects.read(key), key, run_id).number
    except NotFound:
        return None
    return await _posted_from(objects, run_id, own_id, first)


async def _posted_from(
    objects: Objects, run_id: str, own_id: str, number: int
) -> InboxMessage | None:
    """Return the message with an id, which has a number or a later one, or `None`."""
    with suppress(NotFound):
        while number > 0:
            message = await read_inbox_message(objects, run_id, number)
            if message.id == own_id:
                return message
            number += 1
    return None


async def _post_from(
    objects: Objects,
    run_id: str,
    message: InboxMessage,
    number: int,
    last_read: int,
    *,
    nonce: str,
) -> InboxMessage:
    while True:
        marker = markers.for_inbox_message(run_id, number, nonce)
        posted = replace(message, number=number, marker=marker.key)
        await markers.create(objects, marker)
        try:
            await objects.create(
                layout.numbered_key(layout.MESSAGE, run_id, number),
                MESSAGE.encode(posted, run_id),
            )
        except AlreadyExists:
            existing = await _read_existing_message(objects, run_id, number, marker.key)
            if existing.marker != marker.key:
                await objects.delete(marker.key)
            if existing.id == message.id:
                return existing
            if number > last_read:
                message = inbox_limits.behind(message, existing)
                inbox_limits.check_room(run_id, message, number - last_read)
            number += 1
        else:
            return posted


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


async def _read_existing_message(
    objects: Objects, run_id: str, number: int, marker_key: str
) -> InboxMessage:
    try:
        return await read_inbox_message(objects, run_id, number)
    except NotFound:
        await objects.delete(marker_key)
        msg = f"The message to run {run_id} was not sent: the run was erased meanwhile."
        raise RunNotFound(msg, run_id=run_id) from None
    except FormatError:
        await objects.delete(marker_key)
        raise


async def _next_number(objects: Objects, run_id: str, last_read: int) -> int:
    next_key = layout.numbered_key(layout.MESSAGE, run_id, last_read + 1)
    if objects.lists_whole_folders and not await objects.exists(next_key):
        return last_read + 1  # the numbers are dense
    prefix = layout.arrivals_prefix(run_id) + f"{layout.MESSAGE}-"
    after = layout.numbered_key(layout.MESSAGE, run_id, last_read) if last_read else ""
    last = last_read
    async for key in objects.all_keys(prefix, after):
        last = layout.number_in(layout.MESSAGE, key) or last
    return last + 1
