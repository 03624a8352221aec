"""How many streams of events each person has open in one process."""

from __future__ import annotations

from collections import Counter
from contextlib import contextmanager
from dataclasses import field
from typing import TYPE_CHECKING

from continuations.serve.http import problems
from continuations.value_class import dataclass

if TYPE_CHECKING:
    from collections.abc import Generator

    from continuations.core.identity import Identity

MAX_STREAMS = 32


def _none() -> Counter[str]:
    return Counter()


@dataclass(frozen=True, slots=True)
class OpenStreams:
    """Counts the open streams of each person, and refuses more than `MAX_STREAMS`."""

    by_person: Counter[str] = field(default_factory=_none)

    def is_full(self, person: Identity) -> bool:
        """Return whether the person may open no more streams."""
        return self.by_person[person.name] >= MAX_STREAMS

    def check(self, person: Identity) -> None:
        """Refuse one stream too many.

        Raises:
            RequestRefused: The person has too many streams (status 429).
        """
        if self.is_full(person):
            raise problems.too_many_streams(MAX_STREAMS)

    @contextmanager
    def opened(self, person: Identity) -> Generator[None]:
        """Count a stream until it ends."""
        self.by_person[person.name] += 1
        try:
            yield
        finally:
            self.by_person[person.name] -= 1
            if not self.by_person[person.name]:
                del self.by_person[person.name]
