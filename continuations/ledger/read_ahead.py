"""Read the new decisions of a run beside its newest version.

A listing shows all decisions of a run. Only the version says which of them are new. But
in two cases the version is not needed for that:

- A decision is applied by version 3 at the earliest. So at version 2 every decision is
  new.
- This process keeps the newest version already.

In all other cases nothing is read ahead, so no object is read without need.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from continuations.errors import StoreError
from continuations.ledger import layout
from continuations.ledger.objects import NotFound, Objects, gather_all

if TYPE_CHECKING:
    from collections.abc import Mapping

    from continuations.ledger.run_overview import RunOverview

_FIRST_VERSION_AFTER_A_DECISION = 3


class ObjectsReadAhead(Objects):
    """The verbs of a store, with some bodies at hand."""

    def __init__(self, objects: Objects, bodies: Mapping[str, bytes]) -> None:
        super().__init__(objects.store)
        self.recent_versions = objects.recent_versions
        self._bodies = bodies

    async def read(self, key: str) -> bytes:
        """Return an object; raises `NotFound`."""
        body = self._bodies.get(key)
        return await super().read(key) if body is None else body


async def read_ahead(
    objects: Objects, run_id: str, overview: RunOverview
) -> ObjectsReadAhead:
    """Read the decisions that are new for certain, at the same time.

    A decision that cannot be read now is left out, and is read again when it is needed.
    """
    keys = _new_decision_keys(objects, run_id, overview)
    bodies = await gather_all(read_if_possible(objects, key) for key in keys)
    pairs = zip(keys, bodies, strict=True)
    return ObjectsReadAhead(
        objects, {key: body for key, body in pairs if body is not None}
    )


def _new_decision_keys(
    objects: Objects, run_id: str, overview: RunOverview
) -> list[str]:
    decided = {
        wait_id: key
        for key in overview.arrival_keys or ()
        if (wait_id := layout.decided_wait_id(key, run_id)) is not None
    }
    if overview.newest_number < _FIRST_VERSION_AFTER_A_DECISION:
        return list(decided.values())
    kept = objects.recent_versions.newest(run_id)
    if kept is None or kept.number != overview.newest_number:
        return []
    return [key for wait_id, key in decided.items() if wait_id in kept.state.waits]


async def read_if_possible(objects: Objects, key: str) -> bytes | None:
    """Return an object, or `None` if it cannot be read now."""
    try:
        return await objects.read(key)
    except (NotFound, StoreError):
        return None
