"""The row of a run: status, claim, usage, result, and the trips of guardrails."""

from __future__ import annotations

import re
from dataclasses import field
from typing import TYPE_CHECKING, Literal, get_args

from continuations.core.usage import Usage
from continuations.value_class import dataclass

if TYPE_CHECKING:
    from collections.abc import Iterable
    from datetime import datetime
    from decimal import Decimal

    from continuations.core.rows.grants import KeptGrant


RunStatus = Literal[
    "running", "suspended", "resting", "finished", "failed", "cancelled"
]
RUN_STATUSES: frozenset[str] = frozenset(get_args(RunStatus))
# The effect of a message while its thread answers an earlier one.
WhenBusy = Literal["queue", "merge", "interrupt"]
WHEN_BUSY: frozenset[str] = frozenset(get_args(WhenBusy))
ENDED_STATUSES: frozenset[str] = frozenset({"finished", "failed", "cancelled"})
# Each version of a run and each of its waits has the names.
MAX_REQUESTERS = 100
# Texts, because most runs have no labels: `re` compiles them when they are used.
_LABEL_NAME = r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}\Z"
_LABEL_VALUE = r"[A-Za-z0-9][A-Za-z0-9._@-]{0,62}\Z"


def is_label(name: object, value: object) -> bool:
    """Return whether a name and a value are a label; keys of the store contain both."""
    return (
        isinstance(name, str)
        and isinstance(value, str)
        and re.match(_LABEL_NAME, name) is not None
        and re.match(_LABEL_VALUE, value) is not None
    )


def kept_requesters(names: Iterable[str]) -> tuple[str, ...]:
    """Return the names that a run keeps as its requesters, sorted.

    Beyond `MAX_REQUESTERS` names, the run keeps the empty name only. Then each person
    may be a requester.
    """
    kept = tuple(sorted(set(names)))
    return kept if len(kept) <= MAX_REQUESTERS else ("",)


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """The exclusive right of one worker to advance a run for a limited time (a lease).

    Attributes:
        worker: Id of the worker that holds the claim.
        until: When the claim ends, in UTC.
        attempt: Number of this attempt at one point of the run, from 1. It grows if the
            worker before died, and is 1 again after progress.
    """

    worker: str
    until: datetime
    attempt: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """Why a run failed or was cancelled.

    Attributes:
        code: Kind of the failure, for programs: `budget`, `max_turns`, `max_denials`,
            `denied`, `expired`, `attempts`, `model`, `stopped` (a thread) or
            `cancelled`. About the last reply: `length` or `content_filter`
            (incomplete), `output` (wrong type), `empty`, `refused` (by a hook).
            `guardrail`: a guardrail refused the input, the output or a call. About a
            workflow: `call`, `exception`, `result`, `stuck` or `entries`.
        message: Explanation, for people.
    """

    code: str
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """Limits for the model usage of a whole run, over all agents and suspensions.

    A worker compares the limits with `Usage` before each model request. Requests that
    run at the same time may together exceed a limit. So does the request that reaches
    it: its cost is known only afterwards.

    Attributes:
        requests: Maximum number of model requests, or `None` for no limit.
        tokens: Maximum number of input and output tokens together, or `None` for no
            limit.
        cost: Maximum cost: a `Decimal`, a text such as `"2.50"` or an integer, or
            `None` for no limit. It needs `Runner(prices=...)` with the price of every
            model of the run.
        currency: The currency of `cost`. `""`: that of the prices.
    """

    requests: int | None = None
    tokens: int | None = None
    cost: Decimal | str | int | None = None
    currency: str = ""

    def reached_limit(self, usage: Usage) -> str | None:
        """Return the limit that the usage has reached.

        Args:
            usage: Usage of the run so far.

        Returns:
            The limit as text, for example `"20 requests"`, or `None` if no limit is
            reached.
        """
        if self.requests is not None and usage.requests >= self.requests:
            return f"{self.requests} requests"
        if self.tokens is not None and usage.total_tokens >= self.tokens:
            return f"{self.tokens} tokens"
        if self.cost is not None:
            spent = usage.cost
            # Never without limit: an unknown cost counts as too high.
            if spent is None or usage.currency not in ("", self.currency):
                return f"{self.cost} {self.currency} (the cost so far is not known)"
            if spent >= _decimal(self.cost):
                return f"{self.cost} {self.currency}"
        return None


