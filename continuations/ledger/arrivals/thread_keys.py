"""The keys of threads, and their generations."""

from __future__ import annotations

from typing import TYPE_CHECKING

from continuations.core.rows.run import ENDED_STATUSES
from continuations.errors import RunErased, RunExists
from continuations.ledger import layout
from continuations.ledger.other_runs import check_thread_id
from continuations.ledger.versions import Versions
from continuations.value_class import dataclass
from continuations.wire.versions import decode_version

if TYPE_CHECKING:
    from continuations.core.rows.run import RunRow
    from continuations.ledger.objects import Objects
    from continuations.wire.versions import VersionHeader


def check_thread(run: RunRow) -> None:
    """Raise `RunExists` if a run with the id of a thread has no thread key."""
    if run.thread_key is None:
        msg = (
            f"run {run.id} is not a thread, but has the id of this thread. It was not "
            "changed. Erase that run, or use another key."
        )
        raise RunExists(msg, run_id=run.id)


async def check_key(objects: Objects, header: VersionHeader) -> None:
    """Raise `Corrupt` if a run is the thread of another key than its id says.

    A process checks a run once, with one read at most: the root has the key, and the
    versions that follow it carry a small root.
    """
    run_id, recent = header.run_id, objects.recent_versions
    if recent.has_checked(run_id):
        return  # a load checks it too
    versions, key = Versions(objects, run_id), layout.version_key(run_id, header.root)
    body = header.base_object or await versions.read(header.root)
    run = decode_version(body, key).delta.run
    if run.thread_key is not None:
        check_thread_id(run, key)
        recent.keep_checked(run_id, header.root, body)


@dataclass(frozen=True, slots=True)
class Generation:
    """One generation of a thread, and the number of its newest version.

    Number 0 stands for a thread that does not exist. `header` is that of the version,
    if it was read.
    """

    number: int
    run_id: str
    version: int
    header: VersionHeader | None = None


async def _if_open(objects: Objects, run_id: str, version: int) -> Generation | None:
    """Return a generation that has not ended: then it is the newest one."""
    if not version:
        return None
    try:
        header = await Versions(objects, run_id).header(version)
    except RunErased:
        return None
    if header.status in ENDED_STATUSES:
        return None
    return Generation(int(run_id.rpartition("-")[2]), run_id, version, header)


async def newest_generation(objects: Objects, agent: str, key: str) -> Generation:
    """Return the newest generation of a thread.

    Generations are made one after the other, and an erased one keeps its number. So
    the newest one is found in about two listings for each doubling of their number.
    """

    async def look(number: int) -> Generation:
        run_id = layout.thread_run_id(agent, key, number)
        version = await Versions(objects, run_id).newest_number()
        return Generation(number, run_id, version)

    if objects.lists_whole_folders:
        prefix = layout.thread_run_id(agent, key, 1).rpartition("-")[0]
        for run_id in objects.recent_versions.thread_run_ids(prefix):
            number = await Versions(objects, run_id).number_after_kept()
            if (kept := await _if_open(objects, run_id, number)) is not None:
                return kept
    low = await look(1)
    if not low.version:
        return Generation(0, "", 0)
    # Most threads are never closed: then the second generation is not looked for.
    if (first := await _if_open(objects, low.run_id, low.version)) is not None:
        return first
    high = await look(2)
    while high.version:
        low, high = high, await look(2 * high.number)
    while high.number - low.number > 1:
        middle = await look((low.number + high.number) // 2)
        if middle.version:
            low = middle
        else:
            high = middle
    return low
