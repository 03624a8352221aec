"""Say in words how many runs wait for their models."""

from __future__ import annotations

from typing import TYPE_CHECKING

from continuations.present.counted import counted

if TYPE_CHECKING:
    from continuations.ledger.rows_only_waits import RunsAwaitingModels


def awaiting_models_words(found: RunsAwaitingModels) -> str:
    """Return for example `2 runs wait for their models`; empty without such runs."""
    count = len(found.run_ids)
    if not count:
        return ""
    words = "waits for its model" if count == 1 else "wait for their models"
    if found.has_more:
        return f"at least {counted(count, 'run')} {words}"
    return f"{counted(count, 'run')} {words}"


def awaiting_models_line(found: RunsAwaitingModels) -> str:
    """Return the words as a sentence, with the command that shows why."""
    words = awaiting_models_words(found)
    if not words:
        return ""
    sentence = f"{words[0].upper()}{words[1:]}"
    return f"{sentence}. `continuations show {found.run_ids[0]}` shows why."
