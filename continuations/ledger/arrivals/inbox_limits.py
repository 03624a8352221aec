"""The limits of the unread messages of a run.

Each message tells how many bytes the run had not read when it was posted. So a sender
reads the newest unread message and the oldest one, and not those between them.
"""

from __future__ import annotations

from asyncio import gather
from typing import TYPE_CHECKING

from continuations.errors import FormatError, InboxFull, RunNotFound
from continuations.ledger.arrivals.arrival_logs import MESSAGES
from continuations.ledger.objects import NotFound
from continuations.value_class import replace

if TYPE_CHECKING:
    from continuations.ledger.objects import Objects
    from continuations.wire.arrivals import InboxMessage

MAX_UNREAD_MESSAGES = 1_000
MAX_UNREAD_BYTES = 16 * 2**20


async def with_room(
    objects: Objects, run_id: str, message: InboxMessage, last_read: int, number: int
) -> InboxMessage:
    """Return a message with the bytes that are unread before it.

    Without an unread message this costs no request, else one or two reads.

    Args:
        objects: The store.
        run_id: Id of the run.
        message: The message that would be posted.
        last_read: Number of the last message that the run has read.
        number: The number that the message would have.

    Raises:
        InboxFull: With the message, the run would have too many unread ones.
        RunNotFound: The run was erased meanwhile.
    """
    unread = number - 1 - last_read
    if unread > 0:
        before = await _unread_bytes(objects, run_id, last_read + 1, number - 1)
        message = replace(message, unread_bytes=before)
    check_room(run_id, message, unread)
    return message


def behind(message: InboxMessage, existing: InboxMessage) -> InboxMessage:
    """Return a message that another one came before at the same time."""
    return replace(message, unread_bytes=existing.unread_bytes + existing.size)


def check_room(run_id: str, message: InboxMessage, unread: int) -> None:
    """Raise `InboxFull` if a run has too many unread messages for another one."""
    if message.closes:
        return  # the thread ends, so no message follows
    in_all = message.unread_bytes + message.size
    if unread >= MAX_UNREAD_MESSAGES:
        why = f"it has {unread} unread messages, and {MAX_UNREAD_MESSAGES} are allowed"
    elif in_all > MAX_UNREAD_BYTES:
        why = (
            f"its unread messages would have {in_all} bytes together, and "
            f"{MAX_UNREAD_BYTES} are allowed"
        )
    else:
        return
    msg = (
        f"The message was not sent to run {run_id}: {why}. Let the run read them "
        "first: resume it, or decide what it waits for. Send large data as attachments."
    )
    raise InboxFull(msg, run_id=run_id)


async def _unread_bytes(objects: Objects, run_id: str, first: int, last: int) -> int:
    """Return the bytes of the messages with these numbers and those between them."""
    numbers = {first, last}
    try:
        read = await gather(
            *(MESSAGES.read(objects, run_id, number) for number in sorted(numbers))
        )
    except FormatError:
        return 0  # a message that cannot be read keeps no sender out
    except NotFound:
        msg = f"The message to run {run_id} was not sent: the run was erased meanwhile."
        raise RunNotFound(msg, run_id=run_id) from None
    oldest, newest = read[0], read[-1]
    in_all = newest.unread_bytes + newest.size
    # The newest one counts from a later message if its sender knew that the run had
    # read the oldest one.
    return in_all - oldest.unread_bytes if in_all > oldest.unread_bytes else in_all
