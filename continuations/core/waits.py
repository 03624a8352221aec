"""Waits: why a call is suspended, until when, and which decisions end it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Literal, get_args

from continuations.core import jsontext
from continuations.core.ulid import milliseconds_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from continuations.core.decisions import VerdictKind

WaitKind = Literal["approval", "unknown"]
WAIT_KINDS: frozenset[str] = frozenset(get_args(WaitKind))
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


# Without __eq__ and __repr__ the classes are created faster in a cold process.
@dataclass(frozen=True, slots=True, eq=False, repr=False)
class VerdictWords:
    """The words with which a verdict is offered to a person.

    Attributes:
        label: Text of its button.
        meaning: The statement of the person, and its consequence.
    """

    label: str
    meaning: str


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class WaitRules:
    """The rules of one kind of wait, and its words for people.

    Attributes:
        call_state: Name of the state that the waiting call has (`calls.STATE_TYPES`).
        verdicts: Verdicts that end the wait, in the order in which they are offered.
        may_have_run: Whether the call may have run before the wait was opened. Then
            `Approve` repeats the call.
        allows_edits: Whether `Approve` may replace the arguments.
        follows_policy: Whether the tool's approval policy applies: it sets deadline
            and validity, it says what a denial or an expiry does, and the digest
            covers the contract that it approves.
        title: Title of its page.
        question: Subject of its mail, with `{tool}`.
        explanation: Why the wait exists, in one or two sentences.
        awaited: The words after "the run waits for".
    """

    call_state: str
    verdicts: Mapping[VerdictKind, VerdictWords]
    may_have_run: bool
    allows_edits: bool
    follows_policy: bool
    title: str
    question: str
    explanation: str
    awaited: str


# The one place that tells kinds of waits apart: other code asks `Wait.rules`.
WAIT_RULES: dict[WaitKind, WaitRules] = {
    "approval": WaitRules(
        call_state="waiting",
        verdicts={
            "approve": VerdictWords("Approve", "The call runs exactly as shown."),
            "deny": VerdictWords(
                "Deny", "The call does not run. The agent gets your reason."
            ),
            "answer": VerdictWords(
                "Answer",
                "The call does not run. The agent gets your text as its result:",
            ),
        },
        may_have_run=False,
        allows_edits=True,
        follows_policy=True,
        title="This call waits for your decision",
        question="Approve {tool}?",
        explanation="An agent asks for permission to call a tool.",
        awaited="approval",
    ),
    "unknown": WaitRules(
        call_state="unknown",
        verdicts={
            "answer": VerdictWords(
                "It happened",
                "You checked that the call had its effect. The agent gets this result:",
            ),
            "deny": VerdictWords(
                "It did not happen: do not run it",
                "You checked that the call had no effect. The call does not run again.",
            ),
            "approve": VerdictWords(
                "It did not happen: run it",
                "You checked that the call had no effect. The call runs exactly as "
                "shown.",
            ),
        },
        may_have_run=True,
        # The call may have run with these arguments: others would be another call.
        allows_edits=False,
        follows_policy=False,
        title="Did this call take effect?",
        question="Did {tool} take effect?",
        explanation="A tool call was started, and its outcome is unknown. Before you "
        "decide, check whether it took effect.",
        awaited="a decision about its unknown outcome",
    ),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Wait:
    """One open wait: everything needed to decide it and to check the decision.

    Attributes:
        id: Id of the wait, unique in the store and never used again.
        run_id: Run that waits.
        call_id: Call that is suspended.
        kind: `approval` (a person approves or denies the call before it runs) or
            `unknown` (the worker died during the call; it may have happened).
        path: Names from the root agent down to the tool.
        tool: Name of the tool.
        arguments_json: Effective arguments as canonical JSON: validated and with
            defaults. If the wait is approved without an edit, exactly these run.
        schema_json: JSON Schema of the arguments, as JSON text.
        digest: SHA-256 in hexadecimal over run, frame, call, arguments and the
            tool's contract. A decision is bound to it.
        created_at: When the wait was opened, in UTC.
        deadline: When the wait expires, or `None` for never.
        valid_for: Seconds after an approval within which the call may begin, or
            `None` for no limit.
        policy: Display name of the approval policy that opened the wait.
        denial_stops: Whether a denial ends the run instead of only the call.
        expiry_stops: Whether an expiry ends the run instead of only the call.
        note: Reason why the wait was opened, where the kind does not say it all.
        approve_after: Time before which `Approve` is refused, because the call may
            still be running, or `None` for no such time.
    """

    id: str
    run_id: str
    call_id: str
    kind: WaitKind
    path: tuple[str, ...]
    tool: str
    arguments_json: str
    schema_json: str
    digest: str
    created_at: datetime
    deadline: datetime | None = None
    valid_for: int | None = None
    policy: str | None = None
    denial_stops: bool = False
    expiry_stops: bool = False
    note: str | None = None
    approve_after: datetime | None = None

    def sort_key(self) -> tuple[datetime, int]:
        """Return the key that sorts waits by creation, then by call.

        Returns:
            The creation time and the number of the call.
        """
        return self.created_at, int(self.call_id[1:])

    @property
    def rules(self) -> WaitRules:
        """The rules of the wait's kind."""
        return WAIT_RULES[self.kind]

    @property
    def arguments(self) -> dict[str, Any]:
        """The effective arguments, as a new dict."""
        arguments: dict[str, Any] = jsontext.parse(self.arguments_json)
        return arguments

    @property
    def schema(self) -> dict[str, Any]:
        """The JSON Schema of the arguments, as a new dict."""
        schema: dict[str, Any] = jsontext.parse(self.schema_json)
        return schema


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitSummary:
    """One entry of a listing of open waits, read from keys alone.

    Attributes:
        id: Id of the wait. It contains the run, the kind and the time.
        expired: Whether the deadline has passed: the next sweep records the expiry,
            and no decision is accepted any more.
    """

    id: str
    expired: bool = False

    @classmethod
    def of_open_waits(cls, wait_ids: Iterable[str]) -> list[WaitSummary]:
        """Return the summaries of waits that have not expired, in their order.

        This takes half of the time of a call of the class for each.

        Args:
            wait_ids: Ids of open waits.

        Returns:
            A summary of each wait.
        """
        summaries: list[WaitSummary] = []
        for wait_id in wait_ids:
            summary = _new(cls)
            _set_id(summary, wait_id)
            _set_expired(summary, False)  # noqa: FBT003 - a slot has no keyword
            summaries.append(summary)
        return summaries

    @property
    def run_id(self) -> str:
        """The run that waits."""
        return self.id.partition("@")[2]

    @property
    def kind(self) -> str:
        """`approval` or `unknown`."""
        return self.id.partition("-")[0]

    @property
    def created_at(self) -> datetime:
        """When the wait was opened, in UTC."""
        text = self.id.partition("-")[2].partition("@")[0]
        return _EPOCH + timedelta(milliseconds=milliseconds_of(text))


_new = object.__new__
_slots: Any = vars(WaitSummary)
_set_id, _set_expired = _slots["id"].__set__, _slots["expired"].__set__


def call_digest(
    *, run_nonce: str, frame_id: str, call_id: str, arguments: str, contract_digest: str
) -> str:
    """Return the digest that an approval is bound to.

    `run_nonce` is random and chosen once for each run. Because the digest covers it, a
    decision fits no other run, not even a run with the same id in another store.
    """
    return jsontext.digest(run_nonce, frame_id, call_id, arguments, contract_digest)
