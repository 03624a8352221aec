"""Follow a thread over its rests and its runs: its stored events, and its words."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from continuations.engine.event_reading import (
    FIRST_PAUSE,
    LONGEST_PAUSE,
    MAX_ORDINAL,
    PAUSE_GROWTH,
    Cursor,
    walk_events,
)
from continuations.engine.events.word_hub import WordFollower
from continuations.errors import InvalidInput, RunErased
from continuations.ledger import layout
from continuations.ledger.arrivals import thread_arrivals
from continuations.value_class import dataclass
from continuations.wire.continuation import Continuation

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from continuations.core.reading.live_events import RunEvent
    from continuations.engine.events.word_hub import WordHub
    from continuations.engine.ports import Sleep
    from continuations.ledger.arrivals.thread_arrivals import Generation
    from continuations.ledger.objects import Objects


class ThreadPlace(NamedTuple):
    """The place of an event in a thread; without a run, the newest run is meant."""

    run_id: str = ""
    cursor: Cursor = Cursor()

    @classmethod
    def parse(cls, text: object, agent: str, key: str) -> ThreadPlace:
        """Return the place after a state, or that a text names.

        Raises `InvalidInput`.
        """
        if isinstance(text, Continuation):
            # Greater than the ordinal of every event of a version.
            end = Cursor(text.version, MAX_ORDINAL)
            text = f"{text.run_id}/{end.version}.{end.ordinal}"
        if not isinstance(text, str) or "/" not in text:
            return cls("", Cursor.parse(text))
        run_id, _, cursor = text.rpartition("/")
        if not layout.is_generation(run_id, agent, key):
            raise InvalidInput(
                f"after names no run of this thread, got {text!r:.60}. Pass "
                'f"{event.run_id}/{event.cursor}", or leave it out.'
            )
        return cls(run_id, Cursor.parse(cursor))


@dataclass(frozen=True, slots=True, kw_only=True)
class ThreadFollowing:
    """Yields the events of one thread without an end.

    Attributes:
        objects: The store.
        sleep: Waits for a number of seconds.
        agent: Name of the agent.
        key: The key of the thread.
        hub: Has the words that this process writes; `None`: only stored events.
    """

    objects: Objects
    sleep: Sleep
    agent: str
    key: str
    hub: WordHub | None = None

    async def batches(self, place: ThreadPlace) -> AsyncIterator[list[RunEvent]]:
        """Iterate over the events after a place, as they come.

        Raises the errors of `read_events`, but `RunNotFound` and `RunErased`.
        """
        first = layout.thread_run_id(self.agent, self.key, 1)
        follower = WordFollower(first.removesuffix("-1"))
        if self.hub is not None:
            self.hub.join(follower)
        run_id, after, pause = place.run_id, place.cursor, FIRST_PAUSE
        try:
            while True:
                newest = await self._newest()
                run_id = run_id or newest.run_id
                if newest.version and _number(run_id) <= newest.number:
                    pause = FIRST_PAUSE
                    async for events in self._of_run(run_id, after, follower):
                        yield events
                    # The run has ended; the next one begins with its first event.
                    run_id, after = self._next(run_id), Cursor()
                    continue
                while live := follower.take():
                    yield [*live]
                await follower.wait(self.sleep, pause)
                pause = min(pause * PAUSE_GROWTH, LONGEST_PAUSE)
        finally:
            if self.hub is not None:
                self.hub.leave(follower)

    async def _newest(self) -> Generation:
        return await thread_arrivals.newest_generation(
            self.objects, self.agent, self.key
        )

    def _next(self, run_id: str) -> str:
        return layout.thread_run_id(self.agent, self.key, _number(run_id) + 1)

    async def _of_run(
        self, run_id: str, after: Cursor, follower: WordFollower
    ) -> AsyncIterator[list[RunEvent]]:
        """Iterate over the events of one run until it has ended, or was erased."""
        pause = FIRST_PAUSE
        try:
            found = walk_events(self.objects, run_id, after, over_rest=True)
            async for stored in found:
                if stored:
                    # Words come before the stored event that replaces them.
                    yield [*follower.take(), *stored]
                    pause = FIRST_PAUSE
                    continue
                looks = False
                while not looks:
                    if live := follower.take():
                        yield [*live]
                        pause = FIRST_PAUSE
                    looks = await follower.wait(self.sleep, pause)
                pause = min(pause * PAUSE_GROWTH, LONGEST_PAUSE)
        except RunErased:
            return


def _number(run_id: str) -> int:
    """Return the generation of the run of a thread."""
    return int(run_id.rpartition("-")[2]) if run_id else 0
