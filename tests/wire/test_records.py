"""The small flat records: read by hand, strictly, and each in its own place."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from typing import TYPE_CHECKING, Any

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
from tests.wire.test_v1 import COUNT, MAYBE, TEXT, WAIT, WHEN

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
    arguments=MAYBE,
    value=MAYBE,
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
RECORDS: dict[str, tuple[bytes, Callable[[bytes, str], object], set[str]]] = {
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
FIELDS = [
    (kind, field)
    for kind, (data, _, _) in RECORDS.items()
    for field in sorted(body_of(data))
] if (body_of := lambda data: unseal(data, NAME).body) else []


@SOME
@given(WAIT)
def test_any_wait_comes_back(wait: Wait) -> None:
    assert wait == decode_wait(encode_wait(wait), NAME)


@SOME
@given(DECISION)
def test_any_decision_comes_back(decision: Decision) -> None:
    """R-C9: who, when, why and what, to the letter."""
    assert decision == decode_decision(encode_decision(decision, RUN), NAME)


@SOME
@given(CANCELLATION)
def test_any_cancellation_comes_back(cancellation: Cancellation) -> None:
    data = encode_cancellation(cancellation, RUN)

    assert cancellation == decode_cancellation(data, NAME)


@SOME
@given(LETTER)
def test_any_letter_comes_back(letter: Letter) -> None:
    """X-12: input is kept as it was said."""
    assert letter == decode_letter(encode_letter(letter, RUN), NAME)
