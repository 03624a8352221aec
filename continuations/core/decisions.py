"""What ends a wait: what people say, and the record that is kept of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, get_args

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Approve:
    """Yes: run the call as the wait shows it, or with `arguments` in their place.

    Of a wait for an unknown outcome: it did not happen, run it again.
    """

    by: str | None = None
    reason: str | None = None
    arguments: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Deny:
    """No: the call does not run; the model is told so, with the reason.

    Of a wait for an unknown outcome: it did not happen, leave it so.
    """

    by: str | None = None
    reason: str | None = None


@dataclass(frozen=True, slots=True)
class Answer:
    """A value in place of running the call: any JSON value, `None` and `""` too.

    Of a wait for an unknown outcome: it did happen, and this was its result.
    """

    value: Any
    by: str | None = None
    reason: str | None = None


Verdict: TypeAlias = Approve | Deny | Answer

DecisionKind = Literal["approve", "deny", "answer", "expire", "cancel"]
DECISION_KINDS: frozenset[str] = frozenset(get_args(DecisionKind))


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """The one recorded end of a wait; it is kept until its run is erased.

    `digest` is that of the wait which was decided; it is compared again right
    before the call runs. `arguments` and `value` are JSON texts. `marker` is the
    key of the marker that was made for it.
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

    def is_repeat_of(self, other: Decision) -> bool:
        """Tell whether both are one decision, delivered twice."""
        mine = (self.kind, self.by, self.reason, self.arguments, self.value)
        theirs = (other.kind, other.by, other.reason, other.arguments, other.value)
        return self.wait_id == other.wait_id and mine == theirs
