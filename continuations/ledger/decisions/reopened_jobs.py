"""Jobs whose tool rejected an answer: the known id leads to the wait that is open now.

The other system knows one id only. Each later wait of its job has an id that follows
from the id before it, and from the run. So a wait id is never used twice.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from continuations.core.rows.waits import next_known_wait_ulid
from continuations.errors import RunNotFound
from continuations.ledger import layout
from continuations.ledger.arrivals.recorded_decisions import read_decision
from continuations.ledger.versions import Versions

if TYPE_CHECKING:
    from continuations.ledger.objects import Objects


async def find_next_wait_id(objects: Objects, wait_id: str) -> str | None:
    """Return the id of the wait that a job has after a decided one, or `None`.

    Only jobs have such waits. The run is loaded: call this for a wait that is decided.
    """
    if not layout.is_known_early(wait_id):
        return None
    name = layout.parse_wait_id(wait_id)
    try:
        state = (await Versions(objects, name.run_id).load_newest()).state
    except RunNotFound:
        return None
    ulid = next_known_wait_ulid(state.run, name.ulid)
    next_id = layout.build_wait_id(name.kind, ulid, name.run_id)
    if next_id in state.waits or await read_decision(objects, next_id) is not None:
        return next_id
    return None
