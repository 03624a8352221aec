"""What of a run can be read, object by object; looking never writes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypeAlias

from continuations.core.run import ENDED_STATUSES
from continuations.errors import (
    ContinuationsError,
    Corrupt,
    FormatError,
    RunNotFound,
    StoreError,
    WaitNotFound,
)
from continuations.ledger import fenwick, layout, waits
from continuations.ledger.arrivals import (
    read_cancel_request,
    read_decision,
    read_inbox_message,
)
from continuations.ledger.objects import NotFound, Objects
from continuations.ledger.versions import RebuiltVersion, Versions
from continuations.wire.envelope import FORMATS, MAGIC
from continuations.wire.versions import VersionHeader, decode_header

if TYPE_CHECKING:
    from collections.abc import Coroutine
    from datetime import datetime
    from typing import Any

    from continuations.core.state import RunState

# `newer`: whole, in a format of a later version of continuations. `unread`: the store
# would not give it, which is not damage. `stranger`: a key that is nothing of ours.
FindingKind: TypeAlias = Literal["missing", "damaged", "newer", "unread", "stranger"]

# Of a longer gap only the first is named.
_MAX_LISTED_MISSING = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One object that is missing, damaged, or not what its key says.

    `blocks` tells that the run cannot go on from its newest version because of it.
    """

    key: str
    kind: FindingKind
    problem: str
    blocks_run: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class IntegrityReport:
    """What was found of a run.

    `newest` is the number of its newest key, whatever is there, and `last_good` that
    of the last version that can be rebuilt; 0 where there is none. `stranded` versions
    are whole, but built on one that is not. `undecidable` are waits of the last good
    version whose object or decision is damaged. `claimed_until` is the end of the last
    claim that can be read.
    """

    run_id: str
    newest_number: int
    last_good_number: int
    findings: tuple[Finding, ...]
    versions_without_base: tuple[int, ...] = ()
    damaged_waits: tuple[str, ...] = ()
    claimed_until: datetime | None = None

    @property
    def lost_numbers(self) -> range:
        """The numbers of the versions after the last good one."""
        return range(self.last_good_number + 1, self.newest_number + 1)

    @property
    def is_resumable(self) -> bool:
        """Whether the run goes on from its newest version: nothing needs a repair."""
        blocked = any(finding.blocks_run for finding in self.findings)
        return self.last_good_number > 0 and not self.lost_numbers and not blocked


async def check_integrity(objects: Objects, run_id: str) -> IntegrityReport:
    """Read every object of a run and say what is wrong; raises `RunNotFound`.

    A newest version that is gone without a trace cannot be missed.
    """
    layout.check_run_id(run_id)
    look = _IntegrityScan(objects, run_id)
    numbers = await look.list_version_numbers()
    await look.scan_versions(numbers)
    state = look.last_good.state if look.last_good else None
    await look.scan_arrivals(state)
    if not numbers and not look.findings:
        msg = f"There is no run {run_id!r} in this store."
        raise RunNotFound(msg, run_id=run_id)
    return IntegrityReport(
        run_id=run_id,
        newest_number=numbers[-1] if numbers else 0,
        last_good_number=look.last_good.number if look.last_good else 0,
        findings=tuple(look.findings),
        versions_without_base=tuple(look.versions_without_base),
        damaged_waits=tuple(look.damaged_waits),
        claimed_until=look.claimed_until,
    )


class _CachingObjects(Objects):
    """The store, with the last body at hand that was read."""

    def __init__(self, objects: Objects) -> None:
        super().__init__(objects.store)
        self._key = ""
        self.last_body = b""

    async def read(self, key: str) -> bytes:
        if key != self._key:
            self._key, self.last_body = "", b""
            self.last_body = await super().read(key)
            self._key = key
        return self.last_body

    def classify(self, error: ContinuationsError) -> FindingKind:
        """Return what is the matter with the object that was read last."""
        if isinstance(error, StoreError):
            return "unread"
        number = int.from_bytes(self.last_body[4:6], "big")
        ours = self.last_body.startswith(MAGIC) and not isinstance(error, Corrupt)
        return "newer" if ours and number not in FORMATS else "damaged"


