"""Read the words that other processes write, for all followers of one event loop.

While there is a follower, its thread has a name in the store, so that workers carry
its words (`word_carrier`). Without a follower, nothing is asked of the store.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from contextlib import suppress
from typing import TYPE_CHECKING

from continuations.engine.events.carried_words import ReadTurn, read_words
from continuations.ledger import layout

if TYPE_CHECKING:
    from collections.abc import Callable

    from continuations.core.reading.live_events import LiveEvent
    from continuations.engine.events.word_carrier import WordCarrier

# Seconds between two reads: while there are words, and otherwise.
_BUSY_SECONDS, _IDLE_SECONDS = 0.1, 0.25
# The name of a follower lasts so long, and is set again more often.
_FOLLOWER_SECONDS, _RENEWAL_SECONDS = 15.0, 5.0
# After an error of the store, nothing is read for some time.
_REST_SECONDS = 3.0


class WordReader:
    """Reads the words of the threads that are followed on one event loop.

    Args:
        carrier: The words of the runner in its store.
        put: Takes the live events of each reply in their order. Those of the runner's
            own workers are left out.
        ended: Takes a turn whose words have gone: it is stored, or given up.
    """

    def __init__(
        self,
        carrier: WordCarrier,
        put: Callable[[LiveEvent], None],
        ended: Callable[[ReadTurn], None],
    ) -> None:
        self._carrier = carrier
        self._put, self._ended = put, ended
        self._followers: Counter[str] = Counter()
        self._values: dict[str, bytes] = {}
        self._turns: dict[str, dict[str, ReadTurn]] = {}
        self._joined = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    def join(self, thread: str) -> None:
        """Read the words of a thread, for one follower more."""
        self._followers[thread] += 1
        self._joined.set()
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._read_all())

    def leave(self, thread: str) -> bool:
        """Read for one follower less; return whether it was the last one."""
        self._followers[thread] -= 1
        if self._followers[thread] <= 0:
            del self._followers[thread]
            self._values.pop(thread, None)
            self._turns.pop(thread, None)
        if self._followers:
            return False
        if self._task is not None:
            self._task.cancel()
            self._task = None
        return True

    def words(self, thread: str) -> list[LiveEvent]:
        """Return the words of a thread that were read so far."""
        turns = self._turns.get(thread, {}).values()
        return [event for turn in turns for event in turn.events(0)]

    async def _read_all(self) -> None:
        renew_at, loop = 0.0, asyncio.get_running_loop()
        while True:
            pause = _BUSY_SECONDS if self._turns else _IDLE_SECONDS
            try:
                if self._joined.is_set() or loop.time() >= renew_at:
                    self._joined.clear()
                    renew_at = loop.time() + await self._say_who_follows()
                await self._read()
            except Exception as error:  # noqa: BLE001 - the followers read the stored events
                self._carrier.log(error)
                renew_at, pause = 0.0, _REST_SECONDS
            with suppress(TimeoutError):
                async with asyncio.timeout(pause):
                    await self._joined.wait()

    async def _say_who_follows(self) -> float:
        """Put the names of the followers; return after how many seconds to repeat it.

        A process that may only read gets the words for which another one asks.
        """
        process, values = self._carrier.process, self._carrier.values
        names = (layout.follower_name(each, process) for each in self._followers)
        try:
            await values.put(dict.fromkeys(names, b""), _FOLLOWER_SECONDS)
        except Exception as error:  # noqa: BLE001 - as above
            self._carrier.log(error)
            return _REST_SECONDS
        return _RENEWAL_SECONDS

    async def _read(self) -> None:
        names = {layout.words_name(thread): thread for thread in self._followers}
        found = await self._carrier.values.get([*names])
        for name, thread in names.items():
            value = found.get(name, b"")
            if thread in self._followers and value != self._values.get(thread, b""):
                self._values[thread] = value
                self._take(thread, value)

    def _take(self, thread: str, value: bytes) -> None:
        known = self._turns.get(thread, {})
        process = self._carrier.process
        turns = {turn.key: turn for turn in read_words(value, thread, process)}
        for key, turn in known.items():
            # A worker that was replaced may still write.
            if key in turns and turns[key].number < turn.number:
                turns[key] = turn
            elif key not in turns:
                self._ended(turn)
        for key, turn in turns.items():
            before = known.get(key)
            is_same = before is not None and before.number == turn.number
            for event in turn.events(before.end if before and is_same else 0):
                self._put(event)
        self._turns[thread] = turns
        if not turns:
            del self._turns[thread]
