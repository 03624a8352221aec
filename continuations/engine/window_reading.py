"""Read a part of a run's past: some versions, each one once."""

from __future__ import annotations

from typing import TYPE_CHECKING

from continuations.core.run_stream_diff import events_between
from continuations.core.version_window import VersionEvents, VersionWindow
from continuations.engine.event_reading import with_deciders
from continuations.errors import StoreError
from continuations.ledger import layout
from continuations.ledger.objects import NotFound, gather_all
from continuations.ledger.run_overview import ObjectsReadAhead
from continuations.ledger.version_walk import VersionWalk
from continuations.ledger.versions import Versions

if TYPE_CHECKING:
    from collections.abc import Sequence

    from continuations.ledger.objects import Objects

# A page shows the past in windows of so many versions, so that its cost has a limit.
MAX_VERSIONS = 200
_PARALLEL_READS = 50


async def read_window(
    objects: Objects,
    run_id: str,
    *,
    version: int | None = None,
    limit: int = MAX_VERSIONS,
) -> VersionWindow:
    """Return the last versions of a run, or those that end with a version.

    Costs a listing, a read for each version, at most log2(versions) + 1 reads for the
    state before them, and a read for each decision in them.

    Args:
        objects: The store.
        run_id: Id of the run.
        version: Number of the last version of the window. Default: the newest one.
        limit: The largest number of versions.

    Raises:
        RunNotFound, RunErased: The store does not have the run or the version.
        Corrupt, FormatError: A version or a decision cannot be read.
        StoreError: The store failed.
    """
    versions = Versions(objects, run_id)
    newest = await versions.newest_number()
    if newest == 0:
        raise versions.run_not_found_error()
    last = newest if version is None else version
    if not 1 <= last <= newest:
        await versions.load(last)  # it raises `RunNotFound`
    first = max(1, last - limit + 1)
    objects = await _read_ahead(objects, run_id, range(first, last + 1))
    walk = VersionWalk(objects, run_id)
    await walk.go_to(first - 1)
    before = walk.state
    steps: list[VersionEvents] = []
    while walk.number < last or not steps:
        step = await walk.next_step(exists=True)
        if step is None:
            break
        found = events_between(step.before, step.after, version=step.number, at=step.at)
        events = tuple(await with_deciders(objects, found, {}))
        steps.append(
            VersionEvents(
                number=step.number, at=step.at, run=step.after.run, events=events
            )
        )
    state = walk.state
    if state is None:
        raise versions.run_not_found_error()
    # Meanwhile a repair may have led the walk to later versions.
    return VersionWindow(
        before=before,
        versions=tuple(steps),
        state=state,
        newest_number=max(newest, walk.number),
    )


async def _read_ahead(
    objects: Objects, run_id: str, numbers: Sequence[int]
) -> ObjectsReadAhead:
    """Read versions at the same time; one that cannot be read is read again later."""
    bodies: dict[str, bytes] = {}
    keys = [layout.version_key(run_id, number) for number in numbers]
    for start in range(0, len(keys), _PARALLEL_READS):
        part = keys[start : start + _PARALLEL_READS]
        found = await gather_all(_read_if_possible(objects, key) for key in part)
        pairs = zip(part, found, strict=True)
        bodies.update((key, body) for key, body in pairs if body is not None)
    return ObjectsReadAhead(objects, bodies)


async def _read_if_possible(objects: Objects, key: str) -> bytes | None:
    try:
        return await objects.read(key)
    except (NotFound, StoreError):
        return None
