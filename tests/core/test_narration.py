"""What the model is told of calls that did not simply return."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations
from typing import TYPE_CHECKING

import pytest

from continuations.core import narration
from continuations.core.calls import (
    CallRow,
    Errored,
    Nested,
    Proposed,
    Ready,
    Refused,
    Returned,
    Started,
    Unknown,
    Waiting,
)
from tests.core.rows import decided

if TYPE_CHECKING:
    from continuations.core.calls import State


def row(state: State, attempts: int = 1) -> CallRow:
    return CallRow(
        id="c3",
        frame="f1",
        tool="transfer",
        provider_id="p0",
        written="{}",
        state=state,
        arguments='{"cents":5}',
        attempts=attempts,
    )


def test_every_refusal_can_be_told_from_every_other() -> None:
    """R-C11, eve#312: distinct codes, distinct words, none a success."""
    texts = [
        narration.refusal(row(Waiting("w1")), decided("deny")),
        narration.refusal(row(Waiting("w1")), decided("expire")),
        narration.refusal(row(Unknown("w1")), decided("deny")),
        narration.cancellation(row(Waiting("w1")), "by kim"),
        narration.cancellation(row(Started()), "by kim"),
        narration.cancellation(row(Nested("f4")), "by kim"),
    ]

    assert ["denied", "expired", "denied", *["cancelled"] * 3] == [
        t.code for t in texts
    ]
    for one, other in combinations(texts, 2):
        assert one.content != other.content


def test_a_persons_reason_reaches_the_model() -> None:
    """R-C11, X-02, SL-L3."""
    told = narration.refusal(row(Waiting("w1")), decided(reason="over budget"))

    assert told.content.startswith("DENIED")
    assert told.content.endswith("Reason: over budget")


@pytest.mark.parametrize("reason", [None, ""])
def test_no_reason_is_not_made_up(reason: str | None) -> None:
    told = narration.refusal(row(Waiting("w1")), decided(reason=reason))

    assert "Reason" not in told.content


@pytest.mark.parametrize("state", [Proposed(), Waiting("w1"), Ready()])
def test_what_never_ran_is_said_not_to_have_run(state: State) -> None:
    told = narration.cancellation(row(state, 0), "by kim")

    assert "it was not executed" in told.content
    assert "by kim" in told.content


@pytest.mark.parametrize("state", [Started(), Unknown("w1"), Nested("f4")])
def test_what_may_have_run_is_not_said_not_to_have(state: State) -> None:
    """B-14 a."""
    assert "not executed" not in narration.cancellation(row(state), "").content


def test_a_result_is_told_as_it_is() -> None:
    assert "42" == narration.result_of(row(Returned("42")))
    assert "ERROR" == narration.result_of(row(Errored("exception", "ERROR")))


def test_an_edit_is_told_with_what_was_run() -> None:
    """R-C10, langchain#33787."""
    edited = replace(row(Returned("42")), original='{"cents":500}')

    told = narration.result_of(edited)

    assert 'It was run with {"cents":5}, not as you wrote it.\n42' in told


@pytest.mark.parametrize(
    "state",
    [
        Refused("denied", "DENIED: not executed"),
        Errored("digest", "ERROR: not what was approved. Not executed."),
    ],
)
def test_an_edited_call_that_did_not_run_is_not_said_to_have(state: State) -> None:
    """B-14 b."""
    edited = replace(row(state), original='{"cents":500}')

    assert "It was run" not in narration.result_of(edited)


def test_an_edited_call_that_was_never_begun_is_not_said_to_have_run() -> None:
    edited = replace(row(Errored("x", "ERROR"), 0), original='{"cents":500}')

    assert "ERROR" == narration.result_of(edited)
