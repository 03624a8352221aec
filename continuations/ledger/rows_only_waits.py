"""List the waits that have no object: they are rows of their runs.

Few people list them, so an attempt of a model costs no create and delete for a list.
"""

from __future__ import annotations

import logging
from asyncio import gather
from typing import TYPE_CHECKING

from continuations.core.wait_rules import WAIT_RULES
from continuations.errors import FormatError, RunErased, RunNotFound
from continuations.ledger import index_layout, layout
from continuations.ledger.versions import Versions

if TYPE_CHECKING:
    from continuations.core.waits import Wait
    from continuations.ledger.objects import Objects

_log = logging.getLogger("continuations")

KINDS = frozenset(kind for kind in WAIT_RULES if not WAIT_RULES[kind].has_object)
_PARALLEL_LOADS = 20


async def read_all(objects: Objects, after: str, kinds: frozenset[str]) -> list[Wait]:
    """Return the open waits of some kinds that have no object, sorted by id.

    Markers name the runs that have deadlines, and the index names the live runs. Each
    of these runs is loaded. A run that cannot be read hides no waits of other runs.

    Args:
        objects: The store.
        after: Skip waits up to and including this wait id.
        kinds: The kinds of the waits. Those that have an object are left out.
    """
    kinds &= KINDS
    named = await _runs_with_deadlines(objects)
    if any(WAIT_RULES[kind].ended_by_unpause for kind in WAIT_RULES if kind in kinds):
        named |= await _live_runs(objects)  # no marker names a run that is paused
    run_ids = sorted(named)
    found: list[Wait] = []
    for first in range(0, len(run_ids), _PARALLEL_LOADS):
        group = run_ids[first : first + _PARALLEL_LOADS]
        for waits in await gather(*(_waits_of(objects, run_id) for run_id in group)):
            found += [w for w in waits if w.kind in kinds and w.id > after]
    return sorted(found, key=lambda wait: wait.id)


async def _runs_with_deadlines(objects: Objects) -> set[str]:
    markers = [
        layout.parse_marker(key)
        async for key in objects.all_keys(layout.MARKERS_PREFIX)
    ]
    return {each.run_id for each in markers if each is not None and each.reason == "e"}


async def _live_runs(objects: Objects) -> set[str]:
    keys = objects.all_keys(index_layout.LIVE_PREFIX)
    return {
        run_id async for key in keys if (run_id := index_layout.indexed_run_id(key))
    }


async def _waits_of(objects: Objects, run_id: str) -> list[Wait]:
    try:
        newest = await Versions(objects, run_id).load_newest()
    except (RunErased, RunNotFound):
        return []  # the marker is left of a run that was erased or never stored
    except FormatError as error:
        _log.warning("the waits of run %s are not listed: %s", run_id, error)
        return []
    return list(newest.state.waits.values())
