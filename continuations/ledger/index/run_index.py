"""The index of runs: keys of the live runs, of the ended ones, and of each label.

A key says only where to look. The newest version of the run says what is true: a
listing reads it for each row that it shows. So a key that a process which died left
behind costs a request, and never shows a wrong status.

`index/live/{run}` is created after version 1 and deleted at the end of the run.
`index/ended/{day}/{run}` is created at the end. The key of a label stays. A process
that creates a key for a live run looks afterwards whether the run has ended or was
erased meanwhile. The keys are written before the marker of the version goes. So a sweep
writes the keys of a process that died.
"""

from __future__ import annotations

import re
from asyncio import gather
from contextlib import suppress
from datetime import date
from typing import TYPE_CHECKING

from continuations.core.rows.run import ENDED_STATUSES
from continuations.core.rows.waits import waits_for_events
from continuations.errors import RunErased
from continuations.ledger import layout
from continuations.ledger.objects import AlreadyExists, gather_all
from continuations.ledger.versions import Versions

if TYPE_CHECKING:
    from collections.abc import Iterable
    from datetime import datetime

    from continuations.core.rows.run import RunRow
    from continuations.core.rows.waits import Wait
    from continuations.ledger.loaded_version import LoadedVersion
    from continuations.ledger.objects import Objects


def keys_of(version: LoadedVersion) -> set[str]:
    """Return every key that lists the run or a wait of its newest version."""
    run = version.state.run
    labels = (label_key(run.id, *label) for label in run.labels)
    listed = _waiter_keys(waits_for_events(version.state.waits.values()))
    return {*keys_of_ids(version), *listed, *labels}


def keys_of_ids(version: LoadedVersion) -> set[str]:
    """Return those keys that contain ids and times only: no label, no topic."""
    run_id, open_waits = version.state.run.id, version.state.waits.values()
    return {
        live_key(run_id),
        ended_key(run_id, version.at),
        *(layout.wait_key(wait.id) for wait in open_waits),
    }


def _waiter_keys(waits: Iterable[Wait]) -> Iterable[str]:
    for wait in waits:
        from continuations.ledger import event_keys  # noqa: PLC0415 - few runs need it

        yield event_keys.waiter_key(wait)


def keys_of_live(run: RunRow) -> list[str]:
    """Return the keys that list a live run: its own, and those of its labels."""
    return [live_key(run.id), *(label_key(run.id, *label) for label in run.labels)]


def keys_of_ended(run: RunRow, at: datetime, *, with_labels: bool) -> list[str]:
    """Return the keys that list a run which ended in a version of this time."""
    labels = run.labels if with_labels else ()
    return [ended_key(run.id, at), *(label_key(run.id, *label) for label in labels)]


async def create_live(objects: Objects, run: RunRow) -> None:
    """Create the keys of a live run; the caller looks at its status afterwards."""
    await gather_all(_create(objects, key) for key in keys_of_live(run))


async def move_to_ended(
    objects: Objects, version: LoadedVersion, *, with_labels: bool = False
) -> None:
    """List a run among the ended ones, and not among the live ones.

    The caller deletes the marker of the version afterwards. So a sweep repeats this.
    """
    run = version.state.run
    keys = keys_of_ended(run, version.at, with_labels=with_labels)
    await gather(
        objects.delete(live_key(run.id)), *(_create(objects, key) for key in keys)
    )


async def withdraw_if_over(objects: Objects, written: LoadedVersion) -> None:
    """Delete what a process wrote for a run that is over.

    If the run has ended, that is its key as a live run. If the run was erased, it is
    the version and all keys: `RunErased` is raised. Without the erasure, the process
    could not have created a version that is not the newest one.
    """
    run_id = written.state.run.id
    versions = Versions(objects, run_id)
    try:
        header = await versions.newest_header()
    except RunErased:
        await gather(*map(objects.delete, keys_of(written)))
        await versions.delete_late(written.number)
        raise
    if header is None or header.status in ENDED_STATUSES:
        await objects.delete(live_key(run_id))


async def mend(objects: Objects, version: LoadedVersion) -> bool:
    """Create all keys of a run again, after a crash of the process that should have.

    Args:
        objects: The store.
        version: The newest version, as far as the caller knows.

    Returns:
        Whether it still was the newest version afterwards.

    Raises:
        RunErased: The run was erased meanwhile. Its keys are deleted again.
    """
    run = version.state.run
    if run.has_ended:
        await move_to_ended(objects, version, with_labels=True)
    else:
        await create_live(objects, run)
    if await Versions(objects, run.id).newest_number() == version.number:
        return True
    await withdraw_if_over(objects, version)
    return False


async def _create(objects: Objects, key: str) -> None:
    with suppress(AlreadyExists):
        await objects.create(key, b"")


INDEX_PREFIX = "index/"
_KEY = (
    r"index/(?:live|(?:ended|erased)/[0-9]{4}-[0-9]{2}-[0-9]{2}|label/[^/=]+=[^/]*)"
    r"/([A-Za-z0-9][A-Za-z0-9._-]{0,199})\Z"
)
ENDED_PREFIX = "index/ended/"
ERASED_PREFIX = "index/erased/"
LIVE_PREFIX = "index/live/"


def live_key(run_id: str) -> str:
    """Return the key that lists a run which has not ended."""
    return f"{LIVE_PREFIX}{run_id}"


def ended_key(run_id: str, ended_at: datetime) -> str:
    """Return the key that lists a run which has ended."""
    return f"{ENDED_PREFIX}{ended_at:%Y-%m-%d}/{run_id}"


def indexed_day(key: str) -> date | None:
    """Return the day in the key of an ended or erased run, or `None` for another."""
    with suppress(ValueError, IndexError):
        return date.fromisoformat(key.split("/")[2])
    return None


def erased_key(run_id: str, ended_at: datetime) -> str:
    """Return the key that lists an erased run whose audit is kept, by its last day."""
    return f"{ERASED_PREFIX}{ended_at:%Y-%m-%d}/{run_id}"


def is_erased_key(key: str) -> bool:
    """Return whether a key lists an erased run whose audit is kept."""
    return key.startswith(ERASED_PREFIX)


def key_after_ended(moment: datetime) -> str:
    """Return a key that sorts after every run that ended on this day or before."""
    return f"{ENDED_PREFIX}{moment:%Y-%m-%d}/~"


def indexed_run_id(key: str) -> str | None:
    """Return the run that a key of the index lists, or `None` for another key."""
    match = re.match(_KEY, key)
    return match and match[1]


def label_in(key: str) -> tuple[str, str] | None:
    """Return the name and the value of the label in a key of the index, if any."""
    section, _, rest = key.removeprefix(INDEX_PREFIX).partition("/")
    name, _, value = rest.partition("/")[0].partition("=")
    return (name, value) if section == "label" else None


def label_key(run_id: str, name: str, value: str) -> str:
    """Return the key that lists a run with a label."""
    return f"{INDEX_PREFIX}label/{name}={value}/{run_id}"
