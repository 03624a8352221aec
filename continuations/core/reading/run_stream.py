"""The events of a run that applications read: what changed from version to version.

They follow from the versions alone, so nothing is stored for them. `changes.events` has
other values: what the reducer applies to a state.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

from continuations.core import jsontext
from continuations.core.visible_text import escape_invisible, shorten
from continuations.value_class import dataclass

if TYPE_CHECKING:
    from datetime import datetime

    from continuations.core.changes.tool_messages import CallEnd
    from continuations.core.messages import Message
    from continuations.core.rows.decisions import DecisionKind
    from continuations.core.rows.run import Failure, GuardrailStage, RunStatus
    from continuations.core.rows.waits import Wait


@dataclass(frozen=True, slots=True, kw_only=True)
class BaseEvent:
    """The fields of every event.

    Attributes:
        cursor: The place of the event, `"version.ordinal"`. Pass it as `after` to read
            the events that follow.
        run_id: Id of the run.
        frame: Id of the frame, or `None` for an event of the whole run. Also `None` for
            a frame that began and ended within one version: it was never stored.
        path: Names from the root agent down to the agent or the tool.
        at: When the version was written, in UTC.
    """

    cursor: str
    run_id: str
    frame: str | None = None
    path: tuple[str, ...] = ()
    at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRepaired(BaseEvent):
    """A repair continued the run from an earlier state.

    The events after this one describe that state anew. Forget what came before.
    """


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRewound(BaseEvent):
    """The run goes on from an earlier version.

    The events after this one describe that state anew. Forget what came before.

    Attributes:
        version: Number of the earlier version.
    """

    version: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt(BaseEvent):
    """A worker took the claim of the run.

    Attributes:
        worker: Id of the worker.
        number: Number of the attempt at this point of the run, from 1.
    """

    worker: str
    number: int


@dataclass(frozen=True, slots=True, kw_only=True)
class FrameStarted(BaseEvent):
    """An agent began.

    Attributes:
        agent: Name of the agent.
        call: Call whose tool is this agent, or `None` for the root agent.
    """

    agent: str
    call: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class FrameEnded(BaseEvent):
    """An agent ended.

    Attributes:
        agent: Name of the agent.
        call: Call whose tool is this agent, or `None` for the root agent.
        output: The text that the agent returned, or why it failed, as the calling agent
            reads it. For the root agent, the output of a finished run. `None` if no
            version has it.
        end: How its call ended, as in `CallEnded`. `None` for the root agent, and if no
            version has it.
    """

    agent: str
    call: str | None = None
    output: str | None = None
    end: CallEnd | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageAdded(BaseEvent):
    """A message was added to the transcript of a frame.

    Attributes:
        message_json: The message in the chat completions format, as JSON text.
    """

    message_json: str

    @property
    def message(self) -> dict[str, Any]:
        """The message, as a new dict."""
        message: dict[str, Any] = jsontext.parse(self.message_json)
        return message


@dataclass(frozen=True, slots=True, kw_only=True)
class Compacted(BaseEvent):
    """The history of a frame was shortened. Its older messages are in older versions.

    Attributes:
        tokens_before: Tokens of the messages before, as provider or estimate counted.
        tokens_after: Tokens of the messages after.
        replaced: Number of messages that a summary replaced; 0 if only results of tools
            were cut.
        summary: The message with the summary, or `None`.
    """

    tokens_before: int
    tokens_after: int
    replaced: int
    summary: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class StateChanged(BaseEvent):
    """The state of an agent changed at the end of a turn.

    Attributes:
        changes_json: The changed fields with their new values, as JSON text.
    """

    changes_json: str

    @property
    def changes(self) -> dict[str, Any]:
        """The changed fields with their new values, as a new dict."""
        changes: dict[str, Any] = jsontext.parse(self.changes_json)
        return changes


@dataclass(frozen=True, slots=True, kw_only=True)
class Handoff(BaseEvent):
    """An agent handed its conversation over to another agent.

    Attributes:
        agent: Name of the agent that has the conversation now.
        previous: Name of the agent that had it before.
        dropped: Number of the messages that the agent does not read, because of the
            filter of the handoff.
    """

    agent: str
    previous: str
    dropped: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class CallsLeftOpen(BaseEvent):
    """The function of a workflow has ended before some of its calls.

    The workflow ends with the last of them.

    Attributes:
        calls: Ids of the calls.
    """

    calls: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class CallProposed(BaseEvent):
    """A model, or the code of a workflow, asked for a call.

    Attributes:
        call: Id of the call. `None` if the call ended in the same version.
        tool: Name of the tool, as the model wrote it.
        tool_call_id: Id of the call in the transcript.
        arguments_json: Validated arguments with secret values masked, as JSON text.
            `None` if they were not validated in this version.
        tasks: The names of the asyncio tasks in which a workflow made the call, from
            the outermost one. Empty for its function itself, and for a model's call.
    """

    call: str | None
    tool: str
    tool_call_id: str
    arguments_json: str | None = None
    tasks: tuple[str, ...] = ()

    @property
    def arguments(self) -> dict[str, Any] | None:
        """The arguments as a new dict, or `None`."""
        text = self.arguments_json
        return None if text is None else dict(jsontext.parse(text))


@dataclass(frozen=True, slots=True, kw_only=True)
class CallStarted(BaseEvent):
    """The start of a call was recorded. The tool runs after this, not before.

    Attributes:
        call: Id of the call.
        tool: Name of the tool.
    """

    call: str
    tool: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CallEnded(BaseEvent):
    """A call ended: it returned, failed, was refused or was cancelled.

    Attributes:
        call: Id of the call. `None` if the call began in the same version.
        tool: Name of the tool.
        tool_call_id: Id of the call in the transcript.
        result: The text that the model reads. `None` if the frame of the call ended,
            or its workflow began anew, in the same version.
        end: How the call ended: `returned`, `answered`, `denied`, `expired`,
            `cancelled`, `not_executed`, `invalid` or `error`. A person has `answered`
            instead of the tool. A call that was `not_executed` had an unknown outcome.
            An `invalid` call failed before it began. `None` if `result` is `None`.
    """

    call: str | None
    tool: str
    tool_call_id: str
    result: str | None = None
    end: CallEnd | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitOpened(BaseEvent):
    """A wait was opened.

    Attributes:
        wait: The wait, with secret values masked.
    """

    wait: Wait


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitDecided(BaseEvent):
    """A wait ended.

    Attributes:
        wait_id: Id of the wait.
        kind: Kind of the decision, such as `"approve"` or `"expire"`. `None` for a wait
            without a stored decision: of a timer, a model or an operator.
        by: Name of the decider, or `None`.
    """

    wait_id: str
    kind: DecisionKind | None = None
    by: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class GuardrailTripped(BaseEvent):
    """A guardrail tripped: the input, the output or a call was refused or asked about.

    Attributes:
        guardrail: Name of the guardrail.
        stage: `input`, `output` or `tool`.
        reason: The reason that the guardrail gave.
    """

    guardrail: str
    stage: GuardrailStage
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplyGiven(BaseEvent):
    """A thread replied, and rests.

    Attributes:
        message_number: Number of the last message that the reply answers.
        output: The reply, or `None` if the turn failed.
        failure: Why the turn failed, or `None`.
    """

    message_number: int
    output: str | None = None
    failure: Failure | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RunEnded(BaseEvent):
    """The run ended. No event follows.

    Attributes:
        status: `finished`, `failed` or `cancelled`.
        output: Final text of a finished run.
        failure: Why the run failed or was cancelled.
    """

    status: RunStatus
    output: str | None = None
    failure: Failure | None = None


StreamEvent: TypeAlias = (
    RunRepaired
    | RunRewound
    | Attempt
    | FrameStarted
    | FrameEnded
    | MessageAdded
    | StateChanged
    | Compacted
    | Handoff
    | CallsLeftOpen
    | CallProposed
    | CallStarted
    | CallEnded
    | WaitOpened
    | WaitDecided
    | GuardrailTripped
    | ReplyGiven
    | RunEnded
)
EVENT_TYPES: tuple[type[StreamEvent], ...] = (
    RunRepaired,
    RunRewound,
    Attempt,
    FrameStarted,
    FrameEnded,
    MessageAdded,
    StateChanged,
    Compacted,
    Handoff,
    CallsLeftOpen,
    CallProposed,
    CallStarted,
    CallEnded,
    WaitOpened,
    WaitDecided,
    GuardrailTripped,
    ReplyGiven,
    RunEnded,
)


_MAX_TEXT_CHARS = 200


def event_words(event: StreamEvent) -> str:  # noqa: PLR0911, PLR0912, C901 - one return for each type
    """Return what an event says, on one line.

    Args:
        event: The event.

    Returns:
        The words, in which invisible characters are escaped.
    """
    match event:
        case RunRepaired():
            return "repaired; what follows describes the run anew"
        case RunRewound():
            return f"rewound to version {event.version}; what follows describes it"
        case Attempt():
            return f"worker {event.worker}, attempt {event.number}"
        case FrameStarted():
            return "agent begins"
        case FrameEnded():
            return "agent ends" + _after_colon(event.output)
        case MessageAdded():
            return message_words(event.message_json)
        case StateChanged():
            return "state" + _after_colon(event.changes_json)
        case Compacted():
            counts = f"{event.tokens_before} to {event.tokens_after} tokens"
            return f"history shortened, from {counts}"
        case Handoff():
            text = f"{event.previous} hands over to {event.agent}"
            return _one_line(text) + unread_words(event)
        case CallsLeftOpen():
            return f"function ends before {', '.join(event.calls)}"
        case CallProposed():
            tasks = "".join(f" in {each}" for each in event.tasks[-1:])
            return _one_line(f"call{tasks}") + _after_colon(event.arguments_json)
        case CallStarted():
            return "call starts"
        case CallEnded():
            return "call ends" + _after_colon(event.result)
        case WaitOpened():
            return f"waits for {escape_invisible(event.wait.id)}"
        case WaitDecided():
            by = f" by {event.by}" if event.by else ""
            return _one_line(f"{event.kind or 'wait over'}{by}")
        case GuardrailTripped():
            said = f"{event.guardrail} ({event.stage}): {event.reason}"
            return _one_line(f"guardrail {said}")
        case ReplyGiven():
            text = f"reply to message {event.message_number}"
            return text + _after_colon(_end_text(event.output, event.failure))
        case RunEnded():
            return event.status + _after_colon(_end_text(event.output, event.failure))


def unread_words(event: Handoff) -> str:
    """Return what the next agent does not read, after its name.

    Args:
        event: The handoff.

    Returns:
        The words; empty for nothing.
    """
    if not event.dropped:
        return ""
    noun = "message" if event.dropped == 1 else "messages"
    return f", without {event.dropped} earlier {noun}"


def _end_text(output: str | None, failure: Failure | None) -> str | None:
    return output if failure is None else f"{failure.code}: {failure.message}"


def message_words(message_json: str) -> str:
    """Return the role and the beginning of a message, on one line.

    Args:
        message_json: The message as JSON text.

    Returns:
        The words.
    """
    from continuations.core.messages import Message  # noqa: PLC0415 - only messages need it

    message: Message = Message.from_json(message_json)
    # A workflow that waits by itself has calls of `.ask` and so on.
    calls = ", ".join(each.tool.removeprefix(".") for each in message.tool_calls)
    text = message.content or (f"(calls {calls})" if calls else "")
    if message.has_attachments:
        from continuations.core.attachment_parts import labelled_text  # noqa: PLC0415 - rarely needed

        text = labelled_text(message.role, message.data.get("content"))
    return f"{message.role}{_after_colon(text)}"


def _after_colon(text: str | None) -> str:
    return f": {_one_line(text)}" if text else ""


def _one_line(text: str) -> str:
    return escape_invisible(shorten(text, _MAX_TEXT_CHARS))
