"""A table under change, and the table that it came from."""

from __future__ import annotations

from dataclasses import replace

import pytest

from continuations.core import messages as said
from continuations.core.calls import Ready
from continuations.core.draft import Draft
from continuations.core.table import ROOT, path_of
from continuations.errors import IllegalTransition
from tests.core.rows import (
    deepest,
    new_table,
    one_call,
    relisted,
    tower,
    wait_for,
    with_state,
)


def test_what_was_not_written_to_is_shared() -> None:
    """A turn costs what it changes, not what the run holds."""
    before = one_call(Ready())
    draft = Draft(before)
    draft.append(ROOT, said.user("x"))
    after = draft.table()

    assert before.calls is after.calls
    assert before.frames is after.frames
    assert before.agenda is after.agenda
    assert before.logs is not after.logs


def test_no_change_of_a_draft_reaches_its_table() -> None:
    before = one_call(Ready())
    kept = relisted(before)
    agenda = list(before.agenda)
    draft = Draft(before)
    draft.put_call(with_state(before, "c3", Ready()))
    draft.drop_call("c3")
    draft.put_wait(wait_for("c4"))
    draft.drop_wait("w1")
    draft.put_frame(replace(before.frames[ROOT], open=()))
    draft.drop_frame(ROOT)
    draft.put_run(replace(before.run, inbox=9))
    draft.new_id("c")

    assert kept == before
    assert agenda == list(before.agenda)


def test_a_finished_draft_may_be_changed_no_more_than_its_table() -> None:
    draft = Draft(new_table())
    first = draft.table()
    draft.append(ROOT, said.user("x"))

    assert 1 == len(first.logs[ROOT].messages)
    assert 2 == len(draft.table().logs[ROOT].messages)


def test_ids_of_every_kind_come_from_one_count() -> None:
    """R-B2."""
    draft = Draft(new_table())

    made = [draft.new_id(kind) for kind in ("c", "f", "c")]
    draft.new_log(ROOT, (said.user("anew"),))

    assert ["c3", "f4", "c5"] == made
    assert 6 == draft.log(ROOT).id
    assert 7 == draft.table().run.next_id


def test_a_row_that_is_not_there_is_named() -> None:
    draft = Draft(new_table())

    with pytest.raises(IllegalTransition, match="c99"):
        draft.call("c99")
    with pytest.raises(IllegalTransition, match="f99"):
        draft.frame("f99")


def test_dropping_what_is_gone_changes_nothing() -> None:
    draft = Draft(new_table())
    draft.drop_call("c99")
    draft.drop_wait("w99")
    draft.drop_frame("f99")

    assert new_table() == draft.table()


def test_a_path_names_the_way_from_the_root_agent_down() -> None:
    """R-C3: what the decider is shown."""
    table = tower(3)

    assert ("hr",) == path_of(table, ROOT)
    assert ("hr", "agent", "agent") == path_of(table, deepest(table))
    high = tower(1000)
    assert 1000 == len(path_of(high, deepest(high)))
