"""Checks that tools of all other kits share."""

from __future__ import annotations

from typing import Any

from continuations.errors import InvalidInput


def check_tool_type(label: str, value: object, wanted: type, advice: str) -> None:
    """Raise `InvalidInput` unless a value is a tool of the kit."""
    if not isinstance(value, wanted):
        got = type(value).__name__
        msg = f"{label}: the tool must be a {wanted.__name__}, got {got}. {advice}"
        raise InvalidInput(msg)


def keep_approval(label: str, name: str, options: Any) -> None:
    """Let a tool ask that asks in its kit; raises `InvalidInput`.

    Args:
        label: The function that makes the tool.
        name: The name of the tool.
        options: The options of the user, which may get an `approval`.
    """
    approval = options.get("approval")
    if approval is False:
        msg = (
            f"{label}: tool {name} needs an approval, and approval=False would drop it."
            " Leave approval out, or pass a policy."
        )
        raise InvalidInput(msg)
    if approval is None:
        options["approval"] = True
