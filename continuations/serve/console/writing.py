"""The words of a reply that a worker of this process writes now.

The rules are those of `core.live_events`: a higher fence or attempt begins anew, and a
stored reply replaces the words of every lower fence.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from continuations.core.live_events import BaseLiveEvent, ReasoningDelta, TextDelta
from continuations.core.visible_text import escape_invisible
from continuations.serve.pages.chat_view import replaces_words
from continuations.value_class import dataclass

if TYPE_CHECKING:
    from continuations.core.live_events import RunEvent

# So many replies are kept while they are written.
_MAX_WRITINGS = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class WordsPlace:
    """How much of a reply a viewer has.

    Attributes:
        fence: The fence of the worker.
        attempt: The attempt under this fence.
        count: How many parts the viewer has.
    """

    fence: int = 0
    attempt: int = 0
    count: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Words:
    """The next words of a reply.

    Attributes:
        start: Number of the first part; 0 begins the reply anew.
        place: The end of these words.
        text: The words, as a page shows them.
    """

    start: int
    place: WordsPlace
    text: str

    def json(self) -> dict[str, object]:
        """Return the words as JSON values for the script of the page."""
        place = self.place
        return {
            "fence": place.fence,
            "attempt": place.attempt,
            "from": self.start,
            "to": place.count,
            "text": self.text,
        }


class Writing:
    """The reply of the root agent of one run, while it is written."""

    def __init__(self) -> None:
        self._number = (0, 0)
        self._floor = 0
        self._parts: list[str] = []

    def add(self, event: RunEvent) -> None:
        """Take an event of the run; another agent's words change nothing."""
        if len(event.path) > 1:
            return
        if isinstance(event, TextDelta | ReasoningDelta):
            self._add_part(event)
        elif not isinstance(event, BaseLiveEvent) and replaces_words(event):
            self._floor = int(event.cursor.partition(".")[0])
            if self._number[0] < self._floor:
                self._parts.clear()

    @property
    def is_empty(self) -> bool:
        """Whether no reply is being written."""
        return not self._parts

    def after(self, place: WordsPlace) -> Words | None:
        """Return the words that a viewer does not have, or `None`."""
        fence, attempt = self._number
        is_known = (place.fence, place.attempt) == self._number
        start = place.count if is_known else 0
        if start >= len(self._parts):
            return None
        end = WordsPlace(fence=fence, attempt=attempt, count=len(self._parts))
        text = "".join(self._parts[start:])
        return Words(start=start, place=end, text=shown_text(text))

    def _add_part(self, event: TextDelta | ReasoningDelta) -> None:
        number = (event.fence, event.attempt)
        if event.fence < self._floor or number < self._number:
            return
        if number > self._number:
            self._number, self._parts = number, []
        if event.index == len(self._parts):
            # A thought of the model has a number too, and is not shown.
            self._parts.append(event.text if isinstance(event, TextDelta) else "")


class Writings:
    """The replies that the workers of this process write now, by run."""

    def __init__(self) -> None:
        self._runs: dict[str, Writing] = {}

    def add(self, event: RunEvent) -> None:
        """Take an event of any run."""
        run_id, found = event.run_id, self._runs.get(event.run_id)
        if found is None:
            if not isinstance(event, TextDelta | ReasoningDelta):
                return
            if len(self._runs) == _MAX_WRITINGS:
                # A worker that lost its run never stores the end of its reply.
                del self._runs[next(iter(self._runs))]
            found = self._runs[run_id] = Writing()
        found.add(event)
        if found.is_empty:
            del self._runs[run_id]

    def after(self, run_id: str, place: WordsPlace) -> Words | None:
        """Return the words of a run that a viewer does not have, or `None`."""
        found = self._runs.get(run_id)
        return None if found is None else found.after(place)


def shown_text(text: str) -> str:
    """Return a text with its line ends, and other invisible characters escaped."""
    return "\n".join(map(escape_invisible, text.split("\n")))
