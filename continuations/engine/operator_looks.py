"""Look at the requests of operators beside the commits of a run."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from continuations.core.operator_request import tells_of_cancellation
from continuations.errors import StoreError
from continuations.ledger.arrivals import (
    NO_ARRIVALS,
    Arrivals,
    read_cancel_request,
)
from continuations.ledger.operator_inbox import read_following

if TYPE_CHECKING:
    from continuations.core.run import RunRow
    from continuations.ledger.objects import Objects

_log = logging.getLogger("continuations")


async def read_if_possible(objects: Objects, run: RunRow) -> Arrivals:
    """Return the requests of operators; none if the store does not return them now.

    The version beside them may hold the result of a call. It must not fail because of
    this read; the next commit reads the requests again.
    """
    try:
        return await read_requests(objects, run)
    except StoreError as error:
        _log.warning("run %s: requests to it were not read: %s", run.id, error)
        return NO_ARRIVALS


async def read_requests(
    objects: Objects, run: RunRow, *, cancelled: bool = False
) -> Arrivals:
    """Read the next requests; without one, this is one read.

    The cancel request is read if it is known, or if a numbered request names it.
    """
    requests = await read_following(objects, run.id, run.last_operator_number)
    if not requests and not cancelled:
        return NO_ARRIVALS
    told = any(tells_of_cancellation(request) for request in requests)
    return Arrivals(
        operator_requests=requests,
        cancel_request=await read_cancel_request(objects, run.id)
        if cancelled or told
        else None,
    )
