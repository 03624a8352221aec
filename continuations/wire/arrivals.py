"""Stored objects that arrive at a run, and the others that a decision does not need.

Each is a value class and its table. In the values, numbers start at 1 without gaps.
`marker` is the key of the marker object that was created for the object. `door` and
`authentication` are those of a decision: the way by which it came, and how the name in
`by` was established.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from continuations.core.jsontext import NotJson
from continuations.core.messages import MalformedMessage, Message
from continuations.core.operator_request import OPERATOR_ACTIONS, OperatorRequest
from continuations.core.rows.run import WHEN_BUSY
from continuations.core.rows.slots import SLOT_KINDS, Slot
from continuations.errors import Corrupt
from continuations.value_class import dataclass
from continuations.wire import fields
from continuations.wire.fields import Row
from continuations.wire.records import DECISION, OF_NO_RUN, Record, SplitRecord

if TYPE_CHECKING:
    from datetime import datetime

# Messages ---------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class InboxMessage:
    """One message in the inbox of a run.

    In a thread, `when_busy` says what the message does while an earlier one is
    answered; empty: it waits. A message that `closes` its thread has no text for the
    agent. `unread_bytes` are the bytes of the messages before it that the run had not
    read.
    """

    id: str
    number: int
    at: datetime
    message: Message
    by: str | None = None
    marker: str | None = None
    when_busy: str = ""
    closes: bool = False
    unread_bytes: int = 0

    @property
    def size(self) -> int:
        """The bytes of its text."""
        return len(self.message.text.encode("utf-8", "surrogatepass"))


def _read_message(value: object, where: str, name: str) -> Message:
    try:
        message = Message.from_json(fields.TEXT.read(value, where, name))
    except (MalformedMessage, NotJson) as error:
        raise fields.invalid_object(
            where, f"it is not a chat message, {error}"
        ) from None
    if message.role != "user":
        raise fields.invalid_object(where, f"its role must be user, got {message.role}")
    return message


MESSAGE = Record(
    Row(
        "message",
        InboxMessage,
        id=fields.ID,
        number=fields.NUMBER,
        at=fields.AT,
        message=fields.Field(
            _read_message, lambda message: message.text, missing=fields.REQUIRED
        ),
        by=fields.TEXT,
        marker=fields.TEXT,
        when_busy=fields.one_of(WHEN_BUSY - {"queue"}).if_missing(""),
        closes=fields.FLAG,
        unread_bytes=fields.COUNT,
    )
)


class FirstNumber(NamedTuple):
    """The lowest number that a message or a signal with a sender's own id can have."""

    number: int


MESSAGE_ID = Record(Row("message id", FirstNumber, number=fields.NUMBER))

# Signals ----------------------------------------------------------------------

# The length of each name in `Signal.names_before`.
SIGNAL_NAME_BYTES = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Signal:
    """One signal to a run.

    `data` is JSON text. `names_before` is empty, or has a short digest of the name of
    each signal before it that the run had not taken in, the newest one last.
    """

    id: str
    number: int
    at: datetime
    name: str
    data: str
    by: str | None = None
    marker: str | None = None
    door: str | None = None
    authentication: str | None = None
    names_before: bytes = b""


def _make_signal(**attributes: Any) -> Signal:
    signal = Signal(**attributes)
    names, rest = divmod(len(signal.names_before), SIGNAL_NAME_BYTES)
    if rest or names > max(signal.number - 1, 0):
        raise fields.Unfit("the names of the signals before it are not valid")
    return signal


SIGNAL = Record(
    Row(
        "signal",
        _make_signal,
        id=fields.ID,
        number=fields.NUMBER,
        at=fields.AT,
        name=fields.ID,
        data=fields.JSON.if_missing("null"),
        by=fields.TEXT,
        marker=fields.TEXT,
        door=fields.TEXT,
        authentication=fields.TEXT,
        names_before=fields.BINARY.if_missing(b""),
    )
)
SIGNAL_ID = Record(Row("signal id", FirstNumber, number=fields.NUMBER))

# Requests ---------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class CancelRequest:
    """The one request to cancel a run."""

    id: str
    at: datetime
    by: str | None = None
    reason: str | None = None
    marker: str | None = None
    door: str | None = None
    authentication: str | None = None


