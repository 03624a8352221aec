"""The state of an agent follows from the patches of its calls."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from continuations.core import jsontext
from continuations.core.changes.events import (
    CallInvalid,
    CallRaised,
    CallReturned,
    CallStarted,
    RunStopped,
)
from continuations.core.changes.plan import RecordStart, plan
from continuations.core.changes.reducer import advance
from continuations.core.rows.delta import DeltaMismatch, apply_delta, diff
from continuations.core.rows.frames import (
    FrameRow,
    changed_state_fields,
    with_state_patch,
)
from continuations.core.rows.run import Failure
from continuations.core.rows.state import ROOT_FRAME_ID, RunState
from continuations.wire.rows import delta_fields, read_delta
from tests.core import rows
from tests.sampling import examples

PATCHES = st.dictionaries(st.sampled_from("abc"), st.integers(0, 9), max_size=3)
ENDS: list[Any] = [CallReturned, CallRaised, CallInvalid]
# Whether each call of a turn declares that it writes, its changes, and its end.
CALLS = st.tuples(st.booleans(), PATCHES, st.sampled_from(ENDS))
TURNS = st.lists(st.lists(CALLS, min_size=1, max_size=4), max_size=5)


def root_state(state: RunState) -> dict[str, Any]:
    """Return the state of the root agent."""
    text = state.frames[ROOT_FRAME_ID].state_json
    return dict(jsontext.parse(text or "{}"))


def end_of(call_id: str, kind: type[Any], patch: dict[str, int]) -> Any:
    """Return the event that ends a call that has begun."""
    if kind is CallReturned:
        text = jsontext.canonical(patch) if patch else None
        return CallReturned(call_id=call_id, content="done", patch=text)
    return CallRaised(call_id=call_id, code="exception", content="ERROR")


@settings(max_examples=examples(200), deadline=None, derandomize=True)
@given(TURNS, st.randoms(use_true_random=False))
def test_state_is_the_replay_of_the_patches_in_call_order(
    turns: list[list[tuple[bool, dict[str, int], type[Any]]]], random: Any
) -> None:
    """The order in which calls begin and end does not matter. Versions restore it."""
    state = rows.new_state()
    expected: dict[str, int] = {}
    for turn in turns:
        before = state
        state = rows.apply_events(state, rows.reply_with_calls(*(["free"] * len(turn))))
        ids = state.frames[ROOT_FRAME_ID].open_call_ids
        calls = dict(zip(ids, turn, strict=True))
        for call_id, (writes, _, kind) in calls.items():
            if kind is CallInvalid:
                event: Any = CallInvalid(call_id=call_id, code="x", content="ERROR")
            else:
                event = rows.accepted_event(call_id, writes_state=writes)
            state = advance(state, event)
        running: list[str] = []
        while state.frames[ROOT_FRAME_ID].open_call_ids:
            ready = [
                action.call_id
                for action in plan(state)
                if isinstance(action, RecordStart)
            ]
            writers = [each for each in (*running, *ready) if calls[each][0]]
            assert len(writers) <= 1, "calls that write begin one after another"
            chosen = random.choice([*running, *ready])
            if chosen in ready:
                state = advance(state, CallStarted(call_id=chosen))
                running.append(chosen)
                continue
            running.remove(chosen)
            writes, patch, kind = calls[chosen]
            state = advance(state, end_of(chosen, kind, patch if writes else {}))
        for writes, patch, kind in turn:
            expected |= patch if writes and kind is CallReturned else {}
        assert expected == root_state(state)
        assert state == apply_delta(before, stored(before, state))
    assert state == apply_delta(None, stored(None, state))


def stored(before: RunState | None, after: RunState) -> Any:
    """Return the delta of a version, in the values that are stored, and read."""
    fields = delta_fields(diff(before, after), full_copy=before is None)
    return read_delta(fields, "test", before.run if before else None)


def test_state_that_did_not_change_is_not_written_again() -> None:
    """A turn writes the row of its frame, and not the state."""
    state = rows.apply_events(rows.new_state(), rows.reply_with_calls("free"))
    state = rows.apply_events(
        state,
        rows.accepted_event("c3", writes_state=True),
        CallStarted(call_id="c3"),
        CallReturned(call_id="c3", content="done", patch='{"a":1}'),
    )

    after = rows.apply_events(state, rows.reply_with_calls("free"))

    delta = diff(state, after)
    assert [ROOT_FRAME_ID] == [row.id for row in delta.frames]
    assert {} == delta.states
    assert after == apply_delta(state, delta)


def test_call_that_never_changes_the_state_writes_none() -> None:
    """Nothing is stored for a tool that only declares that it writes."""
    state = rows.apply_events(rows.new_state(), rows.reply_with_calls("free"))
    state = rows.apply_events(
        state,
        rows.accepted_event("c3", writes_state=True),
        CallStarted(call_id="c3"),
        CallReturned(call_id="c3", content="done"),
    )

    assert "" == state.frames[ROOT_FRAME_ID].state_json


def test_stopped_run_keeps_what_its_calls_changed() -> None:
    """The results of the turn are kept, and so are the changes that belong to them."""
    state = rows.apply_events(rows.new_state(), rows.reply_with_calls("free", "free"))
    state = rows.apply_events(
        state,
        rows.accepted_event("c3", writes_state=True),
        rows.accepted_event("c4", writes_state=True),
        CallStarted(call_id="c3"),
        CallReturned(call_id="c3", content="done", patch='{"a":1}'),
    )
    assert {} == root_state(state)

    state = advance(state, RunStopped(failure=Failure(code="budget", message="x")))

    assert {"a": 1} == root_state(state)


def test_state_of_a_frame_that_did_not_change_is_refused() -> None:
    """A version with such a state was not written by this library."""
    delta = replace(diff(None, rows.new_state()), states={"f9": "{}"})

    with pytest.raises(DeltaMismatch, match="no changed frame"):
        apply_delta(None, delta)


def test_row_of_a_frame_is_stored_without_its_state() -> None:
    """The state has a row of its own."""
    state = rows.new_state()
    row = replace(state.frames[ROOT_FRAME_ID], state_json='{"a":1}')

    delta = diff(state, replace(state, frames={ROOT_FRAME_ID: row}))

    assert ("",) == tuple(each.state_json for each in delta.frames)
    assert {ROOT_FRAME_ID: '{"a":1}'} == delta.states
    assert isinstance(delta.frames[0], FrameRow)


def test_changed_fields_distinguish_values_that_python_calls_equal() -> None:
    """JSON has true and 1, and they are different values."""
    assert '{"a":true}' == changed_state_fields('{"a":1,"b":2}', '{"a":true,"b":2}')
    assert '{"a":1}' == with_state_patch('{"a":true}', '{"a":1}')
