"""The table of transitions: every pair of state and event."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import FrozenInstanceError, is_dataclass
from typing import Any, get_args

import pytest

from continuations.core.changes import events, invariants
from continuations.core.changes.reducer import advance
from continuations.core.changes.transitions import TRANSITIONS, next_state
from continuations.core.rows import calls
from continuations.errors import IllegalTransition
from continuations.value_class import replace
from tests.core import rows

CALL = "c3"
EVENTS: tuple[events.CallEvent, ...] = (
    rows.accepted_event(CALL),
    rows.approval_requested_event(CALL, "w2"),
    events.CallInvalid(call_id=CALL, code="arguments", content="ERROR: no"),
    events.CallStarted(call_id=CALL),
    rows.sub_agent_started_event(CALL),
    events.HandedOver(call_id=CALL, handoff=calls.Handoff("refunds", "You refund.")),
    events.CallReturned(call_id=CALL, content="42"),
    events.CallRaised(call_id=CALL, code="exception", content="ERROR: it broke"),
    events.CallParked(call_id=CALL, wait=rows.make_wait(CALL, "w2", "question")),
    events.AnswerReceived(call_id=CALL, answer="42"),
    events.OutcomeUnknown(call_id=CALL, wait=rows.make_wait(CALL, "w2", "unknown")),
    events.RepeatAllowed(call_id=CALL),
    events.Unverified(call_id=CALL),
    events.Approved(call_id=CALL, digest="d1"),
    events.Denied(call_id=CALL, decision=rows.make_decision()),
    events.Expired(call_id=CALL, decision=rows.make_decision("expire")),
    events.Answered(call_id=CALL, content="it did"),
    events.Reopened(call_id=CALL, wait=rows.make_wait(CALL, "w2")),
    events.CallCancelled(call_id=CALL, reason="by kim"),
)
PAIRS = [(state, event) for state in rows.STATES for event in EVENTS]
LEGAL = [p for p in PAIRS if (type(p[0]), type(p[1])) in TRANSITIONS]
ILLEGAL = [p for p in PAIRS if (type(p[0]), type(p[1])) not in TRANSITIONS]


def pair_ids(pairs: Iterable[tuple[calls.CallState, events.CallEvent]]) -> list[str]:
    return [f"{calls.STATE_NAMES[type(s)]}-{type(e).__name__}" for s, e in pairs]


def test_every_state_and_every_event_is_tested() -> None:
    """The lists of states and events above are complete."""
    assert set(get_args(calls.CallState)) == {type(state) for state in rows.STATES}
    assert set(get_args(events.CallEvent)) == {type(event) for event in EVENTS}
    assert (
        set(calls.STATE_TYPES.values())
        == set(calls.STATE_NAMES)
        == set(get_args(calls.CallState))
    )
    assert {cls for _, cls in TRANSITIONS} <= set(get_args(events.CallEvent))
    assert len(TRANSITIONS) == len(LEGAL)
    assert 10 * 19 == len(LEGAL) + len(ILLEGAL)


@pytest.mark.parametrize(("state", "event"), ILLEGAL, ids=pair_ids(ILLEGAL))
def test_illegal_transition_error_names_state_and_event(
    state: calls.CallState, event: events.CallEvent
) -> None:
    with pytest.raises(IllegalTransition) as caught:
        next_state(CALL, state, event)

    assert calls.STATE_NAMES[type(state)] in str(caught.value)
    assert type(event).__name__ in str(caught.value)
    assert CALL in str(caught.value)


@pytest.mark.parametrize(("state", "event"), ILLEGAL, ids=pair_ids(ILLEGAL))
def test_advance_rejects_a_pair_that_is_not_in_the_table(
    state: calls.CallState, event: events.CallEvent
) -> None:
    """The state of the run does not change."""
    run_state = rows.state_with_call_in(state)
    kept = (
        run_state.run,
        dict(run_state.calls),
        dict(run_state.waits),
        dict(run_state.frames),
    )

    with pytest.raises(IllegalTransition) as caught:
        advance(run_state, event)

    assert kept == (run_state.run, run_state.calls, run_state.waits, run_state.frames)
    assert CALL in str(caught.value)
    assert type(event).__name__ in str(caught.value)


UNNESTED_PAIRS = [p for p in LEGAL if not isinstance(p[0], calls.Nested)]


@pytest.mark.parametrize(
    ("state", "event"), UNNESTED_PAIRS, ids=pair_ids(UNNESTED_PAIRS)
)
def test_advance_follows_the_table(
    state: calls.CallState, event: events.CallEvent
) -> None:
    """The rows fit together after every pair."""
    if isinstance(event, events.Reopened) and isinstance(state, calls.Unknown):
        event = events.Reopened(
            call_id=CALL, wait=rows.make_wait(CALL, "w2", "unknown")
        )
    if isinstance(event, events.Reopened) and isinstance(state, calls.Parked):
        event = events.Reopened(
            call_id=CALL, wait=rows.make_wait(CALL, "w2", "question")
        )
    if isinstance(event, events.Denied) and isinstance(state, calls.Ready):
        # A person decided the call before, so only a rule denies it now.
        with pytest.raises(IllegalTransition, match="has its decision"):
            advance(rows.state_with_call_in(state), event)
        by_rule = replace(event.decision, rule="limits")
        event = events.Denied(call_id=CALL, decision=by_rule)

    after = advance(rows.state_with_call_in(state), event)

    assert TRANSITIONS[type(state), type(event)] is type(after.calls[CALL].state)
    assert invariants.find_violation(after) is None
    waiting = isinstance(after.calls[CALL].state, calls.WAITING_STATES)
    assert (1 if waiting else 0) == len(after.waits)


NESTED_PAIRS = [p for p in LEGAL if isinstance(p[0], calls.Nested)]


@pytest.mark.parametrize(("state", "event"), NESTED_PAIRS, ids=pair_ids(NESTED_PAIRS))
def test_nested_call_ends_only_with_its_frame(
    state: calls.CallState, event: events.CallEvent
) -> None:
    """No event may end the call while its agent still runs."""
    with pytest.raises(IllegalTransition, match=type(event).__name__):
        advance(rows.state_with_call_in(state), event)


# Rules that hold for every future table ---------------------------------------


def test_no_event_leads_out_of_a_closed_state() -> None:
    assert not [
        pair for pair in TRANSITIONS if issubclass(pair[0], calls.CLOSED_STATES)
    ]


def test_only_call_started_leads_to_started() -> None:
    into = [pair for pair, state in TRANSITIONS.items() if state is calls.Started]

    assert [(calls.Ready, events.CallStarted)] == into


def test_only_approved_leads_from_waiting_to_ready() -> None:
    """Neither an expiry nor an answer lets a waiting call run."""
    after = {
        event: new
        for (state, event), new in TRANSITIONS.items()
        if state is calls.Waiting and not issubclass(new, calls.Refused | calls.Waiting)
    }

    assert {events.Approved: calls.Ready, events.Answered: calls.Returned} == after


def test_denied_expired_and_cancelled_always_lead_to_refused() -> None:
    for (_, event), new in TRANSITIONS.items():
        if event in (events.Denied, events.Expired, events.CallCancelled):
            assert new is calls.Refused


def test_every_open_state_can_be_cancelled() -> None:
    open_states = set(calls.STATE_TYPES.values()) - set(calls.CLOSED_STATES)

    assert open_states == {
        s for s, event in TRANSITIONS if event is events.CallCancelled
    }


def test_every_open_state_leads_to_a_closed_one() -> None:
    """No call can stay open forever."""
    reach: dict[type[calls.CallState], set[type[calls.CallState]]] = {
        s: {s} for s in calls.STATE_TYPES.values()
    }
    for _ in calls.STATE_TYPES:
        for (state, event), new in TRANSITIONS.items():
            if event is not events.CallCancelled:
                reach[state] |= reach[new]
    for state in calls.STATE_TYPES.values():
        assert reach[state] & set(calls.CLOSED_STATES)


def test_every_event_is_a_frozen_dataclass() -> None:
    for cls in get_args(events.Event):
        event: Any = object.__new__(cls)
        assert is_dataclass(cls)
        with pytest.raises(FrozenInstanceError):
            event.call_id = "another"