def budget_failure(budget: Budget | None, usage: Usage) -> Failure | None:
    """Return why a run must end whose usage has reached its budget, or `None`."""
    limit = None if budget is None else budget.reached_limit(usage)
    if limit is None:
        return None
    reason = f"the budget of {limit} is used up. Start a new run with a larger one."
    return Failure(code="budget", message=reason)


def _decimal(cost: Decimal | str | int) -> Decimal:
    from decimal import Decimal  # noqa: PLC0415 - most runs have no such budget

    return Decimal(cost)


@dataclass(frozen=True, slots=True)
class KeptSignal:
    """A signal that the run has taken in, and that no wait has taken yet.

    Its data stays in the object of the signal.
    """

    number: int
    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRow:
    """The row of a run.

    Attributes:
        id: Id of the run.
        run_nonce: Random text, chosen once when the run starts. Digests of calls cover
            it.
        agent: Name of the root agent.
        created_at: When the run was started, in UTC.
        input_digest: Digest of the input. It distinguishes a repeated start from a
            start with another input.
        status: Status of the run.
        next_id: Number of the next id for a frame, call or log.
        last_inbox_number: Number of the last inbox message that the run has read.
        claim: Claim of the worker that advances the run, or `None`.
        usage: Model usage so far.
        budget: Limits of the model usage, or `None` for no limits.
        history_lost: Whether versions of the run were lost. If so, a call that the
            model makes now may already have run in a lost version.
        output: Final text of a finished run.
        failure: Reason why the run failed or was cancelled.
        title: The subject of the run, for people.
        labels: Names and values by which the run is found, sorted by name.
        requester: The person or program that asked for the run.
        last_signal_number: Number of the last signal that the run has taken in.
        signals: The signals that no wait has taken yet, in the order of their numbers.
        events_taken: Ids of the published events that waits of the run took in the last
            two days.
        last_operator_number: Number of the last request of an operator that the run has
            taken in.
        grants: The grants that are neither revoked nor replaced, the oldest first.
        last_revocation_number: Number of the last revocation that the run has taken in.
        revoked_grants: Ids of grants that were revoked before the run kept them.
        max_depth: Limit of levels of agents with which the run was started, or `None`.
            Later workers may have a stricter limit, but not a wider one.
        thread_key: The key of a thread, `None` if the run is not a thread.
        answered: Number of the last inbox message of a thread that has its reply. The
            reply is `output` or `failure`.
        sender: The sender of the message that a thread answers now, or answered last.
        earlier_usage: Usage of a thread before the message that is answered now.
        stopping: Why the turn of a thread is being stopped, `None` if it is not. It
            ends after the calls that run.
        reads_next: Number of the message that interrupts a thread. No model is asked
            before it is read.
        settings_json: The model settings of the run as JSON, or `None`. They win over
            those of the agents.
        forked_from: The run and version, as `"jane-1@4"`, of which this run is a fork.
            `None` for every other run.
        rewind_to: Number of the version to which a worker is rewinding the run, 0 if
            none is. Nothing else happens to the run before that is done.
        requesters: Further persons who asked for the present work, sorted: senders of
            messages, and those who asked for the run of which this one is a fork. An
            empty text is a person who is not known. See `kept_requesters`.
        doubtful_tools: Names of tools that were approved or started in versions that a
            fork or a rewind left. Each new call of them needs an approval.
        trace_context: The W3C trace context with which the run was started, as headers
            and their values, sorted by name; empty for none.
        session_trace: The `traceparent` of the newest worker session that an observer
            recorded, or `None`.
    """

    id: str
    run_nonce: str
    agent: str
    created_at: datetime
    input_digest: str
    status: RunStatus = "running"
    next_id: int = 1
    last_inbox_number: int = 0
    claim: Claim | None = None
    usage: Usage = field(default_factory=Usage)
    budget: Budget | None = None
    history_lost: bool = False
    output: str | None = None
    failure: Failure | None = None
    title: str | None = None
    labels: tuple[tuple[str, str], ...] = ()
    requester: str | None = None
    last_signal_number: int = 0
    signals: tuple[KeptSignal, ...] = ()
    events_taken: tuple[str, ...] = ()
    last_operator_number: int = 0
    grants: tuple[KeptGrant, ...] = ()
    last_revocation_number: int = 0
    revoked_grants: tuple[str, ...] = ()
    max_depth: int | None = None
    thread_key: str | None = None
    answered: int = 0
    sender: str | None = None
    earlier_usage: Usage | None = None
    stopping: str | None = None
    reads_next: int = 0
    settings_json: str | None = None
    forked_from: str | None = None
    rewind_to: int = 0
    doubtful_tools: tuple[str, ...] = ()
    requesters: tuple[str, ...] = ()
    trace_context: tuple[tuple[str, str], ...] = ()
    session_trace: str | None = None

    @property
    def has_ended(self) -> bool:
        """Whether the run is finished, failed or cancelled."""
        return self.status in ENDED_STATUSES

    @property
    def rests(self) -> bool:
        """Whether this is a thread in which every message that was read has a reply."""
        return self.thread_key is not None and self.answered == self.last_inbox_number

    @property
    def holds_root(self) -> bool:
        """Whether the root agent of a thread waits for a message, not for its model."""
        return self.thread_key is not None and (
            self.answered == self.last_inbox_number
            or self.reads_next > self.last_inbox_number
        )

    @property
    def asker(self) -> str | None:
        """The requester of the present work: of the run, or of a thread's message."""
        return self.requester if self.thread_key is None else self.sender

    @property
    def asked_by(self) -> tuple[str, ...]:
        """Everybody who asked for the present work; "" is a person who is not known.

        None of them may decide a call whose policy has `not_requester`. A thread that
        has read no message has no such person.
        """
        if self.thread_key is not None and self.last_inbox_number == 0:
            return self.requesters
        return tuple(sorted({self.asker or "", *self.requesters}))

    @property
    def limited_usage(self) -> Usage:
        """The usage that the budget limits: of the run, or of a thread's message."""
        if self.earlier_usage is None:
            return self.usage
        return self.usage - self.earlier_usage


