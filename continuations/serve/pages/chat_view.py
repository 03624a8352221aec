"""A thread as a chat: messages, and the waits as cards between them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, TypeAlias
from urllib.parse import urlencode

from continuations.core import jsontext
from continuations.core.attachment_parts import (
    RASTER_TYPES,
    InvalidReference,
    is_reference,
    read_part,
)
from continuations.core.reading import run_stream
from continuations.core.rows.run import ENDED_STATUSES
from continuations.present.times import moment_text
from continuations.serve.pages.run_log import message_text
from continuations.serve.pages.run_view import StatePill, run_title, status_pill
from continuations.value_class import dataclass

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable
    from datetime import datetime

    from continuations.core.attachment_parts import Attachment
    from continuations.core.reading.version_window import VersionEvents, VersionWindow
    from continuations.core.rows.run import RunRow
    from continuations.core.rows.state import RunState
    from continuations.serve.pages.run_addresses import RunAddresses
    from continuations.wire.arrivals import InboxMessage

LineKind: TypeAlias = Literal["user", "assistant", "wait", "note"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatLine:
    """One message or card.

    Attributes:
        key: Names the line; the cursor of its event.
        kind: `user`, `assistant`, `wait`, or `note` for a failed reply.
        who: The writer, or the agent or tool that waits.
        at: When, in words.
        moment: When, as ISO 8601 text.
        text: The text, or the title of the wait.
        files: The attachments of a message.
        wait_id: Id of the wait with a page, or "".
        is_open: Whether the wait is open.
    """

    key: str
    kind: LineKind
    who: str
    at: str
    moment: str
    text: str
    files: tuple[AttachmentView, ...] = ()
    wait_id: str = ""
    is_open: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatView:
    """A thread.

    Attributes:
        title: Its title.
        agent: Name of its agent.
        key: Its key.
        state: Its state.
        lines: Messages and cards, the oldest first.
        unread: Messages that the agent has not read yet.
        hint: The effect of a message that is sent now; "" if none is accepted.
        earlier: Number of the last version that is left out, or 0.
        floor: Number of the version with the last stored reply. It replaces the words
            of every lower fence.
    """

    title: str
    agent: str
    key: str
    state: StatePill
    lines: tuple[ChatLine, ...]
    unread: tuple[ChatLine, ...]
    hint: str
    earlier: int
    floor: int


def chat_view(
    window: VersionWindow,
    now: datetime,
    here: RunAddresses,
    decided: Collection[str] = (),
    unread: Iterable[InboxMessage] = (),
) -> ChatView:
    """Return a thread as a chat.

    Args:
        window: Its last versions.
        now: The time of the report.
        here: The addresses of the run.
        decided: Ids of waits whose decision is recorded, but not yet applied.
        unread: Messages that the agent has not read yet.
    """
    state = window.state
    lines: list[ChatLine] = []
    floor = 0
    for version in window.versions:
        for event in version.events:
            if isinstance(event, run_stream.RunRepaired | run_stream.RunRewound):
                lines.clear()  # the events after it describe the state anew
            if len(event.path) <= 1 and replaces_words(event):
                floor = version.number
            line = _line(event, version, state, now, here, decided)
            if line is not None:
                lines.append(line)
    run = state.run
    return ChatView(
        title=run_title(state),
        agent=run.agent,
        key=run.thread_key or "",
        state=status_pill(run.status),
        lines=tuple(lines),
        unread=tuple(_unread_line(each, now) for each in unread if not each.closes),
        hint=_hint(run, now),
        earlier=window.first_number - 1,
        floor=floor,
    )


def _unread_line(message: InboxMessage, now: datetime) -> ChatLine:
    return ChatLine(
        key=f"unread.{message.number}",
        kind="user",
        who=message.by or "user",
        at=moment_text(message.at, now),
        moment=message.at.isoformat(timespec="milliseconds"),
        text=message_text(message.message.data.get("content")),
    )


def replaces_words(event: run_stream.StreamEvent) -> bool:
    """Return whether an event of the root agent replaces the words before it."""
    match event:
        case run_stream.MessageAdded():
            return event.message.get("role") == "assistant"
        case (
            run_stream.ReplyGiven()
            | run_stream.RunEnded()
            | run_stream.RunRepaired()
            | run_stream.RunRewound()
        ):
            return True
        case _:
            return False


def _line(
    event: run_stream.StreamEvent,
    version: VersionEvents,
    state: RunState,
    now: datetime,
    here: RunAddresses,
    decided: Collection[str],
) -> ChatLine | None:
    files: tuple[AttachmentView, ...] = ()
    who, text, wait_id, is_open = "", "", "", False
    kind: LineKind = "note"
    match event:
        case run_stream.MessageAdded() if len(event.path) == 1:
            message = event.message
            role, content = message.get("role"), message.get("content")
            text = message_text(without_attachments(role, content))
            files = attachment_views(role, content, here)
            if role not in ("user", "assistant") or not (text or files):
                return None
            kind = "user" if role == "user" else "assistant"
            who = event.path[0] if role == "assistant" else version.run.asker or "user"
        case run_stream.WaitOpened() if event.wait.rules.asks_person:
            wait = event.wait
            kind, who, wait_id = "wait", wait.tool, wait.id
            text = wait.title or wait.question or wait.rules.question
            text = text.replace("{tool}", wait.tool)
            is_open = wait.id in state.waits and wait.id not in decided
        case run_stream.ReplyGiven() if event.failure is not None:
            who = "This message has no reply"
            text = event.failure.message
        case _:
            return None
    return ChatLine(
        key=event.cursor,
        kind=kind,
        who=who,
        at=moment_text(version.at, now),
        moment=version.at.isoformat(timespec="milliseconds"),
        text=text,
        files=files,
        wait_id=wait_id,
        is_open=is_open,
    )


def _hint(run: RunRow, now: datetime) -> str:
    if run.status in ENDED_STATUSES:
        return ""
    if run.claim is not None and now < run.claim.until:
        return "The agent is at work: your message is read next."
    if run.status == "suspended":
        return "The agent waits: your message is read after its present reply."
    return "The agent rests: your message is read at once."


# Attachments ---------------------------------------------------------------------


_UNITS = ("bytes", "kB", "MB")
_STEP = 1000
_NAMES = {"image": "Image", "audio": "Sound", "file": "File"}


@dataclass(frozen=True, slots=True, kw_only=True)
class AttachmentView:
    """One attachment.

    Attributes:
        name: The name of the file, or the kind of content.
        media_type: The media type that the message has.
        size: The size in words.
        address: The address of the download.
        image: The address of an image that the page shows, or "".
    """

    name: str
    media_type: str
    size: str
    address: str
    image: str


def attachment_views(
    role: object, content: object, here: RunAddresses
) -> tuple[AttachmentView, ...]:
    """Return the attachments of a message.

    Args:
        role: The role of the message. A model's message has no attachments.
        content: Its content.
        here: The addresses of the run.
    """
    parts = jsontext.as_array(content) or ()
    found = [_attachment(role, part) for part in parts]
    return tuple(_view(each, here) for each in found if each is not None)


def without_attachments(role: object, content: object) -> object:
    """Return the content of a message without its attachments."""
    parts = jsontext.as_array(content)
    if parts is None:
        return content
    return [part for part in parts if _attachment(role, part) is None]


def _attachment(role: object, part: object) -> Attachment | None:
    if role not in ("user", "tool") or not is_reference(part):
        return None
    try:
        return read_part(part)
    except InvalidReference:
        return None


def _view(attachment: Attachment, here: RunAddresses) -> AttachmentView:
    is_shown = attachment.media_type in RASTER_TYPES
    named = {} if attachment.name is None else {"name": attachment.name}
    query = urlencode({**named, "media_type": attachment.media_type})
    return AttachmentView(
        name=attachment.name or _NAMES[attachment.kind],
        media_type=attachment.media_type,
        size=size_text(attachment.size),
        address=f"{here.below(f'files/{attachment.digest}')}?{query}",
        image=f"{here.below(f'images/{attachment.digest}')}?{query}"
        if is_shown
        else "",
    )


def size_text(size: int) -> str:
    """Return a number of bytes in words, such as `2.4 MB`."""
    value, unit = float(size), _UNITS[0]
    for larger in _UNITS[1:]:
        if value < _STEP:
            break
        value, unit = value / _STEP, larger
    return f"{value:.1f} {unit}" if unit != _UNITS[0] else f"{size} {unit}"
