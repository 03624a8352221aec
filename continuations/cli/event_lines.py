"""The lines of what happens in a run: its events, versions and their differences.

`EventPrinter` prints the events while this process works on the run: `--stream`.
"""

from __future__ import annotations

import sys
from dataclasses import replace
from typing import TYPE_CHECKING, TypeVar

from continuations.cli.chat_lines import WrittenText, progress_line
from continuations.cli.output import write_json
from continuations.cli.stack_tree import Line
from continuations.cli.terminal import print_lines, print_part
from continuations.core.reading import run_stream
from continuations.core.reading.event_words import event_words, message_words
from continuations.core.reading.live_events import (
    CallProgress,
    ReasoningDelta,
    TextDelta,
)
from continuations.core.reading.withheld_texts import shown_event
from continuations.core.visible_text import escape_invisible, shorten
from continuations.present.json_forms import event_json
from continuations.present.times import counted
from continuations.wire.fields import readable_time

if TYPE_CHECKING:
    from collections.abc import Iterator

    from continuations.core.reading.live_events import RunEvent
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
    run_stream.Handoff: "agent",
    run_stream.CallsLeftOpen: "agent",
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
    names = [each.removeprefix(".") for each in event.path]  # a workflow calls `.ask`
    return escape_invisible("/".join(names) or "run")


def event_style(event: StreamEvent) -> str:
    """Return the style of an event on a terminal."""
    match event:
        case run_stream.ReplyGiven():
            return "done" if event.failure is None else "bad"
        case run_stream.RunEnded():
            return "done" if event.status == "finished" else "bad"
        case _:
            return _EVENT_STYLES.get(type(event), "")


EndEvent = TypeVar("EndEvent", run_stream.FrameEnded, run_stream.RunEnded)


class EventPrinter:
    """A listener (`on_event`) that prints each event at once.

    It is a plain function, so a pager that stands still does not stop the work. After
    the reader of a pipe has gone, it prints nothing.
    """

    def __init__(self, *, as_json: bool) -> None:
        self._print = self._print_json if as_json else self._print_text
        self._written = WrittenText()
        # The last text of the root agent. The end of the run repeats it.
        self._root_text = ""
        # Texts of sub-agents that ended. The results of their calls repeat them.
        self._returned: set[str] = set()
        self._reader_left = False

    def __call__(self, event: RunEvent) -> None:
        """Print an event."""
        if self._reader_left:
            return
        try:
            self._print(shown_event(event, "texts"))
            sys.stdout.flush()
        except (BrokenPipeError, SystemExit):  # rich raises SystemExit
            self._reader_left = True

    def end(self) -> None:
        """End the line that is open, if one is."""
        if self._written.close_line() and not self._reader_left:
            sys.stdout.write("\n")

    def _print_json(self, event: RunEvent) -> None:
        write_json(event_json(event, "transcript"))

    def _print_text(self, event: RunEvent) -> None:
        if isinstance(event, TextDelta | ReasoningDelta):
            for part in self._written.parts(event, "/".join(event.path)):
                print_part(part)
            return
        lines = [*self._lines(event)]
        if lines:
            self.end()
            print_lines(lines)

    def _lines(self, event: StreamEvent | CallProgress) -> Iterator[Line]:
        match event:
            case CallProgress():
                yield progress_line(event)
            case run_stream.MessageAdded():
                if not self._repeats(event):
                    yield event_line(event)
            case run_stream.FrameEnded():
                # The last reply of a sub-agent has no message.
                text = self._written.take(event.frame)
                if event.call is not None and text:
                    self._returned.add(text)
                yield event_line(_without_output(event, text or self._root_text))
            case run_stream.CallEnded() if event.result in self._returned:
                yield event_line(replace(event, result=None))
            case run_stream.RunEnded():
                yield event_line(_without_output(event, self._root_text))
            case _:
                yield event_line(event)

    def _repeats(self, event: run_stream.MessageAdded) -> bool:
        """Return whether a message has only a text that was printed."""
        role, content = event.message.get("role"), event.message.get("content")
        if role == "assistant":
            text = self._written.take(event.frame)
            if len(event.path) == 1:
                self._root_text = text
            return bool(text) and text == content
        # The content of a message with files is a list.
        is_text = role == "tool" and isinstance(content, str)
        if is_text and content in self._returned:
            self._returned.remove(content)
            return True
        return False


def _without_output(event: EndEvent, shown: str) -> EndEvent:
    """Return an event without its output, if that is a text that was shown."""
    return replace(event, output=None) if event.output == shown else event
