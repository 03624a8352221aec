"""The lines of what happens in a run: its events, versions and their differences.

`EventPrinter` prints the events while this process works on the run: `--stream`.

A line of a conversation that a model or a person wrote is indented after its first
line, so that it cannot imitate the lines of the program.
"""

from __future__ import annotations

import sys
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeVar

from continuations.cli.output import write_json
from continuations.cli.stack_tree import Line
from continuations.cli.terminal import print_lines, print_part
from continuations.core import jsontext
from continuations.core.attachment_parts import labelled_text
from continuations.core.reading import live_events, run_stream
from continuations.core.reading.run_stream import (
    event_words,
    message_words,
    unread_words,
)
from continuations.core.reading.withheld_texts import shown_event
from continuations.core.visible_text import escape_invisible, shorten
from continuations.present.json_forms import event_json
from continuations.present.times import counted
from continuations.present.wait_words import DECISION_WORDS
from continuations.wire.fields import readable_time

if TYPE_CHECKING:
    from collections.abc import Container, Iterator, Sequence

    from continuations.core.reading.run_past import Change, RunDifference, RunVersion
    from continuations.core.reading.run_stream import StreamEvent
    from continuations.core.rows.run import Failure


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

    def __call__(self, event: live_events.RunEvent) -> None:
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

    def _print_json(self, event: live_events.RunEvent) -> None:
        write_json(event_json(event, "transcript"))

    def _print_text(self, event: live_events.RunEvent) -> None:
        if isinstance(event, live_events.TextDelta | live_events.ReasoningDelta):
            for part in self._written.parts(event, "/".join(event.path)):
                print_part(part)
            return
        lines = [*self._lines(event)]
        if lines:
            self.end()
            print_lines(lines)

    def _lines(self, event: StreamEvent | live_events.CallProgress) -> Iterator[Line]:
        match event:
            case live_events.CallProgress():
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


_MAX_CALL_CHARS = 200


def said_lines(name: str, text: str, style: str = "agent") -> Iterator[Line]:
    """Yield a message after the name of its writer."""
    first, *others = text.split("\n")
    yield Line(f"{escape_invisible(name)}: ", escape_invisible(first), style)
    for line in others:
        yield Line("  ", escape_invisible(line), style)


def history_lines(
    messages: Sequence[dict[str, Any]], agent: str, limit: int
) -> Iterator[Line]:
    """Yield the last messages of a transcript, without instructions and results."""
    shown = [each for each in messages if each.get("role") in ("user", "assistant")]
    earlier = len(shown) - limit
    if earlier > 0:
        yield Line(
            "", f"({counted(earlier, 'earlier message')}; /history {len(shown)})"
        )
    for message in shown[-limit:] if limit else ():
        yield from _message_lines(message, agent)


def _message_lines(message: dict[str, Any], agent: str) -> Iterator[Line]:
    is_user = message["role"] == "user"
    text = _text(message)
    if text:
        yield from said_lines(
            "user" if is_user else agent, text, "" if is_user else "agent"
        )
    for call in message.get("tool_calls") or ():
        function = jsontext.as_object(call.get("function")) or {}
        arguments = str(function.get("arguments", ""))
        yield _call_line(str(function.get("name")), shorten(arguments, _MAX_CALL_CHARS))


def _text(message: dict[str, Any]) -> str:
    return labelled_text(message.get("role"), message.get("content"))


