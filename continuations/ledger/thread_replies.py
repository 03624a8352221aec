"""Find the version of a thread that has the reply to a message."""

from __future__ import annotations

from typing import TYPE_CHECKING

from continuations.core.run import ENDED_STATUSES
from continuations.ledger.versions import Versions

if TYPE_CHECKING:
    from continuations.ledger.objects import Objects
    from continuations.ledger.versions import LoadedVersion


async def load_reply(
    objects: Objects, newest: LoadedVersion, message_number: int
) -> LoadedVersion:
    """Return the first version in which a message has its reply.

    The number of the last answered message never falls, so about log2(versions) headers
    are read.

    Args:
        objects: The store.
        newest: A version in which the message has its reply.
        message_number: Number of the message.

    Raises:
        Corrupt: A version is damaged or missing.
    """
    versions = Versions(objects, newest.state.run.id)
    if newest.state.run.answered == message_number and _has_reply(newest):
        return newest
    low, high = 0, newest.number
    while high - low > 1:
        middle = (low + high) // 2
        header = await versions.header(middle)
        if header.answered >= message_number:
            high = middle
        else:
            low = middle
    return await versions.load(high)


def _has_reply(version: LoadedVersion) -> bool:
    """Return whether a version still has its last reply.

    The next message clears it, and a cancellation replaces it.
    """
    run = version.state.run
    return run.rests and run.status not in ENDED_STATUSES
