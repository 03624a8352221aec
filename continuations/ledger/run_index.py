"""The index of runs: keys of the live runs, of the ended ones, and of each label.

A key says only where to look. The newest version of the run says what is true: a
listing reads it for each row that it shows. So a key that a process which died left
behind costs a request, and never shows a wrong status.

`index/live/{run}` is created after version 1 and deleted at the end of the run.
`index/ended/{day}/{run}` is created at the end. The key of a label stays. A process
that creates a key for a live run looks afterwards whether the run has ended meanwhile.
The keys are written before the marker of the version goes. So a sweep writes the keys
of a process that died.
"""

from __future__ import annotations

from asyncio import gather
from contextlib import suppress
from typing import TYPE_CHECKING

from continuations.core.run import ENDED_STATUSES
from continuations.ledger import layout
from continuations.ledger.objects import AlreadyExists
from continuations.ledger.versions import Versions

if TYPE_CHECKING:
    from continuations.core.run import RunRow
    from continuations.ledger.loaded_version import LoadedVersion
    from continuations.ledger.objects import Objects


async def index_live(objects: Objects, run: RunRow) -> None:
    """Create the keys of a live run; the caller looks at its status afterwards."""
    await _create_all(objects, [layout.live_key(run.id), *_label_keys(run)])


async def index_ended(objects: Objects, version: LoadedVersion) -> None:
    """Move a run from the live ones to the ended ones."""
    run_id = version.state.run.id
    await _create_all(objects, [layout.ended_key(run_id, version.at)])
    await objects.delete(layout.live_key(run_id))


async def withdraw_if_ended(objects: Objects, run_id: str) -> None:
    """Delete the key of a live run if the run has ended."""
    header = await Versions(objects, run_id).newest_header()
    if header is None or header.status in ENDED_STATUSES:
        await objects.delete(layout.live_key(run_id))


async def mend(objects: Objects, version: LoadedVersion) -> None:
    """Create all keys of a run again, after a crash of the process that should have.

    Args:
        objects: The store.
        version: The newest version, as far as the caller knows.
    """
    run = version.state.run
    if run.status in ENDED_STATUSES:
        await _create_all(objects, _label_keys(run))
        await index_ended(objects, version)
        return
    await index_live(objects, run)
    if await Versions(objects, run.id).newest_number() != version.number:
        await withdraw_if_ended(objects, run.id)


def _label_keys(run: RunRow) -> list[str]:
    return [layout.label_key(run.id, name, value) for name, value in run.labels]


async def _create_all(objects: Objects, keys: list[str]) -> None:
    async def create(key: str) -> None:
        with suppress(AlreadyExists):
            await objects.create(key, b"")

    await gather(*map(create, keys))
