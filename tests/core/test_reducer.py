"""Consequences of an event for frames, messages, waits and the run."""

from __future__ import annotations

from dataclasses import replace
from itertools import permutations

import pytest

from continuations.core.changes import invariants
from continuations.core.changes.events import (
    Approved,
    CallInvalid,
    CallReturned,
    CallStarted,
    Denied,
    Event,
    Expired,
    ModelFailed,
    ModelReplied,
    OutcomeUnknown,
    Reopened,
    RepeatAllowed,
    ReplyConfirmed,
    RunStopped,
    SubAgentStarted,
    UserMessageAdded,
)
from continuations.core.changes.reducer import advance
from continuations.core.messages import (
    Message,
    find_violation,
    system_message,
    tool_message,
    user_message,
)
from continuations.core.rows.calls import Nested, Proposed, Ready, Returned, Waiting
from continuations.core.rows.run import ENDED_STATUSES, Failure
from continuations.core.rows.state import ROOT_FRAME_ID, RunState
from continuations.core.usage import Usage
from continuations.errors import IllegalTransition
from tests.core.rows import (
    accepted_event,
    apply_events,
    approval_requested_event,
    assistant_message,
    deepest_frame,
    make_decision,
    make_wait,
    nested_agents,
    new_state,
    reply_with_calls,
    reply_with_text,
    state_with_call_in,
    sub_agent_started_event,
    tool_request,
)

STOP = RunStopped(failure=Failure(code="cancelled", message="by kim"))


def tool_contents(state: RunState, frame: str = ROOT_FRAME_ID) -> list[str]:
    """Return the contents of the tool messages of a frame."""
    messages = state.logs[frame].messages
    return [message.content for message in messages if message.role == "tool"]


def case_id(value: object) -> str:
    return type(value).__name__


# Replies ----------------------------------------------------------------------


def test_text_reply_in_the_root_frame_finishes_the_run() -> None:
    state = apply_events(new_state(), reply_with_text("done"))

    assert ("finished", "done") == (state.run.status, state.run.output)
    assert not state.runnable
    assert ["user", "assistant"] == [m.role for m in state.logs[ROOT_FRAME_ID].messages]


def test_confirmed_reply_finishes_the_run_once() -> None:
    """It is not added again, and costs no turn."""
    reply = ModelReplied(
        frame_id=ROOT_FRAME_ID,
        message=assistant_message("done"),
        usage=Usage(),
        is_final=False,
    )
    pending = apply_events(new_state(), reply)
    assert pending.run.status not in ENDED_STATUSES

    state = advance(pending, ReplyConfirmed())

    assert ("finished", "done") == (state.run.status, state.run.output)
    assert pending.logs == state.logs
    assert 1 == state.frames[ROOT_FRAME_ID].turns


@pytest.mark.parametrize(
    "state",
    [
        new_state(),
        new_state(user_message("go"), assistant_message("Sure:")),
        apply_events(new_state(), reply_with_calls("a")),
    ],
    ids=["no reply", "end of the input", "open calls"],
)
def test_only_a_final_reply_can_be_confirmed(state: RunState) -> None:
    with pytest.raises(IllegalTransition):
        advance(state, ReplyConfirmed())


def test_empty_reply_fails_the_run() -> None:
    state = apply_events(new_state(), reply_with_text(""))

    assert "failed" == state.run.status
    assert state.run.failure is not None
    assert "empty" == state.run.failure.code


@pytest.mark.parametrize("finish", ["length", "content_filter"])
def test_truncated_reply_fails_the_run(finish: str) -> None:
    state = apply_events(new_state(), reply_with_text("half an ans", finish=finish))

    assert "failed" == state.run.status
    assert state.run.failure is not None
    assert finish == state.run.failure.code
    assert state.run.output is None


def test_reply_of_the_wrong_type_fails_the_run() -> None:
    reply = ModelReplied(
        frame_id=ROOT_FRAME_ID,
        message=assistant_message("x"),
        usage=Usage(),
        output_error="no invoice",
    )

    state = apply_events(new_state(), reply)

    assert Failure(code="output", message="no invoice") == state.run.failure


def test_failed_turn_changes_only_the_usage_and_the_error_of_its_frame() -> None:
    """Its responses were billed, and the model is asked again later."""
    before = new_state()
    failed = ModelFailed(
        frame_id=ROOT_FRAME_ID, error="HTTP 401.", usage=Usage(requests=1)
    )

    state = apply_events(before, failed, replace(failed, error=None))

    assert Usage(requests=2) == state.run.usage
    [frame] = state.frames.values()
    assert "HTTP 401." == frame.model_error
    assert before.frames == {frame.id: replace(frame, model_error=None)}
    assert before.run == replace(state.run, usage=before.run.usage)


