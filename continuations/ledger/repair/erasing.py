"""Erase one run: a tombstone first, then everything else (decision record 33)."""

from __future__ import annotations

from asyncio import gather
from contextlib import suppress
from typing import TYPE_CHECKING

from continuations import errors
from continuations.ledger import event_keys, layout, markers
from continuations.ledger.arrivals.arrivals import read_arrivals
from continuations.ledger.claims import check_free
from continuations.ledger.index import run_index
from continuations.ledger.objects import AlreadyExists, NotFound, in_batches
from continuations.ledger.other_runs import other_tombstone_error
from continuations.ledger.repair import run_files
from continuations.ledger.versions import Versions
from continuations.value_class import dataclass
from continuations.wire.fields import whole_milliseconds
from continuations.wire.versions import TOMBSTONE, Tombstone
from continuations_storage.contract import ephemeral
from continuations_storage.errors import StorageError

if TYPE_CHECKING:
    from collections.abc import Iterable
    from datetime import datetime

    from continuations.core.rows.waits import Wait
    from continuations.ledger.layout import Marker
    from continuations.ledger.loaded_version import LoadedVersion
    from continuations.ledger.objects import Objects
    from continuations.ledger.store_clock import StoreClock

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
    """Erases one run.

    Attributes:
        only_if_ended: Whether a run that a repair brought back to life is left alone.
        keeps_audit: Whether the decisions of the run stay, if there are any. Without
            it, also what an earlier erasure kept is erased.
    """

    objects: Objects
    clock: StoreClock
    run_id: str
    only_if_ended: bool = False
    keeps_audit: bool = False

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
            except errors.RunErased:
                return await self.finish([])
            except (AlreadyExists, errors.RunBusy) as error:
                await self.objects.delete(guard.key)
                if isinstance(error, errors.RunBusy):
                    raise
            else:
                return await self.finish([guard])
        raise self._versions.stale_error(number)

    async def _bury(self, number: int, guard: Marker) -> None:
        """Create the guard and the tombstone.

        Raises `RunErased`, `RunBusy`, and `AlreadyExists` if the run was advanced.
        """
        loaded, late = await self._load_with_late_keys(number)
        await self.clock.create(self.objects, guard.key)
        try:
            await self._prove_right_to_delete()
        except errors.StoreDenied:
            await self.objects.delete(guard.key)
            raise
        if loaded is not None:
            check_free(loaded.state.run, self.clock.now())
            if self.only_if_ended and not loaded.state.run.has_ended:
                await self.objects.delete(guard.key)
                raise self._versions.stale_error(number)
        if self.keeps_audit and await self._has_audit():
            late.add(await self._list_audit(loaded.at if loaded else self.clock.now()))
        tombstone = Tombstone(
            run_id=self.run_id,
            number=number + 1,
            at=whole_milliseconds(self.clock.now()),
            late_keys=tuple(sorted(late)),
        )
        key = layout.version_key(self.run_id, tombstone.number)
        await self.objects.create(key, TOMBSTONE.encode(tombstone))
        self.objects.recent_versions.forget(self.run_id)

    async def _prove_right_to_delete(self) -> None:
        """Raise `StoreDenied` before the tombstone hides a run that would stay.

        A store may tell only about a key that exists. A refused process leaves the key.
        """
        key = layout.deletion_probe_key(self.run_id)
        with suppress(AlreadyExists):
            await self.objects.create(key, b"")
        try:
            await self.objects.delete(key)
        except errors.StoreDenied as error:
            msg = (
                f"run {self.run_id} was not erased: this process may not delete keys "
                "under runs/. Erase it with the rights of the owner of the store."
            )
            raise errors.StoreDenied(msg, run_id=self.run_id) from error

    async def _load_with_late_keys(
        self, number: int
    ) -> tuple[LoadedVersion | None, set[str]]:
        """Return the last version, if it can be rebuilt, and the late keys.

        Raises `RunErased` if nothing is left to erase, and `AlreadyExists` if another
        process erases the run.
        """
        try:
            loaded = await self._load(number)
        except errors.RunErased:
            earlier = await read_tombstone(self.objects, self.run_id)
            if self.keeps_audit or not keeps_audit(earlier):
                raise
            erased = run_index.is_erased_key
            return None, {key for key in earlier.late_keys if not erased(key)}
        if loaded is None and await self._versions.newest_number() != number:
            raise AlreadyExists(layout.version_key(self.run_id, number + 1))
        return loaded, run_index.keys_of_ids(loaded) if loaded else set()

    async def _has_audit(self) -> bool:
        prefix = layout.arrivals_prefix(self.run_id)
        keys = [key async for key in self.objects.all_keys(prefix)]
        return any(map(layout.is_audit_key, keys))

    async def _list_audit(self, ended_at: datetime) -> str:
        """Create and return the key by which the audit is found and erased one day.

        The tombstone names it, which tells that the audit is kept.
        """
        key = run_index.erased_key(self.run_id, ended_at)
        await markers.create_key(self.objects, key)
        return key

    async def _load(self, number: int) -> LoadedVersion | None:
        """Return a version; `None` if it cannot be rebuilt. Raises `RunErased`."""
        try:
            return await self._versions.load(number)
        except errors.NewerFormat:
            raise
        except errors.FormatError:
            return None

    async def finish(self, due_markers: Iterable[Marker]) -> ErasedRun:
        """Delete everything of the run but its tombstone, and these markers.

        If there was something, a later marker lets a sweep look again in a day.
        """
        due_markers = tuple(due_markers)
        await self._remove_words()
        tombstone = await read_tombstone(self.objects, self.run_id)
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
        if keeps_audit(tombstone):
            listed = {key for key in listed if not run_index.is_erased_key(key)}
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

    async def _remove_words(self) -> None:
        """Remove what a worker that was killed wrote last; it would end by itself."""
        thread, values = layout.thread_of(self.run_id), ephemeral(self.objects.store)
        if thread is not None and values is not None:
            with suppress(StorageError):
                await values.remove([layout.words_name(thread)])

    async def _keys_left(self, tombstone: Tombstone) -> list[str]:
        """Return the keys of the run but that of its tombstone, and of a kept audit."""
        own_key = layout.version_key(self.run_id, tombstone.number)
        prefix, kept = layout.run_prefix(self.run_id), keeps_audit(tombstone)
        keys = [key async for key in self.objects.all_keys(prefix) if key != own_key]
        return [key for key in keys if not (kept and layout.is_audit_key(key))]

    async def _keys_beside(self, number: int) -> set[str]:
        """Return the keys of waits, markers and the index that belong to the run.

        They follow from the last version. If that is damaged, they are listed.
        """
        loaded = None
        try:
            loaded = await self._load(number)
        except errors.RunErased:
            # It is missing, or the tombstone that kept the audit.
            with suppress(errors.FormatError, NotFound):
                earlier = await read_tombstone(self.objects, self.run_id, number)
                return {*earlier.late_keys}
        if loaded is None or loaded.state.run.history_lost:
            return await self._list_keys(*_PREFIXES)
        state = loaded.state
        waits = state.waits.values()
        marker_keys = {*_marker_keys_of(waits), *loaded.marker_keys}
        # Another process that erases the run may delete what is read here.
        with suppress(errors.FormatError, errors.RunNotFound):
            arrived = await read_arrivals(self.objects, state, all_messages=True)
            marker_keys.update(arrived.marker_keys(self.run_id))
            marker_keys |= _marker_keys_of(map(arrived.current, waits))
        return {
            *(key for key in run_index.keys_of(loaded) if is_key_of(key, self.run_id)),
            *layout.own_markers(marker_keys, self.run_id),
        }

    async def _list_keys(self, *prefixes: str) -> set[str]:
        return {
            key
            for prefix in prefixes
            for key in [each async for each in self.objects.all_keys(prefix)]
            if is_key_of(key, self.run_id)
        }

    async def _make_later_marker(self, number: int) -> None:
        due = self.clock.now() + markers.MAX_RETRY_DELAY
        nonce = f"{number:0{layout.NONCE_LENGTH}d}"
        marker = markers.guard(self.run_id, number, due, nonce)
        await self.clock.create(self.objects, marker.key)

    async def _delete_all(self, keys: Iterable[str]) -> None:
        ordered = sorted(keys)
        for group in in_batches(ordered, _PARALLEL_DELETES):
            await gather(*map(self.objects.delete, group))


