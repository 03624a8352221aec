"""Notes of workers that left a run because their code lacks a tool or an agent.

The object changes nothing in the run. It is about one version: it is not read any more
once the run goes on.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from continuations.errors import ContinuationsError
from continuations.ledger import layout
from continuations.ledger.objects import AlreadyExists, NotFound
from continuations.ledger.versions import Versions
from continuations.wire.arrivals import MISSING_CODE, MissingCode

__all__ = ["MissingCode", "post", "read"]

if TYPE_CHECKING:
    from continuations.ledger.objects import Objects


async def post(objects: Objects, run_id: str, number: int, found: MissingCode) -> None:
    """Store what a worker lacked for a version; the first worker's object stays.

    A run that was erased or went on meanwhile keeps none. An error of the store is
    ignored: the worker raises its own.
    """
    key = layout.missing_code_key(run_id, number)
    with suppress(AlreadyExists, ContinuationsError):
        await objects.create(key, MISSING_CODE.encode(found, run_id))
        if await Versions(objects, run_id).newest_number() != number:
            await objects.delete(key)


async def read(objects: Objects, run_id: str, number: int) -> MissingCode | None:
    """Return what a worker lacked for a version, or `None`; raises `FormatError`."""
    key = layout.missing_code_key(run_id, number)
    with suppress(NotFound):
        return MISSING_CODE.decode(await objects.read(key), key, run_id)
    return None
