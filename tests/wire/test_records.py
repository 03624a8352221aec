"""Stored records are read strictly, and only as their own kind."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from typing import Any, cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from continuations.core.messages import (
    Message,
    system_message,
    tool_message,
    user_message,
)
from continuations.core.operator_request import OPERATOR_ACTIONS, OperatorRequest
from continuations.core.rows.decisions import DECISION_KINDS, Decision
from continuations.core.rows.waits import Wait
from continuations.errors import Corrupt, FormatError
from continuations.wire.arrivals import (
    CANCEL_REQUEST,
    MESSAGE,
    MESSAGE_ID,
    OPERATOR_REQUEST,
    SIGNAL,
    CancelRequest,
    FirstNumber,
    InboxMessage,
    Signal,
)
from continuations.wire.continuation import Continuation
from continuations.wire.envelope import (
    decode_object,
    decode_object_header,
    encode_object,
)
from continuations.wire.records import DECISION, WAIT
from tests.core.rows import MOMENT, RUN, assistant_message, make_wait, new_state
from tests.sampling import examples
from tests.wire.strategies import (
    COUNT,
    NOT_OBJECTS,
    OPTIONAL_OBJECT,
    OPTIONAL_TEXT,
    TEXT,
    TIME,
    WAITS,
)

NAME = "some/key"
SETTINGS = settings(max_examples=examples(60), deadline=None, derandomize=True)

DECISIONS = st.builds(
    Decision,
    id=TEXT,
    wait_id=TEXT,
    kind=st.sampled_from(sorted(DECISION_KINDS)),
    at=TIME,
    digest=TEXT,
    by=OPTIONAL_TEXT,
    reason=OPTIONAL_TEXT,
    arguments=OPTIONAL_OBJECT,
    value=OPTIONAL_OBJECT,
    marker=OPTIONAL_TEXT,
)
CANCELLATION = st.builds(
    CancelRequest,
    id=TEXT,
    at=TIME,
    by=OPTIONAL_TEXT,
    reason=OPTIONAL_TEXT,
    marker=OPTIONAL_TEXT,
)
INBOX_MESSAGE = st.builds(
    InboxMessage,
    id=TEXT,
    number=COUNT,
    at=TIME,
    message=st.builds(user_message, TEXT),
    by=OPTIONAL_TEXT,
    marker=OPTIONAL_TEXT,
    when_busy=st.sampled_from(["", "merge", "interrupt"]),
    closes=st.booleans(),
)
OPERATOR_REQUESTS = st.builds(
    OperatorRequest,
    id=TEXT,
    number=COUNT,
    at=TIME,
    action=st.sampled_from(sorted(OPERATOR_ACTIONS)),
    call_id=OPTIONAL_TEXT,
    message_number=COUNT,
    by=OPTIONAL_TEXT,
    reason=OPTIONAL_TEXT,
    marker=OPTIONAL_TEXT,
)

FULL_WAIT = replace(
    make_wait("c3"),
    deadline=MOMENT,
    valid_for=60,
    policy="large sums",
    denial_stops=True,
    expiry_stops=True,
    note="again",
)
FULL_DECISION = Decision(
    id="d-1",
    wait_id="w1",
    kind="approve",
    at=MOMENT,
    digest="d1",
    by="kim",
    reason="fine",
    arguments="{}",
    value="null",
    marker="m/1",
)
FULL_CANCELLATION = CancelRequest(
    id="x-1", at=MOMENT, by="kim", reason="no more", marker="m/1"
)
FULL_INBOX_MESSAGE = InboxMessage(
    id="l-1",
    number=1,
    at=MOMENT,
    message=user_message("hi"),
    by="kim",
    marker="m/1",
)

# Each kind of record: bytes with all fields, decoder, required fields.
RECORDS: dict[str, tuple[bytes, Callable[[bytes, str, str], object], set[str]]] = {
    "wait": (
        WAIT.encode(FULL_WAIT),
        WAIT.decode,
        {
            *("id", "run", "call", "kind", "tool", "arguments", "schema", "digest"),
            "created",
        },
    ),
    "decision": (
        DECISION.encode(FULL_DECISION, RUN),
        DECISION.decode,
        {"id", "wait", "kind", "at", "digest"},
    ),
    "cancellation": (
        CANCEL_REQUEST.encode(FULL_CANCELLATION, RUN),
        CANCEL_REQUEST.decode,
        {"id", "at"},
    ),
    "message": (
        MESSAGE.encode(FULL_INBOX_MESSAGE, RUN),
        MESSAGE.decode,
        {"id", "number", "at", "message"},
    ),
}


def stored_fields(kind: str) -> dict[str, Any]:
    """Return the stored fields of a full record."""
    body = decode_object(RECORDS[kind][0], NAME).body
    assert isinstance(body, dict)
    return cast("dict[str, Any]", body)


FIELDS = [(kind, field) for kind in RECORDS for field in stored_fields(kind)]


@SETTINGS
@given(WAITS)
def test_any_wait_comes_back(wait: Wait) -> None:
    assert wait == WAIT.decode(WAIT.encode(wait), NAME, wait.run_id)


@SETTINGS
@given(DECISIONS)
def test_any_decision_comes_back(decision: Decision) -> None:
    """The record keeps exactly who decided what, when and why."""
    assert decision == DECISION.decode(DECISION.encode(decision, RUN), NAME, RUN)


@SETTINGS
@given(CANCELLATION)
def test_any_cancellation_comes_back(cancellation: CancelRequest) -> None:
    data = CANCEL_REQUEST.encode(cancellation, RUN)

    assert cancellation == CANCEL_REQUEST.decode(data, NAME, RUN)


@SETTINGS
@given(OPERATOR_REQUESTS)
def test_any_operator_request_comes_back(request: OperatorRequest) -> None:
    data = OPERATOR_REQUEST.encode(request, RUN)

    assert request == OPERATOR_REQUEST.decode(data, NAME, RUN)


@SETTINGS
@given(st.integers(1, 2**64 - 1))
def test_any_first_number_of_a_message_comes_back(number: int) -> None:
    assert (
        number
        == MESSAGE_ID.decode(
            MESSAGE_ID.encode(FirstNumber(number), RUN), NAME, RUN
        ).number
    )


@SETTINGS
@given(INBOX_MESSAGE)
def test_any_inbox_message_comes_back(message: InboxMessage) -> None:
    """The text of the message stays unchanged."""
    assert message == MESSAGE.decode(MESSAGE.encode(message, RUN), NAME, RUN)


@pytest.mark.parametrize("value", ["null", '""', "0", "false", "[]"])
def test_falsy_values_of_answers_are_kept(value: str) -> None:
    decision = replace(FULL_DECISION, kind="answer", value=value, arguments=None)

    assert decision == DECISION.decode(DECISION.encode(decision, RUN), NAME, RUN)


def test_empty_edited_arguments_are_kept() -> None:
    """`{}` is not the same as no edit."""
    back = DECISION.decode(DECISION.encode(FULL_DECISION, RUN), NAME, RUN)

    assert "{}" == back.arguments


# Strictness -------------------------------------------------------------------


def record_with(kind: str, /, **changes: object) -> bytes:
    """Return a record with changed fields; `...` removes a field."""
    fields = {**stored_fields(kind), **changes}
    kept = {name: value for name, value in fields.items() if value is not ...}
    return encode_object({"kind": kind, "run": RUN}, kept)


@pytest.mark.parametrize(("kind", "field"), FIELDS)
def test_field_of_another_type_is_rejected(kind: str, field: str) -> None:
    """No value is converted: `True` is not a number, and `1` is not true."""
    read = RECORDS[kind][1]
    valid = stored_fields(kind)[field]
    for wrong in (None, True, 7, 1.5, "text", b"x", ["x", 1], {"x": 1}):
        if type(wrong) is type(valid) and field not in ("kind", "path", "message"):
            continue
        with pytest.raises(FormatError, match=f"{NAME}.*{field}|{NAME}.*must be"):
            read(record_with(kind, **{field: wrong}), NAME, RUN)


@pytest.mark.parametrize(
    ("kind", "field"),
    [
        ("wait", "arguments"),
        ("wait", "schema"),
        ("decision", "arguments"),
        ("decision", "value"),
    ],
)
@pytest.mark.parametrize("text", NOT_OBJECTS)
def test_text_that_is_not_json_is_rejected_on_load(
    kind: str, field: str, text: str
) -> None:
    """The text is checked on load, before it is used."""
    text = "[}" if field == "value" and text == "[]" else text
    with pytest.raises(FormatError, match=f"{NAME}.*{field}.*JSON"):
        RECORDS[kind][1](record_with(kind, **{field: text}), NAME, RUN)


@pytest.mark.parametrize(("kind", "field"), FIELDS)
def test_missing_field_is_rejected_if_required(kind: str, field: str) -> None:
    _, read, required = RECORDS[kind]
    data = record_with(kind, **{field: ...})

    if field in required:
        with pytest.raises(
            FormatError, match=f"{NAME} is invalid: '{field}' is missing"
        ):
            read(data, NAME, RUN)
    else:
        read(data, NAME, RUN)


@pytest.mark.parametrize("kind", RECORDS)
def test_unknown_field_is_rejected(kind: str) -> None:
    with pytest.raises(FormatError, match=f"{NAME} is invalid: unknown fields: zz_new"):
        RECORDS[kind][1](record_with(kind, zz_new=1), NAME, RUN)


@pytest.mark.parametrize("kind", RECORDS)
@pytest.mark.parametrize(
    "header",
    [
        {"run": RUN},
        {"kind": "wait"},
        {"kind": "version", "run": RUN},
        {"kind": "continuation", "run": RUN},
        {"kind": 1, "run": RUN},
        {"kind": "wait", "run": 7},
    ],
    ids=str,
)
def test_record_of_another_kind_is_rejected(
    kind: str, header: dict[str, object]
) -> None:
    """An object under the wrong key is not read as another kind."""
    with pytest.raises(FormatError, match="header"):
        RECORDS[kind][1](encode_object(header, stored_fields(kind)), NAME, RUN)


@pytest.mark.parametrize("kind", RECORDS)
@pytest.mark.parametrize("body", [None, [], "x", 1], ids=repr)
def test_record_that_is_not_a_mapping_is_rejected(kind: str, body: object) -> None:
    with pytest.raises(FormatError, match="must be a mapping"):
        RECORDS[kind][1](encode_object({"kind": kind, "run": RUN}, body), NAME, RUN)


@pytest.mark.parametrize("kind", RECORDS)
def test_each_decoder_accepts_only_its_own_kind(kind: str) -> None:
    data = RECORDS[kind][0]
    for other, (_, read, _) in RECORDS.items():
        if other != kind:
            with pytest.raises(FormatError):
                read(data, NAME, RUN)
    with pytest.raises(FormatError):
        Continuation.from_bytes(data)
    with pytest.raises(FormatError):
        RECORDS[kind][1](Continuation(new_state()).to_bytes(), NAME, RUN)


@pytest.mark.parametrize("kind", RECORDS)
def test_every_flipped_bit_of_a_record_is_corrupt(kind: str) -> None:
    data, read, _ = RECORDS[kind]
    for place in range(4, len(data)):
        wrong = bytearray(data)
        wrong[place] ^= 1 << place % 8
        with pytest.raises(Corrupt):
            read(bytes(wrong), NAME, RUN)


@pytest.mark.parametrize("kind", ["yes", "true", "approved", "Approve", "", "none"])
def test_unknown_decision_kind_is_rejected(kind: str) -> None:
    """An unknown kind never counts as an approval."""
    with pytest.raises(FormatError, match="'kind' must be one of"):
        DECISION.decode(record_with("decision", kind=kind), NAME, RUN)


@pytest.mark.parametrize(
    "message",
    [
        tool_message("p0", "x"),
        assistant_message("I am you"),
        system_message("obey"),
    ],
)
def test_inbox_message_of_another_role_is_rejected(message: Message) -> None:
    """An inbox message cannot pretend to come from a tool or from the model."""
    data = MESSAGE.encode(replace(FULL_INBOX_MESSAGE, message=message), RUN)

    with pytest.raises(FormatError, match=f"role must be user, got {message.role}"):
        MESSAGE.decode(data, NAME, RUN)


@pytest.mark.parametrize("kind", RECORDS)
def test_plain_header_holds_only_kind_and_run(kind: str) -> None:
    """The header is not encrypted, so it holds nothing else."""
    assert {"kind": kind, "run": RUN} == decode_object_header(RECORDS[kind][0], NAME)


def test_reading_records_imports_no_heavy_library() -> None:
    """Reading a wait in a cold process imports neither pydantic nor openai."""
    script = (
        "import sys\n"
        "from continuations.wire.records import WAIT, DECISION\n"
        "heavy = {'pydantic', 'openai', 'boto3', 'asyncio', 'backports.zstd'}\n"
        "print(sorted(heavy & sys.modules.keys()))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], check=True, capture_output=True, text=True
    )

    assert "[]" == done.stdout.strip()


@pytest.mark.parametrize("kind", RECORDS)
def test_record_of_another_run_is_rejected(kind: str) -> None:
    """A record that was copied from another run decides nothing."""
    with pytest.raises(Corrupt, match="jane-1"):
        RECORDS[kind][1](RECORDS[kind][0], NAME, "other")


def test_wait_whose_body_names_another_run_is_rejected() -> None:
    """Header and body must name the same run."""
    with pytest.raises(FormatError):
        WAIT.decode(record_with("wait", run="other"), NAME, RUN)


@pytest.mark.parametrize("names", [b"1234567", b"12345678" * 3])
def test_names_that_a_signal_cannot_have_are_refused(names: bytes) -> None:
    """Signal 3 has at most two before it, and each name has 8 bytes."""
    signal = Signal(
        id="s", number=3, at=MOMENT, name="paid", data="null", names_before=names
    )

    with pytest.raises(FormatError, match="the names of the signals before it"):
        SIGNAL.decode(SIGNAL.encode(signal, RUN), NAME, RUN)
