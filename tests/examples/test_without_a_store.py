"""examples/without_a_store.py."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.examples.staged import said

if TYPE_CHECKING:
    from pathlib import Path

EXAMPLE = "without_a_store.py"


def test_of_two_who_resume_one_row_one_does(tmp_path: Path) -> None:
    printed = said(EXAMPLE, folder=tmp_path)

    assert 1 == printed.count("Finished: task 1.")
    assert 1 == printed.count("Task 1 does not wait (any more)")
    assert printed.endswith("The post saw: Jane: Welcome!\n")


def test_nothing_is_sent_before_the_yes(tmp_path: Path) -> None:
    assert "Suspended: task 1" in said(EXAMPLE, "start", folder=tmp_path)
    assert not (tmp_path / "sent.txt").exists()

    assert "Finished: task 1." in said(EXAMPLE, "approve", "1", folder=tmp_path)

    assert "Jane: Welcome!\n" == (tmp_path / "sent.txt").read_text()
