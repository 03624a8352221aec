"""Put the words that a worker writes into the store, if another process follows.

Words are never part of a run: they are ephemeral values of the store (decision 86). A
worker never waits for them, and an error of the store only leaves them out. Without a
follower a thread costs one look at the names of followers, and its model does not
stream.
"""

from __future__ import annotations

import asyncio
import logging
import os
import time
from contextlib import suppress
from typing import TYPE_CHECKING

from continuations.ledger import layout
from continuations_storage.contract import ephemeral

if TYPE_CHECKING:
    from collections.abc import Coroutine
    from typing import Any

    from continuations.core.reading.live_events import RunEvent
    from continuations.core.rows.state import RunState
    from continuations.engine.events.carried_words import WrittenWords
    from continuations_storage.contract import Ephemeral, Store

_log = logging.getLogger("continuations")

# The words of a worker that was killed end after this time, like its claim.
WORDS_SECONDS = 30.0
# Words are put together for so long, and long ones longer: in seconds, and bytes of
# them for each second.
_PAUSE_SECONDS, _BYTES_PER_SECOND = 0.15, 400_000
# A look at the followers is so old at most: at the start of a worker's session, and
# later. After an error of the store, no look begins for some time.
_FRESH_SECONDS, _TURN_SECONDS, _REST_SECONDS = 0.25, 1.0, 30.0
# A store that does not answer for so long has failed.
_ANSWER_SECONDS = 10.0


class WordCarrier:
    """The words of one runner in its store.

    Attributes:
        values: The ephemeral values of the store.
        process: Names this runner among all of the store.
    """

    def __init__(self, values: Ephemeral) -> None:
        self.values = values
        self.process = os.urandom(8).hex()
        self._followed: frozenset[str] = frozenset()
        self._looked_at, self._is_looking = float("-inf"), False
        self._logged = ""
        # asyncio keeps no task alive.
        self._tasks: set[asyncio.Task[None]] = set()

    @classmethod
    def of_store(cls, store: Store) -> WordCarrier | None:
        """Return the carrier of a store; `None` if it has no ephemeral values."""
        values = ephemeral(store)
        return None if values is None else cls(values)

    def words_of(self, run_id: str) -> RunWords | None:
        """Return the words of a run that is worked on from now; `None` unless a thread.

        A look at the followers begins. It is over before the model is asked.
        """
        thread = layout.thread_of(run_id)
        if thread is None:
            return None
        self.is_followed(thread, _FRESH_SECONDS)
        return RunWords(self, thread, run_id)

    def is_followed(self, thread: str, max_age: float = _TURN_SECONDS) -> bool:
        """Return whether another process followed a thread at the last look.

        Args:
            thread: The common part of the ids of its runs.
            max_age: A look begins, in the background, if the last one is as old.
        """
        if not self._is_looking and time.monotonic() - self._looked_at >= max_age:
            self._is_looking = True
            self.begin(self._look())
        return thread in self._followed

    def begin(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Return a task that is kept until it ends."""
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    def rest(self, error: Exception) -> None:
        """Carry nothing for some time: the store failed."""
        self.log(error)
        self._followed = frozenset()
        self._looked_at = time.monotonic() + _REST_SECONDS

    def log(self, error: Exception) -> None:
        """Log an error, unless it is the same as the last one."""
        if str(error) != self._logged:
            self._logged = str(error)
            _log.info("words do not reach other processes for now: %s", error)

    async def _look(self) -> None:
        try:
            self._looked_at = time.monotonic()
            async with asyncio.timeout(_ANSWER_SECONDS):
                names = await self.values.names(layout.FOLLOWERS_PREFIX)
            self._followed = frozenset(
                thread
                for thread, process in map(layout.follower_of, names)
                if process != self.process
            )
        except Exception as error:  # noqa: BLE001 - a run does not depend on its words
            self.rest(error)
        finally:
            self._is_looking = False


class RunWords:
    """The words of one run for other processes, while one worker works on it.

    It is the sink of live events; `WrittenWords` has the rules.
    """

    def __init__(self, carrier: WordCarrier, thread: str, run_id: str) -> None:
        self._carrier = carrier
        self._thread = thread
        self._run_id = run_id
        self._written: WrittenWords | None = None
        self._is_new = self._is_stored = False
        self._hurries: asyncio.Event | None = None
        self._task: asyncio.Task[None] | None = None

    def are_followed(self) -> bool:
        """Return whether another process followed the thread at the last look."""
        return self._carrier.is_followed(self._thread)

    def listens(self, run_id: str) -> bool:
        """Return whether it takes the events of a run."""
        return run_id == self._run_id

    def put(self, event: RunEvent) -> None:
        """Take an event; only live ones change the words."""
        if self._written is None:
            from continuations.engine.events.carried_words import WrittenWords  # noqa: PLC0415 - if followed

            self._written = WrittenWords(self._carrier.process, self._run_id)
        if self._written.add(event):
            self._begin_to_store()

    def keep_unstored(self, state: RunState) -> None:
        """Drop the words that a stored version replaces.

        A look at the followers may begin: versions come before the turns of models.
        """
        self.are_followed()
        if self._written is None or not self._written.keep_unstored(state):
            return
        self._begin_to_store()
        if self._hurries is not None and not self._written.size:
            self._hurries.set()

    def _begin_to_store(self) -> None:
        self._is_new = True
        if self._task is None or self._task.done():
            self._hurries = asyncio.Event()
            self._task = self._carrier.begin(self._store_all(self._hurries))

    async def _store_all(self, hurries: asyncio.Event) -> None:
        """Store the words until there are no new ones."""
        assert self._written is not None  # noqa: S101 - there are words
        while self._is_new:
            with suppress(TimeoutError):
                size = self._written.size
                async with asyncio.timeout(_PAUSE_SECONDS + size / _BYTES_PER_SECOND):
                    await hurries.wait()
            hurries.clear()
            self._is_new = False
            try:
                async with asyncio.timeout(_ANSWER_SECONDS):
                    await self._store(self._written)
            except Exception as error:  # noqa: BLE001 - a run does not depend on its words
                self._carrier.rest(error)

    async def _store(self, written: WrittenWords) -> None:
        name, values = layout.words_name(self._thread), self._carrier.values
        if not written.size:
            if self._is_stored:
                await values.remove([name])
                self._is_stored = False
        elif self.are_followed():
            self._is_stored = True
            await values.put({name: written.value()}, WORDS_SECONDS)
