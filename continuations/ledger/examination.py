"""What of a run can be read, object by object; looking never writes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypeAlias

from continuations.core.run import ENDED
from continuations.errors import (
    ContinuationsError,
    Corrupt,
    FormatError,
    RunNotFound,
    StoreError,
    WaitNotFound,
)
from continuations.ledger import fenwick, layout, waits
from continuations.ledger.arrivals import read_cancellation, read_decision, read_letter
from continuations.ledger.objects import NotFound, Objects
from continuations.ledger.versions import Step, Versions
from continuations.wire.envelope import FORMATS, MAGIC
from continuations.wire.versions import Header, decode_header

if TYPE_CHECKING:
    from collections.abc import Coroutine
    from datetime import datetime
    from typing import Any

    from continuations.core.table import Table

# `newer`: whole, in a format of a later version of continuations. `unread`: the store
# would not give it, which is not damage. `stranger`: a key that is nothing of ours.
Kind: TypeAlias = Literal["missing", "damaged", "newer", "unread", "stranger"]

# Of a longer gap only the first is named.
_NAMED = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One object that is missing, damaged, or not what its key says.

    `blocks` tells that the run cannot go on from its newest version because of it.
    """

    key: str
    kind: Kind
    problem: str
    blocks: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Examination:
    """What was found of a run.

    `newest` is the number of its newest key, whatever is there, and `last_good` that
    of the last version that can be rebuilt; 0 where there is none. `stranded` versions
    are whole, but built on one that is not. `undecidable` are waits of the last good
    version whose object or decision is damaged. `claimed_until` is the end of the last
    claim that can be read.
    """

    run_id: str
    newest: int
    last_good: int
    findings: tuple[Finding, ...]
    stranded: tuple[int, ...] = ()
    undecidable: tuple[str, ...] = ()
    claimed_until: datetime | None = None

    @property
    def lost(self) -> range:
        """The numbers of the versions after the last good one."""
        return range(self.last_good + 1, self.newest + 1)

    @property
    def goes_on(self) -> bool:
        """Whether the run goes on from its newest version: nothing needs a repair."""
        blocked = any(finding.blocks for finding in self.findings)
        return self.last_good > 0 and not self.lost and not blocked


async def examine(objects: Objects, run_id: str) -> Examination:
    """Read every object of a run and say what is wrong; raises `RunNotFound`.

    A newest version that is gone without a trace cannot be missed.
    """
    layout.check_run_id(run_id)
    look = _Look(objects, run_id)
    numbers = await look.numbers()
    await look.over_versions(numbers)
    table = look.good.table if look.good else None
    await look.over_arrivals(table)
    if not numbers and not look.findings:
        msg = f"There is no run {run_id!r} in this store."
        raise RunNotFound(msg, run_id=run_id)
    return Examination(
        run_id=run_id,
        newest=numbers[-1] if numbers else 0,
        last_good=look.good.number if look.good else 0,
        findings=tuple(look.findings),
        stranded=tuple(look.stranded),
        undecidable=tuple(look.undecidable),
        claimed_until=look.claimed_until,
    )


class _Remembering(Objects):
    """The store, with the last body at hand that was read."""

    def __init__(self, objects: Objects) -> None:
        super().__init__(objects.store)
        self._key = ""
        self.body = b""

    async def read(self, key: str) -> bytes:
        if key != self._key:
            self._key, self.body = "", b""
            self.body = await super().read(key)
            self._key = key
        return self.body

    def kind_of(self, error: ContinuationsError) -> Kind:
        """Return what is the matter with the object that was read last."""
        if isinstance(error, StoreError):
            return "unread"
        number = int.from_bytes(self.body[4:6], "big")
        ours = self.body.startswith(MAGIC) and not isinstance(error, Corrupt)
        return "newer" if ours and number not in FORMATS else "damaged"


