"""Erase the runs that ended a long time ago, as the index of ended runs tells."""

from __future__ import annotations

import itertools
from asyncio import Semaphore, gather
from contextlib import suppress
from dataclasses import field
from datetime import timedelta
from typing import TYPE_CHECKING

from continuations.core.rows.run import ENDED_STATUSES
from continuations.errors import (
    ContinuationsError,
    FormatError,
    InvalidInput,
    NewerFormat,
    RunBusy,
    RunErased,
    RunNotFound,
)
from continuations.ledger import event_keys, layout, markers
from continuations.ledger.arrivals.arrivals import read_arrivals
from continuations.ledger.claims import check_free
from continuations.ledger.index import run_index
from continuations.ledger.objects import AlreadyExists
from continuations.ledger.other_runs import other_tombstone_error
from continuations.ledger.repair import run_files
from continuations.ledger.versions import Versions
from continuations.value_class import dataclass
from continuations.wire.fields import whole_milliseconds
from continuations.wire.versions import TOMBSTONE, Tombstone
from continuations_storage.contract import is_last_page

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterable
    from datetime import datetime

    from continuations.core.rows.waits import Wait
    from continuations.ledger.layout import Marker
    from continuations.ledger.loaded_version import LoadedVersion
    from continuations.ledger.objects import Objects
    from continuations.ledger.store_clock import StoreClock


_PARALLEL_RUNS = 8
# A longer time may begin before the first day that `datetime` can represent.
_MAX_AGE = timedelta(days=3650)
_PAGE_LIMIT = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class PruneResult:
    """The result of `prune`.

    Attributes:
        run_ids: The runs that ended long enough ago, in no order.
        erased: The receipts of the runs that were erased.
        errors: The errors of the other runs, by run id. Call `prune` again for them.
    """

    run_ids: tuple[str, ...] = ()
    erased: tuple[ErasedRun, ...] = ()
    errors: dict[str, ContinuationsError] = field(
        default_factory=dict[str, ContinuationsError]
    )


@dataclass(frozen=True, slots=True)
class Pruner:
    """Erases ended runs."""

    objects: Objects
    clock: StoreClock
    new_nonce: Callable[[], str]

    async def prune(self, older_than: object, *, dry_run: bool) -> PruneResult:
        """Erase the runs that ended some time ago; raises `InvalidInput`."""
        older_than = _checked_age(older_than)
        run_ids: list[str] = []
        receipts: list[ErasedRun] = []
        errors: dict[str, ContinuationsError] = {}
        free = Semaphore(_PARALLEL_RUNS)

        async def try_run(key: str) -> None:
            run_id = run_index.indexed_run_id(key)
            if run_id is None:
                return  # this library did not write the key
            async with free:
                try:
                    if not await self._ended_before(key, run_id, older_than):
                        return
                    run_ids.append(run_id)
                    if not dry_run:
                        eraser = Eraser(self.objects, self.clock, run_id)
                        receipts.append(await eraser.erase(self.new_nonce()))
                except ContinuationsError as error:
                    errors[run_id] = error

        async for keys in self._old_keys(older_than):
            await gather(*map(try_run, keys))
        return PruneResult(
            run_ids=tuple(run_ids), erased=tuple(receipts), errors=errors
        )

    async def _old_keys(self, older_than: timedelta) -> AsyncIterator[list[str]]:
        """Iterate over the keys of runs that ended on an old day, page by page."""
        after = ""
        while True:
            page = await self.clock.list_keys(
                self.objects, run_index.ENDED_PREFIX, after, _PAGE_LIMIT
            )
            ids = filter(None, map(run_index.indexed_run_id, page))
            for run_id in itertools.islice(ids, 1):
                # Not every listing tells the time, and this machine's may be wrong.
                await self.clock.learn(self.objects, run_id, self.new_nonce())
            last = run_index.key_after_ended(self.clock.now() - older_than)
            yield [key for key in page if key < last]
            if is_last_page(page, _PAGE_LIMIT) or page[-1] >= last:
                return
            after = page[-1]

    async def _ended_before(self, key: str, run_id: str, older_than: timedelta) -> bool:
        """Return whether a run ended so long ago; delete its key if it was erased."""
        try:
            header = await Versions(self.objects, run_id).newest_header()
        except RunErased:
            await self.objects.delete(key)
            return False
        return (
            header is not None
            and header.status in ENDED_STATUSES
            and header.at <= self.clock.now() - older_than
            and run_index.ended_key(run_id, header.at) == key
        )


