"""Find the version of a thread that has the reply to a message."""

from __future__ import annotations

from typing import TYPE_CHECKING

from continuations.ledger.versions import Versions, nearest_reply, tree_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from continuations.ledger.loaded_version import LoadedVersion, RebuiltVersion
    from continuations.ledger.objects import Objects
    from continuations.wire.versions import VersionHeader

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
