"""Plans: the next actions of a run."""

from __future__ import annotations

import pytest

from continuations.core.changes import events
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
from continuations.core.rows import calls
from tests.core import rows

ACTIONS: dict[type[calls.CallState], tuple[Action, ...]] = {
    calls.Proposed: (ExamineCall("c3"),),
    calls.Ready: (RecordStart("c3"),),
    calls.Started: (RunTool("c3"),),
    calls.Nested: (AskModel("f5"),),
}


def test_plan_of_a_new_run_asks_the_model() -> None:
    assert (AskModel("f1"),) == plan(rows.new_state())


def test_plan_of_an_ended_run_is_empty() -> None:
    assert () == plan(rows.apply_events(rows.new_state(), rows.reply_with_text("done")))


@pytest.mark.parametrize("state", rows.STATES, ids=lambda s: type(s).__name__)
def test_each_call_state_has_its_action_or_none(state: calls.CallState) -> None:
    """The other call of the turn is in the plan all the time."""
    expected = sorted((*ACTIONS.get(type(state), ()), ExamineCall("c4")), key=id_number)

    assert tuple(expected) == plan(rows.state_with_call_in(state))


def id_number(action: Action) -> int:
    return int(
        (
            action.frame_id
            if isinstance(action, AskModel | StepWorkflow)
            else action.call_id
        )[1:]
    )


def test_unknown_outcome_is_verified_once() -> None:
    accepted = events.CallAccepted(
        call_id="c3", arguments="{}", contract_digest="m", verifiable=True
    )
    unknown = events.OutcomeUnknown(
        call_id="c3", wait=rows.make_wait("c3", kind="unknown")
    )
    state = rows.apply_events(
        rows.state_with_call_in(calls.Proposed()),
        accepted,
        events.CallStarted(call_id="c3"),
        unknown,
    )
    assert (VerifyOutcome("c3"), ExamineCall("c4")) == plan(state)

    state = rows.apply_events(state, events.Unverified(call_id="c3"))

    assert (ExamineCall("c4"),) == plan(state)
    assert calls.Unknown("w1", verify_tried=True) == state.calls["c3"].state


def test_plan_is_the_same_in_every_process() -> None:
    """The order of a plan does not depend on when the state was loaded."""
    state = rows.apply_events(
        rows.new_state(), rows.reply_with_calls("agent", "free", "agent")
    )
    state = rows.apply_events(
        state,
        rows.accepted_event("c5"),
        rows.sub_agent_started_event("c5"),
        rows.accepted_event("c3"),
        rows.sub_agent_started_event("c3"),
    )

    expected = (ExamineCall("c4"), AskModel("f6"), AskModel("f8"))
    assert expected == plan(state)
    assert expected == plan(rows.with_runnable_recomputed(state))


def test_plan_orders_ids_by_number() -> None:
    state = rows.apply_events(rows.new_state(), rows.reply_with_calls(*["free"] * 12))

    assert tuple(ExamineCall(f"c{n}") for n in range(3, 15)) == plan(state)


def test_nested_run_whose_deepest_call_waits_has_no_plan() -> None:
    assert () == plan(rows.nested_agents(1000))


def test_finished_call_is_not_in_the_plan() -> None:
    state = rows.apply_events(
        rows.state_with_call_in(calls.Started()),
        events.CallReturned(call_id="c3", content="42"),
    )

    assert calls.Returned("42") == state.calls["c3"].state
    assert (ExamineCall("c4"),) == plan(state)
    assert (ExamineCall("c4"),) == plan(rows.state_with_call_in(calls.Waiting("w1")))
