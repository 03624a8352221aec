"""Commit a run's versions while a worker works on it, under its claim."""

from __future__ import annotations

import logging
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, Protocol, TypeVar

from continuations import errors
from continuations.core.operator_request import tells_of_cancellation
from continuations.core.rows.event_matching import opened_and_closed
from continuations.core.rows.run import ENDED_STATUSES, RunRow
from continuations.core.rows.state import ROOT_FRAME_ID, RunState
from continuations.engine.journal.run_ending import RunEnder
from continuations.engine.side_task import with_side_task
from continuations.ledger import claims, layout, markers
from continuations.ledger.arrivals.arrival_logs import MESSAGES, REQUESTS
from continuations.ledger.arrivals.arrivals import (
    NO_ARRIVALS,
    Arrivals,
    read_cancel_request,
    read_late_arrivals,
)
from continuations.ledger.claims import ClockReading, Lease
from continuations.ledger.index import run_index
from continuations.ledger.index.run_overview import progress_listing, read_progress
from continuations.ledger.objects import Objects, OutOfTime, gather_all
from continuations.ledger.store_clock import StoreClock
from continuations.ledger.versions import Together
from continuations.value_class import replace
from continuations_storage.contract import Listing

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping, Sequence
    from datetime import datetime

    from continuations.core.rows.waits import Wait
    from continuations.engine.journal.notice_sending import VersionNotices
    from continuations.engine.ports import Ports
    from continuations.engine.work_observers import WatchedSession
    from continuations.ledger.versions import LoadedVersion, Versions
    from continuations.wire.arrivals import InboxMessage


T = TypeVar("T")

_log = logging.getLogger("continuations")
_MAX_SLOW_CLAIMS = 5


