"""Say in a few words what happened in an event of a run."""

from __future__ import annotations

from typing import TYPE_CHECKING

from continuations.core.reading import run_stream
from continuations.core.visible_text import escape_invisible, shorten

if TYPE_CHECKING:
    from continuations.core.messages import Message
    from continuations.core.reading.run_stream import StreamEvent
    from continuations.core.rows.run import Failure

_MAX_TEXT_CHARS = 200


def event_words(event: StreamEvent) -> str:  # noqa: PLR0911, PLR0912, C901 - one return for each type
    """Return what an event says, on one line. Invisible characters are escaped."""
    match event:
        case run_stream.RunRepaired():
            return "repaired; what follows describes the run anew"
        case run_stream.RunRewound():
            return f"rewound to version {event.version}; what follows describes it"
        case run_stream.Attempt():
            return f"worker {event.worker}, attempt {event.number}"
        case run_stream.FrameStarted():
            return "agent begins"
        case run_stream.FrameEnded():
            return "agent ends" + _after_colon(event.output)
        case run_stream.MessageAdded():
            return message_words(event.message_json)
        case run_stream.StateChanged():
            return "state" + _after_colon(event.changes_json)
        case run_stream.Compacted():
            counts = f"{event.tokens_before} to {event.tokens_after} tokens"
            return f"history shortened, from {counts}"
        case run_stream.Handoff():
            text = f"{event.previous} hands over to {event.agent}"
            return _one_line(text) + unread_words(event)
        case run_stream.CallsLeftOpen():
            return f"function ends before {', '.join(event.calls)}"
        case run_stream.CallProposed():
            tasks = "".join(f" in {each}" for each in event.tasks[-1:])
            return _one_line(f"call{tasks}") + _after_colon(event.arguments_json)
        case run_stream.CallStarted():
            return "call starts"
        case run_stream.CallEnded():
            return "call ends" + _after_colon(event.result)
        case run_stream.WaitOpened():
            return f"waits for {escape_invisible(event.wait.id)}"
        case run_stream.WaitDecided():
            by = f" by {event.by}" if event.by else ""
            return _one_line(f"{event.kind or 'wait over'}{by}")
        case run_stream.GuardrailTripped():
            said = f"{event.guardrail} ({event.stage}): {event.reason}"
            return _one_line(f"guardrail {said}")
        case run_stream.ReplyGiven():
            text = f"reply to message {event.message_number}"
            return text + _after_colon(_end_text(event.output, event.failure))
        case run_stream.RunEnded():
            return event.status + _after_colon(_end_text(event.output, event.failure))


def unread_words(event: run_stream.Handoff) -> str:
    """Return what the next agent does not read, after its name; empty for nothing."""
    if not event.dropped:
        return ""
    noun = "message" if event.dropped == 1 else "messages"
    return f", without {event.dropped} earlier {noun}"


def _end_text(output: str | None, failure: Failure | None) -> str | None:
    return output if failure is None else f"{failure.code}: {failure.message}"


def message_words(message_json: str) -> str:
    """Return the role and the beginning of a message, on one line."""
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
