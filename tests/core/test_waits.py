"""A call that stands still, and the digest that its approval is bound to."""

from __future__ import annotations

from typing import get_args

import pytest

from continuations.core.waits import WAIT_KINDS, WaitKind, call_digest
from tests.core.rows import wait_for

PARTS = {
    "birth": "b",
    "frame_id": "f1",
    "call_id": "c3",
    "arguments": '{"cents":5}',
    "meaning": "m",
}


def digest(**changes: str) -> str:
    parts = PARTS | changes
    return call_digest(
        birth=parts["birth"],
        frame_id=parts["frame_id"],
        call_id=parts["call_id"],
        arguments=parts["arguments"],
        meaning=parts["meaning"],
    )


def test_a_digest_is_always_the_same() -> None:
    assert digest() == digest()
    assert 64 == len(digest())


@pytest.mark.parametrize("part", PARTS)
def test_a_digest_is_bound_to_each_of_its_parts(part: str) -> None:
    """R-C1, R-C7: run, frame, call, arguments and what the tool means."""
    assert digest() != digest(**{part: PARTS[part] + "x"})


def test_parts_do_not_run_into_one_another() -> None:
    assert digest(frame_id="f1", call_id="c3") != digest(frame_id="f1c", call_id="3")


def test_arguments_are_read_afresh() -> None:
    wait = wait_for("c3")
    wait.arguments["cents"] = 1
    wait.schema["type"] = "array"

    assert {"cents": 500} == wait.arguments
    assert {"type": "object"} == wait.schema


def test_every_kind_has_its_name() -> None:
    assert {"approval", "unknown"} == WAIT_KINDS == set(get_args(WaitKind))