class _IntegrityScan:
    """Goes up the versions of a run, with those at hand that others are built on.

    They are kept by their root: no version is built on one of another root.
    """

    def __init__(self, objects: Objects, run_id: str) -> None:
        self._objects = _CachingObjects(objects)
        self._versions = Versions(self._objects, run_id)
        self._run_id = run_id
        self._bases_by_root: dict[int, dict[int, RebuiltVersion]] = {}
        self._rebuilt_numbers: set[int] = set()
        self._version_faults: list[tuple[int, FindingKind, str]] = []
        self.last_good: RebuiltVersion | None = None
        self.versions_without_base: list[int] = []
        self.findings: list[Finding] = []
        self.damaged_waits: list[str] = []
        self.claimed_until: datetime | None = None

    def _add_finding(
        self, key: str, kind: FindingKind, problem: str, *, blocks: bool
    ) -> None:
        self.findings.append(
            Finding(key=key, kind=kind, problem=problem, blocks_run=blocks)
        )

    # Versions -----------------------------------------------------------------

    async def list_version_numbers(self) -> list[int]:
        """Return the numbers of all versions there are, in order."""
        numbers: list[int] = []
        async for key in self._objects.all_keys(layout.versions_prefix(self._run_id)):
            try:
                number = layout.version_number(key)
            except Corrupt:
                number = 0
            if number and key == layout.version_key(self._run_id, number):
                numbers.append(number)
            else:
                # Whoever wants the newest version meets what sorts before it.
                problem = f"{key} is no version of a run. Remove it, or what it is in."
                self._add_finding(key, "stranger", problem, blocks=not numbers)
        return numbers[::-1]

    async def scan_versions(self, numbers: list[int]) -> None:
        """Look at every version, the oldest first."""
        expected = 1
        for number in numbers:
            self._add_missing(expected, number - expected)
            await self._scan_version(number)
            self._drop_unneeded_bases(number)
            expected = number + 1
        await self._check_unlisted_number(expected)
        good = self.last_good.number if self.last_good else 0
        for number, kind, problem in self._version_faults:
            key = layout.version_key(self._run_id, number)
            self._add_finding(key, kind, problem, blocks=number > good)

    def _add_missing(self, first: int, count: int) -> None:
        for number in range(first, first + min(count, _MAX_LISTED_MISSING)):
            self._version_faults.append((number, "missing", "It is missing."))
        if count > _MAX_LISTED_MISSING:
            last = layout.version_key(self._run_id, first + count - 1)
            number, kind, _ = self._version_faults[-1]
            problem = f"It is missing, and so is every version up to {last}."
            self._version_faults[-1] = (number, kind, problem)

    def _drop_unneeded_bases(self, number: int) -> None:
        """Keep those at hand that a later version can be built on."""
        for root, known in self._bases_by_root.items():
            kept = fenwick.chain(number, root)
            self._bases_by_root[root] = {n: known[n] for n in kept if n in known}

    async def _check_unlisted_number(self, number: int) -> None:
        """Look whether the next number is taken by what no listing shows.

        A file store passes over links and pipes: they are no objects.
        """
        if number <= layout.MAX_VERSIONS:
            key = layout.version_key(self._run_id, number)
            await self._check_record(key, self._objects.read(key), blocks=True)

    async def _scan_version(self, number: int) -> None:
        key = layout.version_key(self._run_id, number)
        try:
            header = decode_header(await self._objects.read(key), key)
            known = self._bases_by_root.get(header.root, {})
            if self._lacks_base(header, number):
                self.versions_without_base.append(number)
                return
            self.last_good = await self._versions.rebuild(number, known)
        except NotFound:
            self._version_faults.append((number, "missing", "It is missing."))
        except ContinuationsError as error:
            self._version_faults.append(
                (number, self._objects.classify(error), str(error))
            )
        else:
            self._bases_by_root[header.root] = {**known, number: self.last_good}
            self._rebuilt_numbers.add(number)

    def _lacks_base(self, header: VersionHeader, number: int) -> bool:
        """Tell whether a whole version is built on one that is not."""
        honest = (
            (header.run_id, header.number) == (self._run_id, number)
            and 1 <= header.root <= number
            and header.base == fenwick.base(number, header.root)
        )
        if honest:
            self.claimed_until = header.claimed_until
        # What is not honest is found out by whoever reads it.
        return honest and header.base != 0 and header.base not in self._rebuilt_numbers

    # What came from outside ---------------------------------------------------

    async def scan_arrivals(self, state: RunState | None) -> None:
        """Look at decisions, messages and the cancellation, then at the open waits."""
        open_waits = {} if state is None else dict(state.waits)
        heard = state.run.last_inbox_number if state else 0
        open_run = state is not None and state.run.status not in ENDED_STATUSES
        if state is None and not self._version_faults:
            await self._check_arrivals_without_versions()
            return
        run_id = self._run_id
        async for key in self._objects.all_keys(layout.arrivals_prefix(run_id)):
            number = layout.inbox_message_number(key)
            wait_id = layout.decided_wait_id(key, run_id)
            if wait_id is not None:
                await self._scan_decision(key, wait_id, state)
            elif number is not None:
                reading = read_inbox_message(self._objects, run_id, number)
                await self._check_record(
                    key, reading, blocks=open_run and number > heard
                )
            elif key == layout.cancel_request_key(run_id):
                reading_it = read_cancel_request(self._objects, run_id)
                await self._check_record(key, reading_it, blocks=open_run)
        for wait_id in open_waits:
            key = layout.decision_key(wait_id)
            if not await self._objects.keys(key, limit=1):
                await self._scan_undecided_wait(key, wait_id)

    async def _scan_undecided_wait(self, key: str, wait_id: str) -> None:
        """Look at a wait that no listing shows as decided."""
        reading = read_decision(self._objects, wait_id)
        await self._check_record(key, reading, blocks=True)
        reading_wait = waits.read(self._objects, wait_id)
        kind = await self._check_record(
            layout.wait_key(wait_id), reading_wait, blocks=True
        )
        if kind == "damaged":
            self.damaged_waits.append(wait_id)

    async def _scan_decision(
        self, key: str, wait_id: str, state: RunState | None
    ) -> None:
        wait = state.waits.get(wait_id) if state else None
        try:
            if layout.decision_key(wait_id) != key:
                return
        except WaitNotFound:
            return  # a stranger, passed over as the ledger does
        reading = read_decision(self._objects, wait_id)
        digest = wait.digest if wait else None
        kind = await self._check_record(
            key, reading, blocks=wait is not None, digest=digest
        )
        if wait is not None and kind == "damaged":
            self.damaged_waits.append(wait_id)

    async def _check_record(
        self,
        key: str,
        read_record: Coroutine[Any, Any, Any],
        *,
        blocks: bool,
        digest: str | None = None,
    ) -> FindingKind | None:
        """Read one record; note and return what is the matter with it, if anything."""
        try:
            record = await read_record
        except NotFound:
            return None
        except (FormatError, StoreError) as error:
            kind = self._objects.classify(error)
            self._add_finding(key, kind, str(error), blocks=blocks)
            return kind
        if digest is not None and record is not None and record.digest != digest:
            problem = "It was made for another call than the one that waits."
            self._add_finding(key, "damaged", problem, blocks=blocks)
            return "damaged"
        return None

    async def _check_arrivals_without_versions(self) -> None:
        keys = await self._objects.keys(layout.arrivals_prefix(self._run_id), limit=1)
        if keys and not self.findings:
            key = layout.version_key(self._run_id, 1)
            problem = f"It is missing with every other version; {keys[0]} is there."
            self._add_finding(key, "missing", problem, blocks=True)
