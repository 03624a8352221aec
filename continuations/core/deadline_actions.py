"""The consequences of deadlines, as tools choose them, and of decisions after that."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from continuations.core import jsontext
from continuations.core.decisions import Answer, Deny, Fail

if TYPE_CHECKING:
    from continuations.core.decisions import Decision
    from continuations.core.waits import Wait


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


def consequence(wait: Wait, decision: Decision) -> Answer | Deny | Fail | None:
    """Return what a decision means for a parked call; `None` for a plain expiry."""
    match decision.kind:
        case "answer":
            return Answer(jsontext.parse(decision.value or "null"))
        case "fail":
            return Fail(str(jsontext.parse(decision.value or '""')))
        case "expire":
            return consequence_of_deadline(wait)
        case _:
            return Deny(reason=decision.reason)


def consequence_of_deadline(wait: Wait) -> Answer | Deny | Fail | None:
    """Return what the deadline of a parked call does; `None` for a plain expiry."""
    return parse(wait.on_deadline_json) or wait.rules.on_deadline
