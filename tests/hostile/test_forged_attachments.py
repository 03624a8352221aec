"""Stored bytes that name attachments wrongly: refused when loaded, and not changed."""

from __future__ import annotations

from typing import Any

import pytest

from continuations import Continuation
from continuations.attachments import Image
from continuations.core import jsontext
from continuations.core.changes.events import CallReturned, CallStarted
from continuations.core.messages import MalformedMessage, Message
from continuations.core.rows.attachments import text_part
from continuations.errors import FormatError
from tests.core.rows import accepted_event, apply_events, new_state, reply_with_calls

PART = Image(b"PNG", "image/png").attachment.part
WRONG: list[dict[str, Any]] = [
    {"digest": "sha256:" + "0" * 63},
    {"digest": "sha256:../../" + "0" * 58},
    {"digest": ["sha256"]},
    {"size": 0},
    {"size": True},
    {"size": 1 << 40},
    {"size": "3"},
    {"media_type": "image/png\r\nset-cookie: a=b"},
    {"media_type": None},
    {"kind": "image\n"},
    {"name": "../../etc/passwd"},
    {"name": None},
    {"name": "a\u202eb"},
    {"run": "another"},
]


def wrong_part(change: dict[str, Any]) -> dict[str, Any]:
    """Return a part with one wrong field."""
    return {**PART, **change}


@pytest.mark.parametrize("change", WRONG, ids=str)
@pytest.mark.parametrize("role", ["user", "tool"])
def test_a_wrong_reference_is_no_message(role: str, change: dict[str, Any]) -> None:
    """Also beside a right one."""
    fields = {"role": role, "content": [PART, wrong_part(change)], "tool_call_id": "1"}
    with pytest.raises(MalformedMessage):
        Message.from_json(jsontext.dump(fields))


@pytest.mark.parametrize("change", WRONG, ids=str)
def test_a_model_may_write_any_reference(change: dict[str, Any]) -> None:
    """It is text, and no error: a hostile reply must not stop the run."""
    fields = {"role": "assistant", "content": [PART, wrong_part(change)]}
    assert not Message.from_json(jsontext.dump(fields)).has_attachments


@pytest.mark.parametrize(
    "parts",
    [
        *[jsontext.dump([PART, wrong_part(change)]) for change in WRONG],
        jsontext.dump([]),
        jsontext.dump([text_part("no attachment")]),
        jsontext.dump(PART),
        jsontext.dump("text"),
    ],
)
def test_wrong_parts_of_a_stored_call_are_refused(parts: str) -> None:
    """The field is read as strictly as a message."""
    returned = CallReturned(call_id="c3", content="x", parts_json=parts)
    state = apply_events(
        new_state(),
        reply_with_calls("transfer", "transfer"),
        accepted_event("c3"),
        CallStarted(call_id="c3"),
        returned,
    )
    with pytest.raises(FormatError, match="parts"):
        Continuation.from_bytes(Continuation(state).to_bytes())
