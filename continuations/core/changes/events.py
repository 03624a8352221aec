"""Events: the facts that `reducer.advance` applies to a run, one at a time.

The events of one call are in `call_events.py`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from continuations.core.changes.call_events import CallEvent
from continuations.value_class import dataclass

if TYPE_CHECKING:
    from datetime import datetime

    from continuations.core.messages import Message
    from continuations.core.rows.calls import Errored, Returned
    from continuations.core.rows.frames import ConditionCount
    from continuations.core.rows.grants import KeptGrant
    from continuations.core.rows.run import Failure, KeptSignal, Trip
    from continuations.core.rows.waits import Wait
    from continuations.core.rows.workflow_history import Entry, StartEntry
    from continuations.core.usage import Usage

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
