"""examples/expense_claim.py: one story in one process, and in a dozen processes."""

from __future__ import annotations

from pathlib import Path

from tests.examples.example_process import example_output

EXAMPLE = "expense_claim.py"


def test_story_is_the_same_in_one_process_and_in_a_dozen(tmp_path: Path) -> None:
    printed = example_output(EXAMPLE, folder=tmp_path)

    lines = [line.strip() for line in printed.splitlines() if line]
    kinds = ["event", "question", "model", "approval", "approval"]
    waits = [line for line in lines if line.startswith("waits: ")]
    assert kinds == [line.split()[1] for line in waits]
    assert any(line.startswith("jane is refused: ") for line in lines)
    assert "finished: Jane is paid." in lines
    assert "the bank: 41000 to jane" == lines[-1]
    assert printed == example_output(EXAMPLE, "--processes", folder=tmp_path)
