"""The keys of a thread, and its new arrivals without a listing of the old ones.

A thread keeps all its arrivals: messages, decisions, signals. The newest version knows
which of them it has taken in, so the next ones are read by their numbers.
"""

from __future__ import annotations

from asyncio import gather
from typing import TYPE_CHECKING, Any

from continuations.core.rows.run import ENDED_STATUSES
from continuations.core.rows.state import early_wait_ulids
from continuations.errors import RunErased, RunExists
from continuations.ledger import layout
from continuations.ledger.arrivals import arrival_logs
from continuations.ledger.other_runs import check_thread_id
from continuations.ledger.versions import Versions, nearest_reply, tree_of
from continuations.value_class import dataclass
from continuations.wire.versions import decode_version

if TYPE_CHECKING:
    from collections.abc import Mapping

    from continuations.core.rows.run import RunRow
    from continuations.core.rows.state import RunState
    from continuations.ledger.arrivals.arrival_logs import ArrivalLog
    from continuations.ledger.loaded_version import LoadedVersion, RebuiltVersion
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


_PAGE_LIMIT = 100


async def list_new_keys(objects: Objects, state: RunState) -> tuple[str, ...]:
    """Return the keys of the arrivals that a thread may not have taken in."""
    run = state.run
    logs: list[ArrivalLog[Any]] = [arrival_logs.SIGNALS]
    if run.grants or state.waits:  # the decision of a wait may give a grant
        logs.append(arrival_logs.REVOCATIONS)
    slots = [wait for wait in state.waits.values() if wait.has_slots]
    wait_ids = [*state.waits, *_ids_known_early(state)]
    found = await gather(
        _late_keys(objects, state),
        *(_if_exists(objects, layout.decision_key(each)) for each in wait_ids),
        *(_new_keys(objects, log, run) for log in logs),
        *(_all_keys(objects, layout.slots_prefix(wait.id)) for wait in slots),
    )
    return tuple(key for keys in found for key in keys)


def _ids_known_early(state: RunState) -> list[str]:
    """Return the ids of waits that another system can answer before they are opened."""
    calls = early_wait_ulids(state).values()
    return [layout.known_wait_id(state.run, call) for call in calls]


async def _late_keys(objects: Objects, state: RunState) -> list[str]:
    """Return the keys of unread messages, of new requests, and of a cancel request.

    They sort between the last message that was read and the versions. The requests that
    the thread has taken in stand among them, and are passed over in one step.
    """
    run = state.run
    if objects.lists_whole_folders:
        return await next_late_keys(objects, run)
    prefix, arrivals = layout.run_prefix(run.id), layout.arrivals_prefix(run.id)
    first = arrival_logs.REQUESTS.key(run.id, 0)
    taken = arrival_logs.REQUESTS.key(run.id, run.last_operator_number)
    after = arrival_logs.MESSAGES.key(run.id, run.last_inbox_number)
    keys: list[str] = []
    while True:
        page = await objects.keys(prefix, after, _PAGE_LIMIT)
        late = [key for key in page if key.startswith(arrivals)]
        keys += [key for key in late if not first < key <= taken]
        if len(late) < _PAGE_LIMIT:
            return keys
        after = max(late[-1], taken) if late[-1] > first else late[-1]


async def next_late_keys(objects: Objects, run: RunRow) -> list[str]:
    """Return the keys of `_late_keys`, found by their numbers and not by a listing."""
    found = await gather(
        _new_keys(objects, arrival_logs.MESSAGES, run),
        _new_keys(objects, arrival_logs.REQUESTS, run),
        _if_exists(objects, layout.cancel_request_key(run.id)),
    )
    return [key for keys in found for key in keys]


async def _new_keys(objects: Objects, log: ArrivalLog[Any], run: RunRow) -> list[str]:
    """Return the keys of new arrivals; they are dense, so the next number tells."""
    keys: list[str] = []
    while True:
        key = log.key(run.id, log.last_taken(run) + 1 + len(keys))
        if not await objects.exists(key):
            return keys
        keys.append(key)


