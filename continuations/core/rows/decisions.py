"""Decisions: the verdicts of people, programs and deadlines, and the stored record."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, TypeAlias, get_args

from continuations.core import jsontext
from continuations.value_class import NamedOnly, dataclass

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

    from continuations.core.identity import Identity
    from continuations.core.rows.grants import Grant


@dataclass(frozen=True, slots=True, kw_only=True)
class Approve(NamedOnly):
    """Approve the call: it runs exactly as the wait shows it, or as edited.

    For a wait of kind `unknown`, `Approve` says that the call did not happen and is
    to run again. Such a wait takes no edited arguments.

    Attributes:
        by: Person or program that decides, as your application names it, or an
            `Identity` with groups. It is recorded and not checked.
        reason: Reason, for the record.
        arguments: Arguments to run the call with instead of those of the wait, or
            `None` for no edit. They must match the wait's schema.
        remember: Grant that approves later calls of the tool in this run too, or
            `None`. Only for a wait of kind `approval`.
        form: Fields of the form that the approval policy asks for, as JSON values, or
            `None` if it asks for none. They must match the form's schema.
    """

    by: str | Identity | None = None
    reason: str | None = None
    arguments: Mapping[str, Any] | None = None
    remember: Grant | None = None
    form: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Deny(NamedOnly):
    """Deny the call: it does not run, and the model gets a message with the reason.

    For a wait of kind `unknown`, `Deny` says that the call did not happen and is not
    to run again.

    Attributes:
        by: Person or program that decides, as your application names it, or an
            `Identity` with groups. It is recorded and not checked.
        reason: Reason, for the record and for the model.
    """

    by: str | Identity | None = None
    reason: str | None = None


@dataclass(frozen=True, slots=True)
class Answer:
    """Give the value that a wait waits for.

    | kind of the wait | the value |
    |---|---|
    | `question` | the answer, checked against the schema of the question |
    | `event`, `external` | the data of the event, or the result of the job |
    | `approval` | the result of the call: the tool does not run |
    | `unknown` | the result of the call, which did happen |

    Attributes:
        value: Any JSON value, also `None` and `""`. The model reads a string as it
            is and every other value as JSON text.
        by: Person or program that decides, as your application names it, or an
            `Identity` with groups. It is recorded and not checked.
        reason: Reason, for the record.
    """

    value: Any
    by: str | Identity | None = None
    reason: str | None = None


@dataclass(frozen=True, slots=True)
class Fail:
    """Say that an awaited event does not come, or that an external job failed.

    Attributes:
        error: The reason of the failure. The model reads it.
        by: Person or program that decides, as your application names it, or an
            `Identity` with groups. It is recorded and not checked.
        reason: Reason, for the record.
    """

    error: str
    by: str | Identity | None = None
    reason: str | None = None


# The name that is recorded for a decision by a link without an actor. It is nobody's.
UNNAMED_LINK_HOLDER = "the holder of a signed link"

Verdict: TypeAlias = Approve | Deny | Answer | Fail

VerdictKind = Literal["approve", "deny", "answer", "fail"]
# Looked up by the exact type: an object that only resembles a verdict is not one.
VERDICT_KINDS: dict[type[object], VerdictKind] = {
    Approve: "approve",
    Deny: "deny",
    Answer: "answer",
    Fail: "fail",
}
DecisionKind = Literal["approve", "deny", "answer", "fail", "expire", "cancel"]
DECISION_KINDS: frozenset[str] = frozenset(get_args(DecisionKind))


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """The one recorded decision that ended a wait.

    Attributes:
        id: Unique id of the record.
        wait_id: Wait that the decision ended.
        kind: `approve`, `deny`, `answer` or `fail` for a verdict, `expire` for a
            deadline that passed, `cancel` for a cancelled run.
        at: When the decision was recorded.
        digest: Digest of the decided wait. It is compared again immediately before the
            call runs.
        by: Person or program that decided, if the verdict named one.
        reason: Reason, if the verdict gave one.
        arguments: Edited arguments as JSON text, or `None` for no edit.
        value: Value of an `Answer`, or error of a `Fail`, as JSON text. `None` for
            other kinds.
        marker: Key of the marker object that was created for the decision, so that a
            sweep resumes the run.
        signal: Number of the signal whose data is the value, or 0.
        event: Id of the published event whose data is the value, or `None`.
        groups: Groups of the person who decided, if `by` was an `Identity`.
        shown: Digest of the wait that the person saw, if it is known. It equals
            `digest`.
        voters: All persons who gave this verdict, in their order, if it took several.
            `by` is the last one.
        door: Door through which the decision came, such as `"http"`, or `None` if it is
            not known.
        authentication: How the door established `by`, or `None` if it did not.
        rule: Name of the rule that decided instead of a person, or `None`.
        grant_json: Grant that an approval gives, as JSON text, or `None`.
        form: Form that an approver filled in, as JSON text, or `None`.
    """

    id: str
    wait_id: str
    kind: DecisionKind
    at: datetime
    digest: str
    by: str | None = None
    reason: str | None = None
    arguments: str | None = None
    value: str | None = None
    marker: str | None = None
    signal: int = 0
    event: str | None = None
    groups: tuple[str, ...] = ()
    shown: str | None = None
    voters: tuple[str, ...] = ()
    door: str | None = None
    authentication: str | None = None
    rule: str | None = None
    grant_json: str | None = None
    form: str | None = None

    def is_repeat_of(self, other: Decision) -> bool:
        """Tell whether both are the same decision, delivered twice.

        Args:
            other: Decision to compare with.

        Returns:
            True if wait, kind, `by`, `reason`, arguments, value, grant and form equal.
            The door and its words are not compared.
        """
        if _content(self) != _content(other):
            return False
        if (self.by, self.reason) == (other.by, other.reason):
            return True
        from continuations.core.identity import is_same_person  # noqa: PLC0415 - rarely needed

        if any(is_same_person(other.by, voter) for voter in self.voters[:-1]):
            return True  # the vote of this person is part of the decision
        return is_same_person(self.by, other.by) and self.reason == other.reason


def _content(decision: Decision) -> tuple[str | None, ...]:
    return (
        decision.wait_id,
        decision.kind,
        decision.arguments,
        decision.value,
        decision.grant_json,
        decision.form,
    )


@dataclass(frozen=True, slots=True)
class Door:
    """The way by which a decision or request came, for the audit of its run.

    Attributes:
        name: Name of the door: `"python"`, `"cli"`, `"http"`, `"link"`, or the name of
            your application's own door, such as `"slack"`.
        authentication: How the door established who acts, such as `"verifier"`, or
            `None` if the name was not checked.
    """

    name: str
    authentication: str | None = None


PYTHON = Door("python")
# A wait that ended because an operator cancelled its call.
OPERATOR = Door("operator")

# Consequences of deadlines ---------------------------------------------------------

# A longer period would be a mistake in the unit: ten years.
_MAX_ESCALATION_SECONDS = 3650 * 86_400
_NO_DEADLINE_ACTION = "it is not an action of a deadline"


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


DeadlineAction: TypeAlias = Answer | Deny | Fail | Escalate


def dump_action(action: DeadlineAction) -> str:
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


def parse_action(text: str | None) -> DeadlineAction | None:
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
            raise jsontext.NotJson(_NO_DEADLINE_ACTION)


def _read_escalation(to: list[Any], within: object, votes: object) -> Escalate:
    names = tuple(name for name in to if type(name) is str and name)
    if not names or len(names) != len(to):
        raise jsontext.NotJson(_NO_DEADLINE_ACTION)
    if type(within) is not int or type(votes) is not int:
        raise jsontext.NotJson(_NO_DEADLINE_ACTION)
    if not 0 < within <= _MAX_ESCALATION_SECONDS or votes < 1:
        raise jsontext.NotJson(_NO_DEADLINE_ACTION)
    return Escalate(to=names, within=within, votes=votes)
