"""One line of text for each event of a run."""

from __future__ import annotations

from typing import TYPE_CHECKING

from continuations.cli.stack_tree import Line
from continuations.core import run_stream
from continuations.core.event_words import event_words
from continuations.core.visible_text import escape_invisible

if TYPE_CHECKING:
    from continuations.core.run_stream import StreamEvent

_CURSOR_WIDTH = 6
_STYLES: dict[type[StreamEvent], str] = {
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
            return _STYLES.get(type(event), "")
