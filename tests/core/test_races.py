"""Two events race for one call: the first stands, the second is told by name."""

from __future__ import annotations

from itertools import permutations

import pytest

from continuations.core import soundness
from continuations.core.calls import Ready, Waiting
from continuations.core.events import (
    Answered,
    Approved,
    Begun,
    CallEvent,
    CallRaised,
    CallReturned,
    Denied,
    Event,
    Expired,
    Interrupted,
    Repeated,
    RunStopped,
    Unverified,
)
from continuations.core.reducer import advance
from continuations.core.run import Failure
from continuations.core.table import ROOT
from continuations.errors import IllegalTransition
from tests.core.rows import decided, new_table, one_call, says, told, wait_for, wants

STOP = RunStopped(failure=Failure(code="cancelled", message="by kim"))


def kind_of(value: object) -> str:
    """Return the name of a test's case."""
    return type(value).__name__


ENDINGS: tuple[CallEvent, ...] = (
    Approved(call="c3", digest="d1"),
    Denied(call="c3", decision=decided()),
    Expired(call="c3", decision=decided("expire")),
)
RACES = [(a, b) for a in ENDINGS for b in ENDINGS]


@pytest.mark.parametrize(("first", "second"), RACES, ids=kind_of)
def test_of_two_decisions_the_first_stands(first: CallEvent, second: CallEvent) -> None:
    """X-04, X-05, R-A1: in either order; the second is refused by name."""
    table = told(one_call(Waiting("w1")), first)

    with pytest.raises(IllegalTransition, match=type(second).__name__):
        advance(table, second)


@pytest.mark.parametrize(
    ("first", "second"),
    list(
        permutations(
            (
                CallReturned(call="c3", content="ran"),
                CallRaised(call="c3", code="x", content="ERROR"),
                Interrupted(call="c3", wait=wait_for("c3", "w9", "unknown")),
                Repeated(call="c3"),
            ),
            2,
        )
    ),
    ids=kind_of,
)
def test_of_two_ends_of_one_attempt_the_first_stands(
    first: CallEvent, second: CallEvent
) -> None:
    """R-A6, R-A8: a result that comes after the outcome was given up is refused."""
    table = told(one_call(Ready()), Begun(call="c3"), first)

    with pytest.raises(IllegalTransition, match=type(second).__name__):
        advance(table, second)


@pytest.mark.parametrize(
    ("first", "second"),
    list(
        permutations(
            (
                Approved(call="c3", digest="d1"),
                Denied(call="c3", decision=decided()),
                Answered(call="c3", content="it did"),
                Unverified(call="c3"),
            ),
            2,
        )
    ),
    ids=kind_of,
)
def test_a_person_and_verify_race_for_an_unknown_outcome(
    first: CallEvent, second: CallEvent
) -> None:
    """Only "could not tell" leaves room for a second word."""
    lost = Interrupted(call="c3", wait=wait_for("c3", "w1", "unknown"))
    table = told(one_call(Ready()), Begun(call="c3"), lost, first)

    if isinstance(first, Unverified):
        assert soundness.fault(advance(table, second)) is None
    else:
        with pytest.raises(IllegalTransition, match=type(second).__name__):
            advance(table, second)


def test_cancelling_and_approving_race() -> None:
    """R-F6: cancelled first: nothing runs; approved first: what is ready is refused."""
    approve, waiting = ENDINGS[0], one_call(Waiting("w1"))

    with pytest.raises(IllegalTransition):
        advance(told(waiting, STOP), approve)

    late = told(waiting, approve, STOP)
    told_to_model = late.logs[ROOT].messages[-2].content
    assert told_to_model.startswith("CANCELLED: it was not executed")


@pytest.mark.parametrize(
    "event",
    [
        Begun(call="c99"),
        Approved(call="c99", digest="d"),
        CallReturned(call="c99", content="x"),
        says("x", frame="f99"),
    ],
    ids=kind_of,
)
def test_what_comes_for_a_row_that_is_gone_is_refused_by_name(event: Event) -> None:
    """X-04, R-B4, R-B7, B-9: never given to another row."""
    with pytest.raises(IllegalTransition, match="99"):
        advance(new_table(), event)


def test_a_reply_for_a_frame_with_open_calls_is_refused() -> None:
    """R-C2: two askers of one frame; the slower one is told."""
    with pytest.raises(IllegalTransition, match="f1"):
        advance(told(new_table(), wants("a")), says("x"))
