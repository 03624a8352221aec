"""What ends a wait, and the record that is kept of it."""

from __future__ import annotations

from dataclasses import FrozenInstanceError, replace
from typing import get_args

import pytest

from continuations.core.decisions import (
    DECISION_KINDS,
    Answer,
    Approve,
    Decision,
    DecisionKind,
)
from tests.core.rows import MOMENT, decided


def test_a_decision_delivered_twice_says_the_same() -> None:
    """R-A2, R-G3: another id, time, digest or marker is not another decision."""
    first = decided("deny", reason="too much")
    again = replace(first, id="d-2", at=MOMENT.replace(year=2027), marker="m")

    assert first.says_the_same(again)


@pytest.mark.parametrize(
    "other",
    [
        replace(decided(), kind="approve"),
        replace(decided(), wait_id="w2"),
        replace(decided(), by="kim"),
        replace(decided(), reason="because"),
        replace(decided(), arguments="{}"),
        replace(decided(), value="null"),
    ],
    ids=["kind", "wait", "by", "reason", "arguments", "value"],
)
def test_another_decision_says_another_thing(other: Decision) -> None:
    """R-A1: an edit to `{}` and an answer of `null` are things that were said."""
    assert not decided().says_the_same(other)
    assert not other.says_the_same(decided())


def test_every_kind_has_its_name() -> None:
    assert set(get_args(DecisionKind)) == DECISION_KINDS
    assert {"approve", "deny", "answer", "expire", "cancel"} == DECISION_KINDS


@pytest.mark.parametrize("value", [None, "", 0, False, [], {}])
def test_an_answer_may_be_anything_that_is_not_true(value: object) -> None:
    """R-C5."""
    assert value == Answer(value).value


def test_what_was_said_cannot_be_unsaid() -> None:
    verdict = Approve(by="kim")
    with pytest.raises(FrozenInstanceError):
        verdict.by = "eve"  # type: ignore[misc]