def test_calls_are_proposed_in_the_order_of_the_model() -> None:
    calls = [
        tool_request("b", "1", '{"x":'),
        tool_request("a", "2"),
        tool_request("b", "1"),
    ]
    reply = ModelReplied(
        frame_id=ROOT_FRAME_ID,
        message=assistant_message("so", *calls),
        usage=Usage(requests=1),
    )

    state = apply_events(new_state(), reply)

    assert ("c3", "c4", "c5") == state.frames[ROOT_FRAME_ID].open_call_ids
    assert ["b", "a", "b"] == [call.tool for call in state.calls.values()]
    assert ["1", "2", "call_c5"] == [c.tool_call_id for c in state.calls.values()]
    assert '{"x":' == state.calls["c3"].raw_arguments
    assert all(call.state == Proposed() for call in state.calls.values())


def test_usage_is_summed_over_all_frames() -> None:
    state = apply_events(
        new_state(),
        reply_with_calls("agent"),
        accepted_event("c3"),
        sub_agent_started_event("c3"),
    )

    state = apply_events(
        state, reply_with_text("below", frame="f4"), reply_with_text("above")
    )

    expected = Usage(requests=3, input_tokens=20, output_tokens=4)
    assert expected == state.run.usage


@pytest.mark.parametrize(
    "message",
    [user_message("x"), tool_message("p0", "x"), system_message("x")],
)
def test_reply_of_another_role_is_rejected(message: Message) -> None:
    reply = ModelReplied(frame_id=ROOT_FRAME_ID, message=message, usage=Usage())

    with pytest.raises(IllegalTransition):
        advance(new_state(), reply)


# Batches ----------------------------------------------------------------------


def test_model_is_asked_again_after_every_call_has_a_result() -> None:
    """One call runs, one is denied and one is approved, in another order."""
    state = apply_events(new_state(), reply_with_calls("free", "gated", "gated"))
    state = apply_events(state, accepted_event("c3"), CallStarted(call_id="c3"))
    state = apply_events(
        state,
        approval_requested_event("c4", "w1"),
        approval_requested_event("c5", "w2"),
    )

    state = apply_events(state, CallReturned(call_id="c3", content="one"))
    assert Returned("one") == state.calls["c3"].state
    assert not tool_contents(state)
    assert not state.runnable

    state = apply_events(
        state, Denied(call_id="c5", decision=make_decision(wait_id="w2"))
    )
    assert not tool_contents(state)

    state = apply_events(
        state, Approved(call_id="c4", digest="d1"), CallStarted(call_id="c4")
    )
    state = apply_events(state, CallReturned(call_id="c4", content="two"))
    assert ["one", "two"] == tool_contents(state)[:2]
    assert tool_contents(state)[2].startswith("DENIED")
    assert not state.calls
    assert not state.waits
    assert [ROOT_FRAME_ID] == list(state.runnable)


@pytest.mark.parametrize("order", list(permutations(range(3))), ids=str)
def test_waits_can_be_decided_in_any_order(order: tuple[int, ...]) -> None:
    """The model reads the same results, in the order of its calls."""
    state = apply_events(new_state(), reply_with_calls("a", "b", "c"))
    calls = state.frames[ROOT_FRAME_ID].open_call_ids
    for number, call in enumerate(calls):
        state = apply_events(state, approval_requested_event(call, f"w{number}"))
    endings: list[list[Event]] = [
        [
            Denied(
                call_id=calls[0],
                decision=make_decision(wait_id="w0", reason="too much"),
            )
        ],
        [Expired(call_id=calls[1], decision=make_decision("expire", "w1"))],
        [
            Approved(call_id=calls[2], digest="d1"),
            CallStarted(call_id=calls[2]),
            CallReturned(call_id=calls[2], content="ran"),
        ],
    ]
    for index in order:
        state = apply_events(state, *endings[index])

    heads = [text.split()[0] for text in tool_contents(state)]
    assert ["DENIED:", "EXPIRED:", "ran"] == heads
    assert find_violation(state.logs[ROOT_FRAME_ID].messages) is None


def test_decision_of_one_wait_leaves_the_others_open() -> None:
    state = apply_events(new_state(), reply_with_calls("a", "b"))
    state = apply_events(
        state,
        approval_requested_event("c3", "w1"),
        approval_requested_event("c4", "w2"),
    )

    state = apply_events(state, Denied(call_id="c3", decision=make_decision()))

    assert ["w2"] == list(state.waits)
    assert Waiting("w2") == state.calls["c4"].state


