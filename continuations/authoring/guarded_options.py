"""Check the options `hooks` and `guardrails` of an agent."""

from __future__ import annotations

from continuations.authoring.agent_options import option_error


def check_guarded_options(name: str, hooks: object, guardrails: object) -> None:
    """Raise `InvalidInput` unless both are of their classes, or `None`."""
    # Most agents have neither, and need no import.
    if hooks is not None:
        from continuations.authoring.hooks import Hooks  # noqa: PLC0415

        if not isinstance(hooks, Hooks):
            raise option_error(name, "hooks", "a Hooks object", hooks)
    if guardrails is not None:
        from continuations.authoring.guardrails import Guardrails  # noqa: PLC0415

        if not isinstance(guardrails, Guardrails):
            raise option_error(name, "guardrails", "a Guardrails object", guardrails)
