"""The messages that were sent to a run, and that it has not read yet."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from continuations.cli.stack_tree import Line
from continuations.core.attachments import attachments_of
from continuations.core.run import ENDED_STATUSES
from continuations.core.visible_text import shorten
from continuations.engine import portal
from continuations.ledger import layout
from continuations.ledger.arrivals import read_inbox_message
from continuations.ledger.objects import NotFound, Objects, gather_all
from continuations.present.escaping import escape_invisible
from continuations.wire.fields import readable_time
from continuations.wire.report import utc_text

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from continuations import Continuation
    from continuations.wire.arrivals import InboxMessage
    from continuations_storage import Store

_MAX_TEXT_CHARS = 200


def unread_messages(store: Store, run: Continuation) -> Sequence[InboxMessage]:
    """Return the messages after the last one that the run has read, by number."""
    return portal.run_until_complete(_read(Objects(store), run))


async def _read(objects: Objects, run: Continuation) -> list[InboxMessage]:
    last = run.run_state.run.last_inbox_number
    prefix = layout.arrivals_prefix(run.run_id) + f"{layout.MESSAGE}-"
    after = layout.numbered_key(layout.MESSAGE, run.run_id, last) if last else ""
    keys = [key async for key in objects.all_keys(prefix, after)]
    numbers = [layout.number_in(layout.MESSAGE, key) for key in keys]
    found = await gather_all(
        _message(objects, run.run_id, number) for number in numbers if number
    )
    return [each for each in found if each is not None]


async def _message(objects: Objects, run_id: str, number: int) -> InboxMessage | None:
    try:
        return await read_inbox_message(objects, run_id, number)
    except NotFound:
        return None  # the run was erased meanwhile


def unread_lines(run: Continuation, unread: Iterable[InboxMessage]) -> Iterator[Line]:
    """Yield each message with its sender, its time and its files."""
    from continuations.serve.pages.run_log import message_text  # noqa: PLC0415 - rarely used

    has_ended = run.run_state.run.status in ENDED_STATUSES
    state = "never read" if has_ended else "not read yet"
    for each in unread:
        by = f" from {each.by}" if each.by else ""
        content = each.message.data.get("content")
        text = (
            "closes the conversation" if each.closes else message_text(content, "user")
        )
        about = f"{state}: message {each.number}{by}, {readable_time(each.at)}"
        text = shorten(f"{about}: {text}", _MAX_TEXT_CHARS)
        yield Line("", escape_invisible(text), "wait")
        for attachment in attachments_of([each.message]):
            label = f"attachment {attachment.label} {attachment.digest}"
            yield Line("  ", escape_invisible(label))


def unread_json(unread: Iterable[InboxMessage]) -> list[dict[str, Any]]:
    """Return messages as JSON values (`unread` of `run`)."""
    return [
        {
            "number": each.number,
            "at": utc_text(each.at),
            "by": each.by,
            "message": each.message.data,
        }
        for each in unread
    ]
