"""examples/edited_arguments.py."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.examples.staged import said

if TYPE_CHECKING:
    from pathlib import Path


def test_the_edit_runs_and_everybody_knows(tmp_path: Path) -> None:
    printed = said("edited_arguments.py", folder=tmp_path)

    assert "DecisionRefused" in printed
    assert "Finished: the tool paid [50000]" in printed
    assert "The model wrote:    {'cents': 500000, 'person': 'Jane'}" in printed
    assert "What was run:       {'cents': 50000, 'person': 'Jane'}" in printed
    assert 'It was run with {"cents":50000,"person":"Jane"}' in printed
