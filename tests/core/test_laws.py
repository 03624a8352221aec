"""Laws that hold for every schedule of models, tools, people and crashes."""

from __future__ import annotations

from dataclasses import fields
from typing import TYPE_CHECKING

from hypothesis import given, settings
from hypothesis import strategies as st

from continuations.core import soundness, transcript
from continuations.core.calls import (
    CLOSED,
    Proposed,
    Ready,
    Refused,
    Started,
    State,
    Unknown,
)
from continuations.core.events import (
    Answered,
    CallRaised,
    CallReturned,
    Denied,
    Event,
    Expired,
    Gated,
    Interrupted,
    Rejected,
    Reopened,
    RunStopped,
)
from continuations.core.plan import plan
from continuations.core.reducer import advance
from continuations.core.run import ENDED
from continuations.core.table import ROOT, Table
from continuations.core.transitions import TRANSITIONS
from continuations.wire.continuation import Continuation
from tests.core.rows import relisted
from tests.core.schedules import CHOICES, begin, play

if TYPE_CHECKING:
    from collections.abc import Callable


LAWFUL = settings(max_examples=60, deadline=None, derandomize=True)
NEXT = {(type(None), Proposed)} | {(was, now) for (was, _), now in TRANSITIONS.items()}


def holds(law: Callable[[Table, Event, Table], None], choices: list[int]) -> Table:
    """Play a schedule and ask the law after every event."""
    return play(begin(choices), choices, law)


# What may happen to a call ----------------------------------------------------


@LAWFUL
@given(CHOICES)
def test_a_call_that_was_refused_never_starts(choices: list[int]) -> None:
    """X-01, R-C5, R-F4: denied, expired or cancelled means it does not run."""
    refused: set[str] = set()

    def law(_: Table, event: Event, after: Table) -> None:
        if isinstance(event, Denied | Expired):
            refused.add(event.call)
        for call in after.calls.values():
            if isinstance(call.state, Refused):
                refused.add(call.id)
            assert not (call.id in refused and isinstance(call.state, Started))
            assert call.id not in refused or isinstance(call.state, Refused)

    holds(law, choices)


@LAWFUL
@given(CHOICES)
def test_started_is_reached_from_ready_alone(choices: list[int]) -> None:
    """X-01: and every other step stands in the table too."""

    def law(before: Table, _: Event, after: Table) -> None:
        for call in after.calls.values():
            old = before.calls.get(call.id)
            was: type[State | None] = type(old.state) if old else type(None)
            now = type(call.state)
            if old is None or old.state != call.state:
                assert (was, now) in NEXT
            if now is Started and was is not Started:
                assert was is Ready

    holds(law, choices)


@LAWFUL
@given(CHOICES)
def test_a_call_that_needs_a_person_starts_only_after_a_yes(choices: list[int]) -> None:
    """R-C5, R-C6, X-13: `approved` holds the digest before a gated call starts."""
    asked: set[str] = set()

    def law(_: Table, event: Event, after: Table) -> None:
        if isinstance(event, Gated):
            asked.add(event.call)
        for call in after.calls.values():
            if call.id in asked and isinstance(call.state, Ready | Started):
                assert call.approved is not None

    holds(law, choices)


# What is said -----------------------------------------------------------------


@LAWFUL
@given(CHOICES)
def test_every_frame_that_may_be_asked_is_sendable(choices: list[int]) -> None:
    """X-10, R-D1, R-D2, EF-25: at every depth, after every event."""

    def law(_: Table, __: Event, after: Table) -> None:
        for frame in after.frames.values():
            if not frame.open or after.run.status in ENDED:
                assert transcript.fault(after.logs[frame.id].messages) is None

    holds(law, choices)


@LAWFUL
@given(CHOICES)
def test_each_result_appears_once_in_the_order_of_the_calls(choices: list[int]) -> None:
    """EF-26, R-D4, R-D5: also where a provider repeats its ids."""
    results: dict[str, str] = {}

    def law(before: Table, event: Event, after: Table) -> None:
        if isinstance(event, CallReturned | CallRaised | Rejected | Answered):
            results[event.call] = event.content
        for frame in before.frames.values():
            if not frame.open or frame.id not in after.frames:
                continue
            if after.frames[frame.id].open and after.run.status not in ENDED:
                continue
            said = after.logs[frame.id].messages[len(before.logs[frame.id].messages) :]
            assert len(frame.open) == len(said)
            for call, message in zip(frame.open, said, strict=True):
                assert before.calls[call].provider_id == message.answers
                assert results.get(call, "") in message.content

    end = holds(law, choices)
    assert transcript.fault(end.logs[ROOT].messages) is None


@LAWFUL
@given(CHOICES)
def test_no_frame_ever_has_one_call_id_twice(choices: list[int]) -> None:
    """R-D5: the transcript's ids are unique in their frame."""

    def law(_: Table, __: Event, after: Table) -> None:
        for log in after.logs.values():
            ids = [call for message in log.messages for call in message.calls]
            assert "" not in ids
            assert len(ids) == len(set(ids))

    holds(law, choices)


