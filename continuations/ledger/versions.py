"""One run's numbered states: the newest, any older one, and the next.

Who creates number n + 1 has moved the run on; everyone else has lost and re-reads.
That one rule is the lock, the fence and the history.
"""

from __future__ import annotations

from asyncio import gather
from dataclasses import dataclass
from typing import TYPE_CHECKING

from continuations.core.delta import diff
from continuations.errors import ContinuationsError, Corrupt, RunNotFound, StaleRun
from continuations.ledger import fenwick, layout
from continuations.ledger.objects import AlreadyExists, NotFound
from continuations.wire.envelope import object_digest
from continuations.wire.versions import (
    VersionHeader,
    check_state,
    decode_header,
    decode_version,
    encode_version,
    rebuild_state,
)

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

    from continuations.core.state import RunState
    from continuations.ledger.objects import Objects


@dataclass(frozen=True, slots=True)
class RebuiltVersion:
    """One version on the way to a newer one: what a later delta may be from."""

    number: int
    state: RunState
    digest: bytes


@dataclass(frozen=True, slots=True)
class LoadedVersion:
    """A version as it stands in the store, and the steps it was rebuilt from.

    `store_time` is the store's own time of the create, where this process made it
    and the store tells.
    """

    number: int
    root: int
    state: RunState
    chain: tuple[RebuiltVersion, ...]
    marker_keys: tuple[str, ...] = ()
    store_time: datetime | None = None