async def read_tombstone(
    objects: Objects, run_id: str, number: int | None = None
) -> Tombstone:
    """Return a tombstone of a run, by default the newest version.

    Raises `NotFound`, and `Corrupt` if it names keys of other runs.
    """
    versions = Versions(objects, run_id)
    newest = await versions.newest_number() if number is None else number
    try:
        body = await objects.read(layout.version_key(run_id, newest))
    except NotFound:
        if number is not None:
            raise
        # Another process has just erased the audit, too.
        newest = await versions.newest_number()
        body = await objects.read(layout.version_key(run_id, newest))
    return decode_tombstone(body, run_id, newest)


def decode_tombstone(body: bytes, run_id: str, number: int) -> Tombstone:
    """Return the tombstone of a run; raises `Corrupt` if it names other runs."""
    key = layout.version_key(run_id, number)
    tombstone = TOMBSTONE.decode(body, key)
    own = (tombstone.run_id, tombstone.number) == (run_id, number)
    if own and all(is_key_of(key, run_id) for key in tombstone.late_keys):
        return tombstone
    raise other_tombstone_error(key, run_id)


def is_key_of(key: str, run_id: str) -> bool:
    """Return whether a key outside the run lists the run or one of its waits."""
    listed = run_index.indexed_run_id(key) or layout.listed_run_id(key)
    return (listed or event_keys.waiting_run_id(key)) == run_id


def keeps_audit(tombstone: Tombstone) -> bool:
    """Return whether the decisions of an erased run are kept."""
    return any(map(run_index.is_erased_key, tombstone.late_keys))


def _marker_keys_of(waits: Iterable[Wait]) -> set[str]:
    """Return the keys of the markers of deadlines and reminders."""
    return {marker.key for wait in waits for marker in markers.last_markers(wait)}
