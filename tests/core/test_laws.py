"""Laws that hold for every schedule of models, tools, people and crashes."""

from __future__ import annotations

from dataclasses import fields
from typing import TYPE_CHECKING

from hypothesis import given, settings
from hypothesis import strategies as st

from continuations.core import invariants, transcript
from continuations.core.calls import (
    CLOSED_STATES,
    CallState,
    Proposed,
    Ready,
    Refused,
    Started,
    Unknown,
)
from continuations.core.events import (
    Answered,
    ApprovalRequested,
    CallInvalid,
    CallRaised,
    CallReturned,
    Denied,
    Event,
    Expired,
    OutcomeUnknown,
    Reopened,
    RunStopped,
)
from continuations.core.plan import plan
from continuations.core.reducer import advance
from continuations.core.run import ENDED_STATUSES
from continuations.core.state import ROOT_FRAME_ID, RunState
from continuations.core.transitions import TRANSITIONS
from continuations.wire.continuation import Continuation
from tests.core.rows import with_runnable_recomputed
from tests.core.schedules import CHOICES, first_state, run_schedule

if TYPE_CHECKING:
    from collections.abc import Callable


LAW_SETTINGS = settings(max_examples=60, deadline=None, derandomize=True)
ALLOWED_STEPS = {(type(None), Proposed)} | {
    (was, now) for (was, _), now in TRANSITIONS.items()
}


def check_law(
    law: Callable[[RunState, Event, RunState], None], choices: list[int]
) -> RunState:
    """Play a schedule and ask the law after every event."""
    return run_schedule(first_state(choices), choices, law)


# What may happen to a call ----------------------------------------------------


@LAW_SETTINGS
@given(CHOICES)
def test_a_call_that_was_refused_never_starts(choices: list[int]) -> None:
    """X-01, R-C5, R-F4: denied, expired or cancelled means it does not run."""
    refused: set[str] = set()

    def law(_: RunState, event: Event, after: RunState) -> None:
        if isinstance(event, Denied | Expired):
            refused.add(event.call_id)
        for call in after.calls.values():
            if isinstance(call.state, Refused):
                refused.add(call.id)
            assert not (call.id in refused and isinstance(call.state, Started))
            assert call.id not in refused or isinstance(call.state, Refused)

    check_law(law, choices)


@LAW_SETTINGS
@given(CHOICES)
def test_started_is_reached_from_ready_alone(choices: list[int]) -> None:
    """X-01: and every other step stands in the table too."""

    def law(before: RunState, _: Event, after: RunState) -> None:
        for call in after.calls.values():
            old = before.calls.get(call.id)
            was: type[CallState | None] = type(old.state) if old else type(None)
            now = type(call.state)
            if old is None or old.state != call.state:
                assert (was, now) in ALLOWED_STEPS
            if now is Started and was is not Started:
                assert was is Ready

    check_law(law, choices)


@LAW_SETTINGS
@given(CHOICES)
def test_call_that_needs_approval_starts_only_after_it(choices: list[int]) -> None:
    """R-C5, R-C6, X-13: `approved` holds the digest before a gated call starts."""
    asked: set[str] = set()

    def law(_: RunState, event: Event, after: RunState) -> None:
        if isinstance(event, ApprovalRequested):
            asked.add(event.call_id)
        for call in after.calls.values():
            if call.id in asked and isinstance(call.state, Ready | Started):
                assert call.approved_digest is not None

    check_law(law, choices)


# What is said -----------------------------------------------------------------


@LAW_SETTINGS
@given(CHOICES)
def test_frame_without_open_calls_has_a_valid_transcript(choices: list[int]) -> None:
    """X-10, R-D1, R-D2, EF-25: at every depth, after every event."""

    def law(_: RunState, __: Event, after: RunState) -> None:
        for frame in after.frames.values():
            if not frame.open_call_ids or after.run.status in ENDED_STATUSES:
                assert transcript.find_violation(after.logs[frame.id].messages) is None

    check_law(law, choices)


@LAW_SETTINGS
@given(CHOICES)
def test_each_result_appears_once_in_the_order_of_the_calls(choices: list[int]) -> None:
    """EF-26, R-D4, R-D5: also where a provider repeats its ids."""
    results: dict[str, str] = {}

    def law(before: RunState, event: Event, after: RunState) -> None:
        if isinstance(event, CallReturned | CallRaised | CallInvalid | Answered):
            results[event.call_id] = event.content
        for frame in before.frames.values():
            if not frame.open_call_ids or frame.id not in after.frames:
                continue
            if (
                after.frames[frame.id].open_call_ids
                and after.run.status not in ENDED_STATUSES
            ):
                continue
            said = after.logs[frame.id].messages[len(before.logs[frame.id].messages) :]
            assert len(frame.open_call_ids) == len(said)
            for call, message in zip(frame.open_call_ids, said, strict=True):
                assert before.calls[call].tool_call_id == message.tool_call_id
                assert results.get(call, "") in message.content

    end = check_law(law, choices)
    assert transcript.find_violation(end.logs[ROOT_FRAME_ID].messages) is None


@LAW_SETTINGS
@given(CHOICES)
def test_no_frame_ever_has_one_call_id_twice(choices: list[int]) -> None:
    """R-D5: the transcript's ids are unique in their frame."""

    def law(_: RunState, __: Event, after: RunState) -> None:
        for log in after.logs.values():
            ids = [call for message in log.messages for call in message.tool_call_ids]
            assert "" not in ids
            assert len(ids) == len(set(ids))

    check_law(law, choices)


