"""The lines of the past of a run: its versions, their differences, its events."""

from __future__ import annotations

from typing import TYPE_CHECKING

from continuations.cli.stack_tree import Line
from continuations.core.reading import run_stream
from continuations.core.reading.event_words import event_words, message_words
from continuations.core.visible_text import escape_invisible, shorten
from continuations.present.times import counted
from continuations.wire.fields import readable_time

if TYPE_CHECKING:
    from collections.abc import Iterator

    from continuations.core.reading.run_past import Change, RunDifference, RunVersion
    from continuations.core.reading.run_stream import StreamEvent

_MAX_TEXT_CHARS = 200
_SIGNS: dict[Change, str] = {"added": "+ ", "removed": "- ", "changed": "~ "}
_STYLES: dict[Change, str] = {"added": "done", "removed": "bad", "changed": "busy"}
_CURSOR_WIDTH = 6
_EVENT_STYLES: dict[type[StreamEvent], str] = {
    run_stream.RunRepaired: "bad",
    run_stream.RunRewound: "bad",
    run_stream.Attempt: "busy",
    run_stream.FrameStarted: "agent",
    run_stream.FrameEnded: "agent",
    run_stream.Compacted: "busy",
    run_stream.CallStarted: "busy",
    run_stream.CallEnded: "done",
    run_stream.WaitOpened: "wait",
    run_stream.WaitDecided: "wait",
    run_stream.GuardrailTripped: "bad",
}


def version_lines(version: RunVersion) -> Iterator[Line]:
    """Yield a version, what changed, and the waits that it has."""
    worker = f" by worker {version.worker}" if version.worker else ""
    text = f"version {version.number}: {version.status}"
    at = readable_time(version.at)
    yield Line("", escape_invisible(f"{text}, {at}{worker}"), "head")
    for event in version.events:
        text = f"{event_path(event)}  {event_words(event)}"
        yield Line("  ", text, event_style(event))
    if version.waits:
        yield Line("  ", counted(len(version.waits), "open wait"), "wait")


def difference_lines(found: RunDifference) -> Iterator[Line]:
    """Yield one line for each difference of two versions."""
    yield Line("", f"version {found.before} and version {found.after}", "head")
    if found.status_before != found.status_after:
        yield _line("changed", "run", f"{found.status_before} -> {found.status_after}")
    for frame in found.frames:
        yield _line(frame.change, _path(frame.path), f"agent {frame.agent}")
    for message in found.messages:
        words = message_words(message.message_json)
        text = f"message {message.position}: {words}"
        yield _line(message.change, _path(message.path), text)
    for call in found.calls:
        text = f"call {call.call}: {call.before or '-'} -> {call.after or '-'}"
        if call.arguments_before_json != call.arguments_after_json:
            text += f" {call.arguments_after_json or call.arguments_before_json}"
        yield _line(call.change, _path(call.path), text)
    for wait in found.waits:
        text = f"wait {wait.wait.id}"
        if wait.decision is not None:
            by = f" by {wait.decision.by}" if wait.decision.by else ""
            text += f": {wait.decision.kind}{by}"
        yield _line(wait.change, _path(wait.wait.path), text)
    for state in found.states:
        text = f"state {state.before_json} -> {state.after_json}"
        yield _line("changed", _path(state.path), text)


def _path(names: tuple[str, ...]) -> str:
    return "/".join(names) or "run"


def _line(change: Change, path: str, text: str) -> Line:
    text = escape_invisible(shorten(text, _MAX_TEXT_CHARS))
    return Line(_SIGNS[change], f"{escape_invisible(path)}  {text}", _STYLES[change])


def event_line(event: StreamEvent) -> Line:
    """Return the line of an event: its cursor, time, path and what happened."""
    place = f"{event.cursor:<{_CURSOR_WIDTH}} {event.at:%Y-%m-%d %H:%M:%S}  "
    return Line(place, f"{event_path(event)}  {event_words(event)}", event_style(event))


def event_path(event: StreamEvent) -> str:
    """Return the names from the root agent down to the agent or tool of an event."""
    return escape_invisible("/".join(event.path) or "run")


def event_style(event: StreamEvent) -> str:
    """Return the style of an event on a terminal."""
    match event:
        case run_stream.ReplyGiven():
            return "done" if event.failure is None else "bad"
        case run_stream.RunEnded():
            return "done" if event.status == "finished" else "bad"
        case _:
            return _EVENT_STYLES.get(type(event), "")
