"""Copy one run to another store.

The order makes a run appear at once and whole:

1. The objects of both stores are compared, and those of the source are checked. Nothing
   is written if one is damaged, or if the target's run went on by itself.
2. A guard hides the run in the target: every operation there raises `RunBusy`. If the
   target has an earlier version, its waits are listed no more.
3. Arrivals and files are created, and read back; then the versions, in ascending order.
   So after each of them, the objects of the target are those of a whole run.
4. The markers are created, and one more that is due now.
5. The guard is deleted. From here on the target shows the run as it was copied.
6. The keys that list the run and its waits are created. Those that are needed no more
   are deleted.
7. The marker of step 4 is deleted.

After a crash before step 5, the run is hidden, and a repeated copy completes it. After
a crash in step 6, a sweep of the target or a repeated copy lists the run.
"""

from __future__ import annotations

import hashlib
from datetime import timedelta
from typing import TYPE_CHECKING

from continuations import errors
from continuations.ledger import event_keys, layout, markers
from continuations.ledger.copying.key_rules import Part, classify
from continuations.ledger.index import event_waiters, run_index, waits
from continuations.ledger.objects import AlreadyExists, NotFound, Objects, in_batches
from continuations.ledger.repair.erasing import Eraser, decode_tombstone, keeps_audit
from continuations.ledger.versions import Versions
from continuations.value_class import dataclass
from continuations.wire.envelope import decode_object
from continuations.wire.fields import readable_time, to_milliseconds

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from continuations.core.rows.waits import Wait
    from continuations.ledger.copying.key_rules import KeyRule
    from continuations.ledger.loaded_version import LoadedVersion
    from continuations.ledger.store_clock import StoreClock

# A request for a run that is being copied is worth a repetition after this time.
_GUARD_TIME = timedelta(minutes=1)
_PARALLEL_READS = 50
# So many bytes of a run are kept between the check and the copy; others are read twice.
_MAX_KEPT_BYTES = 8 << 20


@dataclass(frozen=True, slots=True)
class CopyStores:
    """The two stores of a copy.

    Attributes:
        source: The store to copy from. Nothing is written there.
        target: The store to copy to.
        clock: The time of the source.
        target_clock: The time of the target.
        new_ulid: Returns a new ULID.
    """

    source: Objects
    target: Objects
    clock: StoreClock
    target_clock: StoreClock
    new_ulid: Callable[[], str]

    async def check_different(self) -> None:
        """Raise `InvalidInput` if both are one store, under any name."""
        key = f"probe/{self.new_ulid()}"
        await self.target.create(key, b"")
        is_same = await self.source.exists(key)
        await self.target.delete(key)
        if is_same:
            msg = "target must be another store than the source. Pass another store."
            raise errors.InvalidInput(msg)

    async def put(self, key: str, body: bytes, *, may_differ: bool = False) -> bool:
        """Create an object in the target and read it back; return whether it is new.

        Raises `RunExists` if the target has another body under the key, unless it may
        differ.
        """
        is_new = True
        try:
            await self.target.create(key, body)
        except AlreadyExists:
            is_new = False
        if not body or (may_differ and not is_new):
            return is_new
        [found] = await self.target.read_many([key])
        # A process of the target may delete what it needs no more.
        if found == body or (found is None and not key.startswith("runs/")):
            return is_new
        if not is_new:
            raise different_body_error(key)
        raise errors.Corrupt(
            f"{key} was not copied: the target returns other bytes than it got. Check "
            "the target store, and copy into a new one."
        )

    async def read(self, key: str, rule: KeyRule) -> bytes | None:
        """Return an object that no version needs; `None` if it was deleted meanwhile.

        Raises `Corrupt` or `FormatError` for a damaged object.
        """
        try:
            body = await self.source.read(key)
        except NotFound:
            return None
        if rule.is_record:
            decode_object(body, key)
        return body


def different_body_error(key: str) -> errors.RunExists:
    """Return the error for a key under which the target has another body."""
    found = classify(key)
    run_id = found.run_id if found else None
    of_run = f"run {run_id} was not copied: " if run_id else "nothing more was copied: "
    msg = (
        f"{of_run}{key} has another body in the target. Nothing was overwritten. Let "
        "one of the two go on, and cancel the other."
    )
    return errors.RunExists(msg, run_id=run_id)


