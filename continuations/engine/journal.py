"""Where a run's versions go while it is worked on, and for how long one may."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import TYPE_CHECKING, Protocol

from continuations.errors import ClockOff, StaleRun, StoreUnavailable
from continuations.ledger import claims, layout, markers
from continuations.ledger.arrivals import read_cancellation
from continuations.ledger.claims import Lease, Told
from continuations.ledger.glance import glance_after_claim

if TYPE_CHECKING:
    from datetime import datetime

    from continuations.core.table import Table
    from continuations.engine.ports import Ports
    from continuations.ledger.objects import Objects
    from continuations.ledger.versions import Loaded, Versions
    from continuations.wire.records import Cancellation

_MOST_SLOW = 5


class Journal(Protocol):
    """What a drive needs of the place where versions are kept."""

    @property
    def number(self) -> int:
        """The number of the last version that was committed."""
        ...

    @property
    def allows_a_call(self) -> bool:
        """Whether enough of the claim is left to begin a call."""
        ...

    @property
    def seconds_to_renewal(self) -> float | None:
        """How long until the claim should be renewed; `None` for never."""
        ...

    async def commit(self, table: Table, *, progressed: bool) -> Cancellation | None:
        """Keep a running state, and tell of a wish to cancel the run."""
        ...


class NoJournal:
    """For runs without a store: nothing is kept until the whole stack stands."""

    number = 0
    allows_a_call = True
    seconds_to_renewal = None

    async def commit(self, table: Table, *, progressed: bool) -> None:
        """Do nothing; without a store a crash loses the run."""


class StoreJournal:
    """One run's versions in a store, under a claim of this worker.

    The first commit takes the claim: the guard marker is made before it, and after it
    the newest number is looked at once, because a frozen process may have re-created
    a number that an erase deleted. Every later commit renews the claim.

    `standing` are the markers of what arrived. They are due now and stay until the
    claim is given up, so they guard it as well; a guard of its own is only made where
    there are none, or where the store's time is not yet known.
    """

    def __init__(
        self,
        objects: Objects,
        versions: Versions,
        loaded: Loaded | None,
        ports: Ports,
        *,
        lease: float,
        attempt: int,
        told: Told | None = None,
        standing: tuple[str, ...] = (),
    ) -> None:
        self._objects = objects
        self._versions = versions
        self._ports = ports
        self._length = lease
        self._attempt = attempt
        self._lease: Lease | None = None
        self.loaded = loaded
        self._slow = 0
        self.guard: str | None = None
        self._told = told
        self._standing = standing
        self._markers: tuple[str, ...] = ()
        # Those of the last pause, which is over as soon as another version stands.
        named = loaded.markers if loaded else ()
        self.pauses = tuple(key for key in named if layout.is_pause(key))
        self._worker = ports.ids.ulid(ports.clock.now())

    @property
    def holds_a_claim(self) -> bool:
        """Whether this worker has claimed the run and not given it up."""
        return self._lease is not None

    @property
    def number(self) -> int:
        """The number of the last version that was read or committed."""
        return self.loaded.number if self.loaded else 0

    @property
    def allows_a_call(self) -> bool:
        """Whether this worker holds the claim for long enough to begin a call."""
        return self._lease is not None and self._lease.allows_a_call

    @property
    def seconds_to_renewal(self) -> float | None:
        """How long until two thirds of the claim are left."""
        if self._lease is None:
            return None
        return max(0.0, self._lease.left - self._length * 2 / 3)

    async def commit(self, table: Table, *, progressed: bool) -> Cancellation | None:
        """Keep a running state; the first time, take the claim.

        Raises `StaleRun` when another process took the run over, `ClockOff`, or a
        `StoreError`: in every case the caller must stop.
        """
        first = self._lease is None
        clock = self._ports.clock
        await self.prepare()
        lease = Lease.beginning_now(clock, self._length)
        if progressed:
            self._attempt = 0
        claimed = claims.claimed(
            table,
            worker=self._worker,
            lease=lease,
            attempt=self._attempt,
        )
        before = clock.now()
        try:
            self.loaded, cancellation = await asyncio.gather(
                self._versions.append(
                    self.loaded, claimed, at=before, markers=self._markers
                ),
                _nothing() if first else self._cancellation(),
            )
        except StaleRun:
            await self._drop_guard()
            raise
        took = self._check_clock(before)
        if first:
            cancellation = await self._check_newest()
        self._lease = replace(lease, slack=took)
        self._check_speed()
        return cancellation

    async def finish(self, table: Table) -> None:
        """Keep a state that nobody works on: suspended or ended."""
        self.loaded = await self._versions.append(
            self.loaded,
            claims.released(table),
            at=self._ports.clock.now(),
            markers=self._markers,
        )

    async def prepare(self) -> None:
        """Have a marker that guards what is about to be written, once.

        The store's time is looked at before: nothing that follows from a wrong clock
        (a claim that seems to be over, a deadline that seems to have passed) is ever
        written. Raises `ClockOff` and leaves nothing.
        """
        if self._markers:
            return
        if self._standing and self._told is not None and self._told.time is not None:
            run_id = self._versions.run_id
            claims.check_clock(self._told, self._length, run_id)
            self._markers = self._standing
        else:
            await self._make_guard()
            self._markers = (self.guard or "",)

    async def prepare_pause(self) -> None:
        """Make the marker of a version that could go on, and stops for want of time."""
        await self.prepare()
        now = self._ports.clock.now()
        run_id, ulid = self._versions.run_id, self._ports.ids.ulid(now)
        marker = markers.of_pause(run_id, self.number + 1, now, ulid)
        await markers.make(self._objects, marker)
        self._markers = (*self._markers, marker.key)

    async def _make_guard(self) -> None:
        clock = self._ports.clock
        now = clock.now()
        lease = Lease.beginning_now(clock, self._length)
        marker = markers.guard(
            self._versions.run_id,
            self.number + 1,
            lease.until,
            self._ports.ids.ulid(now),
        )
        told = Told(now, await markers.make(self._objects, marker), clock.now())
        try:
            claims.check_clock(told, self._length, self._versions.run_id)
        except ClockOff:
            await self._objects.delete(marker.key)
            raise
        self.guard = marker.key

    async def _drop_guard(self) -> None:
        # Who took the number has made a guard of its own, or needs none.
        if self._lease is None and self.guard is not None:
            await self._objects.delete(self.guard)

    def _check_speed(self) -> None:
        # A claim that is half over when it begins allows nothing but its renewal.
        self._slow = 0 if self.allows_a_call else self._slow + 1
        if self._slow < _MOST_SLOW:
            return
        msg = (
            f"Run {self._versions.run_id}: the store is too slow for a claim of "
            f"{self._length:g} s: half of it was over {self._slow} times in a row when "
            "it was taken. Nothing ran. Give the runner a longer lease."
        )
        raise StoreUnavailable(msg, run_id=self._versions.run_id)

    def _check_clock(self, before: datetime) -> float:
        time = self.loaded.store_time if self.loaded else None
        told = Told(before, time, self._ports.clock.now())
        claims.check_clock(told, self._length, self._versions.run_id)
        return 0.0 if time is None else (told.after - before).total_seconds()

    async def _check_newest(self) -> Cancellation | None:
        run_id = self._versions.run_id
        newest, cancelled = await glance_after_claim(self._objects, run_id)
        if newest != self.number:
            raise self._versions.stale(self.number)
        return await self._cancellation() if cancelled else None

    async def _cancellation(self) -> Cancellation | None:
        return await read_cancellation(self._objects, self._versions.run_id)


async def _nothing() -> None:
    return None