class Versions:
    """The versions of one run."""

    def __init__(self, objects: Objects, run_id: str) -> None:
        self._objects = objects
        self.run_id = run_id

    async def newest_number(self) -> int:
        """Return the number of the newest version, 0 if there is none."""
        keys = await self._objects.keys(layout.versions_prefix(self.run_id), limit=1)
        return layout.newest_version_number(keys, self.run_id)

    async def newest_header(self) -> VersionHeader | None:
        """Return the plain header of the newest version, or `None`."""
        number = await self.newest_number()
        if number == 0:
            return None
        return self._decode_header(number, await self._read(number))

    async def load_newest(self) -> LoadedVersion:
        """Return the newest version; raises `RunNotFound` and `Corrupt`."""
        number = await self.newest_number()
        if number == 0:
            raise self.run_not_found_error()
        return await self.load(number)

    async def load(self, number: int) -> LoadedVersion:
        """Return one version.

        Raises `Corrupt` if what it needs is damaged or missing, and `RunNotFound` for
        a number that the run never came to.
        """
        if number < 1:
            raise self._not_found_error(number)
        # Nearly every run has its root at 1: read all in one go, then look.
        found = await self._read_chain(fenwick.chain(number, 1), allow_missing=True)
        if number not in found and number > await self.newest_number():
            raise self._not_found_error(number)
        if number not in found:
            found |= await self._read_chain((number,), allow_missing=False)
        root = self._decode_header(number, found.get(number)).root
        numbers = fenwick.chain(number, root)
        lacking = tuple(n for n in numbers if n not in found)
        found |= await self._read_chain(lacking, allow_missing=False)
        steps: list[RebuiltVersion] = []
        markers: tuple[str, ...] = ()
        for n in reversed(numbers):
            header, step = self._rebuild_version(
                n, found[n], steps[-1] if steps else None, root
            )
            steps.append(step)
            markers = header.markers
        check_state(steps[-1].state, layout.version_key(self.run_id, number))
        return LoadedVersion(number, root, steps[-1].state, tuple(steps), markers)

    async def rebuild(
        self, number: int, bases: Mapping[int, RebuiltVersion]
    ) -> RebuiltVersion:
        """Return one version on top of those that are known to be whole.

        Raises `Corrupt` or `FormatError` if it, or what it is a delta from, is not.
        """
        data = await self._read(number)
        header = self._decode_header(number, data)
        base = bases.get(header.base)
        if header.base and base is None:
            key = layout.version_key(self.run_id, number)
            msg = f"{key} is whole, but version {header.base} below it is not."
            raise Corrupt(msg, run_id=self.run_id)
        _, step = self._rebuild_version(number, data, base, header.root)
        check_state(step.state, layout.version_key(self.run_id, number))
        return step

    async def append(
        self,
        previous: LoadedVersion | None,
        state: RunState,
        *,
        at: datetime,
        marker_keys: tuple[str, ...] = (),
    ) -> LoadedVersion:
        """Create the next version, or the first one.

        Raises `StaleRun` if another process created it: nothing was written. After
        `Inconclusive` or `StoreUnavailable` the caller must stop and re-read.
        """
        if previous is None:
            return await self._create(1, 1, (), state, at, marker_keys)
        number = previous.number + 1
        return await self._create(
            number, previous.root, previous.chain, state, at, marker_keys
        )

    async def append_root(
        self, number: int, state: RunState, *, at: datetime
    ) -> LoadedVersion:
        """Create a version as a new root: a full copy that needs none before it.

        Raises `StaleRun` if that number is taken.
        """
        return await self._create(number, number, (), state, at, ())

    async def _create(
        self,
        number: int,
        root: int,
        chain: tuple[RebuiltVersion, ...],
        state: RunState,
        at: datetime,
        marker_keys: tuple[str, ...],
    ) -> LoadedVersion:
        base = fenwick.base(number, root)
        step = next((step for step in chain if step.number == base), None)
        claim = state.run.claim
        header = VersionHeader(
            run_id=self.run_id,
            number=number,
            root=root,
            base=base,
            base_digest=step.digest if step else None,
            status=state.run.status,
            at=at,
            claimed_until=claim.until if claim else None,
            markers=marker_keys,
        )
        body = encode_version(header, diff(step.state if step else None, state))
        try:
            store_time = await self._objects.create(
                layout.version_key(self.run_id, number), body
            )
        except AlreadyExists:
            if await self.newest_number() < number:
                key = layout.version_key(self.run_id, number)
                msg = (
                    f"{key} is taken by something that the store does not list: no "
                    "object of ours. Look at it, put it away, and try again."
                )
                raise Corrupt(msg, run_id=self.run_id) from None
            raise self.stale_error(number - 1) from None
        kept = frozenset(fenwick.chain(number, root))
        chain = tuple(step for step in chain if step.number in kept)
        new = RebuiltVersion(number, state, object_digest(body))
        return LoadedVersion(
            number, root, state, (*chain, new), marker_keys, store_time
        )

    def run_not_found_error(self) -> RunNotFound:
        """Return the error for a run that has no version."""
        msg = (
            f"run {self.run_id} was not found: this store has no version of it. Check "
            "the run id and the store's URL, or list open waits with "
            "`continuations waiting`."
        )
        return RunNotFound(msg, run_id=self.run_id)

    def _not_found_error(self, number: int) -> RunNotFound:
        msg = f"Run {self.run_id!r} has no version {number} in this store."
        return RunNotFound(msg, run_id=self.run_id)

    def stale_error(self, number: int) -> StaleRun:
        """Return the error of a process that was overtaken at a version."""
        msg = (
            f"Run {self.run_id} was moved on by another process from version {number}. "
            f"Nothing was written here. Look at it again, or resume it again."
        )
        return StaleRun(msg, run_id=self.run_id)

    async def _read(self, number: int) -> bytes:
        key = layout.version_key(self.run_id, number)
        try:
            return await self._objects.read(key)
        except NotFound:
            msg = f"{key} is missing. Restore it; every other version is untouched."
            raise Corrupt(msg, run_id=self.run_id) from None

    async def _read_chain(
        self, numbers: tuple[int, ...], *, allow_missing: bool
    ) -> dict[int, bytes]:
        results = await gather(
            *(self._read(number) for number in numbers), return_exceptions=True
        )
        found: dict[int, bytes] = {}
        for number, result in zip(numbers, results, strict=True):
            if isinstance(result, bytes):
                found[number] = result
            elif not (allow_missing and isinstance(result, ContinuationsError)):
                raise result
        return found

    def _decode_header(self, number: int, data: bytes | None) -> VersionHeader:
        key = layout.version_key(self.run_id, number)
        if data is None:
            msg = f"{key} is missing. Restore it; every other version is untouched."
            raise Corrupt(msg, run_id=self.run_id)
        header = decode_header(data, key)
        self._check_identity(header, number)
        return header

    def _rebuild_version(
        self, number: int, data: bytes, base: RebuiltVersion | None, root: int
    ) -> tuple[VersionHeader, RebuiltVersion]:
        key = layout.version_key(self.run_id, number)
        self._check_base(self._decode_header(number, data), base, root)
        version = decode_version(data, key, base.state.run if base else None)
        state = rebuild_state(base.state if base else None, version.delta, key)
        return version.header, RebuiltVersion(number, state, version.digest)

    def _check_identity(self, header: VersionHeader, number: int) -> None:
        key = layout.version_key(self.run_id, number)
        if (header.run_id, header.number) != (self.run_id, number):
            msg = f"{key} holds version {header.number} of run {header.run_id}."
            raise Corrupt(msg, run_id=self.run_id)
        if not 1 <= header.root <= number:
            msg = f"{key} names version {header.root} as its root."
            raise Corrupt(msg, run_id=self.run_id)

    def _check_base(
        self, header: VersionHeader, base: RebuiltVersion | None, root: int
    ) -> None:
        expected = (base.number, base.digest) if base else (0, None)
        counted = fenwick.base(header.number, header.root) == header.base
        made_from = (header.base, header.base_digest)
        if made_from != expected or header.root != root or not counted:
            key = layout.version_key(self.run_id, header.number)
            msg = f"{key} was made from another version {header.base} than is stored."
            raise Corrupt(msg, run_id=self.run_id)
