"""examples/edited_arguments.py."""

from __future__ import annotations

from pathlib import Path

from tests.examples.example_process import example_output


def test_edited_arguments_run_and_are_reported(tmp_path: Path) -> None:
    printed = example_output("edited_arguments.py", folder=tmp_path)

    assert "DecisionRefused" in printed
    assert "Finished: the tool paid [50000]" in printed
    assert "The model wrote:   {'cents': 500000, 'person': 'Jane'}" in printed
    assert "The tool ran with: {'cents': 50000, 'person': 'Jane'}" in printed
    assert 'The tool ran with {"cents":50000,"person":"Jane"}' in printed
