"""The words of `drift` for the command line and the console."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from continuations.engine.past.drift import DriftRow

_MAX_CHANGES = 10


def allowed_changes(row: DriftRow) -> tuple[tuple[str, ...], int]:
    """Return the differences of the code that a run accepts.

    Args:
        row: The run. A row with another verdict has reasons instead.

    Returns:
        The first differences in words, and how many more there are.
    """
    changes = row.code_changes if row.verdict == "accept" else ()
    shown = tuple(change.text for change in changes[:_MAX_CHANGES])
    return shown, len(changes) - len(shown)