class RunCopy:
    """The copy of one run.

    Attributes:
        run_id: Id of the run.
        created: Number of objects that were created in the target.
    """

    def __init__(self, stores: CopyStores, run_id: str) -> None:
        self.run_id = run_id
        self.created = 0
        self._stores = stores
        self._keys: list[str] = []
        self._seen = b""
        self._guards: list[str] = []
        self._look_again = ""
        self._loaded: LoadedVersion | None = None

    # The history ----------------------------------------------------------------

    async def copy_history(self) -> None:
        """Copy versions, arrivals and files; a new or changed run is hidden afterwards.

        Raises:
            RunNotFound: The source has no version of the run.
            RunBusy: A worker of the source holds its claim, or the source is itself the
                target of a copy that is not complete.
            RunExists: The target's run went on by itself, or is another one.
            RunErased: The run is erased in one of the two stores only.
            StaleRun: An object was deleted meanwhile.
            Corrupt, FormatError: An object of the source is damaged or not known.
            StoreError: A store failed.
        """
        source, run_id = self._stores.source, self.run_id
        # The target first: all of its objects are copies of objects of the source.
        there = await _list_keys(self._stores.target, run_id)
        self._keys = await _list_keys(source, run_id)
        self._seen = _summary(self._keys)
        self._guards = [key for key in there if layout.is_copy_guard(key)]
        existing = set(there) - set(self._guards)
        versions = Versions(source, run_id)
        number = layout.newest_version_number(self._keys, run_id)
        if number == 0:
            raise versions.run_not_found_error()
        try:
            self._loaded = await versions.load(number)
        except errors.RunErased:
            await self._copy_erasure(number, existing)
            return
        self._check_claim(self._loaded)
        try:
            await self._check_target(existing)
            missing = await self._check_bodies(existing)
        except errors.RunExists:
            # A power cut may have brought a guard back that was deleted before.
            await self._show()
            raise
        if missing:
            await self._hide(layout.newest_version_number(sorted(existing), run_id))
        for key, kept in missing.items():
            await self._put_hidden(key, await self._read(key) if kept is None else kept)

    def _check_claim(self, loaded: LoadedVersion) -> None:
        claim = loaded.state.run.claim
        if claim is None or claim.until <= self._stores.clock.now():
            return
        msg = (
            f"run {self.run_id} was not copied: a worker of the source holds it until "
            f"{readable_time(claim.until)}. Stop the worker, or copy again later."
        )
        raise errors.RunBusy(msg, run_id=self.run_id, until=claim.until)

    async def _check_target(self, existing: set[str]) -> None:
        """Raise an error if the target's run was erased or went on by itself."""
        number = layout.newest_version_number(sorted(existing), self.run_id)
        if number:
            try:
                await Versions(self._stores.target, self.run_id).header(number)
            except errors.RunErased:
                msg = (
                    f"run {self.run_id} was not copied: it was erased in the target, "
                    "and its id is not used again there. Copy it into another store."
                )
                raise errors.RunErased(msg, run_id=self.run_id) from None
        # Files and notes alone change nothing in a run.
        prefix = layout.versions_prefix(self.run_id)
        own = sorted(
            key
            for key in existing.difference(self._keys)
            if key.startswith(prefix) or layout.is_arrival_key(key)
        )
        if own:
            msg = (
                f"run {self.run_id} was not copied: the target has {own[0]}, which the "
                "source does not have, so its run went on by itself. Nothing was "
                "overwritten. Let one of the two go on, and cancel the other."
            )
            raise errors.RunExists(msg, run_id=self.run_id)

    async def _check_bodies(self, existing: set[str]) -> dict[str, bytes | None]:
        """Check each object of the source, and compare it with that of the target.

        Returns:
            The missing keys, the versions last in ascending order, with some bodies.
        """
        prefix = layout.versions_prefix(self.run_id)
        versions = [key for key in self._keys if key.startswith(prefix)]
        others = [key for key in self._keys if not key.startswith(prefix)]
        self._check_dense(versions)
        missing: dict[str, bytes | None] = {}
        left = _MAX_KEPT_BYTES
        for keys in in_batches([*others, *reversed(versions)], _PARALLEL_READS):
            bodies = await self._stores.source.read_many(keys)
            common = [key for key in keys if key in existing]
            copies = await self._stores.target.read_many(common)
            copied = dict(zip(common, copies, strict=True))
            for key, body in zip(keys, bodies, strict=True):
                rule = self._check_body(key, body)
                if key not in existing:
                    left -= len(body or b"")
                    missing[key] = body if left > 0 else None
                elif copied[key] != body and not rule.may_differ:
                    raise different_body_error(key)
        return missing

    def _check_dense(self, version_keys: Sequence[str]) -> None:
        numbers = {*map(layout.version_number, version_keys)}
        for number in range(1, max(numbers) + 1):
            if number not in numbers:
                key = layout.version_key(self.run_id, number)
                msg = (
                    f"run {self.run_id} was not copied: {key} is missing. Restore it "
                    "from a backup, or let the run end where it is."
                )
                raise errors.Corrupt(msg, run_id=self.run_id)

    def _check_body(self, key: str, body: bytes | None) -> KeyRule:
        """Return the rule of a whole object of the run; raises an error for others."""
        if body is None:
            raise self._moved_on_error(key)
        found = classify(key)
        if found is None or found.rule.part is not Part.HISTORY:
            msg = (
                f"run {self.run_id} was not copied: {key} is not a key of this "
                "release. Use a newer release, or move the object away."
            )
            raise errors.FormatError(msg, run_id=self.run_id)
        header = decode_object(body, key).header
        if header.get("run", self.run_id) != self.run_id:
            msg = (
                f"run {self.run_id} was not copied: {key} is an object of another run. "
                "Restore it from a backup."
            )
            raise errors.Corrupt(msg, run_id=self.run_id)
        if key.startswith(layout.versions_prefix(self.run_id)):
            versions = Versions(self._stores.source, self.run_id)
            versions.decode_header(layout.version_number(key), body)
        return found.rule

    async def _read(self, key: str) -> bytes:
        try:
            return await self._stores.source.read(key)
        except NotFound:
            raise self._moved_on_error(key) from None

    def _moved_on_error(self, key: str) -> errors.StaleRun:
        msg = (
            f"run {self.run_id} was not copied: {key} was deleted in the source "
            "meanwhile. Copy the run again."
        )
        return errors.StaleRun(msg, run_id=self.run_id)

    async def _hide(self, number: int) -> None:
        """Hide the run, and its waits in the target's version, if it has one.

        Before the guard is there, a sweep of the target may list the waits again.
        """
        listed: list[Wait] = []
        if number:
            earlier = await Versions(self._stores.source, self.run_id).load(number)
            listed = list(earlier.state.waits.values())
            await self._let_sweeps_look(number)
            await self._unlist(listed)
        until = self._stores.target_clock.now() + _GUARD_TIME
        # A copy that was never complete has shown nothing, also if it goes on.
        is_update = bool(number) and all(map(layout.is_guard_of_update, self._guards))
        ends_ms = to_milliseconds(until)
        guard = layout.copy_guard_key(self.run_id, ends_ms, is_update=is_update)
        await self._stores.put(guard, b"")
        self._guards.append(guard)
        await self._unlist(listed)

    async def _unlist(self, listed: Sequence[Wait]) -> None:
        await waits.delete(self._stores.target, (wait.id for wait in listed))
        await event_waiters.delete(self._stores.target, listed)

    async def _let_sweeps_look(self, number: int) -> None:
        """Create a marker with which a sweep lists a version again."""
        if not self._look_again:
            nonce = self._stores.new_ulid()
            self._look_again = markers.guard(self.run_id, number, None, nonce).key
        await self._stores.put(self._look_again, b"")

    async def _put_hidden(self, key: str, body: bytes) -> None:
        rule = self._check_body(key, body)
        try:
            self.created += await self._stores.put(
                key, body, may_differ=rule.may_differ
            )
        except errors.RunExists:
            # A process of the target created the object: its run goes on by itself.
            await self._show()
            raise

    async def _show(self) -> None:
        for guard in self._guards:
            await self._stores.target.delete(guard)

    # An erased run ----------------------------------------------------------------

    async def _copy_erasure(self, number: int, existing: set[str]) -> None:
        """Copy a tombstone and a kept audit; erase no run that the target shows."""
        run_id, stores = self.run_id, self._stores
        key = layout.version_key(run_id, number)
        body = await self._read(key)
        tombstone = decode_tombstone(body, run_id, number)
        newest = layout.newest_version_number(sorted(existing), run_id)
        was_shown = all(map(layout.is_guard_of_update, self._guards))
        if newest and was_shown:
            # An update that stopped has hidden a run that the target had shown.
            await self._show()
            try:
                await Versions(stores.target, run_id).header(newest)
            except errors.RunErased:
                return
            msg = (
                f"run {run_id} was not copied: it is erased in the source and not in "
                "the target. If the target must not have it, erase it there, too."
            )
            raise errors.RunErased(msg, run_id=run_id)
        if keeps_audit(tombstone):
            for record in filter(layout.is_audit_key, self._keys):
                record_body = await self._read(record)
                self._check_body(record, record_body)
                self.created += await stores.put(record, record_body)
        self.created += await stores.put(key, body)
        if self._guards:
            # The rest of a copy that stopped, and that no process of the target saw.
            await self._show()
            self._guards = []
            await Eraser(stores.target, stores.target_clock, run_id).finish([])

    # What lists the run -------------------------------------------------------------

    async def show(self, here: Sequence[str], there: Sequence[str]) -> None:
        """Copy the markers, show the run, and copy what lists it.

        Args:
            here: The keys of the run in the source that are not under `runs/`.
            there: The same of the target.

        Raises:
            RunExists, Corrupt, FormatError, StoreError: As for `copy_history`.
        """
        loaded, target = self._loaded, self._stores.target
        if loaded is None:  # it is erased
            audits = filter(run_index.is_erased_key, here)
            await self._copy_listed(await self._read_listed(audits, Part.LISTING))
            await self._copy_listed(await self._read_listed(here, Part.MARKER))
            return
        is_over = {key for key in (*here, *there) if self._is_over(key, loaded)}
        listings = await self._read_listed({*here} - is_over, Part.LISTING)
        # A marker of what arrived since is good here, too: a sweep looks at the run.
        await self._copy_listed(await self._read_listed(here, Part.MARKER))
        if self._guards:
            await self._let_sweeps_look(loaded.number)
            await self._show()
        await self._copy_listed(listings)
        for key in sorted(is_over.intersection(there) - {*here, self._look_again}):
            await target.delete(key)
        # The markers of what arrived meanwhile may be missing. Then a sweep looks.
        ended = loaded.state.run.has_ended
        if self._look_again and (ended or not await self.has_moved_on()):
            await target.delete(self._look_again)
        self._keys, self._loaded = [], None  # a copy may have many runs

    async def _read_listed(
        self, keys: Iterable[str], part: Part
    ) -> list[tuple[str, bytes, bool]]:
        """Return keys of a part with their bodies, and whether these may differ."""
        read: list[tuple[str, bytes, bool]] = []
        for key in sorted(keys):
            found = classify(key)
            if found is None or found.rule.part is not part:
                continue
            body = await self._stores.read(key, found.rule)
            if body is not None:
                read.append((key, body, found.rule.may_differ))
        return read

    async def _copy_listed(self, listed: Iterable[tuple[str, bytes, bool]]) -> None:
        for key, body, may_differ in listed:
            self.created += await self._stores.put(key, body, may_differ=may_differ)

    def _is_over(self, key: str, loaded: LoadedVersion) -> bool:
        """Return whether a key is needed no more, or not yet, by the copied version."""
        state = loaded.state
        if marker := layout.parse_marker(key):
            return not markers.is_needed(marker, loaded.number, state)
        listed = layout.listed_wait_ids([key])
        if listed or event_keys.waiting_run_id(key):
            wait_id = listed[0] if listed else event_keys.waiter_in(key) or ""
            decided = layout.decision_key(wait_id) in self._keys
            return decided or wait_id not in state.waits
        ended = state.run.has_ended
        if key.startswith(run_index.ENDED_PREFIX):
            return not ended or key != run_index.ended_key(self.run_id, loaded.at)
        return ended and key == run_index.live_key(self.run_id)

    async def has_moved_on(self) -> bool:
        """Return whether the source has more of the run than when it was read."""
        keys = await _list_keys(self._stores.source, self.run_id)
        return _summary(keys) != self._seen


def _summary(keys: Sequence[str]) -> bytes:
    """Return a digest of the keys, which tell of any change but notes of workers."""
    text = "\n".join(key for key in keys if "/y/" not in key)
    return hashlib.sha256(text.encode()).digest()


async def _list_keys(objects: Objects, run_id: str) -> list[str]:
    # An erasure that was refused, or that died at once, may have left its first key.
    left = layout.deletion_probe_key(run_id)
    keys = objects.all_keys(layout.run_prefix(run_id))
    return [key async for key in keys if key != left]
