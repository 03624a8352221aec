"""The texts that models are writing, on the line of the terminal that is open."""

from __future__ import annotations

from typing import TYPE_CHECKING

from continuations.cli.stack_tree import Line
from continuations.core.live_events import ReasoningDelta
from continuations.core.visible_text import escape_invisible

if TYPE_CHECKING:
    from collections.abc import Iterator

    from continuations.core.live_events import TextDelta


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