# Sub-agents -------------------------------------------------------------------


def test_final_message_of_a_sub_agent_is_the_result_of_its_call() -> None:
    state = apply_events(
        new_state(),
        reply_with_calls("agent"),
        accepted_event("c3"),
        sub_agent_started_event("c3"),
    )
    assert Nested("f4") == state.calls["c3"].state
    assert 1 == state.frames["f4"].depth

    state = apply_events(state, reply_with_text("paid", frame="f4"))

    assert ["paid"] == tool_contents(state)
    assert (
        [ROOT_FRAME_ID]
        == list(state.frames)
        == list(state.logs)
        == list(state.runnable)
    )


def test_thousand_levels_end_one_after_the_other() -> None:
    """The frames end without recursion, from the deepest to the root."""
    state = nested_agents(1000)
    deepest = state.frames[deepest_frame(state)]
    assert 999 == deepest.depth

    call = deepest.open_call_ids[0]
    state = apply_events(
        state, Approved(call_id=call, digest="d1"), CallStarted(call_id=call)
    )
    state = apply_events(state, CallReturned(call_id=call, content="paid"))
    for frame in reversed(list(state.frames)):
        state = apply_events(state, reply_with_text("up", frame=frame))

    assert ("finished", "up") == (state.run.status, state.run.output)
    assert [ROOT_FRAME_ID] == list(state.frames)


def test_failing_sub_agent_fails_its_call_and_not_the_run() -> None:
    state = apply_events(
        new_state(),
        reply_with_calls("agent"),
        accepted_event("c3"),
        sub_agent_started_event("c3"),
    )

    state = apply_events(state, reply_with_text("half", frame="f4", finish="length"))

    assert "running" == state.run.status
    (content,) = tool_contents(state)
    assert content.startswith(
        "ERROR: the agent accounts failed: the model's reply was cut"
    )


def test_two_sub_agents_of_one_turn_have_separate_frames() -> None:
    """Both calls have the same agent and equal arguments."""
    state = apply_events(new_state(), reply_with_calls("agent", "agent"))
    for call in ("c3", "c4"):
        state = apply_events(
            state, accepted_event(call), sub_agent_started_event(call, "same")
        )

    state = apply_events(
        state,
        reply_with_text("second", frame="f7"),
        reply_with_text("first", frame="f5"),
    )

    assert ["first", "second"] == tool_contents(state)


def test_agents_without_turns_left_end_level_by_level() -> None:
    """The transcript of each level stays valid."""
    sub_agent = SubAgentStarted(
        call_id="c3", agent="below", messages=(user_message("q"),), max_turns=1
    )
    state = apply_events(
        new_state(max_turns=1),
        reply_with_calls("agent"),
        accepted_event("c3"),
        sub_agent,
    )

    state = apply_events(
        state,
        reply_with_calls("free", frame="f4"),
        accepted_event("c6"),
        CallStarted(call_id="c6"),
    )
    state = apply_events(state, CallReturned(call_id="c6", content="late"))

    assert state.run.failure is not None
    assert "max_turns" == state.run.failure.code
    assert "agent hr used all of its 1 turns" in state.run.failure.message
    assert "agent below used all of its 1 turns" in tool_contents(state)[0]
    assert find_violation(state.logs[ROOT_FRAME_ID].messages) is None


# Crashes and edits ------------------------------------------------------------


def test_attempts_are_counted_over_repeats() -> None:
    state = apply_events(
        state_with_call_in(Proposed()), accepted_event("c3", repeatable=True)
    )
    for _ in range(3):
        state = apply_events(
            state, CallStarted(call_id="c3"), RepeatAllowed(call_id="c3")
        )

    assert 3 == state.calls["c3"].attempts
    assert Ready() == state.calls["c3"].state


def test_wait_for_an_unknown_outcome_can_be_reopened() -> None:
    """The new wait replaces the old one, and the rows fit together."""
    unknown = OutcomeUnknown(call_id="c3", wait=make_wait("c3", "w1", "unknown"))
    state = apply_events(
        state_with_call_in(Ready()), CallStarted(call_id="c3"), unknown
    )

    state = apply_events(
        state, Reopened(call_id="c3", wait=make_wait("c3", "w2", "unknown"))
    )

    assert ["w2"] == list(state.waits)
    assert invariants.find_violation(state) is None