async def _if_exists(objects: Objects, key: str) -> list[str]:
    return [key] if await objects.exists(key) else []


async def _all_keys(objects: Objects, prefix: str) -> list[str]:
    return [key async for key in objects.all_keys(prefix)]


_MAX_GUESSES = 4
# A table of 16 entries for each power of 16 needs fewer looks for any number.
_MAX_LOOKS = 10


async def load_reply(
    objects: Objects, newest: VersionHeader, message_number: int
) -> LoadedVersion | RebuiltVersion:
    """Return a version that has the reply to a message.

    The headers have tables of the versions with replies, so about log16(messages) of
    them are read. The version that a repair makes has no table: replies before it are
    searched.

    Args:
        objects: The store.
        newest: The header of a version in which the message has its reply.
        message_number: Number of the message.

    Raises:
        Corrupt: A version is damaged or missing.
    """
    versions = Versions(objects, newest.run_id)
    bodies = objects.recent_versions.take_checked_root(newest.run_id)
    nearest, is_found = await _follow_tables(versions, newest, message_number, bodies)
    number = nearest.number
    if not is_found:
        number = await _search(versions, nearest, message_number, bodies)
    return await _load(objects, versions, number, bodies)


async def _follow_tables(
    versions: Versions,
    newest: VersionHeader,
    message_number: int,
    bodies: dict[int, bytes],
) -> tuple[VersionHeader, bool]:
    """Return the version that tables name for a reply, and whether it is the first one.

    If not, it is the nearest later version that the tables know. They are only hints:
    a version that they name counts if it has the reply.
    """
    high = newest
    for _ in range(_MAX_LOOKS):
        number, version = nearest_reply(high.replies, high.answered, message_number)
        if version == high.number and number == message_number:
            return high, True
        if not 0 < version < high.number:
            break
        bodies[version] = await versions.read(version)
        found = versions.decode_header(version, bodies[version])
        if found.answered < number:
            break
        high = found
        if number == message_number:
            return high, True
    return high, False


async def _search(
    versions: Versions,
    newest: VersionHeader,
    message_number: int,
    bodies: dict[int, bytes],
) -> int:
    """Return a version that has the reply to a message.

    The number of the last answered message never falls, so about log2(versions) headers
    are read. Most messages need about as many versions as their neighbours. So the
    first looks are at the place where the reply then is.
    """
    # Version 1 is the empty thread.
    low, answered, high, guesses = 1, 0, newest, 0
    while not _has_reply(high, message_number) and high.number - low > 1:
        middle = (low + high.number) // 2
        if guesses < _MAX_GUESSES:
            share = (message_number - answered) / (high.answered - answered)
            guess = low + round(share * (high.number - low))
            middle = min(max(guess, low + 1), high.number - 1)
            guesses += 1
        bodies[middle] = await versions.read(middle)
        header = versions.decode_header(middle, bodies[middle])
        if header.answered >= message_number:
            high = header
        else:
            low, answered = middle, header.answered
    return high.number


def _has_reply(header: VersionHeader, message_number: int) -> bool:
    """Return whether a version has the reply to a message as its last reply.

    The next message clears it, and a cancellation replaces it.
    """
    return header.answered == message_number and header.status == "resting"


async def _load(
    objects: Objects, versions: Versions, number: int, known: Mapping[int, bytes]
) -> LoadedVersion | RebuiltVersion:
    """Load a version; read only what the kept version of the run does not contain."""
    kept = objects.recent_versions.newest(versions.run_id)
    if kept is None or number > kept.number:
        return await versions.load(number, known)
    bases = {step.number: step for step in kept.chain}
    bodies: list[tuple[int, bytes]] = []
    base = number
    while base and base not in bases:
        body = known.get(base) or await versions.read(base)
        header = versions.decode_header(base, body)
        if tree_of(header) != kept.tree:
            return await versions.load(number)
        bodies.append((base, body))
        base = 0 if header.base_object else header.base
    for each, body in reversed(bodies):
        bases[each] = versions.rebuild_from(body, each, bases)
    return bases[number]
