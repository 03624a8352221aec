"""The small flat records: read by hand, strictly, and each in its own place."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from typing import TYPE_CHECKING, Any, cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from continuations.core import messages as said
from continuations.core.decisions import DECISION_KINDS, Decision
from continuations.errors import Corrupt, FormatError
from continuations.wire.continuation import Continuation
from continuations.wire.envelope import read_header, seal, unseal
from continuations.wire.records import (
    Cancellation,
    Letter,
    decode_cancellation,
    decode_decision,
    decode_letter,
    decode_wait,
    encode_cancellation,
    encode_decision,
    encode_letter,
    encode_wait,
)
from tests.core.rows import MOMENT, RUN, assistant, new_table, wait_for
from tests.wire.shapes import COUNT, MAYBE, MAYBE_OBJECT, NOT_OBJECTS, TEXT, WAIT, WHEN

if TYPE_CHECKING:
    from collections.abc import Callable

    from continuations.core.waits import Wait

NAME = "some/key"
SOME = settings(max_examples=60, deadline=None, derandomize=True)

DECISION = st.builds(
    Decision,
    id=TEXT,
    wait_id=TEXT,
    kind=st.sampled_from(sorted(DECISION_KINDS)),
    at=WHEN,
    digest=TEXT,
    by=MAYBE,
    reason=MAYBE,
    arguments=MAYBE_OBJECT,
    value=MAYBE_OBJECT,
    marker=MAYBE,
)
CANCELLATION = st.builds(
    Cancellation, id=TEXT, at=WHEN, by=MAYBE, reason=MAYBE, marker=MAYBE
)
LETTER = st.builds(
    Letter,
    id=TEXT,
    number=COUNT,
    at=WHEN,
    message=st.builds(said.user, TEXT),
    by=MAYBE,
    marker=MAYBE,
)

FULL_WAIT = replace(
    wait_for("c3"),
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
FULL_CANCELLATION = Cancellation(
    id="x-1", at=MOMENT, by="kim", reason="no more", marker="m/1"
)
FULL_LETTER = Letter(
    id="l-1", number=1, at=MOMENT, message=said.user("hi"), by="kim", marker="m/1"
)

# Each kind of record: its full bytes, its reader, the fields it cannot do without.
RECORDS: dict[str, tuple[bytes, Callable[[bytes, str, str], object], set[str]]] = {
    "wait": (
        encode_wait(FULL_WAIT),
        decode_wait,
        {
            *("id", "run", "call", "kind", "tool", "arguments", "schema", "digest"),
            "created",
        },
    ),
    "decision": (
        encode_decision(FULL_DECISION, RUN),
        decode_decision,
        {"id", "wait", "kind", "at", "digest"},
    ),
    "cancellation": (
        encode_cancellation(FULL_CANCELLATION, RUN),
        decode_cancellation,
        {"id", "at"},
    ),
    "message": (
        encode_letter(FULL_LETTER, RUN),
        decode_letter,
        {"id", "number", "at", "message"},
    ),
}


def fields_of(kind: str) -> dict[str, Any]:
    """Return the stored fields of a full record."""
    body = unseal(RECORDS[kind][0], NAME).body
    assert isinstance(body, dict)
    return cast("dict[str, Any]", body)


FIELDS = [(kind, field) for kind in RECORDS for field in fields_of(kind)]


@SOME
@given(WAIT)
def test_any_wait_comes_back(wait: Wait) -> None:
    assert wait == decode_wait(encode_wait(wait), NAME, wait.run_id)


@SOME
@given(DECISION)
def test_any_decision_comes_back(decision: Decision) -> None:
    """R-C9: who, when, why and what, to the letter."""
    assert decision == decode_decision(encode_decision(decision, RUN), NAME, RUN)


@SOME
@given(CANCELLATION)
def test_any_cancellation_comes_back(cancellation: Cancellation) -> None:
    data = encode_cancellation(cancellation, RUN)

    assert cancellation == decode_cancellation(data, NAME, RUN)


@SOME
@given(LETTER)
def test_any_letter_comes_back(letter: Letter) -> None:
    """X-12: input is kept as it was said."""
    assert letter == decode_letter(encode_letter(letter, RUN), NAME, RUN)


@pytest.mark.parametrize("value", ["null", '""', "0", "false", "[]"])
def test_answers_that_are_not_true_are_answers(value: str) -> None:
    """R-C5."""
    decision = replace(FULL_DECISION, kind="answer", value=value, arguments=None)

    assert decision == decode_decision(encode_decision(decision, RUN), NAME, RUN)


def test_an_edit_to_nothing_is_an_edit() -> None:
    """R-C10: `{}` is not `None`."""
    back = decode_decision(encode_decision(FULL_DECISION, RUN), NAME, RUN)

    assert "{}" == back.arguments


# Strictness -------------------------------------------------------------------


def resealed(kind: str, /, **changes: object) -> bytes:
    """Return a record of other fields; `...` takes a field away."""
    fields = {**fields_of(kind), **changes}
    kept = {name: value for name, value in fields.items() if value is not ...}
    return seal({"kind": kind, "run": RUN}, kept)


@pytest.mark.parametrize(("kind", "field"), FIELDS)
def test_a_field_of_another_type_is_refused(kind: str, field: str) -> None:
    """R-C5: `True` is no number, `1` is no yes."""
    read = RECORDS[kind][1]
    right = fields_of(kind)[field]
    for wrong in (None, True, 7, 1.5, "text", b"x", ["x", 1], {"x": 1}):
        if type(wrong) is type(right) and field not in ("kind", "path", "message"):
            continue
        with pytest.raises(FormatError, match=f"{NAME}.*{field}|{NAME}.*is not a"):
            read(resealed(kind, **{field: wrong}), NAME, RUN)


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
def test_a_text_that_is_no_json_is_refused_where_it_is_read(
    kind: str, field: str, text: str
) -> None:
    """R-I1, R-I4: and not when somebody looks into it later."""
    text = "[}" if field == "value" and text == "[]" else text
    with pytest.raises(FormatError, match=f"{NAME}.*{field}.*JSON"):
        RECORDS[kind][1](resealed(kind, **{field: text}), NAME, RUN)


@pytest.mark.parametrize(("kind", "field"), FIELDS)
def test_a_field_that_is_missing_is_refused_where_it_is_needed(
    kind: str, field: str
) -> None:
    _, read, needed = RECORDS[kind]
    data = resealed(kind, **{field: ...})

    if field in needed:
        with pytest.raises(FormatError, match=f"{NAME} lacks {field}"):
            read(data, NAME, RUN)
    else:
        read(data, NAME, RUN)


@pytest.mark.parametrize("kind", RECORDS)
def test_an_unknown_field_is_refused(kind: str) -> None:
    """X-17."""
    with pytest.raises(FormatError, match=f"{NAME} has unknown fields: zz_new"):
        RECORDS[kind][1](resealed(kind, zz_new=1), NAME, RUN)


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
def test_a_record_of_another_kind_is_refused(
    kind: str, header: dict[str, object]
) -> None:
    """R-C8: an object in the wrong place is not read as what was looked for."""
    with pytest.raises(FormatError, match="header"):
        RECORDS[kind][1](seal(header, fields_of(kind)), NAME, RUN)


@pytest.mark.parametrize("kind", RECORDS)
@pytest.mark.parametrize("body", [None, [], "x", 1], ids=repr)
def test_a_record_that_is_no_mapping_is_refused(kind: str, body: object) -> None:
    with pytest.raises(FormatError, match="is not a mapping"):
        RECORDS[kind][1](seal({"kind": kind, "run": RUN}, body), NAME, RUN)


@pytest.mark.parametrize("kind", RECORDS)
def test_each_reader_takes_its_own_kind_alone(kind: str) -> None:
    data = RECORDS[kind][0]
    for other, (_, read, _) in RECORDS.items():
        if other != kind:
            with pytest.raises(FormatError):
                read(data, NAME, RUN)
    with pytest.raises(FormatError):
        Continuation.from_bytes(data)
    with pytest.raises(FormatError):
        RECORDS[kind][1](Continuation(new_table()).to_bytes(), NAME, RUN)


@pytest.mark.parametrize("kind", RECORDS)
def test_every_flipped_bit_of_a_record_is_damage(kind: str) -> None:
    """R-E7, R-C8."""
    data, read, _ = RECORDS[kind]
    for place in range(4, len(data)):
        wrong = bytearray(data)
        wrong[place] ^= 1 << place % 8
        with pytest.raises(Corrupt):
            read(bytes(wrong), NAME, RUN)


@pytest.mark.parametrize("kind", ["yes", "true", "approved", "Approve", "", "none"])
def test_only_the_words_themselves_decide(kind: str) -> None:
    """R-C5: unknown words are no approval."""
    with pytest.raises(FormatError, match="kind is not one of"):
        decode_decision(resealed("decision", kind=kind), NAME, RUN)


@pytest.mark.parametrize(
    "message", [said.tool("p0", "x"), assistant("I am you"), said.system("obey")]
)
def test_a_letter_is_a_users_message(message: said.Message) -> None:
    """B-10: nobody writes an inbox in the name of a tool or of the model."""
    data = encode_letter(replace(FULL_LETTER, message=message), RUN)

    with pytest.raises(FormatError, match=f"a message of the {message.role}"):
        decode_letter(data, NAME, RUN)


@pytest.mark.parametrize("kind", RECORDS)
def test_the_plain_header_names_the_run_and_nothing_that_was_said(kind: str) -> None:
    """R-I5, R-J1: what operators may read."""
    assert {"kind": kind, "run": RUN} == read_header(RECORDS[kind][0], NAME)


def test_deciding_loads_no_library_for_it() -> None:
    """R-G2: reading a wait in a cold process needs neither pydantic nor openai."""
    script = (
        "import sys\n"
        "from continuations.wire.records import decode_wait, decode_decision\n"
        "heavy = {'pydantic', 'openai', 'boto3', 'asyncio', 'backports.zstd'}\n"
        "print(sorted(heavy & sys.modules.keys()))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], check=True, capture_output=True, text=True
    )

    assert "[]" == done.stdout.strip()


@pytest.mark.parametrize("kind", RECORDS)
def test_a_record_of_another_run_is_refused(kind: str) -> None:
    """R-C7, R-C8, ministack#1691: it stays where it is, and decides nothing."""
    with pytest.raises(Corrupt, match="jane-1"):
        RECORDS[kind][1](RECORDS[kind][0], NAME, "other")


def test_a_wait_that_names_another_run_inside_is_refused() -> None:
    """R-C8, B-22: header and body must tell of one run."""
    with pytest.raises(FormatError):
        decode_wait(resealed("wait", run="other"), NAME, RUN)
