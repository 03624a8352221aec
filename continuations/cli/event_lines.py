"""One line of text for each event of a run."""

from __future__ import annotations

from typing import TYPE_CHECKING

from continuations.cli.stack_tree import Line
from continuations.core import run_stream
from continuations.core.visible_text import shorten
from continuations.present.escaping import escape_invisible

if TYPE_CHECKING:
    from continuations.core.messages import Message
    from continuations.core.run import Failure
    from continuations.core.run_stream import StreamEvent

_CURSOR_WIDTH = 6
_MAX_TEXT_CHARS = 200


def event_line(event: StreamEvent) -> Line:
    """Return the line of an event: its cursor, time, path and what happened."""
    text, style = _said(event)
    path = "/".join(event.path) or "run"
    place = f"{event.cursor:<{_CURSOR_WIDTH}} {event.at:%Y-%m-%d %H:%M:%S}  "
    return Line(place, f"{escape_invisible(path)}  {text}", style)


def _said(event: StreamEvent) -> tuple[str, str]:  # noqa: PLR0911, PLR0912, C901 - one return for each type
    match event:
        case run_stream.RunRepaired():
            return "repaired; the lines below describe the run anew", "bad"
        case run_stream.Attempt():
            return f"worker {event.worker}, attempt {event.number}", "busy"
        case run_stream.FrameStarted():
            return "agent begins", "agent"
        case run_stream.FrameEnded():
            return "agent ends" + _after_colon(event.output), "agent"
        case run_stream.MessageAdded():
            return _message_text(event), ""
        case run_stream.StateChanged():
            return "state" + _after_colon(event.changes_json), ""
        case run_stream.Compacted():
            counts = f"{event.tokens_before} to {event.tokens_after} tokens"
            return f"history shortened, from {counts}", "busy"
        case run_stream.CallProposed():
            return "call" + _after_colon(event.arguments_json), ""
        case run_stream.CallStarted():
            return "call starts", "busy"
        case run_stream.CallEnded():
            return "call ends" + _after_colon(event.result), "done"
        case run_stream.WaitOpened():
            return f"waits for {escape_invisible(event.wait.id)}", "wait"
        case run_stream.WaitDecided():
            by = f" by {event.by}" if event.by else ""
            return _one_line(f"{event.kind or 'wait over'}{by}"), "wait"
        case run_stream.GuardrailTripped():
            said = f"{event.guardrail} ({event.stage}): {event.reason}"
            return _one_line(f"guardrail {said}"), "bad"
        case run_stream.ReplyGiven():
            failed = event.failure is not None
            text = f"reply to message {event.message_number}"
            text += _after_colon(_end_text(event.output, event.failure))
            return text, "bad" if failed else "done"
        case run_stream.RunEnded():
            finished = event.status == "finished"
            text = event.status + _after_colon(_end_text(event.output, event.failure))
            return text, "done" if finished else "bad"


def _end_text(output: str | None, failure: Failure | None) -> str | None:
    return output if failure is None else f"{failure.code}: {failure.message}"


def _message_text(event: run_stream.MessageAdded) -> str:
    from continuations.core.messages import Message  # noqa: PLC0415 - only messages need it

    message: Message = Message.from_json(event.message_json)
    calls = ", ".join(each.tool for each in message.tool_calls)
    text = message.content or (f"(calls {calls})" if calls else "")
    return f"{message.role}{_after_colon(text)}"


def _after_colon(text: str | None) -> str:
    return f": {_one_line(text)}" if text else ""


def _one_line(text: str) -> str:
    return escape_invisible(shorten(text, _MAX_TEXT_CHARS))