class _Look:
    """Goes up the versions of a run, with those at hand that others are built on.

    They are kept by their root: no version is built on one of another root.
    """

    def __init__(self, objects: Objects, run_id: str) -> None:
        self._objects = _Remembering(objects)
        self._versions = Versions(self._objects, run_id)
        self._run_id = run_id
        self._known: dict[int, dict[int, Step]] = {}
        self._whole: set[int] = set()
        self._faults: list[tuple[int, Kind, str]] = []
        self.good: Step | None = None
        self.stranded: list[int] = []
        self.findings: list[Finding] = []
        self.undecidable: list[str] = []
        self.claimed_until: datetime | None = None

    def _found(self, key: str, kind: Kind, problem: str, *, blocks: bool) -> None:
        self.findings.append(
            Finding(key=key, kind=kind, problem=problem, blocks=blocks)
        )

    # Versions -----------------------------------------------------------------

    async def numbers(self) -> list[int]:
        """Return the numbers of all versions there are, in order."""
        numbers: list[int] = []
        async for key in self._objects.all_keys(layout.versions(self._run_id)):
            try:
                number = layout.version_number(key)
            except Corrupt:
                number = 0
            if number and key == layout.version(self._run_id, number):
                numbers.append(number)
            else:
                # Whoever wants the newest version meets what sorts before it.
                problem = f"{key} is no version of a run. Remove it, or what it is in."
                self._found(key, "stranger", problem, blocks=not numbers)
        return numbers[::-1]

    async def over_versions(self, numbers: list[int]) -> None:
        """Look at every version, the oldest first."""
        expected = 1
        for number in numbers:
            self._miss(expected, number - expected)
            await self._version(number)
            self._forget(number)
            expected = number + 1
        await self._unlisted(expected)
        good = self.good.number if self.good else 0
        for number, kind, problem in self._faults:
            key = layout.version(self._run_id, number)
            self._found(key, kind, problem, blocks=number > good)

    def _miss(self, first: int, count: int) -> None:
        for number in range(first, first + min(count, _NAMED)):
            self._faults.append((number, "missing", "It is missing."))
        if count > _NAMED:
            last = layout.version(self._run_id, first + count - 1)
            number, kind, _ = self._faults[-1]
            problem = f"It is missing, and so is every version up to {last}."
            self._faults[-1] = (number, kind, problem)

    def _forget(self, number: int) -> None:
        """Keep those at hand that a later version can be built on."""
        for root, known in self._known.items():
            kept = fenwick.chain(number, root)
            self._known[root] = {n: known[n] for n in kept if n in known}

    async def _unlisted(self, number: int) -> None:
        """Look whether the next number is taken by what no listing shows.

        A file store passes over links and pipes: they are no objects.
        """
        if number <= layout.MOST_VERSIONS:
            key = layout.version(self._run_id, number)
            await self._read(key, self._objects.read(key), blocks=True)

    async def _version(self, number: int) -> None:
        key = layout.version(self._run_id, number)
        try:
            header = decode_header(await self._objects.read(key), key)
            known = self._known.get(header.root, {})
            if self._is_stranded(header, number):
                self.stranded.append(number)
                return
            self.good = await self._versions.step(number, known)
        except NotFound:
            self._faults.append((number, "missing", "It is missing."))
        except ContinuationsError as error:
            self._faults.append((number, self._objects.kind_of(error), str(error)))
        else:
            self._known[header.root] = {**known, number: self.good}
            self._whole.add(number)

    def _is_stranded(self, header: Header, number: int) -> bool:
        """Tell whether a whole version is built on one that is not."""
        honest = (
            (header.run_id, header.number) == (self._run_id, number)
            and 1 <= header.root <= number
            and header.base == fenwick.base(number, header.root)
        )
        if honest:
            self.claimed_until = header.until
        # What is not honest is found out by whoever reads it.
        return honest and header.base != 0 and header.base not in self._whole

    # What came from outside ---------------------------------------------------

    async def over_arrivals(self, table: Table | None) -> None:
        """Look at decisions, messages and the cancellation, then at the open waits."""
        open_waits = {} if table is None else dict(table.waits)
        heard = table.run.inbox if table else 0
        open_run = table is not None and table.run.status not in ENDED
        if table is None and not self._faults:
            await self._orphans()
            return
        run_id = self._run_id
        async for key in self._objects.all_keys(layout.arrivals(run_id)):
            number = layout.letter_number(key)
            wait_id = layout.decided_wait(key, run_id)
            if wait_id is not None:
                await self._decision(key, wait_id, table)
            elif number is not None:
                reading = read_letter(self._objects, run_id, number)
                await self._read(key, reading, blocks=open_run and number > heard)
            elif key == layout.cancellation(run_id):
                reading_it = read_cancellation(self._objects, run_id)
                await self._read(key, reading_it, blocks=open_run)
        for wait_id in open_waits:
            key = layout.decision(wait_id)
            if not await self._objects.keys(key, limit=1):
                await self._undecided(key, wait_id)

    async def _undecided(self, key: str, wait_id: str) -> None:
        """Look at a wait that no listing shows as decided."""
        reading = read_decision(self._objects, wait_id)
        await self._read(key, reading, blocks=True)
        reading_wait = waits.read(self._objects, wait_id)
        kind = await self._read(layout.wait(wait_id), reading_wait, blocks=True)
        if kind == "damaged":
            self.undecidable.append(wait_id)

    async def _decision(self, key: str, wait_id: str, table: Table | None) -> None:
        wait = table.waits.get(wait_id) if table else None
        try:
            if layout.decision(wait_id) != key:
                return
        except WaitNotFound:
            return  # a stranger, passed over as the ledger does
        reading = read_decision(self._objects, wait_id)
        digest = wait.digest if wait else None
        kind = await self._read(key, reading, blocks=wait is not None, digest=digest)
        if wait is not None and kind == "damaged":
            self.undecidable.append(wait_id)

    async def _read(
        self,
        key: str,
        reading: Coroutine[Any, Any, Any],
        *,
        blocks: bool,
        digest: str | None = None,
    ) -> Kind | None:
        """Read one record; note and return what is the matter with it, if anything."""
        try:
            record = await reading
        except NotFound:
            return None
        except (FormatError, StoreError) as error:
            kind = self._objects.kind_of(error)
            self._found(key, kind, str(error), blocks=blocks)
            return kind
        if digest is not None and record is not None and record.digest != digest:
            problem = "It was made for another call than the one that waits."
            self._found(key, "damaged", problem, blocks=blocks)
            return "damaged"
        return None

    async def _orphans(self) -> None:
        keys = await self._objects.keys(layout.arrivals(self._run_id), limit=1)
        if keys and not self.findings:
            key = layout.version(self._run_id, 1)
            problem = f"It is missing with every other version; {keys[0]} is there."
            self._found(key, "missing", problem, blocks=True)