def test_second_edit_keeps_the_original_arguments_of_the_first() -> None:
    """The model reads which arguments the tool ran with."""
    edit = Approved(call_id="c3", digest="d2", arguments='{"cents":5}')
    again = Approved(call_id="c3", digest="d3", arguments="{}")
    unknown = OutcomeUnknown(call_id="c3", wait=make_wait("c3", "w2", "unknown"))
    state = apply_events(state_with_call_in(Waiting("w1")), edit)
    assert ('{"cents":5}', '{"cents":500}', "d2") == (
        state.calls["c3"].arguments,
        state.calls["c3"].original_arguments,
        state.calls["c3"].approved_digest,
    )

    state = apply_events(
        state, CallStarted(call_id="c3"), unknown, again, CallStarted(call_id="c3")
    )
    call = state.calls["c3"]
    assert ("{}", '{"cents":500}', "d3") == (
        call.arguments,
        call.original_arguments,
        call.approved_digest,
    )

    invalid = CallInvalid(call_id="c4", code="arguments", content="ERROR")
    state = apply_events(state, invalid, CallReturned(call_id="c3", content="ran"))

    assert "The tool ran with {} instead of your arguments." in tool_contents(state)[0]
    assert tool_contents(state)[0].endswith("\nran")
    request = state.logs[ROOT_FRAME_ID].messages[1]
    assert "{}" == request.tool_calls[0].arguments


def test_approval_without_edit_changes_no_arguments() -> None:
    state = apply_events(
        state_with_call_in(Waiting("w1")), Approved(call_id="c3", digest="d1")
    )

    call = state.calls["c3"]
    assert ('{"cents":500}', None, "d1") == (
        call.arguments,
        call.original_arguments,
        call.approved_digest,
    )


# The run as a whole -----------------------------------------------------------


def test_cancelling_closes_all_frames() -> None:
    """Existing results are kept, and every transcript stays valid."""
    state = apply_events(new_state(), reply_with_calls("free", "agent", "gated"))
    state = apply_events(
        state,
        accepted_event("c3"),
        CallStarted(call_id="c3"),
        approval_requested_event("c5", "w1"),
    )
    state = apply_events(state, CallReturned(call_id="c3", content="kept"))
    state = apply_events(state, accepted_event("c4"), sub_agent_started_event("c4"))
    state = apply_events(state, reply_with_calls("gated", "free", frame="f6"))
    inner = state.frames["f6"].open_call_ids
    state = apply_events(
        state, approval_requested_event(inner[0], "w2"), accepted_event(inner[1])
    )
    state = apply_events(state, CallStarted(call_id=inner[1]))

    state = apply_events(state, STOP)

    assert ("cancelled", STOP.failure) == (state.run.status, state.run.failure)
    assert "kept" == tool_contents(state)[0]
    assert tool_contents(state)[1].startswith("CANCELLED while it ran; effects")
    assert tool_contents(state)[2].startswith("CANCELLED: it was not executed")
    assert "its outcome is not known" in tool_contents(state, "f6")[1]
    assert not state.waits
    assert not state.runnable
    assert invariants.find_violation(state) is None
    for log in state.logs.values():
        assert find_violation(log.messages) is None


def test_run_stopped_for_another_reason_has_failed() -> None:
    failure = Failure(code="denied", message="transfer was denied")

    assert "failed" == apply_events(new_state(), RunStopped(failure=failure)).run.status


@pytest.mark.parametrize(
    "event", [reply_with_text("x"), STOP, CallStarted(call_id="c3")], ids=case_id
)
def test_event_after_the_end_is_rejected(event: Event) -> None:
    with pytest.raises(IllegalTransition, match="the run is already finished"):
        advance(apply_events(new_state(), reply_with_text("done")), event)


def test_inbox_messages_are_read_in_number_order() -> None:
    """No message is read twice, skipped, or put between a call and its result."""
    first = UserMessageAdded(number=1, message=user_message("wait"))
    state = apply_events(new_state(), first)
    assert 1 == state.run.last_inbox_number

    for wrong in (first, UserMessageAdded(number=3, message=user_message("gap"))):
        with pytest.raises(IllegalTransition):
            advance(state, wrong)
    with pytest.raises(IllegalTransition):
        advance(
            apply_events(state, reply_with_calls("a")),
            UserMessageAdded(number=2, message=user_message("x")),
        )


@pytest.mark.parametrize(
    "message", [tool_message("p0", "x"), assistant_message("I am you")]
)
def test_inbox_message_of_another_role_is_rejected(message: Message) -> None:
    """A tool message without a call would make the transcript invalid for good."""
    with pytest.raises(IllegalTransition):
        advance(new_state(), UserMessageAdded(number=1, message=message))
