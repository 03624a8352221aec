"""Laws that hold for every schedule of model replies, calls, decisions and crashes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields

from hypothesis import given, settings
from hypothesis import strategies as st

from continuations.core import messages
from continuations.core.changes import invariants
from continuations.core.changes.events import (
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
from continuations.core.changes.plan import plan
from continuations.core.changes.reducer import advance
from continuations.core.changes.transitions import TRANSITIONS
from continuations.core.rows import calls
from continuations.core.rows.run import ENDED_STATUSES
from continuations.core.rows.state import ROOT_FRAME_ID, RunState
from continuations.wire.continuation import Continuation
from tests.core.rows import with_runnable_recomputed
from tests.core.schedules import CHOICES, first_state, run_schedule
from tests.sampling import examples

LAW_SETTINGS = settings(max_examples=examples(60), deadline=None, derandomize=True)
ALLOWED_STEPS = {(type(None), calls.Proposed)} | {
    (was, now) for (was, _), now in TRANSITIONS.items()
}


def check_law(
    law: Callable[[RunState, Event, RunState], None], choices: list[int]
) -> RunState:
    """Run a schedule and check the law after every event."""
    return run_schedule(first_state(choices), choices, law)


# Calls ------------------------------------------------------------------------


@LAW_SETTINGS
@given(CHOICES)
def test_refused_call_never_starts(choices: list[int]) -> None:
    """Promise 2: a denied, expired or cancelled call never runs."""
    refused: set[str] = set()

    def law(_: RunState, event: Event, after: RunState) -> None:
        if isinstance(event, Denied | Expired):
            refused.add(event.call_id)
        for call in after.calls.values():
            if isinstance(call.state, calls.Refused):
                refused.add(call.id)
            assert not (call.id in refused and isinstance(call.state, calls.Started))
            assert call.id not in refused or isinstance(call.state, calls.Refused)

    check_law(law, choices)


@LAW_SETTINGS
@given(CHOICES)
def test_only_ready_leads_to_started(choices: list[int]) -> None:
    """Every other change of a state is in the table of transitions, too."""

    def law(before: RunState, _: Event, after: RunState) -> None:
        for call in after.calls.values():
            old = before.calls.get(call.id)
            was: type[calls.CallState | None] = type(old.state) if old else type(None)
            now = type(call.state)
            if old is None or old.state != call.state:
                assert (was, now) in ALLOWED_STEPS
            if now is calls.Started and was is not calls.Started:
                assert was is calls.Ready

    check_law(law, choices)


@LAW_SETTINGS
@given(CHOICES)
def test_call_that_needs_approval_starts_only_after_it(choices: list[int]) -> None:
    """A call that needs approval starts only with the digest of its approval."""
    asked: set[str] = set()

    def law(_: RunState, event: Event, after: RunState) -> None:
        if isinstance(event, ApprovalRequested):
            asked.add(event.call_id)
        for call in after.calls.values():
            if call.id in asked and isinstance(call.state, calls.Ready | calls.Started):
                assert call.approved_digest is not None

    check_law(law, choices)


# Messages ---------------------------------------------------------------------


@LAW_SETTINGS
@given(CHOICES)
def test_frame_without_open_calls_has_a_valid_transcript(choices: list[int]) -> None:
    """The transcript is valid at every depth and after every event."""

    def law(_: RunState, __: Event, after: RunState) -> None:
        for frame in after.frames.values():
            if not frame.open_call_ids or after.run.status in ENDED_STATUSES:
                assert messages.find_violation(after.logs[frame.id].messages) is None

    check_law(law, choices)


@LAW_SETTINGS
@given(CHOICES)
def test_each_result_appears_once_in_the_order_of_the_calls(choices: list[int]) -> None:
    """Results keep the order of the calls, even if a provider repeats its ids."""
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
            added = after.logs[frame.id].messages[len(before.logs[frame.id].messages) :]
            assert len(frame.open_call_ids) == len(added)
            for call, message in zip(frame.open_call_ids, added, strict=True):
                assert before.calls[call].tool_call_id == message.answered_call_id
                assert results.get(call, "") in message.content

    end = check_law(law, choices)
    assert messages.find_violation(end.logs[ROOT_FRAME_ID].messages) is None


@LAW_SETTINGS
@given(CHOICES)
def test_no_frame_has_a_tool_call_id_twice(choices: list[int]) -> None:
    """Ids of tool calls are unique in a frame and never empty."""

    def law(_: RunState, __: Event, after: RunState) -> None:
        for log in after.logs.values():
            ids = [call for message in log.messages for call in message.tool_call_ids]
            assert "" not in ids
            assert len(ids) == len(set(ids))

    check_law(law, choices)


@LAW_SETTINGS
@given(CHOICES)
def test_log_only_grows(choices: list[int]) -> None:
    """While its id stays the same, a log keeps all its messages."""

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
    """Every state that `advance` returns satisfies the invariants."""

    def law(_: RunState, __: Event, after: RunState) -> None:
        assert invariants.find_violation(after) is None

    check_law(law, choices)


@LAW_SETTINGS
@given(CHOICES)
def test_ids_are_never_used_again(choices: list[int]) -> None:
    """Ids of frames, calls and waits are never used twice."""
    seen = {ROOT_FRAME_ID}

    def law(before: RunState, _: Event, after: RunState) -> None:
        for old, new in (
            (before.frames, after.frames),
            (before.calls, after.calls),
            (before.waits, after.waits),
        ):
            new_ids = set(new) - set(old)
            assert not new_ids & seen
            seen.update(new_ids)

    check_law(law, choices)


@LAW_SETTINGS
@given(CHOICES)
def test_runnable_index_matches_the_rows(choices: list[int]) -> None:
    """`RunState.runnable` follows from the rows."""

    def law(_: RunState, __: Event, after: RunState) -> None:
        assert set(with_runnable_recomputed(after).runnable) == set(after.runnable)

    check_law(law, choices)


@LAW_SETTINGS
@given(CHOICES)
def test_plan_is_empty_only_if_no_row_can_advance(choices: list[int]) -> None:
    """If no row can advance and the run has not ended, at least one wait is open."""

    def law(_: RunState, __: Event, after: RunState) -> None:
        idle = [frame.id for frame in after.frames.values() if not frame.open_call_ids]
        runnable_calls = [
            call.id
            for call in after.calls.values()
            if isinstance(call.state, calls.Proposed | calls.Ready | calls.Started)
            or (
                isinstance(call.state, calls.Unknown)
                and call.verifiable
                and not call.state.verify_tried
            )
        ]
        ended = after.run.status in ENDED_STATUSES
        can_advance = not ended and bool(idle or runnable_calls)
        assert can_advance == bool(plan(after))
        if not can_advance and not ended:
            assert after.waits

    check_law(law, choices)


@LAW_SETTINGS
@given(CHOICES)
def test_closed_wait_never_opens_again(choices: list[int]) -> None:
    """A wait that was decided or closed is never open again."""
    closed: set[str] = set()

    def law(before: RunState, event: Event, after: RunState) -> None:
        closed.update(before.waits.keys() - after.waits.keys())
        assert not closed & after.waits.keys()
        if isinstance(event, ApprovalRequested | OutcomeUnknown | Reopened):
            assert event.wait.id in after.waits
        if isinstance(event, RunStopped):
            assert not after.waits

    check_law(law, choices)


@LAW_SETTINGS
@given(CHOICES)
def test_advance_is_pure(choices: list[int]) -> None:
    """`advance` returns equal states for equal input and changes no input."""

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
def test_ended_run_has_no_open_call(choices: list[int]) -> None:
    """Every call of an ended run has a result."""
    end = check_law(lambda _, __, ___: None, choices)

    assert end.run.status in ENDED_STATUSES
    assert all(
        isinstance(call.state, calls.CLOSED_STATES) for call in end.calls.values()
    )
    assert (end.run.status == "finished") == (end.run.output is not None)
    assert (end.run.status == "finished") == (end.run.failure is None)


# Suspensions ------------------------------------------------------------------


@LAW_SETTINGS
@given(CHOICES, st.sets(st.integers(1, 40)))
def test_suspensions_do_not_change_the_end(
    choices: list[int], pauses: set[int]
) -> None:
    """Promise 1 (same end): the state may become bytes and back between any events."""

    def suspend(step: int, state: RunState) -> RunState:
        if step not in pauses:
            return state
        return Continuation.from_bytes(Continuation(state).to_bytes()).run_state

    events: list[tuple[type[Event], dict[str, object]]] = []
    events_with_suspensions: list[tuple[type[Event], dict[str, object]]] = []
    uninterrupted = run_schedule(
        first_state(choices), choices, lambda _, e, __: events.append(event_fields(e))
    )

    resumed = run_schedule(
        first_state(choices),
        choices,
        lambda _, e, __: events_with_suspensions.append(event_fields(e)),
        between_events=suspend,
    )

    assert uninterrupted == resumed
    assert events == events_with_suspensions
    assert set(uninterrupted.runnable) == set(resumed.runnable)


def event_fields(event: Event) -> tuple[type[Event], dict[str, object]]:
    """Return the type and fields of an event, which has no `==` of its own."""
    return type(event), {f.name: getattr(event, f.name) for f in fields(event)}
