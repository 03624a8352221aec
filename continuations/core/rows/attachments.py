"""Images, audio and files in messages and in the results of tools.

A message refers to an attachment by its digest. The bytes are stored once beside the
versions of the run, and are read when a request to a model needs them.
"""

from __future__ import annotations

from dataclasses import field
from hashlib import sha256
from typing import TYPE_CHECKING, Any, ClassVar, TypeAlias, cast

from continuations.core import jsontext
from continuations.core.attachment_parts import (
    MAX_NAME_CHARS,
    MAX_RUN_BYTES,
    Attachment,
    is_file_name,
    is_media_type,
    references,
)
from continuations.errors import AttachmentsTooLarge, InvalidInput
from continuations.value_class import dataclass

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from continuations.core.attachment_parts import AttachmentKind
    from continuations.core.messages import Message
    from continuations.core.rows.state import RunState


@dataclass(frozen=True, slots=True)
class _Content:
    """Bytes with their media type."""

    kind: ClassVar[AttachmentKind]

    data: bytes = field(repr=False)
    media_type: str
    name: str | None = None
    digest: str = field(default="", init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Check the fields; raises `InvalidInput`."""
        data: Any = self.data
        if not isinstance(data, bytes) or not data:
            got = "no bytes" if data == b"" else type(data).__name__
            msg = f"data must be bytes with at least one byte, got {got}."
            advice = "Pass the content"
            if isinstance(data, str):
                advice += ", not a path or a URL: Path(...).read_bytes()"
            raise InvalidInput(f"{self._class_name}: {msg} {advice}.")
        media_type: object = self.media_type
        prefix = "" if self.kind == "file" else f"{self.kind}/"
        if not (is_media_type(media_type) and self.media_type.startswith(prefix)):
            example = {"image": "image/png", "audio": "audio/wav"}
            wanted = example.get(self.kind, "application/pdf")
            raise InvalidInput(
                f"{self._class_name}: media_type {str(media_type)[:60]!r} is not valid "
                f"here. Pass a lower-case media type such as {wanted!r}."
            )
        if not is_file_name(self.name) or (self.kind == "file" and self.name is None):
            raise InvalidInput(
                f"{self._class_name}: name must be 1 to {MAX_NAME_CHARS} printable "
                "characters without / and \\, and not only dots and spaces. Pass the "
                "name of the file."
            )
        object.__setattr__(self, "digest", digest_of(self.data))

    @property
    def _class_name(self) -> str:
        return type(self).__name__

    @property
    def attachment(self) -> Attachment:
        """The reference to the content."""
        return Attachment(
            kind=self.kind,
            media_type=self.media_type,
            digest=self.digest,
            size=len(self.data),
            name=self.name,
        )


class Image(_Content):
    """An image for a model.

    Args:
        data: The bytes of the image.
        media_type: For example `"image/png"`.
        name: The name of the file. Default: none.

    Attributes:
        kind: `"image"`.
        digest: `"sha256:"` and the SHA-256 of the bytes, in hexadecimal digits.
        attachment: The reference that messages contain.

    Raises:
        InvalidInput: An argument is invalid.
    """

    __slots__ = ()
    kind = "image"


class Audio(_Content):
    """A sound for a model.

    Args:
        data: The bytes of the sound.
        media_type: For example `"audio/wav"`.
        name: The name of the file. Default: none.

    Attributes:
        kind: `"audio"`.
        digest: `"sha256:"` and the SHA-256 of the bytes, in hexadecimal digits.
        attachment: The reference that messages contain.

    Raises:
        InvalidInput: An argument is invalid.
    """

    __slots__ = ()
    kind = "audio"


class File(_Content):
    """A file for a model, such as a PDF.

    Args:
        data: The bytes of the file.
        media_type: For example `"application/pdf"`.
        name: The name of the file, which the model reads.

    Attributes:
        kind: `"file"`.
        digest: `"sha256:"` and the SHA-256 of the bytes, in hexadecimal digits.
        attachment: The reference that messages contain.

    Raises:
        InvalidInput: An argument is invalid.
    """

    __slots__ = ()
    kind = "file"


Content: TypeAlias = Image | Audio | File


@dataclass(frozen=True, slots=True, kw_only=True)
class ResultWithFiles:
    """The result of a tool that returned attachments.

    Attributes:
        text: The result as text, in which labels stand for the attachments.
        parts_json: The parts of the tool message, as a JSON array.
        contents: The attachments.
    """

    text: str
    parts_json: str
    contents: tuple[Content, ...]


def is_content(value: object) -> bool:
    """Return whether a value is an `Image`, an `Audio` or a `File`."""
    return isinstance(value, _Content)


def digest_of(data: bytes) -> str:
    """Return the digest by which messages name some bytes."""
    return f"sha256:{sha256(data).hexdigest()}"


def make_content(data: bytes, media_type: str, name: str) -> Content:
    """Return the attachment of a file; its media type decides on its class.

    Raises `InvalidInput` if an argument is invalid.
    """
    classes: dict[str, Any] = {"image": Image, "audio": Audio}
    made = classes.get(media_type.partition("/")[0], File)
    return cast("Content", made(data, media_type, name))


def content_of(attachment: Attachment, data: bytes) -> Content:
    """Return an attachment with its bytes."""
    classes: dict[str, Any] = {"image": Image, "audio": Audio, "file": File}
    name, media_type = attachment.name, attachment.media_type
    return cast("Content", classes[attachment.kind](data, media_type, name))


def text_part(text: str) -> dict[str, Any]:
    """Return a part with a text."""
    return {"type": "text", "text": text}


def attachments_of(messages: Iterable[Message]) -> Iterator[Attachment]:
    """Yield the attachments of messages, in order, also repeated ones."""
    for message in messages:
        if message.has_attachments:
            parts = jsontext.as_array(message.data.get("content")) or ()
            yield from references(parts)


def attachments_of_run(state: RunState) -> Sequence[Attachment]:
    """Return the attachments that messages and results of open turns refer to."""
    return tuple({each.digest: each for each in references_of_run(state)}.values())


def references_of_run(state: RunState) -> Iterator[Attachment]:
    """Yield each reference of a run to an attachment, also repeated ones.

    Several references may name the same bytes differently.
    """
    for log in state.logs.values():
        if log.transcript_check.has_attachments:
            yield from attachments_of(log.messages)
    for call in state.calls.values():
        if call.parts_json is not None:
            yield from references(
                jsontext.as_array(jsontext.parse(call.parts_json)) or ()
            )


def check_total(contents: Sequence[Content], known: Mapping[str, int]) -> None:
    """Raise `AttachmentsTooLarge` if a run cannot have all these attachments.

    `known` has the sizes of the attachments that the run has, by digest.
    """
    sizes = {**known, **{each.digest: len(each.data) for each in contents}}
    total = sum(sizes.values())
    if total <= MAX_RUN_BYTES:
        return
    biggest = max(contents, key=lambda each: len(each.data))
    raise AttachmentsTooLarge(
        f"The attachments of the run would have {total} bytes, and at most "
        f"{MAX_RUN_BYTES} are allowed. The biggest new one is "
        f"{biggest.attachment.label}. Make it smaller, or leave it out."
    )
