"""List the waits that have no object: they are rows of their runs.

Few people list them, so an attempt of a model costs no create and delete for a list.
"""

from __future__ import annotations

import logging
from asyncio import gather
from typing import TYPE_CHECKING

from continuations.core.rows.wait_rules import WAIT_KINDS, WAIT_RULES
from continuations.errors import FormatError, RunBusy, RunErased, RunNotFound
from continuations.ledger import layout
from continuations.ledger.index import run_index
from continuations.ledger.objects import in_batches
from continuations.ledger.versions import Versions
from continuations.value_class import dataclass

if TYPE_CHECKING:
    from continuations.core.rows.waits import Wait
    from continuations.ledger.objects import Objects

_log = logging.getLogger("continuations")

KINDS = frozenset(kind for kind in WAIT_RULES if not WAIT_RULES[kind].has_object)
# Timers and waits for models look alike in the keys, and a store may have many timers.
MAX_LOADED = 100
_PARALLEL_LOADS = 20


@dataclass(frozen=True, slots=True)
class RunsAwaitingModels:
    """Runs with an agent that waits for its model.

    Attributes:
        run_ids: The runs, those with the next attempt first.
        has_more: Whether there may be more of them, whose attempts come later.
    """

    run_ids: tuple[str, ...]
    has_more: bool


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
    named = {each.run_id for each in await _deadlines(objects)}
    if any(WAIT_RULES[kind].ended_by_unpause for kind in WAIT_RULES if kind in kinds):
        named |= await _live_runs(objects)  # no marker names a run that is paused
    run_ids = sorted(named)
    found: list[Wait] = []
    for group in in_batches(run_ids, _PARALLEL_LOADS):
        for waits in await gather(*(_waits_of(objects, run_id) for run_id in group)):
            found += [w for w in waits if w.kind in kinds and w.id > after]
    return sorted(found, key=lambda wait: wait.id)


async def find_runs_awaiting_models(objects: Objects) -> RunsAwaitingModels:
    """Return the runs that wait for their models, those with the next attempt first.

    A store without deadlines costs one listing of markers, and a store whose deadlines
    all belong to waits that have an object costs one listing of waits more. Besides,
    each run that may wait for a model or for a time is loaded, at most 100 of them.
    """
    named = await _runs_without_objects(objects)
    chosen = named[:MAX_LOADED]
    found: list[str] = []
    for group in in_batches(chosen, _PARALLEL_LOADS):
        loaded = await gather(*(_waits_of(objects, run_id) for run_id in group))
        found += [
            run_id
            for run_id, waits in zip(group, loaded, strict=True)
            if any(wait.rules.may_wake for wait in waits)
        ]
    return RunsAwaitingModels(tuple(found), has_more=len(named) > MAX_LOADED)


async def _deadlines(objects: Objects) -> list[layout.Marker]:
    parsed = [
        layout.parse_marker(key)
        async for key in objects.all_keys(layout.MARKERS_PREFIX)
    ]
    return [each for each in parsed if each is not None and each.reason == "e"]


async def _runs_without_objects(objects: Objects) -> list[str]:
    """Return the runs that may have a wait with a deadline and no object, next first.

    Without a deadline, that is one listing of markers. With one, the list of waits
    tells which deadlines belong to waits that have an object.
    """
    deadlines = await _deadlines(objects)
    if not deadlines:
        return []
    keys = [key async for key in objects.all_keys(layout.WAITS_PREFIX)]
    listed = layout.listed_wait_ids(keys, WAIT_KINDS)
    stored = {wait_id.partition("-")[2] for wait_id in listed}
    runs = (
        each.run_id
        for each in deadlines
        if f"{each.target}@{each.run_id}" not in stored
    )
    return list(dict.fromkeys(runs))


async def _live_runs(objects: Objects) -> set[str]:
    keys = objects.all_keys(run_index.LIVE_PREFIX)
    return {run_id async for key in keys if (run_id := run_index.indexed_run_id(key))}


async def _waits_of(objects: Objects, run_id: str) -> list[Wait]:
    try:
        newest = await Versions(objects, run_id).load_newest()
    except (RunBusy, RunErased, RunNotFound):
        # It is being copied, or the marker is left of a run that was erased or never
        # stored.
        return []
    except FormatError as error:
        _log.warning("the waits of run %s are not listed: %s", run_id, error)
        return []
    return list(newest.state.waits.values())
