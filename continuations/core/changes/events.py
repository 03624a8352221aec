"""Events: the facts that `reducer.advance` applies to a run, one at a time.

The first ones concern one call, and are those of the table in `transitions.py`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from continuations.value_class import dataclass

if TYPE_CHECKING:
    from datetime import datetime

    from continuations.core.messages import Message
    from continuations.core.rows.calls import Errored, Handoff, Returned
    from continuations.core.rows.decisions import Decision
    from continuations.core.rows.frames import ConditionCount
    from continuations.core.rows.grants import KeptGrant
    from continuations.core.rows.quorum import Quorum
    from continuations.core.rows.run import Failure, KeptSignal, Trip
    from continuations.core.rows.waits import Wait
    from continuations.core.rows.workflow_history import Entry, StartEntry
    from continuations.core.usage import Usage


# Events of one call ---------------------------------------------------------------


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


# Events of frames -----------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelReplied:
    """A frame's model replied.

    `finish_reason` is the provider's reason to stop. `output_error` says why a final
    reply is no output of the agent, or is `None`. `may_retry` says whether the model is
    asked again after such a reply. `is_final` is False if a reply without tool calls
    does not end the root frame, because a message or a cancel request arrived.

    Hooks and guardrails set the rest. `added` are messages that were sent after the
    stored ones. `error_code` is the code of `output_error`. `next_message` is a message
    of a user that follows the reply instead of the end. `trip` is the guardrail that
    refused the output.

    `wait` is that of a guardrail that lets a person accept the output. Then the reply
    is held: it is no message and no output before that.

    `context_tokens` are those of the request and the reply, or 0: nothing counts them.
    """

    frame_id: str
    message: Message
    usage: Usage
    finish_reason: str = "stop"
    output_error: str | None = None
    may_retry: bool = False
    is_final: bool = True
    added: tuple[Message, ...] = ()
    error_code: str = "output"
    next_message: Message | None = None
    trip: Trip | None = None
    wait: Wait | None = None
    context_tokens: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnRefused:
    """A guardrail refused the input of a frame, so its model is not asked.

    `message` stands in the transcript instead of a reply, so that the next message is a
    new input. `usage` is the cost of guardrails that are agents.
    """

    frame_id: str
    code: str
    content: str
    message: Message
    usage: Usage
    trip: Trip | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class InputHeld:
    """A guardrail lets a person accept the input of a frame; `wait` suspends it.

    `usage` is the cost of guardrails that are agents.
    """

    wait: Wait
    usage: Usage
    trip: Trip


@dataclass(frozen=True, slots=True)
class TextAccepted:
    """A person accepted the input or the output of a frame, by this wait."""

    wait_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TextRefused:
    """No person accepted the input or the output of a frame, so the frame ends.

    `content` says why. `message` stands in the transcript instead of a reply.
    """

    wait_id: str
    content: str
    message: Message


@dataclass(frozen=True, slots=True)
class CheckPaid:
    """An agent that checks a call was asked; `usage` is the cost."""

    usage: Usage


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryCompacted:
    """The first messages of a frame are replaced by others, of which fewer are needed.

    `log_id` and `count` say which messages: the first ones of that log. The numbers are
    those of `HistoryRecord`. `usage` is the cost of the summary.
    """

    frame_id: str
    log_id: int
    count: int
    messages: tuple[Message, ...]
    summary_number: int
    replaced: int
    tokens_before: int
    tokens_after: int
    attempt_above: int
    usage: Usage


@dataclass(frozen=True, slots=True, kw_only=True)
class SummaryFailed:
    """No summary of a frame was made, and the frame goes on without one.

    The next one is tried above `attempt_above` tokens. `usage` is the cost.
    """

    frame_id: str
    attempt_above: int
    usage: Usage


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelFailed:
    """A frame's model gave no usable reply, and its worker stops.

    `error` says why, or is `None` if the failure of the run says it. `usage` is the
    cost of unusable responses. `loses_reply`: the pending reply will never be ready, so
    the next worker asks the model anew.
    """

    frame_id: str
    error: str | None
    usage: Usage
    loses_reply: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelDelayed:
    """A frame's model gives its reply later, so `wait` suspends the frame.

    `pending_reply` is the id of the reply to poll; `None`: the model is asked again.
    `failed_requests`: how many requests of the turn failed in a row. `usage` is the
    cost of unusable responses. `added` are messages that the pending reply answers too.
    `was_early`: whether `wake` made the attempt that failed before its time.
    """

    wait: Wait
    usage: Usage
    pending_reply: str | None
    failed_requests: int
    added: tuple[Message, ...] = ()
    was_early: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class SignalsKept:
    """The run took signals in up to a number; no wait has taken the `kept` ones."""

    last_number: int
    kept: tuple[KeptSignal, ...]


@dataclass(frozen=True, slots=True)
class EventTaken:
    """A wait of the run took a published event; later waits do not take it again."""

    event_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class GrantGiven:
    """An approval gave a grant for later calls."""

    grant: KeptGrant


@dataclass(frozen=True, slots=True, kw_only=True)
class GrantsRevoked:
    """The run took revocations in up to a number; these grants cover nothing more."""

    last_number: int
    grant_ids: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplyConfirmed:
    """The last reply of the root agent is the output: no message came after it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnBeginning:
    """The options that a thread takes from the code that begins a turn.

    `instructions` is the message of other instructions, or `None` for the same ones.
    """

    max_turns: int | None
    instructions: Message | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class UserMessageAdded:
    """Inbox message `number` is added to the root frame.

    `beginning` counts if a thread begins a turn with the message.
    """

    number: int
    message: Message
    by: str | None = None
    beginning: TurnBeginning | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ThreadClosed:
    """Inbox message `number` closes a thread that rests."""

    number: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnStopping:
    """The turn of a thread ends after the calls that run; nothing else begins."""

    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnInterrupted:
    """The root agent of a thread reads message `number` before its model is asked."""

    number: int


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentCancelled:
    """The agent of a nested call is cancelled, and the agents that it called.

    Nothing begins in their frames. Each ends after the calls that run in it.
    """

    call_id: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkflowStepped:
    """The code of a workflow ran until it can go on no more.

    Attributes:
        frame_id: The frame of the workflow.
        entries: The new entries of its history. A command has no id yet.
        tasks: The names of the tasks of each new call, from the outermost one.
        cancelled: The open calls that the code cancelled.
        cancelled_new: The places of those among the new calls.
        alarm: The wait for the earliest timer, or `None`.
        end: The end of the function, or `None`.
        restart: The start of a new history, or `None`.
    """

    frame_id: str
    entries: tuple[Entry, ...]
    tasks: tuple[tuple[str, ...], ...] = ()
    cancelled: tuple[str, ...] = ()
    cancelled_new: tuple[int, ...] = ()
    alarm: Wait | None = None
    end: Returned | Errored | None = None
    restart: StartEntry | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkflowDue:
    """The code of a workflow that waits can go on: a replay found something new."""

    frame_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class FrameAbandoned:
    """A frame without open calls ends: for a reason that is not its model's reply."""

    frame_id: str
    code: str
    content: str