CANCEL_REQUEST = Record(
    Row(
        "cancellation",
        CancelRequest,
        id=fields.ID,
        at=fields.AT,
        by=fields.TEXT,
        reason=fields.TEXT,
        marker=fields.TEXT,
        door=fields.TEXT,
        authentication=fields.TEXT,
    )
)
OPERATOR_REQUEST = Record(
    Row(
        "operator request",
        OperatorRequest,
        id=fields.ID,
        number=fields.NUMBER,
        at=fields.AT,
        action=fields.one_of(OPERATOR_ACTIONS),
        call=fields.TEXT.of("call_id"),
        by=fields.TEXT,
        reason=fields.TEXT,
        marker=fields.TEXT,
        message=fields.COUNT.of("message_number"),
        signal_name=fields.TEXT,
        signal_number=fields.COUNT,
        door=fields.TEXT,
        authentication=fields.TEXT,
    )
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Revocation:
    """The end of a grant."""

    id: str
    number: int
    at: datetime
    grant: str
    by: str | None = None
    reason: str | None = None
    door: str | None = None
    authentication: str | None = None


REVOCATION = Record(
    Row(
        "revocation",
        Revocation,
        id=fields.ID,
        number=fields.NUMBER,
        at=fields.AT,
        grant=fields.ID,
        by=fields.TEXT,
        reason=fields.TEXT,
        door=fields.TEXT,
        authentication=fields.TEXT,
    )
)

# Slots of waits ---------------------------------------------------------------

SLOT = Record(
    Row(
        "slot",
        Slot,
        id=fields.ID,
        wait=fields.ID.of("wait_id"),
        number=fields.NUMBER,
        kind=fields.one_of(SLOT_KINDS),
        at=fields.AT,
        digest=fields.ID,
        deadline=fields.TIME,
        vote=fields.row_of(lambda: DECISION.row),
        by=fields.TEXT,
    )
)

# Published events -------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedEvent:
    """An event for all runs that wait for its name and key.

    Attributes:
        id: The id of the event, a ULID.
        name: The name.
        key: The key, or `None`.
        at: When the event was published.
        data: The data, as JSON text.
        by: The publisher.
        own_id: The publisher's own id of the event, or `None`.
        door: The way by which the event came, or `None`.
        authentication: How the name of the publisher was established, or `None`.
    """

    id: str
    name: str
    key: str | None
    at: datetime
    data: str
    by: str | None = None
    own_id: str | None = None
    door: str | None = None
    authentication: str | None = None


EVENT = Record(
    Row(
        "event",
        PublishedEvent,
        id=fields.ID,
        name=fields.ID,
        key=fields.TEXT,
        at=fields.AT,
        data=fields.JSON.if_missing("null"),
        by=fields.TEXT,
        own_id=fields.TEXT,
        door=fields.TEXT,
        authentication=fields.TEXT,
    ),
    OF_NO_RUN,
)

# Missing code -----------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class MissingCode:
    """Why a worker left a run to others: its code lacks a tool or an agent.

    `text` is the error of the worker, for people. No code reads it.
    """

    at: datetime
    text: str


MISSING_CODE = Record(Row("missing code", MissingCode, at=fields.AT, text=fields.ID))

# Attachments ------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredFile:
    """An attachment as the store has it.

    Attributes:
        run_id: The run.
        media_type: The media type that came with the bytes first.
        name: The name that came with the bytes first, or `None`.
        data: The bytes.
        digest: The digest of the bytes.
    """

    run_id: str
    media_type: str
    name: str | None
    data: bytes
    digest: str


def _make_file(**attributes: Any) -> StoredFile:
    from continuations.core.attachment_parts import is_file_name, is_media_type  # noqa: PLC0415 - few runs have attachments

    stored = StoredFile(**attributes)
    if not (is_media_type(stored.media_type) and is_file_name(stored.name)):
        raise fields.Unfit("its media type or its name is not valid")
    return stored


FILE = SplitRecord(
    "file",
    _make_file,
    header=Row(
        "file header",
        dict[str, Any],
        run=fields.ID.of("run_id"),
        digest=fields.ID,
        media_type=fields.ID,
        name=fields.TEXT,
    ),
    body=Row("file", dict[str, Any], data=fields.BINARY.required()),
)


def decode_file(data: bytes, name: str) -> StoredFile:
    """Decode an attachment; raises `FormatError` or `Corrupt`."""
    from continuations.core.rows.attachments import digest_of  # noqa: PLC0415 - as above

    stored = FILE.decode(data, name)
    if digest_of(stored.data) != stored.digest:
        raise Corrupt(
            f"{name} is damaged: its content does not have the digest that it names. "
            "It was not changed. Restore it from a backup."
        )
    return stored
