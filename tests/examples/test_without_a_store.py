"""examples/without_a_store.py."""

from __future__ import annotations

from pathlib import Path

from tests.examples.example_process import example_output

EXAMPLE = "without_a_store.py"


def test_one_of_two_processes_resumes_a_database_row(tmp_path: Path) -> None:
    printed = example_output(EXAMPLE, folder=tmp_path)

    assert 1 == printed.count("Finished: task 1.")
    assert 1 == printed.count("Task 1 is not waiting")
    assert printed.endswith("Sent: Jane: Welcome!\n")


def test_message_is_sent_after_the_approval(tmp_path: Path) -> None:
    assert "Suspended: task 1" in example_output(EXAMPLE, "start", folder=tmp_path)
    assert not (tmp_path / "sent.txt").exists()

    assert "Finished: task 1." in example_output(
        EXAMPLE, "approve", "1", folder=tmp_path
    )

    assert "Jane: Welcome!\n" == (tmp_path / "sent.txt").read_text()
