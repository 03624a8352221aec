"""The words of a search, as lists of runs and waits look for them."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from continuations.value_class import dataclass

if TYPE_CHECKING:
    from collections.abc import Iterable

MAX_QUERY_CHARS = 200
# Shorter words are too frequent in ids: "1" is in most of them.
_SHORTEST_PART = 3


def search_text(parts: Iterable[str | None]) -> str:
    """Return the text in which words are looked for, made of its parts."""
    return "\n".join(part for part in parts if part).casefold()


@dataclass(frozen=True, slots=True)
class SearchWords:
    """The words that a text must have, each of them.

    Attributes:
        query: The query as the person wrote it.
        parts: Words of three characters or more. They may be a part of a word.
        wholes: Shorter words, with their patterns. They must be whole words.
    """

    query: str
    parts: tuple[str, ...]
    wholes: tuple[tuple[str, re.Pattern[str]], ...]

    @classmethod
    def of_query(cls, query: str) -> SearchWords:
        """Return the words of a query; a long query is cut."""
        query = query.strip()[:MAX_QUERY_CHARS]
        words = dict.fromkeys(query.casefold().split())
        return cls(
            query,
            parts=tuple(word for word in words if len(word) >= _SHORTEST_PART),
            wholes=tuple(
                (word, re.compile(rf"(?<![^\W_]){re.escape(word)}(?![^\W_])"))
                for word in words
                if len(word) < _SHORTEST_PART
            ),
        )

    def __bool__(self) -> bool:
        """Return whether there are words."""
        return bool(self.parts or self.wholes)

    def are_in(self, text: str) -> bool:
        """Return whether a text of `search_text` has every word."""
        return all(word in text for word in self.parts) and all(
            word in text and pattern.search(text) for word, pattern in self.wholes
        )
