"""Where a run's versions go while it is worked on, and for how long one may."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import TYPE_CHECKING, Protocol

from continuations.errors import ClockOff, StaleRun, StoreUnavailable
from continuations.ledger import claims, layout, markers
from continuations.ledger.arrivals import read_cancel_request
from continuations.ledger.claims import ClockReading, Lease
from continuations.ledger.run_overview import read_progress

if TYPE_CHECKING:
    from datetime import datetime

    from continuations.core.state import RunState
    from continuations.engine.ports import Ports
    from continuations.ledger.objects import Objects
    from continuations.ledger.versions import LoadedVersion, Versions
    from continuations.wire.records import CancelRequest

_MAX_SLOW_CLAIMS = 5


class Journal(Protocol):
    """What a drive needs of the place where versions are kept."""

    @property
    def version_number(self) -> int:
        """The number of the last version that was committed."""
        ...

    @property
    def can_start_call(self) -> bool:
        """Whether enough of the claim is left to begin a call."""
        ...

    @property
    def seconds_to_renewal(self) -> float | None:
        """How long until the claim should be renewed; `None` for never."""
        ...

    async def commit(
        self, state: RunState, *, progressed: bool
    ) -> CancelRequest | None:
        """Keep a running state, and tell of a wish to cancel the run."""
        ...


class NoJournal:
    """For runs without a store: nothing is kept until the whole stack stands."""

    version_number = 0
    can_start_call = True
    seconds_to_renewal = None

    async def commit(self, state: RunState, *, progressed: bool) -> None:
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
        loaded: LoadedVersion | None,
        ports: Ports,
        *,
        lease: float,
        clock_reading: ClockReading | None = None,
        arrival_markers: tuple[str, ...] = (),
    ) -> None:
        self._objects = objects
        self._versions = versions
        self._ports = ports
        self._lease_seconds = lease
        self._attempt = claims.next_attempt(loaded.state.run) if loaded else 1
        self._lease: Lease | None = None
        self.loaded = loaded
        self._slow_claims = 0
        self.guard_key: str | None = None
        self._clock_reading = clock_reading
        self._arrival_markers = arrival_markers
        self._guarding_markers: tuple[str, ...] = ()
        # Those of the last pause, which is over as soon as another version stands.
        named = loaded.marker_keys if loaded else ()
        self.pause_markers = tuple(key for key in named if layout.is_pause_marker(key))
        self._worker_id = ports.ids.new_ulid(ports.clock.now())

    @property
    def holds_a_claim(self) -> bool:
        """Whether this worker has claimed the run and not given it up."""
        return self._lease is not None

    @property
    def version_number(self) -> int:
        """The number of the last version that was read or committed."""
        return self.loaded.number if self.loaded else 0

    @property
    def can_start_call(self) -> bool:
        """Whether this worker holds the claim for long enough to begin a call."""
        return self._lease is not None and self._lease.can_start_call

    @property
    def seconds_to_renewal(self) -> float | None:
        """How long until two thirds of the claim are left."""
        if self._lease is None:
            return None
        return max(0.0, self._lease.seconds_left - self._lease_seconds * 2 / 3)

    async def commit(
        self, state: RunState, *, progressed: bool
    ) -> CancelRequest | None:
        """Keep a running state; the first time, take the claim.

        Raises `StaleRun` when another process took the run over, `ClockOff`, or a
        `StoreError`: in every case the caller must stop.
        """
        first = self._lease is None
        clock = self._ports.clock
        await self.ensure_guarded()
        lease = Lease.start_now(clock, self._lease_seconds)
        if progressed:
            self._attempt = 0
        claimed = claims.claimed(
            state,
            worker=self._worker_id,
            lease=lease,
            attempt=self._attempt,
        )
        before = clock.now()
        try:
            self.loaded, cancellation = await asyncio.gather(
                self._versions.append(
                    self.loaded, claimed, at=before, marker_keys=self._guarding_markers
                ),
                _no_cancel_request() if first else self._read_cancel_request(),
            )
        except StaleRun:
            await self._delete_guard()
            raise
        took = self._check_clock(before)
        if first:
            cancellation = await self._check_still_newest()
        self._lease = replace(lease, clock_uncertainty=took)
        self._check_store_speed()
        return cancellation

    async def commit_and_release(self, state: RunState) -> None:
        """Keep a state that nobody works on: suspended or ended."""
        self.loaded = await self._versions.append(
            self.loaded,
            claims.released(state),
            at=self._ports.clock.now(),
            marker_keys=self._guarding_markers,
        )

    async def ensure_guarded(self) -> None:
        """Have a marker that guards what is about to be written, once.

        The store's time is looked at before: nothing that follows from a wrong clock
        (a claim that seems to be over, a deadline that seems to have passed) is ever
        written. Raises `ClockOff` and leaves nothing.
        """
        if self._guarding_markers:
            return
        if (
            self._arrival_markers
            and self._clock_reading is not None
            and self._clock_reading.store_time is not None
        ):
            run_id = self._versions.run_id
            claims.check_clock(self._clock_reading, self._lease_seconds, run_id)
            self._guarding_markers = self._arrival_markers
        else:
            await self._make_guard()
            self._guarding_markers = (self.guard_key or "",)

    async def make_pause_marker(self) -> None:
        """Make the marker of a version that could go on, and stops for want of time."""
        await self.ensure_guarded()
        now = self._ports.clock.now()
        run_id, ulid = self._versions.run_id, self._ports.ids.new_ulid(now)
        marker = markers.for_pause(run_id, self.version_number + 1, now, ulid)
        await markers.create(self._objects, marker)
        self._guarding_markers = (*self._guarding_markers, marker.key)

    async def _make_guard(self) -> None:
        clock = self._ports.clock
        now = clock.now()
        lease = Lease.start_now(clock, self._lease_seconds)
        marker = markers.guard(
            self._versions.run_id,
            self.version_number + 1,
            lease.until,
            self._ports.ids.new_ulid(now),
        )
        told = ClockReading(
            now, await markers.create(self._objects, marker), clock.now()
        )
        try:
            claims.check_clock(told, self._lease_seconds, self._versions.run_id)
        except ClockOff:
            await self._objects.delete(marker.key)
            raise
        self.guard_key = marker.key

    async def _delete_guard(self) -> None:
        # Who took the number has made a guard of its own, or needs none.
        if self._lease is None and self.guard_key is not None:
            await self._objects.delete(self.guard_key)

    def _check_store_speed(self) -> None:
        # A claim that is half over when it begins allows nothing but its renewal.
        self._slow_claims = 0 if self.can_start_call else self._slow_claims + 1
        if self._slow_claims < _MAX_SLOW_CLAIMS:
            return
        msg = (
            f"Run {self._versions.run_id}: the store is too slow for a claim of "
            f"{self._lease_seconds:g} s: half of it was over {self._slow_claims} times in a row when "
            "it was taken. Nothing ran. Give the runner a longer lease."
        )
        raise StoreUnavailable(msg, run_id=self._versions.run_id)

    def _check_clock(self, before: datetime) -> float:
        time = self.loaded.store_time if self.loaded else None
        told = ClockReading(before, time, self._ports.clock.now())
        claims.check_clock(told, self._lease_seconds, self._versions.run_id)
        return 0.0 if time is None else (told.received_at - before).total_seconds()

    async def _check_still_newest(self) -> CancelRequest | None:
        run_id = self._versions.run_id
        progress = await read_progress(self._objects, run_id)
        if progress.newest_number != self.version_number:
            raise self._versions.stale_error(self.version_number)
        return await self._read_cancel_request() if progress.may_be_cancelled else None

    async def _read_cancel_request(self) -> CancelRequest | None:
        return await read_cancel_request(self._objects, self._versions.run_id)


async def _no_cancel_request() -> None:
    return None
