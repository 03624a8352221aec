"""Check the options `hooks` and `guardrails` of an agent."""

from __future__ import annotations

from continuations.authoring.agent_options import option_error
from continuations.authoring.guardrails import Guardrails
from continuations.authoring.hooks import Hooks


def check_guarded_options(name: str, hooks: object, guardrails: object) -> None:
    """Raise `InvalidInput` unless both are of their classes, or `None`."""
    if not isinstance(hooks, Hooks | None):
        raise option_error(name, "hooks", "a Hooks object", hooks)
    if not isinstance(guardrails, Guardrails | None):
        raise option_error(name, "guardrails", "a Guardrails object", guardrails)