class StoreJournal:
    """One run's versions in a store, under a claim of this worker.

    The first commit takes the claim, and every later commit renews it. A guard marker
    is created before the claim. After the claim the newest number is read again,
    because a frozen process may have created a number that an erase had deleted.

    `arrival_markers` are the markers of decisions, messages and cancel requests that
    arrived. They are due now and stay until the claim is released, so they guard it
    too. A guard marker is created only if there are none, or if the store's time is
    unknown.
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
        session: WatchedSession | None = None,
    ) -> None:
        self._session = session
        self._objects = objects
        self._versions = versions
        self._ports = ports
        self._lease_seconds = lease
        self._attempt = claims.next_attempt(loaded.state.run) if loaded else 1
        self._lease: Lease | None = None
        self.loaded = loaded
        # Closes waits as the worker does, which knows the run's tools.
        self.ender: RunEnder | None = None
        self._slow_claims = 0
        self.guard_key: str | None = None
        self._clock_reading = clock_reading
        self._clock_uncertainty = 0.0
        self._arrival_markers = arrival_markers
        self._guarding_markers: tuple[str, ...] = ()
        self._own_markers: list[str] = []
        # The markers of the last release. The next version makes them unnecessary.
        loaded_keys = loaded.marker_keys if loaded else ()
        self.release_markers = tuple(filter(layout.is_release_marker, loaded_keys))
        # The guards of a worker that died. This worker publishes its waits as well.
        died = loaded is not None and loaded.state.run.status == "running"
        guards = filter(layout.is_guard_marker, loaded_keys)
        self.dead_guards = tuple(guards) if died else ()
        # A worker that died may not have listed the run.
        self.must_index = loaded is None or died
        self.keeps_markers = False
        self.notices = _new_notices(ports, loaded if died else None)
        self._made_progress = False
        self._worker_id = ports.ids.new_ulid(ports.clock.now())

    @property
    def run_id(self) -> str:
        """The id of the run."""
        return self._versions.run_id

    @property
    def holds_a_claim(self) -> bool:
        """Whether this worker has claimed the run and not released it."""
        return self._lease is not None

    @property
    def version_number(self) -> int:
        """The number of the last version that was read or committed."""
        return self.loaded.number if self.loaded else 0

    @property
    def can_start_action(self) -> bool:
        """Whether enough of the claim is left to start a call."""
        return self._lease is not None and self._lease.can_start_action

    @property
    def seconds_to_renewal(self) -> float | None:
        """Seconds until two thirds of the claim are left; `None` without a claim."""
        return None if self._lease is None else self._lease.seconds_to_renewal

    @property
    def claim_end(self) -> datetime | None:
        """When the claim ends unless it is renewed; `None` without a claim."""
        return None if self._lease is None else self._lease.until

    async def commit(self, state: RunState, *, progressed: bool) -> Arrivals:
        """Commit a running state; the first commit takes the claim.

        Returns the new requests of operators, and a cancel request. Raises `StaleRun`
        if another process took the run over, `ClockOff`, or a `StoreError`. After each
        of these the caller must stop.
        """
        first = self._lease is None
        together = self._together_with_claim(state) if self._objects.commits else None
        if together is None:
            await self.ensure_guarded()
        lease = Lease.start_now(self._ports.clock, self._lease_seconds)
        if progressed:
            self._attempt = 1
            self._made_progress = True
        claimed = claims.claimed(
            state,
            worker=self._worker_id,
            lease=lease,
            attempt=self._attempt,
        )
        try:
            # The listing after this commit shows the requests.
            if together is not None:
                sent_at = await self._append_guarded(claimed, together)
                asked = NO_ARRIVALS
            elif first:
                sent_at, asked = await self._append(claimed), NO_ARRIVALS
            else:
                sent_at, asked = await with_side_task(
                    self._append(claimed), self._read_requests(state)
                )
        except errors.StaleRun:
            await self._delete_own_markers()
            raise
        self._check_clock(sent_at)
        if first:
            await self._index_if_new(state)
            asked = await self._check_still_newest(state)
        else:
            if together is not None and self._may_have_requests:
                asked = await self._read_requests(state)
            await self._check_not_erased()
        self._lease = replace(lease, clock_uncertainty=self._clock_uncertainty)
        self._check_store_speed()
        return asked

    async def _append_guarded(self, claimed: RunState, together: Together) -> datetime:
        """Create a version, if needed in one request with the marker that guards it.

        The store compares the clocks before it writes anything.
        """
        if self._finds_guards():
            return await self._append(claimed, together)
        marker = self._new_guard()
        now = self._ports.clock.now()
        allowed = timedelta(seconds=self._lease_seconds / 4)
        guarded = replace(
            together,
            creates={marker.key: b"", **together.creates},
            between=(now - allowed, now + allowed),
        )
        self._guard_with(marker)
        try:
            return await self._append(claimed, guarded, at=now)
        except OutOfTime:
            # This raises `ClockOff`, unless the request was only late.
            self._guarding_markers = ()
            await self.ensure_guarded()
            return await self._append(claimed, together)
        except errors.Inconclusive:
            # The version may be stored, so its marker stays if the clocks differ now.
            store_time = await markers.create_with_time(self._objects, marker)
            self._check_time(now, store_time)
        return await self._append(claimed, together, at=now, may_be_stored=True)

    def _together_with_claim(self, state: RunState) -> Together:
        """Return what a store changes and lists together with a running version."""
        last = state.run.last_operator_number
        if self._lease is None:
            listing = progress_listing(self.run_id, last)
            return Together(creates=self.index_bodies(state), listing=listing)
        prefix, after = REQUESTS.prefix(self.run_id), REQUESTS.key(self.run_id, last)
        return Together(creates={}, listing=Listing(prefix, after, limit=1))

    @property
    def page(self) -> list[str] | None:
        """The keys that the store listed together with the last version, if it did."""
        committed = self.loaded.committed if self.loaded else None
        return committed.page if committed else None

    @property
    def is_cleaned(self) -> bool:
        """Whether the store deleted what the last version makes unnecessary."""
        committed = self.loaded.committed if self.loaded else None
        return committed is not None and committed.is_cleaned

    @property
    def _may_have_requests(self) -> bool:
        # Another key may hide them, so it counts as one.
        return self.page != []

    def index_bodies(self, state: RunState) -> dict[str, bytes]:
        """Return the objects that list a live run, if this worker must make them."""
        if not self.must_index or state.run.status in ENDED_STATUSES:
            return {}
        return dict.fromkeys(run_index.keys_of_live(state.run), b"")

    async def commit_and_release(
        self,
        state: RunState,
        together: Together | None = None,
        *,
        at: datetime | None = None,
    ) -> None:
        """Commit a suspended or ended state, without a claim.

        `at` is the time of the version, if the caller has read the clock.
        """
        await self.ensure_guarded()
        try:
            await self._append(claims.released(state), together, at=at)
        except errors.StaleRun:
            await self._delete_own_markers()
            raise
        try:
            await self._index_if_new(state)
            await self._check_not_erased()
        except errors.StoreError as error:
            # The version is stored. All markers stay, so a sweep does the rest.
            _log.warning("run %s: its index was not checked: %s", self.run_id, error)
            self.must_index = True
        self._lease = None

    async def _append(
        self,
        state: RunState,
        together: Together | None = None,
        *,
        at: datetime | None = None,
        may_be_stored: bool = False,
    ) -> datetime:
        """Create the next version; while the claim lasts, also if the store is down.

        `may_be_stored` is for a repeat with the same arguments. Returns the time at
        which the last attempt began.
        """
        known = self.loaded.state if self.loaded else None
        if self._session is not None:
            state = self._session.traced(known, state, self.version_number)
        at = at or self._ports.clock.now()
        sent_at = at

        async def append() -> LoadedVersion:
            nonlocal sent_at, may_be_stored
            sent_at = self._ports.clock.now()
            try:
                return await self._versions.append(
                    self.loaded,
                    state,
                    at=at,
                    marker_keys=self._guarding_markers,
                    may_be_stored=may_be_stored,
                    together=together,
                )
            except errors.Inconclusive:
                may_be_stored = True
                raise

        previous = self.loaded.state if self.loaded else None
        before: Mapping[str, Wait] = previous.waits if previous else {}
        opened, closed = opened_and_closed(before, state.waits)
        if opened or closed:
            await self._index_waits(opened, closed)
        try:
            self.loaded = await self._retry_while_claimed(append)
        except errors.StaleRun:
            if opened:
                await self._index_waits((), opened)
            raise
        if together is not None and run_index.live_key(self.run_id) in together.creates:
            self.must_index = False
        if self.notices is not None:
            self.notices.add(previous, self.loaded)
        if self._session is not None:
            self._session.committed(known, state, self.loaded.number)
        return sent_at

    async def _index_waits(
        self, opened: Sequence[Wait], closed: Sequence[Wait]
    ) -> None:
        """Let publishers find the waits for events that a version opens, not others.

        The waits that it closes have their decisions already.
        """
        from continuations.ledger.index import event_waiters  # noqa: PLC0415 - few tools wait

        await event_waiters.delete_if_possible(self._objects, closed)
        await self._retry_while_claimed(
            lambda: event_waiters.create(self._objects, opened)
        )

    async def read_next_message(self, state: RunState) -> InboxMessage | None:
        """Return the next unread message of a thread that can take it, or `None`."""
        run = state.run
        if run.thread_key is None or not state.frames[ROOT_FRAME_ID].reads_messages:
            return None
        number = run.last_inbox_number + 1
        return await MESSAGES.read_if_there(self._objects, run.id, number)

    async def read_messages(self, numbers: Sequence[int]) -> Arrivals:
        """Return unread messages that were listed before."""
        reads = (
            self._retry_while_claimed(
                partial(MESSAGES.read_listed, self._objects, self.run_id, number)
            )
            for number in numbers
        )
        return Arrivals(inbox_messages=tuple(await gather_all(reads)))

    async def read_late_arrivals(self, state: RunState) -> Arrivals:
        """Return unread messages and a cancel request, before the run may finish."""
        return await self._retry_while_claimed(
            lambda: read_late_arrivals(self._objects, state)
        )

    async def close_cancelled_waits(
        self, state: RunState, by_reason: Mapping[str, Sequence[Wait]]
    ) -> None:
        """Record "cancel" for waits that operators ended."""
        ender = self.ender or RunEnder(self._objects, self._ports)
        await self._retry_while_claimed(
            lambda: ender.close_cancelled_waits(state, by_reason)
        )

    async def _retry_while_claimed(self, attempt: Callable[[], Awaitable[T]]) -> T:
        """Return the result of an attempt; retry until the claim ends."""
        return await retry_while_claimed(attempt, self._lease, self._ports, self.loaded)

    async def ensure_guarded(self) -> None:
        """Create a marker that guards the next version, unless there is one.

        The clock is checked against the store's time first, so that nothing is written
        because of a wrong clock: no claim is taken over early, and no wait expires
        early. Raises `ClockOff` and leaves nothing behind.
        """
        if not self._finds_guards():
            await self._make_guard()

    def _finds_guards(self) -> bool:
        """Return whether markers guard the next version; raises `ClockOff`."""
        reading = self._clock_reading
        if (
            not self._guarding_markers
            and self._arrival_markers
            and reading
            and reading.store_time
        ):
            self._check_clock_reading(reading)
            self._guarding_markers = self._arrival_markers
        return bool(self._guarding_markers)

    async def make_release_marker(self) -> None:
        """Create the marker of a release after which the run can go on at once."""
        await self.ensure_guarded()
        marker = self._new_release_marker()
        await markers.create(self._objects, marker)
        self._own_markers.append(marker.key)
        self._guarding_markers = (*self._guarding_markers, marker.key)

    async def make_retry_marker(self, *, now: bool) -> None:
        """Create the marker of a release after an error; it replaces all others.

        It is due now, or in a minute and then each time without progress after twice
        the time. The next worker finds it in the version and deletes it.
        """
        earlier = None if self._made_progress else self._loaded_release_marker
        marker = self._new_release_marker()
        if earlier is not None:
            marker = marker.with_looks_of(earlier)
        if now:
            later = marker.postponed(layout.DUE_NOW)
            await markers.create(self._objects, later)
        else:
            clock = StoreClock(self._ports.clock)
            later = await markers.postpone(self._objects, clock, marker)
        self._own_markers.append(later.key)
        self._guarding_markers = (later.key,)

    @property
    def _loaded_release_marker(self) -> layout.Marker | None:
        return next(map(layout.parse_marker, self.release_markers), None)

    def _new_release_marker(self) -> layout.Marker:
        ulid = self._ports.ids.new_ulid(self._ports.clock.now())
        return markers.for_release(self.run_id, self.version_number + 1, ulid)

    def _new_guard(self) -> layout.Marker:
        now = self._ports.clock.now()
        due = now + timedelta(seconds=self._lease_seconds)
        number, ulid = self.version_number + 1, self._ports.ids.new_ulid(now)
        return markers.guard(self.run_id, number, due, ulid)

    def _guard_with(self, marker: layout.Marker) -> None:
        self.guard_key = marker.key
        self._guarding_markers = (marker.key,)
        self._own_markers.append(marker.key)

    async def _make_guard(self) -> None:
        now = self._ports.clock.now()
        marker = self._new_guard()
        store_time = await markers.create_with_time(self._objects, marker)
        try:
            self._check_time(now, store_time)
        except errors.ClockOff:
            await self._objects.delete(marker.key)
            raise
        self._guard_with(marker)

    async def _delete_own_markers(self) -> None:
        # The process that created the version has its own guard, or needs none.
        while self._lease is None and self._own_markers:
            await self._objects.delete(self._own_markers.pop())

    def _check_store_speed(self) -> None:
        # With a claim that is half over at its start, nothing but a renewal is allowed.
        self._slow_claims = 0 if self.can_start_action else self._slow_claims + 1
        if self._slow_claims < _MAX_SLOW_CLAIMS:
            return
        msg = (
            f"run {self.run_id}: the store is too slow for lease="
            f"{self._lease_seconds:g}. {self._slow_claims} times in a row, half of the "
            "claim was over when it was taken. Nothing ran. Use a longer lease."
        )
        raise errors.StoreUnavailable(msg, run_id=self.run_id)

    def _check_clock(self, sent_at: datetime) -> None:
        self._check_time(sent_at, self.loaded.store_time if self.loaded else None)

    def _check_time(self, sent_at: datetime, store_time: datetime | None) -> None:
        now, resolution = self._ports.clock.now(), self._objects.time_resolution
        self._check_clock_reading(ClockReading(sent_at, store_time, now, resolution))

    def _check_clock_reading(self, reading: ClockReading) -> None:
        claims.check_clock(reading, self._lease_seconds, self.run_id)
        if reading.store_time is not None:
            self._clock_uncertainty = reading.uncertainty

    async def _check_still_newest(self, state: RunState) -> Arrivals:
        last = state.run.last_operator_number
        progress = await read_progress(self._objects, self.run_id, last, self.page)
        if progress.newest_number != self.version_number:
            await self._withdraw_if_over()
            raise self._versions.stale_error(self.version_number)
        if not (progress.may_be_cancelled or progress.has_requests):
            return NO_ARRIVALS
        return await read_requests(
            self._objects, state.run, cancelled=progress.may_be_cancelled
        )

    async def _read_requests(self, state: RunState) -> Arrivals:
        return await read_if_possible(self._objects, state.run)

    async def _index_if_new(self, state: RunState) -> None:
        """List the run as live; the caller looks at the newest version afterwards."""
        if self.must_index and state.run.status not in ENDED_STATUSES:
            await run_index.create_live(self._objects, state.run)
            self.must_index = False

    async def _check_not_erased(self) -> None:
        """Raise `RunErased` if the run was erased before this worker's last version.

        A run with a live claim is not erased, so a claim that surely lasted until the
        version was stored needs no look.
        """
        if self.can_start_action:
            return
        if await self._versions.newest_number() != self.version_number:
            await self._withdraw_if_over()

    async def _withdraw_if_over(self) -> None:
        """Delete what this worker wrote for a run that has ended or was erased."""
        assert self.loaded is not None  # noqa: S101 - it was just committed
        try:
            await run_index.withdraw_if_over(self._objects, self.loaded)
        except errors.RunErased:
            self._lease = None
            await self._delete_own_markers()
            raise


def _new_notices(
    ports: Ports, of_dead_worker: LoadedVersion | None
) -> VersionNotices | None:
    """Return where to collect the notices of versions; `None` if no one takes them."""
    if ports.on_notice is None:
        return None
    from continuations.engine.journal.notice_sending import VersionNotices  # noqa: PLC0415 - few listeners

    return VersionNotices(of_dead_worker=of_dead_worker)


async def read_if_possible(objects: Objects, run: RunRow) -> Arrivals:
    """Return the requests of operators; none if the store does not return them now.

    The version beside them may hold the result of a call. It must not fail because of
    this read; the next commit reads the requests again.
    """
    try:
        return await read_requests(objects, run)
    except errors.StoreError as error:
        _log.warning("run %s: requests to it were not read: %s", run.id, error)
        return NO_ARRIVALS


async def read_requests(
    objects: Objects, run: RunRow, *, cancelled: bool = False
) -> Arrivals:
    """Read the next requests; without one, this is one read.

    The cancel request is read if it is known, or if a numbered request names it.
    """
    following = run.last_operator_number + 1
    requests = await REQUESTS.read_from(objects, run.id, following)
    if not requests and not cancelled:
        return NO_ARRIVALS
    told = any(tells_of_cancellation(request) for request in requests)
    return Arrivals(
        operator_requests=requests,
        cancel_request=await read_cancel_request(objects, run.id)
        if cancelled or told
        else None,
    )


# Seconds between two tries while the store is down: the first and the longest. A store
# with retries of its own has already retried within each try.
_FIRST_PAUSE, _LONGEST_PAUSE = 0.1, 1.0


class TimeLeft(Protocol):
    """The time that is left of a claim."""

    @property
    def seconds_left(self) -> float:
        """The seconds until the claim ends."""
        ...


async def retry_while_claimed(
    attempt: Callable[[], Awaitable[T]],
    lease: TimeLeft | None,
    ports: Ports,
    loaded: LoadedVersion | None,
) -> T:
    """Return the result of an attempt; retry until the claim ends, if there is one.

    Work that is not stored is lost, so the limit is a time and not a number. `loaded`
    is the last version, for the log.
    """
    pause = _FIRST_PAUSE
    while True:
        try:
            return await attempt()
        except (errors.StoreUnavailable, errors.Inconclusive) as error:
            if lease is None or lease.seconds_left <= pause:
                raise
            if pause == _FIRST_PAUSE and loaded is not None:
                _log.warning(
                    "run %s: the store is down after version %s; its worker tries "
                    "again until its claim ends: %s",
                    loaded.state.run.id,
                    loaded.number,
                    error,
                )
        await ports.sleep(pause)
        pause = min(2 * pause, _LONGEST_PAUSE)
