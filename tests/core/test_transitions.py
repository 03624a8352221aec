"""The table of transitions: every pair of state and event."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import FrozenInstanceError, is_dataclass
from typing import Any, get_args

import pytest

from continuations.core.changes import events, invariants
from continuations.core.changes.events import (
    Answered,
    AnswerReceived,
    Approved,
    CallCancelled,
    CallEvent,
    CallInvalid,
    CallParked,
    CallRaised,
    CallReturned,
    CallStarted,
    Denied,
    Expired,
    HandedOver,
    OutcomeUnknown,
    Reopened,
    RepeatAllowed,
    Unverified,
)
from continuations.core.changes.reducer import advance
from continuations.core.changes.transitions import TRANSITIONS, next_state
from continuations.core.rows.calls import (
    CLOSED_STATES,
    STATE_NAMES,
    STATE_TYPES,
    WAITING_STATES,
    CallState,
    Handoff,
    Nested,
    Parked,
    Ready,
    Refused,
    Returned,
    Started,
    Unknown,
    Waiting,
)
from continuations.errors import IllegalTransition
from continuations.value_class import replace
from tests.core.rows import (
    STATES as EXAMPLES,
)
from tests.core.rows import (
    accepted_event,
    approval_requested_event,
    make_decision,
    make_wait,
    state_with_call_in,
    sub_agent_started_event,
)

CALL = "c3"
EVENTS: tuple[CallEvent, ...] = (
    accepted_event(CALL),
    approval_requested_event(CALL, "w2"),
    CallInvalid(call_id=CALL, code="arguments", content="ERROR: no"),
    CallStarted(call_id=CALL),
    sub_agent_started_event(CALL),
    HandedOver(call_id=CALL, handoff=Handoff("refunds", "You refund.")),
    CallReturned(call_id=CALL, content="42"),
    CallRaised(call_id=CALL, code="exception", content="ERROR: it broke"),
    CallParked(call_id=CALL, wait=make_wait(CALL, "w2", "question")),
    AnswerReceived(call_id=CALL, answer="42"),
    OutcomeUnknown(call_id=CALL, wait=make_wait(CALL, "w2", "unknown")),
    RepeatAllowed(call_id=CALL),
    Unverified(call_id=CALL),
    Approved(call_id=CALL, digest="d1"),
    Denied(call_id=CALL, decision=make_decision()),
    Expired(call_id=CALL, decision=make_decision("expire")),
    Answered(call_id=CALL, content="it did"),
    Reopened(call_id=CALL, wait=make_wait(CALL, "w2")),
    CallCancelled(call_id=CALL, reason="by kim"),
)
PAIRS = [(state, event) for state in EXAMPLES for event in EVENTS]
LEGAL = [p for p in PAIRS if (type(p[0]), type(p[1])) in TRANSITIONS]
ILLEGAL = [p for p in PAIRS if (type(p[0]), type(p[1])) not in TRANSITIONS]


def pair_ids(pairs: Iterable[tuple[CallState, CallEvent]]) -> list[str]:
    return [f"{STATE_NAMES[type(s)]}-{type(e).__name__}" for s, e in pairs]


def test_every_state_and_every_event_is_tested() -> None:
    """The lists of states and events above are complete."""
    assert set(get_args(CallState)) == {type(state) for state in EXAMPLES}
    assert set(get_args(CallEvent)) == {type(event) for event in EVENTS}
    assert set(STATE_TYPES.values()) == set(STATE_NAMES) == set(get_args(CallState))
    assert {cls for _, cls in TRANSITIONS} <= set(get_args(CallEvent))
    assert len(TRANSITIONS) == len(LEGAL)
    assert 10 * 19 == len(LEGAL) + len(ILLEGAL)


@pytest.mark.parametrize(("state", "event"), ILLEGAL, ids=pair_ids(ILLEGAL))
def test_illegal_transition_error_names_state_and_event(
    state: CallState, event: CallEvent
) -> None:
    with pytest.raises(IllegalTransition) as caught:
        next_state(CALL, state, event)

    assert STATE_NAMES[type(state)] in str(caught.value)
    assert type(event).__name__ in str(caught.value)
    assert CALL in str(caught.value)


@pytest.mark.parametrize(("state", "event"), ILLEGAL, ids=pair_ids(ILLEGAL))
def test_advance_rejects_a_pair_that_is_not_in_the_table(
    state: CallState, event: CallEvent
) -> None:
    """The state of the run does not change."""
    run_state = state_with_call_in(state)
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


UNNESTED_PAIRS = [p for p in LEGAL if not isinstance(p[0], Nested)]


@pytest.mark.parametrize(
    ("state", "event"), UNNESTED_PAIRS, ids=pair_ids(UNNESTED_PAIRS)
)
def test_advance_follows_the_table(state: CallState, event: CallEvent) -> None:
    """The rows fit together after every pair."""
    if isinstance(event, Reopened) and isinstance(state, Unknown):
        event = Reopened(call_id=CALL, wait=make_wait(CALL, "w2", "unknown"))
    if isinstance(event, Reopened) and isinstance(state, Parked):
        event = Reopened(call_id=CALL, wait=make_wait(CALL, "w2", "question"))
    if isinstance(event, Denied) and isinstance(state, Ready):
        # A person decided the call before, so only a rule denies it now.
        with pytest.raises(IllegalTransition, match="has its decision"):
            advance(state_with_call_in(state), event)
        by_rule = replace(event.decision, rule="limits")
        event = Denied(call_id=CALL, decision=by_rule)

    after = advance(state_with_call_in(state), event)

    assert TRANSITIONS[type(state), type(event)] is type(after.calls[CALL].state)
    assert invariants.find_violation(after) is None
    waiting = isinstance(after.calls[CALL].state, WAITING_STATES)
    assert (1 if waiting else 0) == len(after.waits)


NESTED_PAIRS = [p for p in LEGAL if isinstance(p[0], Nested)]


@pytest.mark.parametrize(("state", "event"), NESTED_PAIRS, ids=pair_ids(NESTED_PAIRS))
def test_nested_call_ends_only_with_its_frame(
    state: CallState, event: CallEvent
) -> None:
    """No event may end the call while its agent still runs."""
    with pytest.raises(IllegalTransition, match=type(event).__name__):
        advance(state_with_call_in(state), event)


# Rules that hold for every future table ---------------------------------------


def test_no_event_leads_out_of_a_closed_state() -> None:
    assert not [pair for pair in TRANSITIONS if issubclass(pair[0], CLOSED_STATES)]


def test_only_call_started_leads_to_started() -> None:
    into = [pair for pair, state in TRANSITIONS.items() if state is Started]

    assert [(Ready, CallStarted)] == into


def test_only_approved_leads_from_waiting_to_ready() -> None:
    """Neither an expiry nor an answer lets a waiting call run."""
    after = {
        event: new
        for (state, event), new in TRANSITIONS.items()
        if state is Waiting and not issubclass(new, Refused | Waiting)
    }

    assert {Approved: Ready, Answered: Returned} == after


def test_denied_expired_and_cancelled_always_lead_to_refused() -> None:
    for (_, event), new in TRANSITIONS.items():
        if event in (Denied, Expired, CallCancelled):
            assert new is Refused


def test_every_open_state_can_be_cancelled() -> None:
    open_states = set(STATE_TYPES.values()) - set(CLOSED_STATES)

    assert open_states == {s for s, event in TRANSITIONS if event is CallCancelled}


def test_every_open_state_leads_to_a_closed_one() -> None:
    """No call can stay open forever."""
    reach: dict[type[CallState], set[type[CallState]]] = {
        s: {s} for s in STATE_TYPES.values()
    }
    for _ in STATE_TYPES:
        for (state, event), new in TRANSITIONS.items():
            if event is not CallCancelled:
                reach[state] |= reach[new]
    for state in STATE_TYPES.values():
        assert reach[state] & set(CLOSED_STATES)


def test_every_event_is_a_frozen_dataclass() -> None:
    for cls in get_args(events.Event):
        event: Any = object.__new__(cls)
        assert is_dataclass(cls)
        with pytest.raises(FrozenInstanceError):
            event.call_id = "another"
