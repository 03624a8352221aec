"""Messages to a run, in dense numbers, and the wish to cancel it."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from continuations.errors import FormatError, RunNotFound
from continuations.ledger import layout, markers
from continuations.ledger.arrivals import read_cancel_request, read_inbox_message
from continuations.ledger.objects import AlreadyExists, NotFound
from continuations.wire.records import (
    CancelRequest,
    InboxMessage,
    encode_cancel_request,
    encode_inbox_message,
)

if TYPE_CHECKING:
    from continuations.ledger.objects import Objects


async def post(objects: Objects, run_id: str, message: InboxMessage) -> InboxMessage:
    """Put a message under the next free number; returns it with that number.

    A crash leaves it posted, with a marker due now, or not posted at all.
    """
    number = await _next_number(objects, run_id)
    while True:
        marker = markers.for_inbox_message(run_id, number, message.at, message.id)
        posted = replace(message, number=number, marker=marker.key)
        await markers.create(objects, marker)
        try:
            await objects.create(
                layout.inbox_message_key(run_id, number),
                encode_inbox_message(posted, run_id),
            )
        except AlreadyExists:
            there = await _read_existing_message(objects, run_id, number, marker.key)
            if there.id == message.id:
                return there
            await objects.delete(marker.key)
            number += 1
        else:
            return posted


async def record_cancel_request(
    objects: Objects, run_id: str, request: CancelRequest
) -> CancelRequest:
    """Record the wish to end a run; returns the first one that was recorded."""
    marker = markers.for_cancel_request(run_id, request.at, request.id)
    request = replace(request, marker=marker.key)
    await markers.create(objects, marker)
    try:
        await objects.create(
            layout.cancel_request_key(run_id), encode_cancel_request(request, run_id)
        )
    except AlreadyExists:
        first = await read_cancel_request(objects, run_id)
        if first is None:
            await objects.delete(marker.key)
            msg = f"Run {run_id} was erased while it was cancelled."
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
        msg = f"Run {run_id} was erased while a message was sent to it."
        raise RunNotFound(msg, run_id=run_id) from None
    except FormatError:
        await objects.delete(marker_key)
        raise


async def _next_number(objects: Objects, run_id: str) -> int:
    prefix = layout.arrivals_prefix(run_id) + "m-"
    last = 0
    async for key in objects.all_keys(prefix):
        last = layout.inbox_message_number(key) or last
    return last + 1
