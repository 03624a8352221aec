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
from continuations.wire.envelope import digest_of
from continuations.wire.versions import (
    Header,
    checked,
    decode_header,
    decode_version,
    encode_version,
    rebuilt,
)

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

    from continuations.core.table import Table
    from continuations.ledger.objects import Objects


@dataclass(frozen=True, slots=True)
class Step:
    """One version on the way to a newer one: what a later delta may be from."""

    number: int
    table: Table
    digest: bytes


@dataclass(frozen=True, slots=True)
class Loaded:
    """A version as it stands in the store, and the steps it was rebuilt from.

    `store_time` is the store's own time of the create, where this process made it
    and the store tells.
    """

    number: int
    root: int
    table: Table
    steps: tuple[Step, ...]
    markers: tuple[str, ...] = ()
    store_time: datetime | None = None


class Versions:
    """The versions of one run."""

    def __init__(self, objects: Objects, run_id: str) -> None:
        self._objects = objects
        self.run_id = run_id

    async def newest_number(self) -> int:
        """Return the number of the newest version, 0 if there is none."""
        keys = await self._objects.keys(layout.versions(self.run_id), limit=1)
        return layout.newest_of(keys, self.run_id)

    async def newest_header(self) -> Header | None:
        """Return the plain header of the newest version, or `None`."""
        number = await self.newest_number()
        if number == 0:
            return None
        return self._header(number, await self._read(number))

    async def newest(self, number: int | None = None) -> Loaded:
        """Return the newest version, of a number that may be known.

        Raises `RunNotFound`.
        """
        if number is None:
            number = await self.newest_number()
        if number == 0:
            msg = (
                f"There is no run {self.run_id!r} in this store. Check the id and the "
                "store's URL; list what waits with `continuations waiting`."
            )
            raise RunNotFound(msg, run_id=self.run_id)
        return await self.load(number)

    async def load(self, number: int) -> Loaded:
        """Return one version.

        Raises `Corrupt` if what it needs is damaged or missing, and `RunNotFound` for
        a number that the run never came to.
        """
        if number < 1:
            raise self._no_version(number)
        # Nearly every run has its root at 1: read all in one go, then look.
        found = await self._read_chain(fenwick.chain(number, 1), missing_is_fine=True)
        if number not in found and number > await self.newest_number():
            raise self._no_version(number)
        if number not in found:
            found |= await self._read_chain((number,), missing_is_fine=False)
        root = self._header(number, found.get(number)).root
        numbers = fenwick.chain(number, root)
        lacking = tuple(n for n in numbers if n not in found)
        found |= await self._read_chain(lacking, missing_is_fine=False)
        steps: list[Step] = []
        markers: tuple[str, ...] = ()
        for n in reversed(numbers):
            header, step = self._step(n, found[n], steps[-1] if steps else None, root)
            steps.append(step)
            markers = header.markers
        checked(steps[-1].table, layout.version(self.run_id, number))
        return Loaded(number, root, steps[-1].table, tuple(steps), markers)

    async def step(self, number: int, known: Mapping[int, Step]) -> Step:
        """Return one version on top of those that are known to be whole.

        Raises `Corrupt` or `FormatError` if it, or what it is a delta from, is not.
        """
        data = await self._read(number)
        header = self._header(number, data)
        base = known.get(header.base)
        if header.base and base is None:
            key = layout.version(self.run_id, number)
            msg = f"{key} is whole, but version {header.base} below it is not."
            raise Corrupt(msg, run_id=self.run_id)
        _, step = self._step(number, data, base, header.root)
        checked(step.table, layout.version(self.run_id, number))
        return step

    async def append(
        self,
        before: Loaded | None,
        table: Table,
        *,
        at: datetime,
        markers: tuple[str, ...] = (),
    ) -> Loaded:
        """Create the next version, or the first one.

        Raises `StaleRun` if another process created it: nothing was written. After
        `Inconclusive` or `StoreUnavailable` the caller must stop and re-read.
        """
        if before is None:
            return await self._create(1, 1, (), table, at, markers)
        number = before.number + 1
        return await self._create(number, before.root, before.steps, table, at, markers)

    async def plant(self, number: int, table: Table, *, at: datetime) -> Loaded:
        """Create a version as a new root: a full copy that needs none before it.

        Raises `StaleRun` if that number is taken.
        """
        return await self._create(number, number, (), table, at, ())

    async def _create(
        self,
        number: int,
        root: int,
        steps: tuple[Step, ...],
        table: Table,
        at: datetime,
        markers: tuple[str, ...],
    ) -> Loaded:
        base = fenwick.base(number, root)
        step = next((step for step in steps if step.number == base), None)
        claim = table.run.claim
        header = Header(
            run_id=self.run_id,
            number=number,
            root=root,
            base=base,
            base_digest=step.digest if step else None,
            status=table.run.status,
            at=at,
            until=claim.until if claim else None,
            markers=markers,
        )
        body = encode_version(header, diff(step.table if step else None, table))
        try:
            store_time = await self._objects.create(
                layout.version(self.run_id, number), body
            )
        except AlreadyExists:
            if await self.newest_number() < number:
                key = layout.version(self.run_id, number)
                msg = (
                    f"{key} is taken by something that the store does not list: no "
                    "object of ours. Look at it, put it away, and try again."
                )
                raise Corrupt(msg, run_id=self.run_id) from None
            raise self.stale(number - 1) from None
        kept = frozenset(fenwick.chain(number, root))
        steps = tuple(step for step in steps if step.number in kept)
        new = Step(number, table, digest_of(body))
        return Loaded(number, root, table, (*steps, new), markers, store_time)

    def _no_version(self, number: int) -> RunNotFound:
        msg = f"Run {self.run_id!r} has no version {number} in this store."
        return RunNotFound(msg, run_id=self.run_id)

    def stale(self, number: int) -> StaleRun:
        """Return the error of a process that was overtaken at a version."""
        msg = (
            f"Run {self.run_id} was moved on by another process from version {number}. "
            f"Nothing was written here. Look at it again, or resume it again."
        )
        return StaleRun(msg, run_id=self.run_id)

    async def _read(self, number: int) -> bytes:
        key = layout.version(self.run_id, number)
        try:
            return await self._objects.read(key)
        except NotFound:
            msg = f"{key} is missing. Restore it; every other version is untouched."
            raise Corrupt(msg, run_id=self.run_id) from None

    async def _read_chain(
        self, numbers: tuple[int, ...], *, missing_is_fine: bool
    ) -> dict[int, bytes]:
        results = await gather(
            *(self._read(number) for number in numbers), return_exceptions=True
        )
        found: dict[int, bytes] = {}
        for number, result in zip(numbers, results, strict=True):
            if isinstance(result, bytes):
                found[number] = result
            elif not (missing_is_fine and isinstance(result, ContinuationsError)):
                raise result
        return found

    def _header(self, number: int, data: bytes | None) -> Header:
        key = layout.version(self.run_id, number)
        if data is None:
            msg = f"{key} is missing. Restore it; every other version is untouched."
            raise Corrupt(msg, run_id=self.run_id)
        header = decode_header(data, key)
        self._check_place(header, number)
        return header

    def _step(
        self, number: int, data: bytes, base: Step | None, root: int
    ) -> tuple[Header, Step]:
        key = layout.version(self.run_id, number)
        self._check_base(self._header(number, data), base, root)
        version = decode_version(data, key, base.table.run if base else None)
        table = rebuilt(base.table if base else None, version.delta, key)
        return version.header, Step(number, table, version.digest)

    def _check_place(self, header: Header, number: int) -> None:
        key = layout.version(self.run_id, number)
        if (header.run_id, header.number) != (self.run_id, number):
            msg = f"{key} holds version {header.number} of run {header.run_id}."
            raise Corrupt(msg, run_id=self.run_id)
        if not 1 <= header.root <= number:
            msg = f"{key} names version {header.root} as its root."
            raise Corrupt(msg, run_id=self.run_id)

    def _check_base(self, header: Header, base: Step | None, root: int) -> None:
        expected = (base.number, base.digest) if base else (0, None)
        counted = fenwick.base(header.number, header.root) == header.base
        made_from = (header.base, header.base_digest)
        if made_from != expected or header.root != root or not counted:
            key = layout.version(self.run_id, header.number)
            msg = f"{key} was made from another version {header.base} than is stored."
            raise Corrupt(msg, run_id=self.run_id)
