"""The consequence of a deadline: an `Answer`, `Deny`, `Fail` or `Escalate`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from continuations.core import jsontext
from continuations.core.rows.decisions import Answer, Deny, Fail
from continuations.value_class import dataclass

if TYPE_CHECKING:
    from typing import TypeAlias

# A longer period would be a mistake in the unit: ten years.
_MAX_SECONDS = 3650 * 86_400


@dataclass(frozen=True, slots=True, kw_only=True)
class Escalate:
    """Ask other approvers when the deadline passes; `escalate()` makes one.

    Attributes:
        to: The new approvers: names of persons, and `group:NAME` for groups.
        within: The time that they have, in seconds.
        votes: How many of them must give the same verdict.
    """

    to: tuple[str, ...]
    within: int
    votes: int = 1


if TYPE_CHECKING:
    DeadlineAction: TypeAlias = Answer | Deny | Fail | Escalate


def dump(action: DeadlineAction) -> str:
    """Return an action as JSON text; raises `NotJson` for a value without JSON form."""
    match action:
        case Answer(value=value):
            fields: dict[str, Any] = {"kind": "answer", "value": value}
        case Fail(error=error):
            fields = {"kind": "fail", "error": error}
        case Deny(reason=reason):
            fields = {"kind": "deny", "reason": reason}
        case Escalate(to=to, within=within, votes=votes):
            fields = {
                "kind": "escalate",
                "to": list(to),
                "within": within,
                "votes": votes,
            }
    return jsontext.canonical(fields)


def parse(text: str | None) -> DeadlineAction | None:
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
        case {"kind": "escalate", "to": [*to], "within": within, "votes": votes}:
            return _read_escalation(to, within, votes)
        case _:
            raise jsontext.NotJson(_NO_ACTION)


_NO_ACTION = "it is not an action of a deadline"


def _read_escalation(to: list[Any], within: object, votes: object) -> Escalate:
    names = tuple(name for name in to if type(name) is str and name)
    if not names or len(names) != len(to):
        raise jsontext.NotJson(_NO_ACTION)
    if type(within) is not int or type(votes) is not int:
        raise jsontext.NotJson(_NO_ACTION)
    if not 0 < within <= _MAX_SECONDS or votes < 1:
        raise jsontext.NotJson(_NO_ACTION)
    return Escalate(to=names, within=within, votes=votes)
