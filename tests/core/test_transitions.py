"""The life of a call: the whole table, pair by pair."""

from __future__ import annotations

from typing import TYPE_CHECKING, get_args

import pytest

from continuations.core import events, soundness
from continuations.core.calls import (
    CLOSED,
    STATE_NAMES,
    STATES,
    Nested,
    Ready,
    Refused,
    Started,
    State,
    Unknown,
    Waiting,
)
from continuations.core.events import (
    Answered,
    Approved,
    Begun,
    CallCancelled,
    CallEvent,
    CallRaised,
    CallReturned,
    Denied,
    Expired,
    Interrupted,
    Rejected,
    Reopened,
    Repeated,
    Unverified,
)
from continuations.core.reducer import advance
from continuations.core.transitions import TRANSITIONS, next_state
from continuations.errors import IllegalTransition
from tests.core.rows import (
    STATES as EXAMPLES,
)
from tests.core.rows import (
    admitted,
    decided,
    entered,
    gated,
    one_call,
    wait_for,
)

if TYPE_CHECKING:
    from collections.abc import Iterable

CALL = "c3"
EVENTS: tuple[CallEvent, ...] = (
    admitted(CALL),
    gated(CALL, "w2"),
    Rejected(call=CALL, code="arguments", content="ERROR: no"),
    Begun(call=CALL),
    entered(CALL),
    CallReturned(call=CALL, content="42"),
    CallRaised(call=CALL, code="exception", content="ERROR: it broke"),
    Interrupted(call=CALL, wait=wait_for(CALL, "w2", "unknown")),
    Repeated(call=CALL),
    Unverified(call=CALL),
    Approved(call=CALL, digest="d1"),
    Denied(call=CALL, decision=decided()),
    Expired(call=CALL, decision=decided("expire")),
    Answered(call=CALL, content="it did"),
    Reopened(call=CALL, wait=wait_for(CALL, "w2")),
    CallCancelled(call=CALL, reason="by kim"),
)
PAIRS = [(state, event) for state in EXAMPLES for event in EVENTS]
LEGAL = [p for p in PAIRS if (type(p[0]), type(p[1])) in TRANSITIONS]
ILLEGAL = [p for p in PAIRS if (type(p[0]), type(p[1])) not in TRANSITIONS]


def names(pairs: Iterable[tuple[State, CallEvent]]) -> list[str]:
    return [f"{STATE_NAMES[type(s)]}-{type(e).__name__}" for s, e in pairs]


def test_every_state_and_every_event_is_tried() -> None:
    """Nothing is missing from the two lists above."""
    assert set(get_args(State)) == {type(state) for state in EXAMPLES}
    assert set(get_args(CallEvent)) == {type(event) for event in EVENTS}
    assert set(STATES.values()) == set(STATE_NAMES) == set(get_args(State))
    assert {cls for _, cls in TRANSITIONS} <= set(get_args(CallEvent))
    assert len(TRANSITIONS) == len(LEGAL)
    assert 9 * 16 == len(LEGAL) + len(ILLEGAL)


@pytest.mark.parametrize(("state", "event"), ILLEGAL, ids=names(ILLEGAL))
def test_a_pair_that_is_missing_is_refused_by_both_names(
    state: State, event: CallEvent
) -> None:
    """PA-13."""
    """SL-L1, X-01, R-C5."""
    with pytest.raises(IllegalTransition) as refused:
        next_state(CALL, state, event)

    assert STATE_NAMES[type(state)] in str(refused.value)
    assert type(event).__name__ in str(refused.value)
    assert CALL in str(refused.value)


@pytest.mark.parametrize(("state", "event"), ILLEGAL, ids=names(ILLEGAL))
def test_advance_refuses_what_the_table_does_not_have(
    state: State, event: CallEvent
) -> None:
    """And leaves the run as it was."""
    table = one_call(state)
    kept = (table.run, dict(table.calls), dict(table.waits), dict(table.frames))

    with pytest.raises(IllegalTransition) as refused:
        advance(table, event)

    assert kept == (table.run, table.calls, table.waits, table.frames)
    assert CALL in str(refused.value)
    assert type(event).__name__ in str(refused.value)


OUTSIDE = [p for p in LEGAL if not isinstance(p[0], Nested)]


@pytest.mark.parametrize(("state", "event"), OUTSIDE, ids=names(OUTSIDE))
def test_advance_does_what_the_table_says(state: State, event: CallEvent) -> None:
    """X-06: and the rows still fit together, whatever the pair."""
    if isinstance(event, Reopened) and isinstance(state, Unknown):
        event = Reopened(call=CALL, wait=wait_for(CALL, "w2", "unknown"))

    after = advance(one_call(state), event)

    assert TRANSITIONS[type(state), type(event)] is type(after.calls[CALL].state)
    assert soundness.fault(after) is None
    waiting = isinstance(after.calls[CALL].state, Waiting | Unknown)
    assert (1 if waiting else 0) == len(after.waits)


INSIDE = [p for p in LEGAL if isinstance(p[0], Nested)]


@pytest.mark.parametrize(("state", "event"), INSIDE, ids=names(INSIDE))
def test_a_nested_call_ends_with_its_frame_alone(
    state: State, event: CallEvent
) -> None:
    """B-8: nobody outside may end it and leave its agent running."""
    with pytest.raises(IllegalTransition, match=type(event).__name__):
        advance(one_call(state), event)


# The rules that the table must never lose, whatever is added to it -------------


def test_nothing_leads_from_a_closed_state_anywhere() -> None:
    """SL-L1: a No is never taken back."""
    assert not [pair for pair in TRANSITIONS if issubclass(pair[0], CLOSED)]


def test_one_way_leads_into_started() -> None:
    into = [pair for pair, state in TRANSITIONS.items() if state is Started]

    assert [(Ready, Begun)] == into


def test_only_a_yes_leads_from_waiting_towards_running() -> None:
    """R-C5: not the clock, not an answer, not a repeated look."""
    allowed = {
        event
        for (state, event), new in TRANSITIONS.items()
        if state is Waiting and not issubclass(new, Refused | Waiting)
    }

    assert {Approved} == allowed


def test_no_and_late_and_cancelled_always_refuse() -> None:
    """X-01, R-F4."""
    for (_, event), new in TRANSITIONS.items():
        if event in (Denied, Expired, CallCancelled):
            assert new is Refused


def test_every_open_state_can_be_cancelled() -> None:
    """R-F6."""
    open_states = set(STATES.values()) - set(CLOSED)

    assert open_states == {s for s, event in TRANSITIONS if event is CallCancelled}


def test_every_open_state_leads_to_a_closed_one() -> None:
    """X-06: no call can be stuck for ever."""
    reach: dict[type[State], set[type[State]]] = {s: {s} for s in STATES.values()}
    for _ in STATES:
        for (state, event), new in TRANSITIONS.items():
            if event is not CallCancelled:
                reach[state] |= reach[new]
    for state in STATES.values():
        assert reach[state] & set(CLOSED)


def test_every_call_event_is_a_frozen_value() -> None:
    for cls in get_args(events.Event):
        assert cls.__dataclass_params__.frozen
