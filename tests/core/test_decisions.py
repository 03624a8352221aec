"""Verdicts, and the record of a decision."""

from __future__ import annotations

from dataclasses import FrozenInstanceError, replace
from typing import get_args

import pytest

from continuations.core.rows.decisions import (
    DECISION_KINDS,
    Answer,
    Approve,
    Decision,
    DecisionKind,
)
from tests.core.rows import MOMENT, make_decision


def test_is_repeat_of_is_true_for_a_decision_delivered_twice() -> None:
    """A repeat may have another id, time, digest or marker."""
    first = make_decision("deny", reason="too much")
    again = replace(first, id="d-2", at=MOMENT.replace(year=2027), marker="m")

    assert first.is_repeat_of(again)


@pytest.mark.parametrize(
    "other",
    [
        replace(make_decision(), kind="approve"),
        replace(make_decision(), wait_id="w2"),
        replace(make_decision(), by="kim"),
        replace(make_decision(), reason="because"),
        replace(make_decision(), arguments="{}"),
        replace(make_decision(), value="null"),
    ],
    ids=["kind", "wait", "by", "reason", "arguments", "value"],
)
def test_is_repeat_of_is_false_for_another_decision(other: Decision) -> None:
    """An edit to `{}` and an answer of `null` count as data."""
    assert not make_decision().is_repeat_of(other)
    assert not other.is_repeat_of(make_decision())


def test_decision_kinds_match_the_type() -> None:
    assert set(get_args(DecisionKind)) == DECISION_KINDS
    kinds = {"approve", "deny", "answer", "fail", "expire", "cancel"}
    assert kinds == DECISION_KINDS


@pytest.mark.parametrize("value", [None, "", 0, False, [], {}])
def test_answer_accepts_falsy_values(value: object) -> None:
    assert value == Answer(value).value


def test_decisions_are_frozen() -> None:
    verdict = Approve(by="kim")
    with pytest.raises(FrozenInstanceError):
        verdict.by = "eve"  # type: ignore[misc]
