"""Texts that the model reads about calls that did not simply return."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations

import pytest

from continuations.core.changes import tool_messages
from continuations.core.rows.calls import (
    CallRow,
    CallState,
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
from tests.core.rows import make_decision


def call_row(state: CallState, attempts: int = 1) -> CallRow:
    return CallRow(
        id="c3",
        frame_id="f1",
        tool="transfer",
        tool_call_id="p0",
        raw_arguments="{}",
        state=state,
        arguments='{"cents":5}',
        attempts=attempts,
    )


def test_refusal_texts_are_distinct() -> None:
    """A model cannot confuse a denial, an expiry, a cancellation and a success."""
    states = [
        tool_messages.refused_state(call_row(Waiting("w1")), make_decision("deny")),
        tool_messages.refused_state(call_row(Waiting("w1")), make_decision("expire")),
        tool_messages.refused_state(call_row(Unknown("w1")), make_decision("deny")),
        tool_messages.cancelled_state(call_row(Waiting("w1")), "by kim"),
        tool_messages.cancelled_state(call_row(Started()), "by kim"),
        tool_messages.cancelled_state(call_row(Nested("f4")), "by kim"),
    ]

    assert ["denied", "expired", "not_executed", *["cancelled"] * 3] == [
        state.code for state in states
    ]
    for one, other in combinations(states, 2):
        assert one.content != other.content


def test_denial_reason_reaches_the_model() -> None:
    state = tool_messages.refused_state(
        call_row(Waiting("w1")), make_decision(reason="over budget")
    )

    assert state.content.startswith("DENIED")
    assert state.content.endswith("Reason: over budget")


@pytest.mark.parametrize("reason", [None, ""])
def test_refusal_without_reason_mentions_no_reason(reason: str | None) -> None:
    state = tool_messages.refused_state(
        call_row(Waiting("w1")), make_decision(reason=reason)
    )

    assert "Reason" not in state.content


@pytest.mark.parametrize("state", [Proposed(), Waiting("w1"), Ready()])
def test_cancelled_call_that_never_ran_is_reported_as_not_executed(
    state: CallState,
) -> None:
    refused = tool_messages.cancelled_state(call_row(state, 0), "by kim")

    assert "it was not executed" in refused.content
    assert "by kim" in refused.content


@pytest.mark.parametrize("state", [Started(), Unknown("w1"), Nested("f4")])
def test_cancelled_call_that_may_have_run_is_not_reported_as_not_executed(
    state: CallState,
) -> None:
    assert (
        "not executed" not in tool_messages.cancelled_state(call_row(state), "").content
    )


def test_result_reaches_the_model_unchanged() -> None:
    assert "42" == tool_messages.tool_message_text(call_row(Returned("42")))
    assert "ERROR" == tool_messages.tool_message_text(
        call_row(Errored("exception", "ERROR"))
    )


def test_edited_call_reports_the_executed_arguments() -> None:
    """After an edit, the model learns which arguments the tool ran with."""
    edited = replace(call_row(Returned("42")), original_arguments='{"cents":500}')

    content = tool_messages.tool_message_text(edited)

    assert 'The tool ran with {"cents":5} instead of your arguments.\n42' in content


@pytest.mark.parametrize(
    ("state", "attempts"),
    [
        (Refused("denied", "DENIED: not executed"), 1),
        (Errored("stale", "ERROR: not what was approved. Not executed."), 0),
    ],
)
def test_edited_call_that_did_not_run_is_not_reported_as_run(
    state: CallState, attempts: int
) -> None:
    row = replace(call_row(state), attempts=attempts)
    edited = replace(row, original_arguments='{"cents":500}')

    assert "The tool ran" not in tool_messages.tool_message_text(edited)


def test_edited_call_that_never_began_is_not_reported_as_run() -> None:
    edited = replace(
        call_row(Errored("x", "ERROR"), 0), original_arguments='{"cents":500}'
    )

    assert "ERROR" == tool_messages.tool_message_text(edited)


@pytest.mark.parametrize(("by", "who"), [("kim", "A person"), ("verify", "The tool")])
def test_denied_unknown_outcome_names_who_confirmed(by: str, who: str) -> None:
    """The model reads whether a person or the tool confirmed that nothing happened."""
    decision = replace(make_decision("deny"), by=by)

    state = tool_messages.refused_state(call_row(Unknown("w1")), decision)

    assert f"{who} confirmed that it did not happen" in state.content
