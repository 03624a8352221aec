"""Plans: the next actions of a run."""

from __future__ import annotations

import pytest

from continuations.core.changes.events import (
    CallAccepted,
    CallReturned,
    CallStarted,
    OutcomeUnknown,
    Unverified,
)
from continuations.core.changes.plan import (
    Action,
    AskModel,
    ExamineCall,
    RecordStart,
    RunTool,
    StepWorkflow,
    VerifyOutcome,
    plan,
)
from continuations.core.rows.calls import (
    CallState,
    Nested,
    Proposed,
    Ready,
    Returned,
    Started,
    Unknown,
    Waiting,
)
from tests.core.rows import (
    STATES,
    accepted_event,
    apply_events,
    make_wait,
    nested_agents,
    new_state,
    reply_with_calls,
    reply_with_text,
    state_with_call_in,
    sub_agent_started_event,
    with_runnable_recomputed,
)

ACTIONS: dict[type[CallState], tuple[Action, ...]] = {
    Proposed: (ExamineCall("c3"),),
    Ready: (RecordStart("c3"),),
    Started: (RunTool("c3"),),
    Nested: (AskModel("f5"),),
}


def test_plan_of_a_new_run_asks_the_model() -> None:
    assert (AskModel("f1"),) == plan(new_state())


def test_plan_of_an_ended_run_is_empty() -> None:
    assert () == plan(apply_events(new_state(), reply_with_text("done")))


@pytest.mark.parametrize("state", STATES, ids=lambda s: type(s).__name__)
def test_each_call_state_has_its_action_or_none(state: CallState) -> None:
    """The other call of the turn is in the plan all the time."""
    expected = sorted((*ACTIONS.get(type(state), ()), ExamineCall("c4")), key=id_number)

    assert tuple(expected) == plan(state_with_call_in(state))


def id_number(action: Action) -> int:
    return int(
        (
            action.frame_id
            if isinstance(action, AskModel | StepWorkflow)
            else action.call_id
        )[1:]
    )


def test_unknown_outcome_is_verified_once() -> None:
    accepted = CallAccepted(
        call_id="c3", arguments="{}", contract_digest="m", verifiable=True
    )
    unknown = OutcomeUnknown(call_id="c3", wait=make_wait("c3", kind="unknown"))
    state = apply_events(
        state_with_call_in(Proposed()), accepted, CallStarted(call_id="c3"), unknown
    )
    assert (VerifyOutcome("c3"), ExamineCall("c4")) == plan(state)

    state = apply_events(state, Unverified(call_id="c3"))

    assert (ExamineCall("c4"),) == plan(state)
    assert Unknown("w1", verify_tried=True) == state.calls["c3"].state


def test_plan_is_the_same_in_every_process() -> None:
    """The order of a plan does not depend on when the state was loaded."""
    state = apply_events(new_state(), reply_with_calls("agent", "free", "agent"))
    state = apply_events(
        state,
        accepted_event("c5"),
        sub_agent_started_event("c5"),
        accepted_event("c3"),
        sub_agent_started_event("c3"),
    )

    expected = (ExamineCall("c4"), AskModel("f6"), AskModel("f8"))
    assert expected == plan(state)
    assert expected == plan(with_runnable_recomputed(state))


def test_plan_orders_ids_by_number() -> None:
    state = apply_events(new_state(), reply_with_calls(*["free"] * 12))

    assert tuple(ExamineCall(f"c{n}") for n in range(3, 15)) == plan(state)


def test_nested_run_whose_deepest_call_waits_has_no_plan() -> None:
    assert () == plan(nested_agents(1000))


def test_finished_call_is_not_in_the_plan() -> None:
    state = apply_events(
        state_with_call_in(Started()), CallReturned(call_id="c3", content="42")
    )

    assert Returned("42") == state.calls["c3"].state
    assert (ExamineCall("c4"),) == plan(state)
    assert (ExamineCall("c4"),) == plan(state_with_call_in(Waiting("w1")))