GuardrailStage = Literal["input", "output", "tool"]
GUARDRAIL_STAGES: frozenset[str] = frozenset(get_args(GuardrailStage))


@dataclass(frozen=True, slots=True, kw_only=True)
class Trip:
    """A guardrail that tripped.

    Attributes:
        id: Id of the trip, unique in its run; empty until the reducer gives one.
        frame_id: Frame in which it tripped. The frame may have ended since.
        path: Names from the root agent down to the agent or the tool.
        guardrail: Name of the guardrail.
        stage: `input`, `output` or `tool`.
        reason: The reason that the guardrail gave.
    """

    id: str = ""
    frame_id: str
    path: tuple[str, ...]
    guardrail: str
    stage: GuardrailStage
    reason: str


_MAX_REASON_CHARS = 1000


def new_trip(
    path: tuple[str, ...],
    frame_id: str,
    name: str,
    stage: GuardrailStage,
    reason: str,
) -> Trip:
    """Return the trip of a guardrail."""
    reason = str(reason)
    if len(reason) > _MAX_REASON_CHARS:
        reason = reason[: _MAX_REASON_CHARS - 1] + "…"
    return Trip(
        frame_id=frame_id, path=path, guardrail=name, stage=stage, reason=reason
    )


def failure_text(trip: Trip, subject: str) -> str:
    """Return why an agent or a run ends."""
    return f"the guardrail {trip.guardrail} refused {subject}: {trip.reason}"


def text_note(trip: Trip) -> str:
    """Return the note for the person who decides about an input or an output."""
    return f"The guardrail {trip.guardrail} asks about this {trip.stage}: {trip.reason}"


def approval_note(trip: Trip) -> str:
    """Return the note for the person who decides about a call."""
    return f"The guardrail {trip.guardrail} asks for this approval: {trip.reason}"
