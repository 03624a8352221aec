"""Guardrails that tripped."""

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
