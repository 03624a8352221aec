"""A wait may suspend a frame: its model is not asked, and everything else goes on."""

from __future__ import annotations

from dataclasses import replace

import pytest

from continuations.core.changes import events
from continuations.core.changes.plan import AskModel, plan
from continuations.core.messages import user_message
from continuations.core.rows.run import Failure
from continuations.core.rows.state import ROOT_FRAME_ID, RunState
from continuations.core.rows.waits import Wait
from continuations.core.usage import Usage
from continuations.errors import IllegalTransition
from tests.core import rows


def two_sub_agents() -> RunState:
    """Return a run whose root agent called two agents, f5 and f7."""
    state = rows.apply_events(rows.new_state(), rows.reply_with_calls("agent", "agent"))
    return rows.apply_events(
        state,
        rows.accepted_event("c3"),
        rows.sub_agent_started_event("c3"),
        rows.accepted_event("c4"),
        rows.sub_agent_started_event("c4"),
    )


def suspended(state: RunState, frame: str) -> RunState:
    """Return the state with a wait of a frame."""
    return rows.apply_events(
        state, events.SuspensionBegan(wait=rows.make_frame_wait(frame))
    )


def test_suspended_frame_is_not_asked_and_its_sibling_is() -> None:
    state = suspended(two_sub_agents(), "f5")

    assert (
        (AskModel("f7"),) == plan(state) == plan(rows.with_runnable_recomputed(state))
    )
    assert rows.with_runnable_recomputed(state) == state
    assert (
        list(state.suspending)
        == list(rows.with_runnable_recomputed(state).suspending)
        == ["f5"]
    )


def test_frame_goes_on_after_its_wait() -> None:
    state = rows.apply_events(
        suspended(two_sub_agents(), "f5"), events.SuspensionEnded(wait_id="w1")
    )

    assert (
        (AskModel("f5"), AskModel("f7"))
        == plan(state)
        == plan(rows.with_runnable_recomputed(state))
    )
    assert {} == state.waits == state.suspending


def test_frame_stays_suspended_while_its_sibling_ends() -> None:
    state = suspended(two_sub_agents(), "f5")
    state = rows.apply_events(state, rows.reply_with_text("done", frame="f7"))

    assert () == plan(state) == plan(rows.with_runnable_recomputed(state))


def test_frame_that_ends_takes_its_wait_along() -> None:
    state = suspended(two_sub_agents(), "f5")
    gone = events.FrameAbandoned(frame_id="f5", code="agent", content="ERROR: gone")

    assert {} == rows.apply_events(state, gone).waits


def test_stopped_run_has_no_waits_of_frames() -> None:
    stop = events.RunStopped(failure=Failure(code="cancelled", message="by kim"))
    state = rows.apply_events(suspended(two_sub_agents(), "f5"), stop)

    assert {} == state.waits
    assert () == plan(state)


def test_wait_of_the_run_lets_nothing_begin() -> None:
    """No kind of wait has the run as its subject yet: the rows are made by hand."""
    state = two_sub_agents()
    wait = replace(rows.make_wait("c3"), call_id="")
    paused = replace(state, waits={wait.id: wait}, suspending={"": wait})

    assert paused.is_suspended
    assert () == plan(paused) == plan(rows.with_runnable_recomputed(paused))
    after = rows.apply_events(paused, rows.reply_with_text("done", frame="f7"))
    assert () == plan(after)
    ended = rows.apply_events(after, events.SuspensionEnded(wait_id=wait.id))
    assert (
        (AskModel("f5"),) == plan(ended) == plan(rows.with_runnable_recomputed(ended))
    )


@pytest.mark.parametrize(
    "wait",
    [
        rows.make_frame_wait("f1"),
        rows.make_frame_wait("f5"),
        rows.make_wait("c3"),
        replace(rows.make_frame_wait("f7"), kind="timer"),
        replace(rows.make_frame_wait("f7"), frame_id=""),
    ],
    ids=[
        "open calls",
        "suspended already",
        "of a call",
        "kind of a call",
        "of the run",
    ],
)
def test_suspension_of_another_subject_is_rejected(wait: Wait) -> None:
    state = suspended(two_sub_agents(), "f5")

    with pytest.raises(IllegalTransition):
        rows.apply_events(state, events.SuspensionBegan(wait=wait))


def test_wait_of_a_call_is_no_suspension_that_ends() -> None:
    state = suspended(two_sub_agents(), "f5")

    with pytest.raises(IllegalTransition):
        rows.apply_events(state, events.SuspensionEnded(wait_id="w2"))
    assert ROOT_FRAME_ID not in state.suspending


def delayed(
    *, reply: str | None, failed: int, frame: str = "f1"
) -> events.ModelDelayed:
    """Return the event of a model that gives its reply later."""
    usage = Usage(requests=1, input_tokens=7)
    return events.ModelDelayed(
        wait=rows.make_frame_wait(frame),
        usage=usage,
        pending_reply=reply,
        failed_requests=failed,
    )


ENDED = events.SuspensionEnded(wait_id="w1")


def counts(state: RunState) -> tuple[int, str | None, int]:
    """Return what the root frame knows about its turn."""
    frame = state.frames[ROOT_FRAME_ID]
    return frame.failed_requests, frame.pending_reply, frame.polls


def test_failures_and_polls_of_a_turn_are_counted_apart() -> None:
    state = rows.apply_events(rows.new_state(), delayed(reply=None, failed=1), ENDED)
    assert (1, None, 0) == counts(state)
    state = rows.apply_events(state, delayed(reply=None, failed=2), ENDED)
    assert (2, None, 0) == counts(state)
    state = rows.apply_events(state, delayed(reply="a", failed=0), ENDED)
    assert (0, "a", 0) == counts(state)
    state = rows.apply_events(state, delayed(reply="b", failed=0), ENDED)
    assert (0, "b", 1) == counts(state)
    state = rows.apply_events(state, delayed(reply="b", failed=1), ENDED)
    assert (1, "b", 2) == counts(state)
    state = rows.apply_events(state, delayed(reply=None, failed=2), ENDED)
    assert (2, None, 0) == counts(state)
    assert 6 == state.run.usage.requests


def test_reply_begins_a_turn_without_counts() -> None:
    state = rows.apply_events(rows.new_state(), delayed(reply="a", failed=0), ENDED)
    state = rows.apply_events(state, rows.reply_with_calls("free"))

    assert (0, None, 0) == counts(state)


def test_message_is_not_added_while_a_reply_is_pending() -> None:
    state = rows.apply_events(rows.new_state(), delayed(reply="a", failed=0))
    message = events.UserMessageAdded(number=1, message=user_message("and more"))

    with pytest.raises(IllegalTransition):
        rows.apply_events(state, message)
    limited = rows.apply_events(rows.new_state(), delayed(reply=None, failed=1))
    assert 1 == rows.apply_events(limited, message).run.last_inbox_number
