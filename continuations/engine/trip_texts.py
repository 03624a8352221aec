"""Trips of guardrails, and their texts."""

from __future__ import annotations

from typing import TYPE_CHECKING

from continuations.core.trips import Trip

if TYPE_CHECKING:
    from continuations.authoring.guardrails import Tripped
    from continuations.core.trips import GuardrailStage

_MAX_REASON_CHARS = 1000


def new_trip(
    path: tuple[str, ...],
    frame_id: str,
    name: str,
    stage: GuardrailStage,
    tripped: Tripped,
) -> Trip:
    """Return the trip of a guardrail."""
    reason = str(tripped.reason)
    if len(reason) > _MAX_REASON_CHARS:
        reason = reason[: _MAX_REASON_CHARS - 1] + "…"
    return Trip(
        frame_id=frame_id, path=path, guardrail=name, stage=stage, reason=reason
    )


def failure_text(trip: Trip, subject: str) -> str:
    """Return why an agent or a run ends."""
    return f"the guardrail {trip.guardrail} refused {subject}: {trip.reason}"


def text_note(trip: Trip) -> str:
    """Return the note for the person who decides about an input or an output."""
    return f"The guardrail {trip.guardrail} asks about this {trip.stage}: {trip.reason}"


def approval_note(trip: Trip) -> str:
    """Return the note for the person who decides about a call."""
    return f"The guardrail {trip.guardrail} asks for this approval: {trip.reason}"
