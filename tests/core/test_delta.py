"""Deltas between two states, and states rebuilt from deltas."""

from __future__ import annotations

from dataclasses import replace

import pytest

from continuations.core.changes.events import CallReturned, CallStarted
from continuations.core.messages import user_message
from continuations.core.rows.calls import Ready
from continuations.core.rows.delta import DeltaMismatch, LogDelta, apply_delta, diff
from continuations.core.rows.frames import MessageLog
from continuations.core.rows.state import ROOT_FRAME_ID, Draft, RunState
from tests.core import rows


def assert_same_state(expected: RunState, actual: RunState) -> None:
    """Compare two states, and the index of runnable rows that `==` ignores."""
    assert expected == actual
    assert set(expected.runnable) == set(actual.runnable)


def test_full_copy_gives_the_state() -> None:
    state = rows.nested_agents(20)

    assert_same_state(state, apply_delta(None, diff(None, state)))


def test_delta_of_an_unchanged_state_is_empty() -> None:
    state = rows.nested_agents(3)
    delta = diff(state, state)

    assert ((), (), (), {}, ()) == (
        delta.frames,
        delta.calls,
        delta.waits,
        delta.logs,
        delta.removed_ids,
    )
    assert delta.manifest is None
    assert_same_state(state, apply_delta(state, delta))


def test_delta_holds_only_changed_rows() -> None:
    """The size of a version depends on this."""
    before = rows.apply_events(rows.new_state(), rows.reply_with_calls("free", "gated"))
    after = rows.apply_events(before, rows.accepted_event("c3"))

    delta = diff(before, after)

    assert ["c3"] == [call.id for call in delta.calls]
    assert ((), (), {}, ()) == (
        delta.frames,
        delta.waits,
        delta.logs,
        delta.removed_ids,
    )
    assert_same_state(after, apply_delta(before, delta))


def test_delta_of_a_longer_log_holds_only_added_messages() -> None:
    before = rows.apply_events(
        rows.state_with_call_in(Ready()),
        CallStarted(call_id="c3"),
        rows.approval_requested_event("c4", "w2"),
    )
    after = rows.apply_events(before, CallReturned(call_id="c3", content="x"))
    assert {} == diff(before, after).logs

    grown = rows.apply_events(rows.new_state(), rows.reply_with_calls("free"))

    expected = LogDelta(
        id=2, keep_count=1, added=grown.logs[ROOT_FRAME_ID].messages[1:]
    )
    assert {ROOT_FRAME_ID: expected} == diff(state_with_one_message(grown), grown).logs


def state_with_one_message(state: RunState) -> RunState:
    """Return the state with only the first message of the root frame."""
    log = state.logs[ROOT_FRAME_ID]
    return replace(state, logs={ROOT_FRAME_ID: MessageLog(log.id, log.messages[:1])})


def test_delta_names_removed_rows_and_drops_their_logs() -> None:
    before = rows.apply_events(
        rows.new_state(),
        rows.reply_with_calls("agent"),
        rows.accepted_event("c3"),
        rows.sub_agent_started_event("c3"),
    )
    after = rows.apply_events(before, rows.reply_with_text("done", frame="f4"))

    delta = diff(before, after)

    assert {"c3", "f4"} == set(delta.removed_ids)
    assert_same_state(after, apply_delta(before, delta))
    assert [ROOT_FRAME_ID] == list(apply_delta(before, delta).logs)


def test_delta_of_a_rewritten_log_keeps_the_common_start() -> None:
    """A delta must never keep messages of a different history."""
    first, second, third = (
        user_message("1"),
        user_message("2"),
        user_message("3"),
    )
    before = rows.new_state(first, second)
    draft = Draft(before)
    draft.start_log(ROOT_FRAME_ID, (first, third, second))
    after = draft.to_run_state()

    log = diff(before, after).logs[ROOT_FRAME_ID]

    assert (1, (third, second)) == (log.keep_count, log.added)
    assert_same_state(after, apply_delta(before, diff(before, after)))


def test_delta_of_a_truncated_log_keeps_fewer_messages() -> None:
    before = rows.new_state(user_message("1"), user_message("2"))
    draft = Draft(before)
    draft.start_log(ROOT_FRAME_ID, before.logs[ROOT_FRAME_ID].messages[:1])
    after = draft.to_run_state()

    assert_same_state(after, apply_delta(before, diff(before, after)))
    assert 1 == len(
        apply_delta(before, diff(before, after)).logs[ROOT_FRAME_ID].messages
    )


def test_equal_messages_of_another_log_are_stored_again() -> None:
    """Messages are compared by identity: an equal copy is stored again."""
    before = rows.new_state(user_message("1"))
    draft = Draft(before)
    draft.start_log(ROOT_FRAME_ID, (user_message("1"),))

    log = diff(before, draft.to_run_state()).logs[ROOT_FRAME_ID]

    assert (0, 1) == (log.keep_count, len(log.added))


def test_delta_holds_a_changed_manifest() -> None:
    before = rows.new_state()
    after = replace(before, manifest='{"agents":{"hr":{}}}')

    assert after.manifest == diff(before, after).manifest
    assert_same_state(after, apply_delta(before, diff(before, after)))


def test_apply_delta_rejects_a_full_copy_without_a_manifest() -> None:
    delta = replace(diff(None, rows.new_state()), manifest=None)

    with pytest.raises(DeltaMismatch):
        apply_delta(None, delta)


def test_empty_manifest_is_kept() -> None:
    state = replace(rows.new_state(), manifest="")

    assert_same_state(state, apply_delta(None, diff(None, state)))
    assert_same_state(
        state, apply_delta(rows.new_state(), diff(rows.new_state(), state))
    )


@pytest.mark.parametrize("keep", [2, 3, 1000])
def test_apply_delta_rejects_a_log_that_keeps_too_many_messages(keep: int) -> None:
    base = rows.new_state(user_message("1"))
    delta = replace(
        diff(base, base),
        logs={ROOT_FRAME_ID: LogDelta(id=2, keep_count=keep, added=())},
    )

    with pytest.raises(DeltaMismatch, match=ROOT_FRAME_ID):
        apply_delta(base, delta)
    with pytest.raises(DeltaMismatch):
        apply_delta(None, replace(delta, manifest="{}"))


def test_apply_delta_rejects_a_duplicate_row() -> None:
    delta = diff(None, rows.new_state())

    with pytest.raises(DeltaMismatch):
        apply_delta(None, replace(delta, frames=delta.frames * 2))


def test_apply_delta_does_not_change_the_base() -> None:
    before = rows.apply_events(
        rows.new_state(),
        rows.reply_with_calls("agent"),
        rows.accepted_event("c3"),
        rows.sub_agent_started_event("c3"),
    )
    kept = rows.with_runnable_recomputed(before)
    after = rows.apply_events(before, rows.reply_with_text("done", frame="f4"))

    apply_delta(before, diff(before, after))

    assert_same_state(kept, before)