@LAWFUL
@given(CHOICES)
def test_what_was_said_stays_said(choices: list[int]) -> None:
    """A log only grows while its id stays."""

    def law(before: Table, _: Event, after: Table) -> None:
        for frame, old in before.logs.items():
            log = after.logs.get(frame)
            if log is not None:
                assert old.id == log.id
                assert old.messages == log.messages[: len(old.messages)]

    holds(law, choices)


# The rows ---------------------------------------------------------------------


@LAWFUL
@given(CHOICES)
def test_rows_always_fit_together(choices: list[int]) -> None:
    """What `advance` makes, `soundness` takes."""

    def law(_: Table, __: Event, after: Table) -> None:
        assert soundness.fault(after) is None

    holds(law, choices)


@LAWFUL
@given(CHOICES)
def test_ids_are_never_used_again(choices: list[int]) -> None:
    """R-B2, R-B5: frames, calls and waits alike."""
    seen = {ROOT}

    def law(before: Table, _: Event, after: Table) -> None:
        for old, new in (
            (before.frames, after.frames),
            (before.calls, after.calls),
            (before.waits, after.waits),
        ):
            fresh = set(new) - set(old)
            assert not fresh & seen
            seen.update(fresh)

    holds(law, choices)


@LAWFUL
@given(CHOICES)
def test_the_agenda_is_what_the_rows_say(choices: list[int]) -> None:
    """`Table.agenda` is an index, not a fact of its own."""

    def law(_: Table, __: Event, after: Table) -> None:
        assert set(relisted(after).agenda) == set(after.agenda)

    holds(law, choices)


@LAWFUL
@given(CHOICES)
def test_the_plan_is_empty_when_nothing_can_move(choices: list[int]) -> None:
    """X-06: and then, unless the run has ended, somebody is being waited for."""

    def law(_: Table, __: Event, after: Table) -> None:
        idle = [frame.id for frame in after.frames.values() if not frame.open]
        moving = [
            call.id
            for call in after.calls.values()
            if isinstance(call.state, Proposed | Ready | Started)
            or (
                isinstance(call.state, Unknown)
                and call.verifiable
                and not call.state.checked
            )
        ]
        ended = after.run.status in ENDED
        can_move = not ended and bool(idle or moving)
        assert can_move == bool(plan(after))
        if not can_move and not ended:
            assert after.waits

    holds(law, choices)


@LAWFUL
@given(CHOICES)
def test_every_open_wait_is_one_calls_own(choices: list[int]) -> None:
    """R-F9: a decided or closed wait is never shown as open again."""
    over: set[str] = set()

    def law(before: Table, event: Event, after: Table) -> None:
        over.update(before.waits.keys() - after.waits.keys())
        assert not over & after.waits.keys()
        if isinstance(event, Gated | Interrupted | Reopened):
            assert event.wait.id in after.waits
        if isinstance(event, RunStopped):
            assert not after.waits

    holds(law, choices)


@LAWFUL
@given(CHOICES)
def test_advance_is_pure(choices: list[int]) -> None:
    """The same table and the same event give the same table, and leave theirs."""

    def law(before: Table, event: Event, after: Table) -> None:
        kept = relisted(before)
        rows = tuple(dict(m) for m in (before.frames, before.calls, before.logs))
        agenda = list(before.agenda)
        assert after == advance(before, event)
        assert kept == before
        assert rows == (before.frames, before.calls, before.logs)
        assert agenda == list(before.agenda)

    holds(law, choices)


@LAWFUL
@given(CHOICES)
def test_a_run_that_ended_has_no_open_call(choices: list[int]) -> None:
    """X-06, R-F6: every call of an ended run has its result."""

    end = holds(lambda _, __, ___: None, choices)

    assert end.run.status in ENDED
    assert all(isinstance(call.state, CLOSED) for call in end.calls.values())
    assert (end.run.status == "finished") == (end.run.output is not None)
    assert (end.run.status == "finished") == (end.run.failure is None)


# Suspensions ------------------------------------------------------------------


@LAWFUL
@given(CHOICES, st.sets(st.integers(1, 40)))
def test_any_split_into_suspensions_gives_the_same_end(
    choices: list[int], pauses: set[int]
) -> None:
    """Promise 1, R-B1, R-A11: to bytes and back between any two events."""

    def pause(step: int, table: Table) -> Table:
        if step not in pauses:
            return table
        return Continuation.from_bytes(Continuation(table).to_bytes()).table

    whole: list[tuple[type[Event], dict[str, object]]] = []
    split: list[tuple[type[Event], dict[str, object]]] = []
    uninterrupted = play(
        begin(choices), choices, lambda _, e, __: whole.append(told(e))
    )

    resumed = play(
        begin(choices), choices, lambda _, e, __: split.append(told(e)), between=pause
    )

    assert uninterrupted == resumed
    assert whole == split
    assert set(uninterrupted.agenda) == set(resumed.agenda)


def told(event: Event) -> tuple[type[Event], dict[str, object]]:
    """Return what an event says; events themselves are never compared."""
    return type(event), {f.name: getattr(event, f.name) for f in fields(event)}