class EventLines:
    """Turns the events of a conversation into lines; each text is shown once."""

    def __init__(self, agent: str, own_decisions: Container[str] = ()) -> None:
        # The agent that has the conversation.
        self._agent = agent
        # Waits that the person at this terminal decided.
        self._own_decisions = own_decisions
        self._last_text: str | None = None
        # The reply that is being written.
        self._written = WrittenText()
        # Number of the last message whose reply was shown.
        self.replied = 0
        # Texts that the person at this terminal typed: they stand there already.
        self.own_texts: list[str] = []

    def parts(self, event: live_events.TextDelta) -> Iterator[Line]:
        """Yield a part of a reply that is being written, for the line that is open."""
        if len(event.path) == 1:
            [self._agent] = event.path
            yield from self._written.parts(event, self._agent)

    def end_of_parts(self) -> Iterator[Line]:
        """Yield the end of the line that is open, if one is."""
        if self._written.close_line():
            yield Line("", "")

    def lines(self, event: StreamEvent) -> Iterator[Line]:
        """Yield the lines of an event, if any."""
        match event:
            case run_stream.MessageAdded(path=[agent]):
                self._agent = agent
                yield from self._message(event.message, event.frame)
            case run_stream.Handoff(path=[previous]):
                self._agent = event.agent
                words = unread_words(event)
                yield _call_line(previous, f"hands over to {event.agent}{words}")
            case run_stream.CallStarted():
                yield _call_line(_place(event.path), "runs")
            case run_stream.CallEnded():
                result = shorten(event.result or "", _MAX_CALL_CHARS)
                yield _call_line(_place(event.path), result)
            case run_stream.WaitDecided():
                if event.wait_id not in self._own_decisions:
                    yield _call_line(_place(event.path), _decided_text(event))
            case run_stream.ReplyGiven():
                yield from self._reply(event)
            case run_stream.RunEnded():
                yield Line("", "The conversation is closed.")
            case run_stream.RunRepaired():
                yield Line("", "The conversation was repaired.", "bad")
            case _:
                pass

    def _message(self, message: dict[str, Any], frame: str | None) -> Iterator[Line]:
        text, role = _text(message), message.get("role")
        if role == "assistant":
            self._last_text = text
            was_written = text == self._written.take(frame)
            yield from self.end_of_parts()
            if text and not was_written:
                yield from said_lines(self._agent, text)
        elif role == "user":
            if text in self.own_texts:
                self.own_texts.remove(text)
            else:
                yield from said_lines("user", text, "")

    def _reply(self, event: run_stream.ReplyGiven) -> Iterator[Line]:
        self.replied = event.message_number
        if event.failure is not None:
            yield from failed_lines(event.failure)
        elif event.output is not None and event.output != self._last_text:
            yield from said_lines(self._agent, event.output)
        self._last_text = None


def progress_line(event: live_events.CallProgress) -> Line:
    """Return the line of a call that reports its progress."""
    value = shorten(event.value_json, _MAX_CALL_CHARS)
    return _call_line(_place(event.path), value)


def failed_lines(failure: Failure) -> Iterator[Line]:
    """Yield why a message has no reply."""
    yield from said_lines("no reply", f"{failure.code}: {failure.message}", "bad")


def _place(path: Sequence[str]) -> str:
    return " > ".join(path[1:]) or "call"


def _decided_text(event: run_stream.WaitDecided) -> str:
    word = DECISION_WORDS[event.kind].lower() if event.kind else "no longer waits"
    return f"{word} by {event.by}" if event.by else word


def _call_line(place: str, text: str) -> Line:
    return Line("  · ", escape_invisible(f"{place}: {text}" if text else place), "busy")


class WrittenText:
    """Turns live events into parts of lines, and knows what is written.

    A line that a model wrote is indented after its first line, so that it cannot
    imitate the lines of the program.
    """

    def __init__(self) -> None:
        # The name, kind, frame, fence and attempt of the text on the open line.
        self._open: tuple[str, bool, str, int, int] | None = None
        # The attempt of each frame's reply, and its text so far.
        self._texts: dict[str, tuple[tuple[int, int], str]] = {}

    def parts(
        self, event: live_events.TextDelta | live_events.ReasoningDelta, name: str
    ) -> Iterator[Line]:
        """Yield a part of a text; a new line begins with the name of its writer."""
        thinks = isinstance(event, live_events.ReasoningDelta)
        place = (name, thinks, event.frame, event.fence, event.attempt)
        if self._open != place:
            if self.close_line():
                yield Line("", "\n")
            self._open = place
            verb = " thinks" if thinks else ""
            yield Line("", f"{escape_invisible(name)}{verb}: ")
        if not thinks:
            attempt = (event.fence, event.attempt)
            known, text = self._texts.get(event.frame, (attempt, ""))
            before = text if known == attempt else ""
            self._texts[event.frame] = (attempt, before + event.text)
        lines = map(escape_invisible, event.text.split("\n"))
        yield Line("", "\n  ".join(lines), "thought" if thinks else "agent")

    def close_line(self) -> bool:
        """Close the line; return whether one was open."""
        was_open, self._open = self._open is not None, None
        return was_open

    def take(self, frame: str | None) -> str:
        """Return the text that was written in a frame, and forget it."""
        return self._texts.pop(frame or "", ((0, 0), ""))[1]
