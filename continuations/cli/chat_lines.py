"""The lines of a conversation: its messages, calls and replies.

A line that a model or a person wrote is indented after its first line, so that it
cannot imitate the lines of the program.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from continuations.cli.stack_tree import Line
from continuations.core import jsontext
from continuations.core.attachment_parts import labelled_text
from continuations.core.reading import run_stream
from continuations.core.reading.event_words import unread_words
from continuations.core.reading.live_events import ReasoningDelta
from continuations.core.visible_text import escape_invisible, shorten
from continuations.present.times import counted
from continuations.present.wait_words import DECISION_WORDS

if TYPE_CHECKING:
    from collections.abc import Container, Iterator, Sequence

    from continuations.core.reading.live_events import CallProgress, TextDelta
    from continuations.core.reading.run_stream import StreamEvent
    from continuations.core.rows.run import Failure


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

    def parts(self, event: TextDelta) -> Iterator[Line]:
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


def progress_line(event: CallProgress) -> Line:
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

    def parts(self, event: TextDelta | ReasoningDelta, name: str) -> Iterator[Line]:
        """Yield a part of a text; a new line begins with the name of its writer."""
        thinks = isinstance(event, ReasoningDelta)
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
