"""The consequence of the deadline of a wait, in words: one table for every door."""

from __future__ import annotations

from typing import TYPE_CHECKING

from continuations.core import jsontext
from continuations.core.deadline_actions import Escalate
from continuations.core.decisions import Answer, Deny, Fail

if TYPE_CHECKING:
    from collections.abc import Mapping

    from continuations.core.waits import Wait

_EXPIRY: Mapping[str, str] = {
    "approval": "expired, nothing runs",
    "unknown": "expired, nothing runs again",
    "question": "expired, no answer",
    "input": "the input is refused, and the agent ends with an error",
    "output": "the output is withheld, and the agent ends with an error",
}


def at_deadline(wait: Wait) -> str:
    """Return the consequence of the deadline, after the word "then"."""
    if wait.expiry_stops:
        return "expired, nothing runs, and the run stops"
    match wait.on_deadline or wait.rules.on_deadline:
        case Answer(value=value):
            quoted = f'"{value}"' if isinstance(value, str) else _answer_text(value)
            return f"the answer is {quoted}"
        case Fail(error=error):
            return f"the call fails: {error}"
        case Deny():
            refused = _EXPIRY.get(wait.kind, "") if wait.rules.judges_text else ""
            if wait.kind == "question":
                refused = "declined, no answer"
            return refused or "denied, nothing runs"
        case Escalate(to=to):
            return f"nothing runs, and other people are asked: {', '.join(to)}"
        case None:
            return _EXPIRY.get(wait.kind, "the work goes on")


def _answer_text(value: object) -> str:
    """Return an answer as people read it: the fields of an object, without braces."""
    if isinstance(value, str):
        return value
    fields = jsontext.as_object(value)
    if fields is None:
        return jsontext.dump(value)
    return ", ".join(f"{name}: {_answer_text(each)}" for name, each in fields.items())
