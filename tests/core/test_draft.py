"""A table under change, and the table that it came from."""

from __future__ import annotations

from dataclasses import replace

import pytest

from continuations.core.calls import Ready
from continuations.core.draft import Draft
from continuations.core.messages import user_message
from continuations.core.state import ROOT_FRAME_ID, frame_path
from continuations.errors import IllegalTransition
from tests.core.rows import (
    deepest_frame,
    make_wait,
    nested_agents,
    new_state,
    state_with_call_in,
    with_runnable_recomputed,
    with_state,
)


def test_draft_shares_unchanged_rows() -> None:
    """A turn costs what it changes, not what the run holds."""
    before = state_with_call_in(Ready())
    draft = Draft(before)
    draft.append(ROOT_FRAME_ID, user_message("x"))
    after = draft.to_run_state()

    assert before.calls is after.calls
    assert before.frames is after.frames
    assert before.runnable is after.runnable
    assert before.logs is not after.logs


def test_no_change_of_a_draft_reaches_its_table() -> None:
    before = state_with_call_in(Ready())
    kept = with_runnable_recomputed(before)
    runnable = list(before.runnable)
    draft = Draft(before)
    draft.put_call(with_state(before, "c3", Ready()))
    draft.drop_call("c3")
    draft.put_wait(make_wait("c4"))
    draft.drop_wait("w1")
    draft.put_frame(replace(before.frames[ROOT_FRAME_ID], open_call_ids=()))
    draft.drop_frame(ROOT_FRAME_ID)
    draft.put_run(replace(before.run, last_inbox_number=9))
    draft.allocate_id("c")

    assert kept == before
    assert runnable == list(before.runnable)


def test_draft_changes_do_not_reach_an_earlier_table() -> None:
    draft = Draft(new_state())
    first = draft.to_run_state()
    draft.append(ROOT_FRAME_ID, user_message("x"))

    assert 1 == len(first.logs[ROOT_FRAME_ID].messages)
    assert 2 == len(draft.to_run_state().logs[ROOT_FRAME_ID].messages)


def test_ids_of_every_kind_come_from_one_count() -> None:
    """R-B2."""
    draft = Draft(new_state())

    made = [draft.allocate_id(kind) for kind in ("c", "f", "c")]
    draft.start_log(ROOT_FRAME_ID, (user_message("anew"),))

    assert ["c3", "f4", "c5"] == made
    assert 6 == draft.log(ROOT_FRAME_ID).id
    assert 7 == draft.to_run_state().run.next_id


def test_a_row_that_is_not_there_is_named() -> None:
    draft = Draft(new_state())

    with pytest.raises(IllegalTransition, match="c99"):
        draft.call("c99")
    with pytest.raises(IllegalTransition, match="f99"):
        draft.frame("f99")


def test_dropping_what_is_gone_changes_nothing() -> None:
    draft = Draft(new_state())
    draft.drop_call("c99")
    draft.drop_wait("w99")
    draft.drop_frame("f99")

    assert new_state() == draft.to_run_state()


def test_a_path_names_the_way_from_the_root_agent_down() -> None:
    """R-C3: what the decider is shown."""
    state = nested_agents(3)

    assert ("hr",) == frame_path(state, ROOT_FRAME_ID)
    assert ("hr", "agent", "agent") == frame_path(state, deepest_frame(state))
    high = nested_agents(1000)
    assert 1000 == len(frame_path(high, deepest_frame(high)))
