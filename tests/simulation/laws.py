"""What must be true of every schedule; a sentence from those of which it is not.

Each law is a function of the evidence and stands in the file of its subject.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from tests.simulation import (
    laws_of_decisions,
    laws_of_deeds,
    laws_of_endings,
    laws_of_runs,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.simulation.evidence import Evidence

Law: TypeAlias = "Callable[[Evidence], str | None]"

_ALL: tuple[Law, ...] = (
    laws_of_decisions.one_decision,
    laws_of_decisions.ended_by_its_decision,
    laws_of_decisions.cancelled_with_its_run,
    laws_of_decisions.decided_in_time,
    laws_of_decisions.expired_in_time,
    laws_of_decisions.approved_lately,
    laws_of_decisions.refused_never_runs,
    laws_of_decisions.executed_is_approved,
    laws_of_decisions.edits_fit,
    laws_of_deeds.started_once,
    laws_of_deeds.finished_never_again,
    laws_of_deeds.same_key,
    laws_of_deeds.turn_asked_once,
    laws_of_deeds.asked_after_kept,
    laws_of_deeds.transcripts_valid,
    laws_of_deeds.frozen_starts_nothing,
    laws_of_runs.one_line,
    laws_of_runs.told_after_kept,
    laws_of_runs.each_message_once,
    laws_of_runs.cancelled_soon,
    laws_of_runs.given_up_in_vain_only,
    laws_of_runs.no_leak_of_errors,
    laws_of_endings.nobody_stranded,
    laws_of_endings.ended_is_clean,
    laws_of_endings.listed_is_open,
    laws_of_endings.same_end,
)
LAWS: dict[str, Law] = {law.__name__: law for law in _ALL}


def broken_laws(evidence: Evidence) -> dict[str, str]:
    """Return the laws that a schedule broke, each with what is wrong."""
    found = ((name, law(evidence)) for name, law in LAWS.items())
    return {name: what for name, what in found if what is not None}
