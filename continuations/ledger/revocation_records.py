"""Read the stored revocations of grants."""

from __future__ import annotations

from asyncio import gather
from typing import TYPE_CHECKING

from continuations.errors import Corrupt
from continuations.ledger import layout
from continuations.ledger.objects import NotFound
from continuations.wire.arrivals import REVOCATION, Revocation

if TYPE_CHECKING:
    from collections.abc import Sequence

    from continuations.ledger.objects import Objects


async def list_numbers(objects: Objects, run_id: str) -> list[int]:
    """Return the numbers of all revocations of a run."""
    prefix = layout.numbered_key(layout.REVOCATION, run_id, 0).removesuffix("0" * 10)
    keys = objects.all_keys(prefix)
    numbers = [layout.number_in(layout.REVOCATION, key) async for key in keys]
    return [number for number in numbers if number is not None]


async def read_one(objects: Objects, run_id: str, number: int) -> Revocation:
    """Return a revocation; raises `NotFound` or `Corrupt`."""
    key = layout.numbered_key(layout.REVOCATION, run_id, number)
    revocation = REVOCATION.decode(await objects.read(key), key, run_id)
    if revocation.number != number:
        msg = (
            f"{key} is damaged: it contains revocation {revocation.number}. It was not "
            "changed. Restore it from a backup."
        )
        raise Corrupt(msg, run_id=run_id)
    return revocation


async def read_following(
    objects: Objects, run_id: str, listed: Sequence[int], last: int
) -> list[Revocation]:
    """Return the revocations after number `last`, up to the last listed one.

    Their numbers have no gaps. A missing one is damage: without it, a grant that was
    revoked would cover calls. Raises `Corrupt` or `FormatError`.
    """
    numbers = range(last + 1, max(listed, default=0) + 1)
    return await gather(*(read_listed(objects, run_id, each) for each in numbers))


async def read_listed(objects: Objects, run_id: str, number: int) -> Revocation:
    """Return a revocation that exists; raises `Corrupt` if it is missing."""
    try:
        return await read_one(objects, run_id, number)
    except NotFound:
        key = layout.numbered_key(layout.REVOCATION, run_id, number)
        msg = (
            f"{key} is missing, although it or a later one was listed. Restore it from "
            "a backup."
        )
        raise Corrupt(msg, run_id=run_id) from None
