"""What changed between two tables, and a table rebuilt from what changed."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from continuations.core import messages as said
from continuations.core.calls import Ready
from continuations.core.delta import DeltaMismatch, LogDelta, apply, diff
from continuations.core.draft import Draft
from continuations.core.events import Begun, CallReturned
from continuations.core.frames import Log
from continuations.core.table import ROOT
from tests.core.rows import (
    admitted,
    entered,
    gated,
    new_table,
    one_call,
    relisted,
    says,
    told,
    tower,
    wants,
)

if TYPE_CHECKING:
    from continuations.core.table import Table


def same(expected: Table, actual: Table) -> None:
    """Compare two tables, and the index that `==` leaves out."""
    assert expected == actual
    assert set(expected.agenda) == set(actual.agenda)


def test_a_full_copy_is_the_table() -> None:
    table = tower(20)

    same(table, apply(None, diff(None, table)))


def test_nothing_changed_is_an_empty_delta() -> None:
    table = tower(3)
    delta = diff(table, table)

    assert ((), (), (), {}, ()) == (
        delta.frames,
        delta.calls,
        delta.waits,
        delta.logs,
        delta.gone,
    )
    assert delta.manifest is None
    same(table, apply(table, delta))


def test_only_what_changed_is_in_a_delta() -> None:
    """What is measured as bytes per version is decided here."""
    before = told(new_table(), wants("free", "gated"))
    after = told(before, admitted("c3"))

    delta = diff(before, after)

    assert ["c3"] == [call.id for call in delta.calls]
    assert ((), (), {}, ()) == (delta.frames, delta.waits, delta.logs, delta.gone)
    same(after, apply(before, delta))


def test_a_log_that_grew_is_kept_and_added_to() -> None:
    before = told(one_call(Ready()), Begun(call="c3"), gated("c4", "w2"))
    after = told(before, CallReturned(call="c3", content="x"))
    assert {} == diff(before, after).logs

    grown = told(new_table(), wants("free"))

    expected = LogDelta(id=2, keep=1, add=grown.logs[ROOT].messages[1:])
    assert {ROOT: expected} == diff(new_table_of(grown), grown).logs


def new_table_of(table: Table) -> Table:
    """Return the table as it was when its root had one message."""
    log = table.logs[ROOT]
    return replace(table, logs={ROOT: Log(log.id, log.messages[:1])})


def test_rows_that_went_are_named_and_their_logs_go_along() -> None:
    before = told(new_table(), wants("agent"), admitted("c3"), entered("c3"))
    after = told(before, says("done", frame="f4"))

    delta = diff(before, after)

    assert {"c3", "f4"} == set(delta.gone)
    same(after, apply(before, delta))
    assert [ROOT] == list(apply(before, delta).logs)


def test_a_log_that_was_rewritten_keeps_what_is_the_same() -> None:
    """A delta must never keep what another history said."""
    first, second, third = said.user("1"), said.user("2"), said.user("3")
    before = new_table(first, second)
    draft = Draft(before)
    draft.new_log(ROOT, (first, third, second))
    after = draft.table()

    log = diff(before, after).logs[ROOT]

    assert (1, (third, second)) == (log.keep, log.add)
    same(after, apply(before, diff(before, after)))


def test_a_log_that_was_cut_short_stays_short() -> None:
    before = new_table(said.user("1"), said.user("2"))
    draft = Draft(before)
    draft.new_log(ROOT, before.logs[ROOT].messages[:1])
    after = draft.table()

    same(after, apply(before, diff(before, after)))
    assert 1 == len(apply(before, diff(before, after)).logs[ROOT].messages)


def test_equal_words_of_another_log_are_said_anew() -> None:
    """Equal texts that are not the very messages of the base are not kept."""
    before = new_table(said.user("1"))
    draft = Draft(before)
    draft.new_log(ROOT, (said.user("1"),))

    log = diff(before, draft.table()).logs[ROOT]

    assert (0, 1) == (log.keep, len(log.add))


def test_a_changed_manifest_is_in_the_delta() -> None:
    before = new_table()
    after = replace(before, manifest='{"agents":{"hr":{}}}')

    assert after.manifest == diff(before, after).manifest
    same(after, apply(before, diff(before, after)))


def test_a_full_copy_without_a_manifest_is_refused() -> None:
    delta = replace(diff(None, new_table()), manifest=None)

    with pytest.raises(DeltaMismatch):
        apply(None, delta)


def test_an_empty_manifest_is_a_manifest() -> None:
    table = replace(new_table(), manifest="")

    same(table, apply(None, diff(None, table)))
    same(table, apply(new_table(), diff(new_table(), table)))


@pytest.mark.parametrize("keep", [2, 3, 1000])
def test_a_log_that_keeps_more_than_there_is_is_refused(keep: int) -> None:
    base = new_table(said.user("1"))
    delta = replace(diff(base, base), logs={ROOT: LogDelta(id=2, keep=keep, add=())})

    with pytest.raises(DeltaMismatch, match=ROOT):
        apply(base, delta)
    with pytest.raises(DeltaMismatch):
        apply(None, replace(delta, manifest="{}"))


def test_a_row_that_stands_twice_is_refused() -> None:
    """B-5 f."""
    delta = diff(None, new_table())

    with pytest.raises(DeltaMismatch):
        apply(None, replace(delta, frames=delta.frames * 2))


def test_applying_leaves_the_base_as_it_was() -> None:
    before = told(new_table(), wants("agent"), admitted("c3"), entered("c3"))
    kept = relisted(before)
    after = told(before, says("done", frame="f4"))

    apply(before, diff(before, after))

    same(kept, before)