def _checked_age(older_than: object) -> timedelta:
    if isinstance(older_than, timedelta) and timedelta() < older_than <= _MAX_AGE:
        return older_than
    msg = (
        "older_than must be a positive timedelta of at most "
        f"{_MAX_AGE.days} days, got {older_than!r:.60}."
    )
    raise InvalidInput(f"{msg} Pass for example timedelta(days=90).")


_MAX_TRIES = 5
# The prefixes of keys outside the run that list it and its waits for persons.
_PREFIXES = (layout.WAITS_PREFIX, run_index.INDEX_PREFIX)
_PARALLEL_DELETES = 50


@dataclass(frozen=True, slots=True, kw_only=True)
class ErasedRun:
    """The receipt of an erasure: what one call deleted.

    Attributes:
        run_id: Id of the run, which is not used again.
        erased_at: When the run was erased, in UTC.
        versions: Number of versions.
        arrivals: Number of decisions, messages, signals and other objects that were
            sent to the run.
        files: Number of images, sounds and files.
        keys: Number of wait objects, markers and keys of the index.
    """

    run_id: str
    erased_at: datetime
    versions: int = 0
    arrivals: int = 0
    files: int = 0
    keys: int = 0


@dataclass(frozen=True, slots=True)
class Eraser:
    """Erases one run."""

    objects: Objects
    clock: StoreClock
    run_id: str

    @property
    def _versions(self) -> Versions:
        return Versions(self.objects, self.run_id)

    async def erase(self, nonce: str) -> ErasedRun:
        """Erase the run, or complete its erasure.

        Raises:
            RunNotFound: The run does not exist.
            RunBusy: A worker holds its claim.
            StaleRun: The run was advanced again and again.
            NewerFormat: A newer release wrote the run.
            StoreError: The store failed. Repeat the call, or let a sweep complete it.
        """
        number = 0
        for _ in range(_MAX_TRIES):
            number = await self._versions.newest_number()
            if number == 0:
                raise self._versions.run_not_found_error()
            guard = markers.guard(self.run_id, number + 1, None, nonce)
            try:
                await self._bury(number, guard)
            except RunErased:
                return await self.finish([])
            except (AlreadyExists, RunBusy) as error:
                await self.objects.delete(guard.key)
                if isinstance(error, RunBusy):
                    raise
            else:
                return await self.finish([guard])
        raise self._versions.stale_error(number)

    async def _bury(self, number: int, guard: Marker) -> None:
        """Create the guard and the tombstone.

        Raises `RunErased`, `RunBusy`, and `AlreadyExists` if the run was advanced.
        """
        loaded = await self._load(number)
        await self.clock.create(self.objects, guard.key)
        if loaded is not None:
            check_free(loaded.state.run, self.clock.now())
        late = run_index.keys_of_ids(loaded) if loaded else ()
        tombstone = Tombstone(
            run_id=self.run_id,
            number=number + 1,
            at=whole_milliseconds(self.clock.now()),
            late_keys=tuple(sorted(late)),
        )
        key = layout.version_key(self.run_id, tombstone.number)
        await self.objects.create(key, TOMBSTONE.encode(tombstone))
        self.objects.recent_versions.forget(self.run_id)

    async def _load(self, number: int) -> LoadedVersion | None:
        """Return a version; `None` if it cannot be rebuilt. Raises `RunErased`."""
        try:
            return await self._versions.load(number)
        except NewerFormat:
            raise
        except FormatError:
            return None

    async def finish(self, due_markers: Iterable[Marker]) -> ErasedRun:
        """Delete everything of the run but its tombstone, and these markers.

        If there was something, a later marker lets a sweep look again in a day.
        """
        due_markers = tuple(due_markers)
        tombstone = await self._read_tombstone()
        left = await self._keys_left(tombstone)
        listed = set(tombstone.late_keys)
        if left:
            # Only the versions name these keys, so they go first.
            listed |= await self._keys_beside(tombstone.number - 1)
            # The last reading of votes may have recorded the decision that they made.
            left = await self._keys_left(tombstone)
        if left or due_markers:
            # No version names the wait of a worker that died before its version.
            listed |= await self._list_keys(event_keys.EVENTS_PREFIX)
        await self._delete_all(listed)
        # First: who looks for newer versions by their numbers trusts version 1.
        first_version = layout.version_key(self.run_id, 1)
        if first_version in left:
            await self.objects.delete(first_version)
        await self._delete_all(key for key in left if key != first_version)
        if left:
            await self._make_later_marker(tombstone.number)
        await self._delete_all(marker.key for marker in due_markers)
        versions = layout.versions_prefix(self.run_id)
        count = sum(key.startswith(versions) for key in left)
        files = sum(map(run_files.is_file_key, left))
        arrivals = sum(map(layout.is_arrival_key, left))
        return ErasedRun(
            run_id=self.run_id,
            erased_at=tombstone.at,
            versions=count,
            arrivals=arrivals,
            files=files,
            keys=len(listed) if left else 0,
        )

    async def _keys_left(self, tombstone: Tombstone) -> list[str]:
        """Return the keys of the run but that of its tombstone."""
        own_key = layout.version_key(self.run_id, tombstone.number)
        prefix = layout.run_prefix(self.run_id)
        return [key async for key in self.objects.all_keys(prefix) if key != own_key]

    async def _read_tombstone(self) -> Tombstone:
        """Return the tombstone; raises `Corrupt` if it names keys of other runs."""
        number = await self._versions.newest_number()
        key = layout.version_key(self.run_id, number)
        tombstone = TOMBSTONE.decode(await self.objects.read(key), key)
        own = (tombstone.run_id, tombstone.number) == (self.run_id, number)
        if own and all(map(self._is_own_key, tombstone.late_keys)):
            return tombstone
        raise other_tombstone_error(key, self.run_id)

    def _is_own_key(self, key: str) -> bool:
        """Return whether a key outside the run lists the run or one of its waits."""
        listed = run_index.indexed_run_id(key) or layout.listed_run_id(key)
        return (listed or event_keys.waiting_run_id(key)) == self.run_id

    async def _keys_beside(self, number: int) -> set[str]:
        """Return the keys of waits, markers and the index that belong to the run.

        They follow from the last version. If that is damaged, they are listed.
        """
        loaded = None
        with suppress(RunErased):
            loaded = await self._load(number)
        if loaded is None or loaded.state.run.history_lost:
            return await self._list_keys(*_PREFIXES)
        state = loaded.state
        waits = state.waits.values()
        marker_keys = {*_marker_keys_of(waits), *loaded.marker_keys}
        # Another process that erases the run may delete what is read here.
        with suppress(FormatError, RunNotFound):
            arrived = await read_arrivals(self.objects, state, all_messages=True)
            marker_keys.update(arrived.marker_keys(self.run_id))
            marker_keys |= _marker_keys_of(map(arrived.current, waits))
        return {
            *filter(self._is_own_key, run_index.keys_of(loaded)),
            *layout.own_markers(marker_keys, self.run_id),
        }

    async def _list_keys(self, *prefixes: str) -> set[str]:
        return {
            key
            for prefix in prefixes
            for key in [each async for each in self.objects.all_keys(prefix)]
            if self._is_own_key(key)
        }

    async def _make_later_marker(self, number: int) -> None:
        due = self.clock.now() + markers.MAX_RETRY_DELAY
        nonce = f"{number:0{layout.NONCE_LENGTH}d}"
        marker = markers.guard(self.run_id, number, due, nonce)
        await self.clock.create(self.objects, marker.key)

    async def _delete_all(self, keys: Iterable[str]) -> None:
        ordered = sorted(keys)
        for first in range(0, len(ordered), _PARALLEL_DELETES):
            group = ordered[first : first + _PARALLEL_DELETES]
            await gather(*map(self.objects.delete, group))


def _marker_keys_of(waits: Iterable[Wait]) -> set[str]:
    """Return the keys of the markers of deadlines and reminders."""
    return {marker.key for wait in waits for marker in markers.last_markers(wait)}
