"""The golden objects of runs with images, audio and files."""

from __future__ import annotations

from typing import TYPE_CHECKING

from continuations.core import jsontext
from continuations.core.attachments import Audio, File, Image, text_part
from continuations.core.call_events import CallReturned, CallStarted
from continuations.core.delta import diff
from continuations.core.messages import Message
from continuations.wire.arrivals import FILE, MESSAGE, InboxMessage, StoredFile
from continuations.wire.continuation import Continuation
from continuations.wire.envelope import object_digest
from continuations.wire.versions import VersionHeader, VersionObject, encode_version
from tests.core.rows import (
    MOMENT,
    RUN,
    accepted_event,
    apply_events,
    new_state,
    reply_with_calls,
)

if TYPE_CHECKING:
    from continuations.core.state import RunState

PHOTO = Image(bytes(range(256)), "image/png")
SOUND = Audio(b"RIFF", "audio/wav")
REPORT = File(b"%PDF", "application/pdf", "caf\u00e9.pdf")


def run_with_file() -> RunState:
    """Return a run with attachments in its input and in a result."""
    parts = [text_part("look"), PHOTO.attachment.part, SOUND.attachment.part]
    message = Message.from_mapping({"role": "user", "content": parts})
    returned = CallReturned(
        call_id="c3",
        content=REPORT.attachment.label,
        parts_json=jsontext.dump([text_part("drawn"), REPORT.attachment.part]),
    )
    return apply_events(
        new_state(message),
        reply_with_calls("transfer", "transfer"),
        accepted_event("c3"),
        CallStarted(call_id="c3"),
        returned,
    )


def photo_message() -> Message:
    """Return a user message with an attachment."""
    parts = [text_part("look"), PHOTO.attachment.part]
    return Message.from_mapping({"role": "user", "content": parts})


def objects_with_message() -> dict[str, tuple[bytes, object]]:
    """Return objects in which only the text of a message has an attachment."""
    state = new_state(photo_message())
    continuation = Continuation(state, 1)
    header = VersionHeader(
        run_id=RUN,
        number=1,
        root=1,
        base=0,
        base_digest=None,
        status="running",
        at=MOMENT,
        claimed_until=None,
        markers=(),
    )
    version = encode_version(header, diff(None, state))
    decoded = VersionObject(header, diff(None, state), object_digest(version))
    message = InboxMessage(
        id="01message", number=7, at=MOMENT, message=photo_message(), by="ann"
    )
    return {
        "asked_with_file": (continuation.to_bytes(), continuation),
        "version-file": (version, decoded),
        "message-file": (MESSAGE.encode(message, RUN), message),
    }


def file_objects() -> dict[str, tuple[bytes, object]]:
    """Return the objects by name: their bytes, and what they mean."""
    continuation = Continuation(run_with_file(), 12)
    objects: dict[str, tuple[bytes, object]] = {
        **objects_with_message(),
        "run_with_file": (continuation.to_bytes(), continuation),
    }
    files = {each.digest: each.data for each in (REPORT, PHOTO, SOUND)}
    carried = Continuation(run_with_file(), 0, files)
    objects["continuation_with_files"] = (carried.to_bytes(), carried)
    for name, content in (("file", REPORT), ("file-image", PHOTO)):
        stored = StoredFile(
            run_id=RUN,
            media_type=content.media_type,
            name=content.name,
            data=content.data,
            digest=content.digest,
        )
        objects[name] = (FILE.encode(stored), stored)
    return objects
