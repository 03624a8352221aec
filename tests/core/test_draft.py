"""Drafts: mutable copies of a state that share unchanged rows."""

from __future__ import annotations

from dataclasses import replace

import pytest

from continuations.core.messages import user_message
from continuations.core.rows.calls import Ready
from continuations.core.rows.state import ROOT_FRAME_ID, Draft, RunState, frame_path
from continuations.errors import IllegalTransition
from tests.core import rows


def test_draft_shares_unchanged_rows() -> None:
    """The cost of an event depends on the changed rows, not on the size of the run."""
    before = rows.state_with_call_in(Ready())
    draft = Draft(before)
    draft.append(ROOT_FRAME_ID, user_message("x"))
    after = draft.to_run_state()

    assert before.calls is after.calls
    assert before.frames is after.frames
    assert before.runnable is after.runnable
    assert before.logs is not after.logs


def test_changes_of_a_draft_do_not_reach_its_base() -> None:
    before = rows.state_with_call_in(Ready())
    kept = rows.with_runnable_recomputed(before)
    runnable = list(before.runnable)
    draft = Draft(before)
    draft.put_call(rows.with_state(before, "c3", Ready()))
    draft.drop_call("c3")
    draft.put_wait(rows.make_wait("c4"))
    draft.drop_wait("w1")
    draft.put_frame(replace(before.frames[ROOT_FRAME_ID], open_call_ids=()))
    draft.drop_frame(ROOT_FRAME_ID)
    draft.put_run(replace(before.run, last_inbox_number=9))
    draft.allocate_id("c")

    assert kept == before
    assert runnable == list(before.runnable)


def test_changes_of_a_draft_do_not_reach_an_earlier_result() -> None:
    draft = Draft(rows.new_state())
    states: list[RunState] = []
    for text in ("a", "b", "c"):
        states.append(draft.to_run_state())
        draft.append(ROOT_FRAME_ID, user_message(text))

    lengths = [len(state.logs[ROOT_FRAME_ID].messages) for state in states]

    assert [1, 2, 3] == lengths


def test_ids_of_all_kinds_share_one_counter() -> None:
    draft = Draft(rows.new_state())

    ids = [draft.allocate_id(kind) for kind in ("c", "f", "c")]
    draft.start_log(ROOT_FRAME_ID, (user_message("new"),))

    assert ["c3", "f4", "c5"] == ids
    assert 6 == draft.log(ROOT_FRAME_ID).id
    assert 7 == draft.to_run_state().run.next_id


def test_missing_row_raises_illegal_transition_with_its_id() -> None:
    draft = Draft(rows.new_state())

    with pytest.raises(IllegalTransition, match="c99"):
        draft.call("c99")
    with pytest.raises(IllegalTransition, match="f99"):
        draft.frame("f99")


def test_dropping_a_missing_row_changes_nothing() -> None:
    draft = Draft(rows.new_state())
    draft.drop_call("c99")
    draft.drop_wait("w99")
    draft.drop_frame("f99")

    assert rows.new_state() == draft.to_run_state()


def test_frame_path_names_the_root_agent_and_the_tools_below() -> None:
    """The path shows the decider which agents led to the call."""
    state = rows.nested_agents(3)

    assert ("hr",) == frame_path(state, ROOT_FRAME_ID)
    assert ("hr", "agent", "agent") == frame_path(state, rows.deepest_frame(state))
    deep = rows.nested_agents(1000)
    assert 1000 == len(frame_path(deep, rows.deepest_frame(deep)))
