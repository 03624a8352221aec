"""Messages to a run, in dense numbers, and the wish to cancel it."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from continuations.errors import FormatError, RunNotFound
from continuations.ledger import layout, markers
from continuations.ledger.arrivals import read_cancellation, read_letter
from continuations.ledger.objects import AlreadyExists, NotFound
from continuations.wire.records import (
    Cancellation,
    Letter,
    encode_cancellation,
    encode_letter,
)

if TYPE_CHECKING:
    from continuations.ledger.objects import Objects


async def post(objects: Objects, run_id: str, letter: Letter) -> Letter:
    """Put a message under the next free number; returns it with that number.

    A crash leaves it posted, with a marker due now, or not posted at all.
    """
    number = await _next_number(objects, run_id)
    while True:
        marker = markers.of_letter(run_id, number, letter.at, letter.id)
        posted = replace(letter, number=number, marker=marker.key)
        await markers.make(objects, marker)
        try:
            await objects.create(
                layout.letter(run_id, number), encode_letter(posted, run_id)
            )
        except AlreadyExists:
            there = await _rival(objects, run_id, number, marker.key)
            if there.id == letter.id:
                return there
            await objects.delete(marker.key)
            number += 1
        else:
            return posted


async def cancel(objects: Objects, run_id: str, wish: Cancellation) -> Cancellation:
    """Record the wish to end a run; returns the first one that was recorded."""
    marker = markers.of_cancellation(run_id, wish.at, wish.id)
    wish = replace(wish, marker=marker.key)
    await markers.make(objects, marker)
    try:
        await objects.create(
            layout.cancellation(run_id), encode_cancellation(wish, run_id)
        )
    except AlreadyExists:
        first = await read_cancellation(objects, run_id)
        if first is None:
            await objects.delete(marker.key)
            msg = f"Run {run_id} was erased while it was cancelled."
            raise RunNotFound(msg, run_id=run_id) from None
        if first.marker != marker.key:
            await objects.delete(marker.key)
        return first
    return wish


async def _rival(objects: Objects, run_id: str, number: int, marker: str) -> Letter:
    try:
        return await read_letter(objects, run_id, number)
    except NotFound:
        await objects.delete(marker)
        msg = f"Run {run_id} was erased while a message was sent to it."
        raise RunNotFound(msg, run_id=run_id) from None
    except FormatError:
        await objects.delete(marker)
        raise


async def _next_number(objects: Objects, run_id: str) -> int:
    prefix = layout.arrivals(run_id) + "m-"
    last = 0
    async for key in objects.all_keys(prefix):
        last = layout.letter_number(key) or last
    return last + 1
