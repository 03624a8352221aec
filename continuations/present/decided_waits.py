"""Which waits of a run are decided, although its newest version still has them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from continuations.ledger.objects import Objects
from continuations.ledger.recorded_decisions import list_decided_wait_ids

if TYPE_CHECKING:
    from continuations.wire.continuation import Continuation
    from continuations_storage import Store


async def decided_wait_ids(store: Store, run: Continuation) -> frozenset[str]:
    """Return the ids of the decided waits of a run, with at most one listing.

    A decision is an object of its own. A version contains a decided wait until the run
    is resumed, so a report of the run needs both.
    """
    if not run.waits:
        return frozenset()
    return frozenset(await list_decided_wait_ids(Objects(store), run.run_id))