# Events of the run ----------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class FrameWatched:
    """The conditions of a frame's agent count from these times and turns."""

    frame_id: str
    since: datetime
    counts: tuple[ConditionCount, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class OperatorRequestTaken:
    """The run took in request `number` of an operator."""

    number: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SuspensionBegan:
    """A wait suspends a frame without open calls, or the run."""

    wait: Wait


@dataclass(frozen=True, slots=True, kw_only=True)
class SuspensionEnded:
    """The wait of a frame or of the run has ended.

    `woken`: a person or program ended a wait for a model before its deadline.
    """

    wait_id: str
    woken: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class RunStopped:
    """The run ends at once, whatever states its calls have."""

    failure: Failure


Event: TypeAlias = (
    ModelReplied
    | ModelFailed
    | ModelDelayed
    | TurnRefused
    | InputHeld
    | TextAccepted
    | TextRefused
    | CheckPaid
    | HistoryCompacted
    | SummaryFailed
    | ReplyConfirmed
    | UserMessageAdded
    | ThreadClosed
    | TurnStopping
    | TurnInterrupted
    | SignalsKept
    | AgentCancelled
    | EventTaken
    | GrantGiven
    | GrantsRevoked
    | FrameAbandoned
    | WorkflowStepped
    | WorkflowDue
    | FrameWatched
    | OperatorRequestTaken
    | SuspensionBegan
    | SuspensionEnded
    | RunStopped
    | CallEvent
)
