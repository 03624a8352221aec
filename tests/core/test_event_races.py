"""Two events race for one call: the first one wins, the second raises an error."""

from __future__ import annotations

from itertools import permutations

import pytest

from continuations.core.changes import events, invariants
from continuations.core.changes.reducer import advance
from continuations.core.rows.calls import Ready, Waiting
from continuations.core.rows.run import Failure
from continuations.core.rows.state import ROOT_FRAME_ID
from continuations.errors import IllegalTransition
from tests.core.rows import (
    apply_events,
    make_decision,
    make_wait,
    new_state,
    reply_with_calls,
    reply_with_text,
    state_with_call_in,
)

STOP = events.RunStopped(failure=Failure(code="cancelled", message="by kim"))


def case_id(value: object) -> str:
    return type(value).__name__


DECISION_EVENTS: tuple[events.CallEvent, ...] = (
    events.Approved(call_id="c3", digest="d1"),
    events.Denied(call_id="c3", decision=make_decision()),
    events.Expired(call_id="c3", decision=make_decision("expire")),
)
RACES = [(a, b) for a in DECISION_EVENTS for b in DECISION_EVENTS]


@pytest.mark.parametrize(("first", "second"), RACES, ids=case_id)
def test_second_decision_of_a_call_is_rejected(
    first: events.CallEvent, second: events.CallEvent
) -> None:
    """Promise 2 (one decision): the error names the second event."""
    state = apply_events(state_with_call_in(Waiting("w1")), first)

    with pytest.raises(IllegalTransition, match=type(second).__name__):
        advance(state, second)


@pytest.mark.parametrize(
    ("first", "second"),
    [
        pair
        for pair in permutations(
            (
                events.CallReturned(call_id="c3", content="ran"),
                events.CallRaised(call_id="c3", code="x", content="ERROR"),
                events.OutcomeUnknown(
                    call_id="c3", wait=make_wait("c3", "w9", "unknown")
                ),
                events.RepeatAllowed(call_id="c3"),
            ),
            2,
        )
        if (type(pair[0]), type(pair[1]))
        != (events.RepeatAllowed, events.OutcomeUnknown)
    ],
    ids=case_id,
)
def test_second_result_of_one_attempt_is_rejected(
    first: events.CallEvent, second: events.CallEvent
) -> None:
    """A result is rejected after the outcome became unknown, and vice versa.

    One pair is allowed: a call that may be repeated is checked before it begins again.
    """
    state = apply_events(
        state_with_call_in(Ready()), events.CallStarted(call_id="c3"), first
    )

    with pytest.raises(IllegalTransition, match=type(second).__name__):
        advance(state, second)


@pytest.mark.parametrize(
    ("first", "second"),
    list(
        permutations(
            (
                events.Approved(call_id="c3", digest="d1"),
                events.Denied(call_id="c3", decision=make_decision()),
                events.Answered(call_id="c3", content="it did"),
                events.Unverified(call_id="c3"),
            ),
            2,
        )
    ),
    ids=case_id,
)
def test_second_decision_of_an_unknown_outcome_is_rejected(
    first: events.CallEvent, second: events.CallEvent
) -> None:
    """Only `Unverified` leaves the outcome open for a second event."""
    unknown = events.OutcomeUnknown(call_id="c3", wait=make_wait("c3", "w1", "unknown"))
    state = apply_events(
        state_with_call_in(Ready()), events.CallStarted(call_id="c3"), unknown, first
    )

    if isinstance(first, events.Unverified):
        assert invariants.find_violation(advance(state, second)) is None
    else:
        with pytest.raises(IllegalTransition, match=type(second).__name__):
            advance(state, second)


def test_approval_after_cancellation_is_rejected() -> None:
    """An approved call that has not started is cancelled, too."""
    approve, waiting = DECISION_EVENTS[0], state_with_call_in(Waiting("w1"))

    with pytest.raises(IllegalTransition):
        advance(apply_events(waiting, STOP), approve)

    cancelled = apply_events(waiting, approve, STOP)
    tool_message_text = cancelled.logs[ROOT_FRAME_ID].messages[-2].content
    assert tool_message_text.startswith("CANCELLED: it was not executed")


@pytest.mark.parametrize(
    "event",
    [
        events.CallStarted(call_id="c99"),
        events.Approved(call_id="c99", digest="d"),
        events.CallReturned(call_id="c99", content="x"),
        reply_with_text("x", frame="f99"),
    ],
    ids=case_id,
)
def test_event_for_a_missing_row_is_rejected(event: events.Event) -> None:
    """An event is never applied to another row."""
    with pytest.raises(IllegalTransition, match="99"):
        advance(new_state(), event)


def test_reply_for_a_frame_with_open_calls_is_rejected() -> None:
    """Two workers asked the model for one frame: the second reply is rejected."""
    with pytest.raises(IllegalTransition, match="f1"):
        advance(apply_events(new_state(), reply_with_calls("a")), reply_with_text("x"))
