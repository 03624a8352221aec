"""The tombstone: the last version of an erased run, which holds no personal data."""

from __future__ import annotations

from typing import TYPE_CHECKING

from continuations.errors import RunErased
from continuations.value_class import dataclass
from continuations.wire.envelope import decode_object, encode_object
from continuations.wire.fields import FieldReader, readable_time, to_milliseconds

if TYPE_CHECKING:
    from datetime import datetime
    from typing import Any

TOMBSTONE = "tombstone"


@dataclass(frozen=True, slots=True, kw_only=True)
class Tombstone:
    """The rest of an erased run.

    Attributes:
        run_id: Id of the run.
        number: Number of the version, the highest one of the run.
        at: When the run was erased.
        late_keys: Keys that a process which was frozen may still create. They contain
            ids only.
    """

    run_id: str
    number: int
    at: datetime
    late_keys: tuple[str, ...] = ()


def encode_tombstone(tombstone: Tombstone) -> bytes:
    """Return the bytes of a tombstone."""
    header: dict[str, object] = {
        "kind": TOMBSTONE,
        "run": tombstone.run_id,
        "number": tombstone.number,
        "at": to_milliseconds(tombstone.at),
    }
    return encode_object(header, {"keys": list(tombstone.late_keys)})


def decode_tombstone(data: bytes, name: str) -> Tombstone:
    """Decode a tombstone; raises `FormatError` or `Corrupt`."""
    opened = decode_object(data, name)
    header = FieldReader(opened.header, f"the header of {name}")
    header.one_of("kind", frozenset({TOMBSTONE}))
    body = FieldReader(opened.body, name)
    tombstone = Tombstone(
        run_id=header.text("run"),
        number=header.number("number"),
        at=header.timestamp("at"),
        late_keys=body.texts("keys"),
    )
    header.check_all_read()
    body.check_all_read()
    return tombstone


def erased_error(header: dict[str, Any]) -> RunErased:
    """Return the error for a run whose newest version has this header."""
    fields = FieldReader(header, "the header of a tombstone")
    run_id = fields.text("run")
    msg = (
        f"run {run_id} was erased on {readable_time(fields.timestamp('at'))}, and its "
        "id is not used again. Start a run with another run_id."
    )
    return RunErased(msg, run_id=run_id)
