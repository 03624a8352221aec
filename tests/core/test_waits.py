"""A call that stands still, and the digest that its approval is bound to."""

from __future__ import annotations

from typing import get_args

import pytest

from continuations.core.waits import WAIT_KINDS, WaitKind, call_digest
from tests.core.rows import make_wait

PARTS = {
    "birth": "b",
    "frame_id": "f1",
    "call_id": "c3",
    "arguments": '{"cents":5}',
    "meaning": "m",
}


def call_digest_with(**changes: str) -> str:
    parts = PARTS | changes
    return call_digest(
        run_nonce=parts["birth"],
        frame_id=parts["frame_id"],
        call_id=parts["call_id"],
        arguments=parts["arguments"],
        contract_digest=parts["meaning"],
    )


def test_a_digest_is_always_the_same() -> None:
    assert call_digest_with() == call_digest_with()
    assert 64 == len(call_digest_with())


@pytest.mark.parametrize("part", PARTS)
def test_a_digest_is_bound_to_each_of_its_parts(part: str) -> None:
    """R-C1, R-C7: run, frame, call, arguments and what the tool means."""
    assert call_digest_with() != call_digest_with(**{part: PARTS[part] + "x"})


def test_digest_separates_its_parts() -> None:
    assert call_digest_with(frame_id="f1", call_id="c3") != call_digest_with(
        frame_id="f1c", call_id="3"
    )


def test_arguments_and_schema_are_copies() -> None:
    wait = make_wait("c3")
    wait.arguments["cents"] = 1
    wait.schema["type"] = "array"

    assert {"cents": 500} == wait.arguments
    assert {"type": "object"} == wait.schema


def test_wait_kinds_match_the_type() -> None:
    assert {"approval", "unknown"} == WAIT_KINDS == set(get_args(WaitKind))
