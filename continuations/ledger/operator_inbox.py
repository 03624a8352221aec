"""The requests of operators to a run, in dense numbers of their own."""

from __future__ import annotations

from typing import TYPE_CHECKING

from continuations.core.ulid import is_ulid
from continuations.errors import Corrupt, FormatError, RunNotFound
from continuations.ledger import layout, markers
from continuations.ledger.objects import AlreadyExists, NotFound
from continuations.value_class import replace
from continuations.wire.arrivals import OPERATOR_REQUEST
from continuations.wire.fields import whole_milliseconds

if TYPE_CHECKING:
    from continuations.core.operator_request import OperatorRequest
    from continuations.ledger.objects import Objects


async def read_request(objects: Objects, run_id: str, number: int) -> OperatorRequest:
    """Return a request; raises `NotFound` or `Corrupt`."""
    key = layout.numbered_key(layout.OPERATOR_REQUEST, run_id, number)
    request = OPERATOR_REQUEST.decode(await objects.read(key), key, run_id)
    if request.number != number or not is_ulid(request.id):
        msg = (
            f"{key} is damaged: it contains another request. It was not changed. "
            "Restore it from a backup."
        )
        raise Corrupt(msg, run_id=run_id)
    return request


async def read_listed_request(
    objects: Objects, run_id: str, number: int
) -> OperatorRequest:
    """Return a request that was listed; raises `Corrupt` if it is missing."""
    try:
        return await read_request(objects, run_id, number)
    except NotFound:
        key = layout.numbered_key(layout.OPERATOR_REQUEST, run_id, number)
        msg = f"{key} is missing, although it was listed. Restore it from a backup."
        raise Corrupt(msg, run_id=run_id) from None


async def read_following(
    objects: Objects, run_id: str, last_number: int
) -> tuple[OperatorRequest, ...]:
    """Return the requests after a number; without any, this costs one read."""
    requests: list[OperatorRequest] = []
    while True:
        number = last_number + len(requests) + 1
        try:
            requests.append(await read_request(objects, run_id, number))
        except NotFound:
            return tuple(requests)


async def post(
    objects: Objects, run_id: str, request: OperatorRequest
) -> OperatorRequest:
    """Create a request under the first free number from its own; return it.

    Its time is that of the store, if the store tells its time. A crash leaves the
    request posted, with a marker that is due, or not posted.

    Raises:
        RunNotFound: The run was erased meanwhile.
        Corrupt, FormatError: Another request cannot be read.
        StoreError: The request may or may not be posted.
    """
    number = request.number
    while True:
        marker = markers.for_operator_request(run_id, number, request.id)
        at = await markers.create(objects, marker) or request.at
        posted = replace(
            request, number=number, at=whole_milliseconds(at), marker=marker.key
        )
        try:
            await objects.create(
                layout.numbered_key(layout.OPERATOR_REQUEST, run_id, number),
                OPERATOR_REQUEST.encode(posted, run_id),
            )
        except AlreadyExists:
            existing = await _read_existing(objects, run_id, number, marker.key)
            if existing.id == request.id:
                return existing  # the reply to an earlier try of this create was lost
            await objects.delete(marker.key)
            number += 1
        else:
            return posted


async def _read_existing(
    objects: Objects, run_id: str, number: int, marker_key: str
) -> OperatorRequest:
    try:
        return await read_request(objects, run_id, number)
    except NotFound:
        await objects.delete(marker_key)
        msg = f"Nothing was asked of run {run_id}: it was erased meanwhile."
        raise RunNotFound(msg, run_id=run_id) from None
    except FormatError:
        await objects.delete(marker_key)
        raise
