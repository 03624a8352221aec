"""Print the events of a run while this process works on it: --stream."""

from __future__ import annotations

import sys
from dataclasses import replace
from typing import TYPE_CHECKING, TypeVar

from continuations.cli.chat_lines import WrittenText, progress_line
from continuations.cli.output import write_json
from continuations.cli.past_lines import event_line
from continuations.cli.terminal import print_lines, print_part
from continuations.core.reading import run_stream
from continuations.core.reading.live_events import (
    CallProgress,
    ReasoningDelta,
    TextDelta,
)
from continuations.core.reading.withheld_texts import shown_event
from continuations.present.json_forms import event_json

if TYPE_CHECKING:
    from collections.abc import Iterator

    from continuations.cli.stack_tree import Line
    from continuations.core.reading.live_events import RunEvent
    from continuations.core.reading.run_stream import StreamEvent

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
