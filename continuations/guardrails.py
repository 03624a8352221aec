"""The classes of guardrails.

from continuations.guardrails import Guardrail, Guardrails
"""

from __future__ import annotations

from continuations.authoring.guardrails import Guardrail, Guardrails, Tripped

__all__ = [
    "Guardrail",
    "Guardrails",
    "Tripped",
]
