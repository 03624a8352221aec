"""Waits: why a call is suspended, until when, and which decisions end it."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import repeat
from typing import TYPE_CHECKING, Any

from continuations.core import jsontext
from continuations.core.rows.decisions import (
    Answer,
    DeadlineAction,
    Decision,
    Deny,
    Escalate,
    Fail,
    parse_action,
)
from continuations.core.rows.wait_rules import WAIT_RULES
from continuations.core.ulid import RANDOM_BYTES, encode_ulid, milliseconds_of
from continuations.value_class import dataclass, replace

if TYPE_CHECKING:
    from collections.abc import Iterable

    from continuations.core.rows.calls import CallRow
    from continuations.core.rows.decisions import DecisionKind
    from continuations.core.rows.quorum import Quorum, Vote
    from continuations.core.rows.run import RunRow
    from continuations.core.rows.wait_rules import SubjectKind, WaitKind, WaitRules
    from continuations.core.words.call_display import CallDisplay, Finding


# The schema of a plain text, the most frequent answer: it needs no validator.
TEXT_SCHEMA = '{"type":"string"}'
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True, kw_only=True)
class Wait:
    """One open wait: everything needed to decide it and to check the decision.

    Attributes:
        id: Id of the wait, unique in the store and never used again.
        run_id: Run that waits.
        call_id: Call that is suspended; empty if a frame or the run is.
        frame_id: Frame that is suspended; empty if a call or the run is.
        kind: The kind of the wait.

            - `approval`: a person approves or denies the call before it runs
            - `unknown`: the worker died during the call; it may have happened
            - `question`: a person answers a question of the tool
            - `event`: an event of another system
            - `timer`: a time, which is the deadline
            - `external`: a job of another system
            - `model`: the model of a frame
            - `input`, `output`: a person judges a text of a frame
            - `alarm`: the earliest timer of a workflow
        path: Names from the root agent down to the tool or, without a call, the agent.
        tool: Name of the tool or, without a call, of the agent.
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
        approve_after: Time before which `Approve` is refused: the call may still run.
        question: The question of the tool, or the name of its job.
        answer_schema_json: JSON Schema of the value of an `Answer`, as JSON text, or
            `None` if the value is the text of a result.
        event: Name of the event that the call waits for.
        event_key: Key of the event, or `None`.
        stage: 0 for a wait that the tool opened, n for one that the n-th call of its
            `on_answer` function opened.
        on_deadline_json: The consequence of the deadline, as JSON text; see
            `on_deadline`.
        continues: Whether a function of the tool gets the answer (`on_answer`).
        cancels: Whether the tool has a function for a cancelled wait (`on_cancel`).
        display: Words for people about the call, or `None` if its tool declares none.
        events_taken: Ids of published events that the run took before the wait was
            opened. The wait does not take them again.
        quorum: The rule who may decide, and how many must agree, or `None`.
        remind_after: Seconds after which people are reminded, or 0.
        votes: The votes that count so far, if `runner.wait` returned the wait. It
            also has the newest deadline and the approvers of now.
        last_slot: Number of the last slot that this value takes into account.
        notice: Why people are notified of the wait: `opened`, `escalated`, or
            `reminder-1` and so on. Each has an id of its own.
        editable_json: The names of the arguments that `Approve` may replace, as JSON
            text; see `editable`.
        form_schema_json: JSON Schema of the form that `Approve` must have, as JSON
            text, or `None` for no form.
    """

    id: str
    run_id: str
    call_id: str = ""
    frame_id: str = ""
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
    question: str | None = None
    answer_schema_json: str | None = None
    event: str | None = None
    event_key: str | None = None
    stage: int = 0
    on_deadline_json: str | None = None
    continues: bool = False
    cancels: bool = False
    display: CallDisplay | None = None
    events_taken: tuple[str, ...] = ()
    quorum: Quorum | None = None
    remind_after: int = 0
    votes: tuple[Vote, ...] = ()
    last_slot: int = 0
    notice: str = "opened"
    editable_json: str | None = None
    form_schema_json: str | None = None

    def sort_key(self) -> tuple[datetime, int]:
        """Return the key that sorts waits by creation, then by subject.

        Returns:
            The creation time and the number of the call or frame, 0 for the run.
        """
        subject_id = self.call_id or self.frame_id
        return self.created_at, int(subject_id[1:] or 0)

    @property
    def subject(self) -> SubjectKind:
        """The kind of what the wait suspends: `"call"`, `"frame"` or `"run"`."""
        if self.call_id:
            return "call"
        return "frame" if self.frame_id else "run"

    @property
    def rules(self) -> WaitRules:
        """The rules of the wait's kind."""
        return WAIT_RULES[self.kind]

    @property
    def editable(self) -> tuple[str, ...] | None:
        """The arguments that `Approve` may replace; `None`: all of them."""
        if self.editable_json is None:
            return None
        return tuple(jsontext.parse(self.editable_json))

    @property
    def title(self) -> str | None:
        """The call as one sentence, from the tool's `summary`, or `None`."""
        return None if self.display is None else self.display.title

    @property
    def reversible(self) -> bool | None:
        """Whether the effect can be undone; `None`: the tool does not say."""
        return None if self.display is None else self.display.reversible

    @property
    def secrets(self) -> tuple[str, ...]:
        """Paths of the arguments that are `"[secret]"` wherever people read them."""
        return () if self.display is None else self.display.secrets

    @property
    def readings(self) -> dict[str, str]:
        """Texts by which people understand arguments, by their places."""
        if self.display is None:
            return {}
        return self.display.readings(self.arguments, self.schema)

    @property
    def evidence(self) -> tuple[Finding, ...]:
        """Results of earlier calls of the same frame since the last user message."""
        return () if self.display is None else self.display.evidence

    @property
    def agent_words(self) -> str | None:
        """The text of the agent's turn that made the call. It is not checked."""
        return None if self.display is None else self.display.agent_words

    @property
    def requester(self) -> str | None:
        """The person or program that asked for the run, or `None`."""
        return None if self.display is None else self.display.requester

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

    @property
    def answer_schema(self) -> dict[str, Any] | None:
        """The JSON Schema of the value of an `Answer`, as a new dict, or `None`."""
        if self.answer_schema_json is None:
            return None
        schema: dict[str, Any] = jsontext.parse(self.answer_schema_json)
        return schema

    @property
    def form_schema(self) -> dict[str, Any] | None:
        """The JSON Schema of the form of an approval, as a new dict, or `None`."""
        text = self.form_schema_json
        return None if text is None else dict(jsontext.parse(text))

    @property
    def answer_type_name(self) -> str | None:
        """The JSON type of an answer, such as `"string"`; `None` if it has no type."""
        schema = self.answer_schema
        return None if schema is None else str(schema.get("type", "any"))

    @property
    def approvers(self) -> tuple[str, ...]:
        """The persons that may decide, and `group:NAME`; empty for everybody."""
        return () if self.quorum is None else self.quorum.approvers

    @property
    def votes_needed(self) -> int:
        """How many persons must give the same verdict."""
        return 1 if self.quorum is None else self.quorum.votes

    @property
    def takes_votes(self) -> bool:
        """Whether each verdict is a vote in a slot, and not at once the decision."""
        if not self.rules.asks_person:
            return False
        return self.votes_needed > 1 or self.last_slot > 0 or self.escalates

    @property
    def escalates(self) -> bool:
        """Whether the deadline asks other approvers instead of ending the wait."""
        if self.on_deadline_json is None:
            return False
        return isinstance(self.on_deadline, Escalate)

    @property
    def has_slots(self) -> bool:
        """Whether something else than a decision can happen to the wait.

        These are votes, an escalation, and a new deadline.
        """
        if self.takes_votes:
            return True
        return self.rules.is_extendable and self.deadline is not None

    @property
    def on_deadline(self) -> DeadlineAction | None:
        """The consequence of the deadline; `None`: the rule of kind and policy."""
        return parse_action(self.on_deadline_json)


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

        This takes a fifth of the time of a call of the class for each.

        Args:
            wait_ids: Ids of open waits.

        Returns:
            A summary of each wait.
        """
        ids = list(wait_ids)
        summaries: list[WaitSummary] = list(map(_new, repeat(cls, len(ids))))
        # The setters return None, so each `any` sets one field of all summaries.
        any(map(_set_id, summaries, ids))
        any(map(_set_expired, summaries, repeat(False)))  # noqa: FBT003 - a value
        return summaries

    @property
    def run_id(self) -> str:
        """The run that waits."""
        return self.id.partition("@")[2]

    @property
    def kind(self) -> str:
        """The kind of the wait, a key of `WAIT_RULES`."""
        return self.id.partition("-")[0]

    @property
    def created_at(self) -> datetime:
        """When the wait was opened, in UTC.

        The id of a job's wait is made before the job starts: its time is the start of
        the run. `Wait.created_at` is right for every kind.
        """
        text = self.id.partition("-")[2].partition("@")[0]
        return _EPOCH + timedelta(milliseconds=milliseconds_of(text))


_new = object.__new__
_slots: Any = vars(WaitSummary)
_set_id, _set_expired = _slots["id"].__set__, _slots["expired"].__set__


def decision_on(
    wait: Wait, kind: DecisionKind, decision_id: str, at: datetime
) -> Decision:
    """Return a decision on a wait as it is, without what its kind adds."""
    return Decision(
        id=decision_id, wait_id=wait.id, kind=kind, at=at, digest=wait.digest
    )


def call_digest(
    *, run_nonce: str, frame_id: str, call_id: str, arguments: str, contract_digest: str
) -> str:
    """Return the digest that an approval is bound to.

    `run_nonce` is random and chosen once for each run. Because the digest covers it, a
    decision fits no other run, not even a run with the same id in another store.
    """
    return jsontext.digest(run_nonce, frame_id, call_id, arguments, contract_digest)


def parked_digest(wait: Wait, *, run_nonce: str, frame_id: str, contract: str) -> str:
    """Return the digest of a wait that a tool opened.

    It covers everything that the decider sees and everything that the decision does.
    """
    return jsontext.digest(
        run_nonce,
        frame_id,
        wait.call_id,
        wait.arguments_json,
        contract,
        wait.kind,
        str(wait.stage),
        jsontext.canonical(
            [
                wait.question,
                wait.answer_schema_json,
                wait.event,
                wait.event_key,
                wait.on_deadline_json,
                wait.continues,
                *(["cancels"] if wait.cancels else []),
            ]
        ),
    )


def frame_digest(*, run_nonce: str, wait_id: str, frame_id: str) -> str:
    """Return the digest of a wait of a frame or of the run (`frame_id=""`).

    It covers the wait's id, because nothing else distinguishes two such waits.
    """
    return jsontext.digest(run_nonce, frame_id, wait_id)


def known_wait_ulid(run: RunRow, call: CallRow) -> str:
    """Return the ULID of the wait that a call opens for a job of another system.

    It is known before the tool runs, the same in each repeat of the tool, and cannot
    be guessed, because the run's nonce is random. Its time is that of the run's start.
    """
    return _derived_ulid(run, call.id, str(call.stage), "external")


def next_known_wait_ulid(run: RunRow, ulid: str) -> str:
    """Return the ULID of the wait after one whose answer the tool rejected.

    The other system knows the first id only. It leads to each later one, and no wait
    id is used twice.
    """
    return _derived_ulid(run, ulid, "external", "next")


def rule_wait_ulid(
    run: RunRow, call: CallRow, rule: str, kind: str, digest: str
) -> str:
    """Return the ULID of the record of a rule that decided about a call."""
    return _derived_ulid(run, call.id, str(call.stage), "rule", rule, kind, digest)


def _derived_ulid(run: RunRow, *parts: str) -> str:
    text = jsontext.digest(run.run_nonce, *parts)
    milliseconds = (run.created_at - _EPOCH) // timedelta(milliseconds=1)
    return encode_ulid(milliseconds, bytes.fromhex(text[: 2 * RANDOM_BYTES]))


def waits_for_events(waits: Iterable[Wait]) -> list[Wait]:
    """Return the waits that a published event can end."""
    return [
        wait for wait in waits if wait.event is not None and wait.rules.takes_events
    ]


def withheld(wait: Wait) -> Wait:
    """Return a wait with `"[secret]"` in place of each secret value.

    The question of a tool may repeat such a value.
    """
    if not wait.secrets:
        return wait
    from continuations.core.words.secret_arguments import masked_json, scrubbed  # noqa: PLC0415 - few tools have secrets

    arguments, secrets = wait.arguments_json, wait.secrets
    question = wait.question and scrubbed(wait.question, arguments, secrets)
    masked = masked_json(arguments, secrets)
    return replace(wait, arguments_json=masked, question=question)


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
    action = parse_action(wait.on_deadline_json)
    # After an escalation, the next deadline has the consequence of the kind.
    if action is None or isinstance(action, Escalate):
        return wait.rules.on_deadline
    return action


def find_fixed_argument(wait: Wait, edited_json: str) -> str | None:
    """Return the first argument that an edit changes and that must stay as it is.

    Args:
        wait: The wait of an approval.
        edited_json: The edited arguments as canonical JSON. A mask keeps its value.
    """
    if wait.editable is None:
        return None
    if wait.secrets:
        from continuations.core.words.secret_arguments import SecretLost, restored_json  # noqa: PLC0415 - few tools have secrets

        try:
            edited_json = restored_json(edited_json, wait.arguments_json, wait.secrets)
        except SecretLost:
            return wait.secrets[0]
    edited: dict[str, Any] = jsontext.parse(edited_json)
    changed = _changed_arguments(wait.arguments, edited)
    return next((name for name in changed if name not in wait.editable), None)


def _changed_arguments(before: dict[str, Any], after: dict[str, Any]) -> Iterable[str]:
    for name in sorted({*before, *after}):
        texts = [
            jsontext.canonical(jsontext.normalize_integers(values[name]))
            for values in (before, after)
            if name in values
        ]
        if len(texts) < 2 or texts[0] != texts[1]:  # noqa: PLR2004 - before and after
            yield name
