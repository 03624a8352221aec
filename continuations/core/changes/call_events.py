"""Events of one call: the events of the table in `transitions.py`."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from continuations.value_class import dataclass

if TYPE_CHECKING:
    from datetime import datetime

    from continuations.core.messages import Message
    from continuations.core.rows.calls import Handoff
    from continuations.core.rows.decisions import Decision
    from continuations.core.rows.quorum import Quorum
    from continuations.core.rows.run import Failure, Trip
    from continuations.core.rows.waits import Wait


@dataclass(frozen=True, slots=True, kw_only=True)
class CallAccepted:
    """The call is valid and needs no approval of a person.

    If a grant approved it, `approved_digest` and `approved_until` are as in `Approved`,
    and `grant` is its id. If a rule approved it, `quorum` says who decides an unknown
    outcome.
    """

    call_id: str
    arguments: str
    contract_digest: str
    repeatable: bool = False
    verifiable: bool = False
    secrets: tuple[str, ...] = ()
    writes_state: bool = False
    approved_digest: str | None = None
    approved_until: datetime | None = None
    grant: str | None = None
    quorum: Quorum | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ApprovalRequested:
    """The call is valid, and waits for an approval before it begins, perhaps again.

    `trip` is the guardrail that asks for the approval.
    """

    call_id: str
    arguments: str
    contract_digest: str
    wait: Wait
    repeatable: bool = False
    verifiable: bool = False
    secrets: tuple[str, ...] = ()
    trip: Trip | None = None
    writes_state: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class CallInvalid:
    """The call cannot begin: unknown tool, invalid arguments, a policy that raised.

    Or a guardrail refused it. With a `failure`, the run must end.
    """

    call_id: str
    code: str
    content: str
    trip: Trip | None = None
    failure: Failure | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CallStarted:
    """The tool is about to run; the event is committed before it runs."""

    call_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SubAgentStarted:
    """The call's tool is an agent, whose frame starts with `messages`.

    `step` is `"new"` for a workflow.
    """

    call_id: str
    agent: str
    messages: tuple[Message, ...]
    max_turns: int | None = None
    step: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class HandedOver:
    """The call gives its frame to another agent when the turn ends; nothing runs."""

    call_id: str
    handoff: Handoff


@dataclass(frozen=True, slots=True, kw_only=True)
class CallReturned:
    """The tool or the sub-agent returned a result.

    `patch` has the fields of the agent's state that the tool changed, as JSON text.
    `parts_json` has the parts of a result with attachments, as a JSON array.
    `is_json`: a workflow called, and `content` is the JSON of the value.
    """

    call_id: str
    content: str
    patch: str | None = None
    parts_json: str | None = None
    is_json: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class CallRaised:
    """The tool or the sub-agent failed, or a decision at the time `at` says so."""

    call_id: str
    code: str
    content: str
    at: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CallParked:
    """The tool ran, and returned a wait instead of a result.

    `patch` is as in `CallReturned`. It counts once the call returns. `memo` is what
    the tool keeps for its `on_answer` function, as JSON text.
    """

    call_id: str
    wait: Wait
    patch: str | None = None
    memo: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerReceived:
    """The wait of a parked call has its value, for the tool's `on_answer` function.

    `answer` is the value as JSON text.
    """

    call_id: str
    answer: str


@dataclass(frozen=True, slots=True, kw_only=True)
class OutcomeUnknown:
    """The call began and did not end, and it is not repeated without a decision.

    Either the tool is not declared repeatable, or a repeatable call may not begin
    again as it did: its approval is too old, or its tool changed.
    """

    call_id: str
    wait: Wait


@dataclass(frozen=True, slots=True, kw_only=True)
class RepeatAllowed:
    """The call may start again: it never began, or its tool is declared repeatable.

    `never_began` says that the last recorded start was taken back.
    """

    call_id: str
    never_began: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Unverified:
    """The tool's `verify` function could not tell whether the call happened."""

    call_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Approved:
    """The call was approved, possibly with edited arguments.

    `arguments` are the edited effective arguments as canonical JSON, or `None`.
    `digest` covers the arguments that will run. After `until` the call does not start.
    `form` is the form that the approver filled in, as JSON text.
    """

    call_id: str
    digest: str
    until: datetime | None = None
    arguments: str | None = None
    form: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Denied:
    """The call was denied. With a `failure`, a rule denied it, and the run must end."""

    call_id: str
    decision: Decision
    failure: Failure | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Expired:
    """The deadline of the wait passed without a decision."""

    call_id: str
    decision: Decision


@dataclass(frozen=True, slots=True, kw_only=True)
class Answered:
    """A person or `verify` gave the result of the call; the tool does not run.

    `patch` and `is_json` are as in `CallReturned`. `at` is the time of the decision.
    """

    call_id: str
    content: str
    patch: str | None = None
    is_json: bool = False
    at: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Reopened:
    """The decision does not let the call go on, so a new wait is opened.

    Causes are a refused edit, an approval that is too old, a tool that changed, and an
    answer that the tool rejects.
    """

    call_id: str
    wait: Wait


@dataclass(frozen=True, slots=True, kw_only=True)
class CallCancelled:
    """The run ended while the call was open, or an operator cancelled the call.

    `never_began` says that the tool of a started call did not run.
    """

    call_id: str
    reason: str
    never_began: bool = False


CallEvent: TypeAlias = (
    CallAccepted
    | ApprovalRequested
    | CallInvalid
    | CallStarted
    | SubAgentStarted
    | HandedOver
    | CallReturned
    | CallRaised
    | CallParked
    | AnswerReceived
    | OutcomeUnknown
    | RepeatAllowed
    | Unverified
    | Approved
    | Denied
    | Expired
    | Answered
    | Reopened
    | CallCancelled
)
