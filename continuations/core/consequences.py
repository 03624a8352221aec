"""The consequence of a decision for a call whose tool waits."""

from __future__ import annotations

from typing import TYPE_CHECKING

from continuations.core import deadline_actions, jsontext
from continuations.core.decisions import Answer, Deny, Fail

if TYPE_CHECKING:
    from continuations.core.decisions import Decision
    from continuations.core.waits import Wait


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
    action = deadline_actions.parse(wait.on_deadline_json)
    # After an escalation, the next deadline has the consequence of the kind.
    if action is None or isinstance(action, deadline_actions.Escalate):
        return wait.rules.on_deadline
    return action