@LAW_SETTINGS
@given(CHOICES)
def test_log_only_grows(choices: list[int]) -> None:
    """A log only grows while its id stays."""

    def law(before: RunState, _: Event, after: RunState) -> None:
        for frame, old in before.logs.items():
            log = after.logs.get(frame)
            if log is not None:
                assert old.id == log.id
                assert old.messages == log.messages[: len(old.messages)]

    check_law(law, choices)


# The rows ---------------------------------------------------------------------


@LAW_SETTINGS
@given(CHOICES)
def test_rows_always_satisfy_the_invariants(choices: list[int]) -> None:
    """What `advance` makes, `soundness` takes."""

    def law(_: RunState, __: Event, after: RunState) -> None:
        assert invariants.find_violation(after) is None

    check_law(law, choices)


@LAW_SETTINGS
@given(CHOICES)
def test_ids_are_never_used_again(choices: list[int]) -> None:
    """R-B2, R-B5: frames, calls and waits alike."""
    seen = {ROOT_FRAME_ID}

    def law(before: RunState, _: Event, after: RunState) -> None:
        for old, new in (
            (before.frames, after.frames),
            (before.calls, after.calls),
            (before.waits, after.waits),
        ):
            fresh = set(new) - set(old)
            assert not fresh & seen
            seen.update(fresh)

    check_law(law, choices)


@LAW_SETTINGS
@given(CHOICES)
def test_runnable_index_matches_the_rows(choices: list[int]) -> None:
    """`RunState.agenda` is an index, not a fact of its own."""

    def law(_: RunState, __: Event, after: RunState) -> None:
        assert set(with_runnable_recomputed(after).runnable) == set(after.runnable)

    check_law(law, choices)


@LAW_SETTINGS
@given(CHOICES)
def test_the_plan_is_empty_when_nothing_can_move(choices: list[int]) -> None:
    """X-06: and then, unless the run has ended, somebody is being waited for."""

    def law(_: RunState, __: Event, after: RunState) -> None:
        idle = [frame.id for frame in after.frames.values() if not frame.open_call_ids]
        moving = [
            call.id
            for call in after.calls.values()
            if isinstance(call.state, Proposed | Ready | Started)
            or (
                isinstance(call.state, Unknown)
                and call.verifiable
                and not call.state.verify_tried
            )
        ]
        ended = after.run.status in ENDED_STATUSES
        can_move = not ended and bool(idle or moving)
        assert can_move == bool(plan(after))
        if not can_move and not ended:
            assert after.waits

    check_law(law, choices)


@LAW_SETTINGS
@given(CHOICES)
def test_closed_wait_never_opens_again(choices: list[int]) -> None:
    """R-F9: a decided or closed wait is never shown as open again."""
    over: set[str] = set()

    def law(before: RunState, event: Event, after: RunState) -> None:
        over.update(before.waits.keys() - after.waits.keys())
        assert not over & after.waits.keys()
        if isinstance(event, ApprovalRequested | OutcomeUnknown | Reopened):
            assert event.wait.id in after.waits
        if isinstance(event, RunStopped):
            assert not after.waits

    check_law(law, choices)


@LAW_SETTINGS
@given(CHOICES)
def test_advance_is_pure(choices: list[int]) -> None:
    """The same table and the same event give the same table, and leave theirs."""

    def law(before: RunState, event: Event, after: RunState) -> None:
        kept = with_runnable_recomputed(before)
        rows = tuple(dict(m) for m in (before.frames, before.calls, before.logs))
        runnable = list(before.runnable)
        assert after == advance(before, event)
        assert kept == before
        assert rows == (before.frames, before.calls, before.logs)
        assert runnable == list(before.runnable)

    check_law(law, choices)


@LAW_SETTINGS
@given(CHOICES)
def test_a_run_that_ended_has_no_open_call(choices: list[int]) -> None:
    """X-06, R-F6: every call of an ended run has its result."""

    end = check_law(lambda _, __, ___: None, choices)

    assert end.run.status in ENDED_STATUSES
    assert all(isinstance(call.state, CLOSED_STATES) for call in end.calls.values())
    assert (end.run.status == "finished") == (end.run.output is not None)
    assert (end.run.status == "finished") == (end.run.failure is None)


# Suspensions ------------------------------------------------------------------


@LAW_SETTINGS
@given(CHOICES, st.sets(st.integers(1, 40)))
def test_suspensions_do_not_change_the_end(
    choices: list[int], pauses: set[int]
) -> None:
    """Promise 1, R-B1, R-A11: to bytes and back between any two events."""

    def pause(step: int, state: RunState) -> RunState:
        if step not in pauses:
            return state
        return Continuation.from_bytes(Continuation(state).to_bytes()).run_state

    whole: list[tuple[type[Event], dict[str, object]]] = []
    split: list[tuple[type[Event], dict[str, object]]] = []
    uninterrupted = run_schedule(
        first_state(choices), choices, lambda _, e, __: whole.append(event_fields(e))
    )

    resumed = run_schedule(
        first_state(choices),
        choices,
        lambda _, e, __: split.append(event_fields(e)),
        between_events=pause,
    )

    assert uninterrupted == resumed
    assert whole == split
    assert set(uninterrupted.runnable) == set(resumed.runnable)


def event_fields(event: Event) -> tuple[type[Event], dict[str, object]]:
    """Return what an event says; events themselves are never compared."""
    return type(event), {f.name: getattr(event, f.name) for f in fields(event)}
