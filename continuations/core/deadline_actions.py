"""The consequence of a deadline: the `Answer`, `Deny` or `Fail` of the tool."""

from __future__ import annotations

from typing import Any

from continuations.core import jsontext
from continuations.core.decisions import Answer, Deny, Fail


def dump(action: Answer | Deny | Fail) -> str:
    """Return an action as JSON text; raises `NotJson` for a value without JSON form."""
    match action:
        case Answer(value=value):
            fields: dict[str, Any] = {"kind": "answer", "value": value}
        case Fail(error=error):
            fields = {"kind": "fail", "error": error}
        case Deny(reason=reason):
            fields = {"kind": "deny", "reason": reason}
    return jsontext.canonical(fields)


def parse(text: str | None) -> Answer | Deny | Fail | None:
    """Return the action that a JSON text describes; raises `NotJson` for other texts.

    An unknown kind is never read as an answer.
    """
    if text is None:
        return None
    match jsontext.parse(text):
        case {"kind": "answer", "value": value}:
            return Answer(value)
        case {"kind": "fail", "error": str(error)}:
            return Fail(error)
        case {"kind": "deny", "reason": str() | None as reason}:
            return Deny(reason=reason)
        case _:
            msg = "it is not an action of a deadline"
            raise jsontext.NotJson(msg)
