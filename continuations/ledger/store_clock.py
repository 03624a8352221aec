"""The store's time, as far as this process knows it.

Workers, sweepers and deciders run on machines whose clocks may be wrong by days. The
store's clock is the same for all of them. A store may tell its time with each listing
and with each create; then this time counts, and not the machine's.
"""

from __future__ import annotations

from contextlib import suppress
from datetime import timedelta
from typing import TYPE_CHECKING

from continuations.ledger import claims, layout
from continuations.ledger.claims import ClockReading
from continuations.ledger.objects import AlreadyExists, pieces
from continuations_storage.contract import PAGE_SIZE, Page, is_last_page

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable
    from datetime import datetime

    from continuations.core.rows.run import RunRow
    from continuations.ledger.claims import Clock
    from continuations.ledger.objects import Objects


class StoreClock:
    """A machine's clock, corrected by the store's last time.

    Without a store that tells its time, it is the machine's clock.

    Attributes:
        correction: The store's time minus the machine's, as far as it is known.
        is_observed: Whether a time of the store is known.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.correction = timedelta()
        self.is_observed = False

    def now(self) -> datetime:
        """Return the store's time as far as it is known, otherwise the machine's."""
        return self._clock.now() + self.correction

    def observe(self, reading: ClockReading) -> None:
        """Correct the clock by a reading; an unknown store's time changes nothing."""
        if reading.store_time is not None:
            self.correction = reading.correction
            self.is_observed = True

    async def list_keys(
        self, objects: Objects, prefix: str, after: str = "", limit: int = PAGE_SIZE
    ) -> list[str]:
        """Return a page of keys, and observe the time of the listing."""
        sent_at = self._clock.now()
        page = await objects.keys(prefix, after, limit)
        store_time = page.store_time if isinstance(page, Page) else None
        self._observe(objects, sent_at, store_time)
        return page

    async def all_keys(self, objects: Objects, prefix: str) -> AsyncIterator[list[str]]:
        """Iterate over all keys of a prefix in pieces, and observe each listing."""
        after, limit = "", objects.listing_size
        while True:
            page = await self.list_keys(objects, prefix, after, limit)
            async for piece in pieces(page):
                yield piece
            if is_last_page(page, limit):
                return
            after = page[-1]

    async def create(self, objects: Objects, key: str) -> None:
        """Create an empty object if it is absent, and observe the time."""
        sent_at = self._clock.now()
        with suppress(AlreadyExists):
            told = await objects.create(key, b"")
            self._observe(objects, sent_at, told or await objects.created_at(key))

    async def check_free(
        self,
        objects: Objects,
        run: RunRow,
        lease_seconds: float,
        new_ulid: Callable[[datetime], str],
    ) -> None:
        """Raise `RunBusy` if another worker's claim still lasts.

        A claim that seems to last much longer than claims do is a sign of a slow clock.
        Then the store is asked for its time, and a wrong clock raises `ClockOff`.
        """
        longest = timedelta(seconds=2 * lease_seconds)
        seems_endless = run.claim is not None and run.claim.until - self.now() > longest
        if seems_endless and not self.is_observed:
            reading = await self.ask(objects, run.id, new_ulid(self.now()))
            claims.check_clock(reading, lease_seconds, run.id)
        claims.check_free(run, self.now())

    async def learn(self, objects: Objects, run_id: str, nonce: str) -> None:
        """Ask the store for its time, unless it is known.

        Call it before the age of something decides that it is deleted or ended.
        """
        if not self.is_observed:
            await self.ask(objects, run_id, nonce)

    async def ask(self, objects: Objects, run_id: str, nonce: str) -> ClockReading:
        """Return the time of a store that tells it only with a create.

        The empty object is deleted again. Its key is a marker of a run that is due now,
        so that a sweep deletes it if this process dies.
        """
        nonce = nonce[-layout.NONCE_LENGTH :]
        key = layout.Marker(layout.DUE_NOW, "r", "0", nonce, run_id).key
        sent_at = self._clock.now()
        told = await objects.create(key, b"")
        reading = self._observe(objects, sent_at, told or await objects.created_at(key))
        await objects.delete(key)
        return reading

    def _observe(
        self, objects: Objects, sent_at: datetime, store_time: datetime | None
    ) -> ClockReading:
        reading = ClockReading(
            sent_at, store_time, self._clock.now(), objects.time_resolution
        )
        self.observe(reading)
        return reading
