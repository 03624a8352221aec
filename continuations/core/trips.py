"""Trips of guardrails, and their texts."""

from __future__ import annotations

from typing import Literal, get_args

from continuations.value_class import dataclass

GuardrailStage = Literal["input", "output", "tool"]
GUARDRAIL_STAGES: frozenset[str] = frozenset(get_args(GuardrailStage))


@dataclass(frozen=True, slots=True, kw_only=True)
class Trip:
    """A guardrail that tripped.

    Attributes:
        id: Id of the trip, unique in its run; empty until the reducer gives one.
        frame_id: Frame in which it tripped. The frame may have ended since.
        path: Names from the root agent down to the agent or the tool.
        guardrail: Name of the guardrail.
        stage: `input`, `output` or `tool`.
        reason: The reason that the guardrail gave.
    """

    id: str = ""
    frame_id: str
    path: tuple[str, ...]
    guardrail: str
    stage: GuardrailStage
    reason: str


_MAX_REASON_CHARS = 1000


def new_trip(
    path: tuple[str, ...],
    frame_id: str,
    name: str,
    stage: GuardrailStage,
    reason: str,
) -> Trip:
    """Return the trip of a guardrail."""
    reason = str(reason)
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
