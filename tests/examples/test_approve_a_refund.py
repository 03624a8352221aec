"""examples/approve_a_refund.py."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.examples.staged import said

if TYPE_CHECKING:
    from pathlib import Path

EXAMPLE = "approve_a_refund.py"


def test_all_of_it_refunds_once(tmp_path: Path) -> None:
    printed = said(EXAMPLE, folder=tmp_path)

    assert "Suspended" in printed
    assert "Finished" in printed
    assert printed.endswith("The bank saw: 1250 cents for A-17\n")


def test_nothing_is_paid_before_the_yes_and_nothing_twice(tmp_path: Path) -> None:
    bank = tmp_path / "refunds.txt"
    said(EXAMPLE, "start", folder=tmp_path)
    said(EXAMPLE, "approve", folder=tmp_path)
    assert not bank.exists()

    first = said(EXAMPLE, "resume", folder=tmp_path)
    second = said(EXAMPLE, "resume", folder=tmp_path)

    assert "1250 cents for A-17\n" == bank.read_text()
    assert first.splitlines()[1:] == second.splitlines()[1:]


def test_what_is_denied_is_not_paid_and_the_model_knows_why(tmp_path: Path) -> None:
    for step in ("start", "deny"):
        said(EXAMPLE, step, folder=tmp_path)

    printed = said(EXAMPLE, "resume", folder=tmp_path)

    assert "Finished" in printed
    assert "DENIED" in printed
    assert "It was used for a year." in printed
    assert not (tmp_path / "refunds.txt").exists()
