"""What can be done next."""

from __future__ import annotations

import pytest

from continuations.core.actions import Action, Ask, Begin, Examine, Run, Verify
from continuations.core.calls import (
    Nested,
    Proposed,
    Ready,
    Returned,
    Started,
    State,
    Unknown,
    Waiting,
)
from continuations.core.events import (
    Admitted,
    Begun,
    CallReturned,
    Interrupted,
    Unverified,
)
from continuations.core.plan import plan
from tests.core.rows import (
    STATES,
    admitted,
    entered,
    new_table,
    one_call,
    relisted,
    says,
    told,
    tower,
    wait_for,
    wants,
)

ACTIONS: dict[type[State], tuple[Action, ...]] = {
    Proposed: (Examine("c3"),),
    Ready: (Begin("c3"),),
    Started: (Run("c3"),),
    Nested: (Ask("f5"),),
}


def test_a_new_run_asks_its_model() -> None:
    assert (Ask("f1"),) == plan(new_table())


def test_a_run_that_ended_has_no_plan() -> None:
    assert () == plan(told(new_table(), says("done")))


@pytest.mark.parametrize("state", STATES, ids=lambda s: type(s).__name__)
def test_each_state_has_its_action_or_none(state: State) -> None:
    """X-06: the other call of the turn stays in the plan all the while."""
    expected = sorted((*ACTIONS.get(type(state), ()), Examine("c4")), key=number)

    assert tuple(expected) == plan(one_call(state))


def number(action: Action) -> int:
    return int((action.frame if isinstance(action, Ask) else action.call)[1:])


def test_an_outcome_that_can_be_verified_is_verified_once() -> None:
    sound = Admitted(call="c3", arguments="{}", meaning="m", verifiable=True)
    lost = Interrupted(call="c3", wait=wait_for("c3", kind="unknown"))
    table = told(one_call(Proposed()), sound, Begun(call="c3"), lost)
    assert (Verify("c3"), Examine("c4")) == plan(table)

    table = told(table, Unverified(call="c3"))

    assert (Examine("c4"),) == plan(table)
    assert Unknown("w1", checked=True) == table.calls["c3"].state


def test_the_plan_is_the_same_in_every_process() -> None:
    """R-A11, B-15: whatever was put away and loaded in between."""
    table = told(new_table(), wants("agent", "free", "agent"))
    table = told(table, admitted("c5"), entered("c5"), admitted("c3"), entered("c3"))

    expected = (Examine("c4"), Ask("f6"), Ask("f8"))
    assert expected == plan(table)
    assert expected == plan(relisted(table))


def test_numbers_are_ordered_as_numbers() -> None:
    table = told(new_table(), wants(*["free"] * 12))

    assert [f"c{n}" for n in range(3, 15)] == [str(a)[14:-2] for a in plan(table)]


def test_a_tower_whose_top_waits_has_no_plan() -> None:
    """R-B1."""
    assert () == plan(tower(1000))


def test_what_finished_leaves_the_plan() -> None:
    table = told(one_call(Started()), CallReturned(call="c3", content="42"))

    assert Returned("42") == table.calls["c3"].state
    assert (Examine("c4"),) == plan(table)
    assert (Examine("c4"),) == plan(one_call(Waiting("w1")))
