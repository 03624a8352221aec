"""Check every object of a run. The check never writes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, TypeAlias

from continuations import errors
from continuations.ledger import layout
from continuations.ledger.arrivals import wait_slots
from continuations.ledger.arrivals.arrival_logs import LOGS
from continuations.ledger.arrivals.arrivals import read_cancel_request
from continuations.ledger.arrivals.recorded_decisions import read_decision
from continuations.ledger.index import waits
from continuations.ledger.objects import NotFound, Objects
from continuations.ledger.versions import RebuiltVersion, Versions, tree_of
from continuations.value_class import dataclass
from continuations.wire.envelope import MAGIC, format_number
from continuations.wire.fields import FORMATS
from continuations.wire.versions import VersionHeader, decode_header

if TYPE_CHECKING:
    from collections.abc import Coroutine
    from datetime import datetime
    from typing import Any

    from continuations.core.rows.state import RunState
    from continuations.core.rows.waits import Wait
    from continuations.ledger.loaded_version import Tree


FindingKind: TypeAlias = Literal["missing", "damaged", "newer", "unread", "foreign"]

# In a longer gap, only the first ones are listed.
_MAX_LISTED_MISSING = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One problem with one object.

    Attributes:
        key: The key of the object.
        kind: The kind of problem.

            - "missing": the object does not exist.
            - "damaged": it cannot be decoded, or does not fit the other objects.
            - "newer": it is whole, but a later release wrote it in a later format.
            - "unread": the store did not return it, which is not damage.
            - "foreign": this library did not write the key.
        problem: The text for people.
        blocks_run: Whether the run cannot continue from its newest version.
    """

    key: str
    kind: FindingKind
    problem: str
    blocks_run: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class IntegrityReport:
    """The result of a check of a run.

    Attributes:
        run_id: The run.
        newest_number: The number of the newest version key, also of a damaged one; 0
            without one.
        last_good_number: The number of the last version that can be rebuilt, or 0.
        findings: The problems.
        versions_without_base: Numbers of whole versions whose base is not whole.
        damaged_waits: Ids of waits of the last good version whose object or decision
            is damaged.
        claimed_until: The end of the last readable claim, or `None`.
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
        """Whether the run can continue from its newest version without a repair."""
        blocked = any(finding.blocks_run for finding in self.findings)
        return self.last_good_number > 0 and not self.lost_numbers and not blocked


async def check_integrity(objects: Objects, run_id: str) -> IntegrityReport:
    """Read every object of a run and report problems.

    The check cannot notice that the newest version is missing.

    Raises:
        InvalidId: The run id is not valid.
        RunNotFound: The run does not exist, or began during the check.
    """
    layout.check_run_id(run_id)
    scan = _IntegrityScan(objects, run_id)
    numbers = await scan.list_version_numbers()
    await scan.scan_versions(numbers)
    state = scan.last_good.state if scan.last_good else None
    await scan.scan_arrivals(state)
    await scan.scan_files(state)
    if not numbers and not scan.findings:
        raise Versions(objects, run_id).run_not_found_error()
    return IntegrityReport(
        run_id=run_id,
        newest_number=numbers[-1] if numbers else 0,
        last_good_number=scan.last_good.number if scan.last_good else 0,
        findings=tuple(scan.findings),
        versions_without_base=tuple(scan.versions_without_base),
        damaged_waits=tuple(scan.damaged_waits),
        claimed_until=scan.claimed_until,
    )


class _CachingObjects(Objects):
    """A store that caches the body that was read last."""

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

    def classify(self, error: errors.ContinuationsError) -> FindingKind:
        """Return the kind of problem with the object that was read last."""
        if isinstance(error, errors.StoreError):
            return "unread"
        ours = self.last_body.startswith(MAGIC) and not isinstance(
            error, errors.Corrupt
        )
        newer = ours and format_number(self.last_body) not in FORMATS
        return "newer" if newer else "damaged"


class _IntegrityScan:
    """One check of a run, from the oldest version to the newest.

    Versions that can be the base of a later one are kept by their tree, because a base
    belongs to the same tree.
    """

    def __init__(self, objects: Objects, run_id: str) -> None:
        self._objects = _CachingObjects(objects)
        self._versions = Versions(self._objects, run_id)
        self._run_id = run_id
        self._bases_by_tree: dict[Tree, dict[int, RebuiltVersion]] = {}
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
        """Return the numbers of all versions, in ascending order."""
        numbers: list[int] = []
        async for key in self._objects.all_keys(layout.versions_prefix(self._run_id)):
            try:
                number = layout.version_number(key)
            except errors.Corrupt:
                number = 0
            if number and key == layout.version_key(self._run_id, number):
                numbers.append(number)
            else:
                # Such a key before the newest version hides that version.
                problem = (
                    f"{key} was not written by continuations. Move it out of "
                    f"{layout.run_prefix(self._run_id)} and try again."
                )
                self._add_finding(key, "foreign", problem, blocks=not numbers)
        return numbers[::-1]

    async def scan_versions(self, numbers: list[int]) -> None:
        """Check every version, the oldest first."""
        expected = 1
        for number in numbers:
            self._add_missing(expected, number - expected)
            await self._scan_version(number)
            self._drop_unneeded_bases(number)
            expected = number + 1
        await self._check_unlisted_number(expected)
        good = self.last_good.number if self.last_good else 0
        lacks_base = any(number > good for number in self.versions_without_base)
        for number, kind, problem in self._version_faults:
            key = layout.version_key(self._run_id, number)
            # Version 2 may be good without version 1. If version 1 is whole and was
            # not read, the versions after them are not lost.
            may_be_base = lacks_base and kind in ("unread", "newer")
            self._add_finding(key, kind, problem, blocks=number > good or may_be_base)

    def _add_missing(self, first: int, count: int) -> None:
        for number in range(first, first + min(count, _MAX_LISTED_MISSING)):
            self._version_faults.append((number, "missing", "It is missing."))
        if count > _MAX_LISTED_MISSING:
            last = layout.version_key(self._run_id, first + count - 1)
            number, kind, _ = self._version_faults[-1]
            problem = f"It is missing, and so is every version up to {last}."
            self._version_faults[-1] = (number, kind, problem)

    def _drop_unneeded_bases(self, number: int) -> None:
        """Keep only versions that can be the base of a later one."""
        for tree, known in self._bases_by_tree.items():
            kept = tree.chain(number)
            self._bases_by_tree[tree] = {n: known[n] for n in kept if n in known}

    async def _check_unlisted_number(self, number: int) -> None:
        """Check whether the next number is taken by an object that is not listed.

        A file store does not list links and pipes.
        """
        if number <= layout.MAX_VERSIONS:
            key = layout.version_key(self._run_id, number)
            await self._check_record(key, self._objects.read(key), blocks=True)

    async def _scan_version(self, number: int) -> None:
        key = layout.version_key(self._run_id, number)
        try:
            header = decode_header(await self._objects.read(key), key)
            known = self._bases_by_tree.get(tree_of(header), {})
            if self._lacks_base(header, number):
                self.versions_without_base.append(number)
                return
            self.last_good = await self._versions.rebuild(number, known)
        except NotFound:
            self._version_faults.append((number, "missing", "It is missing."))
        except errors.RunErased:
            raise
        except errors.ContinuationsError as error:
            self._version_faults.append(
                (number, self._objects.classify(error), str(error))
            )
        else:
            self._bases_by_tree[tree_of(header)] = {**known, number: self.last_good}
            self._rebuilt_numbers.add(number)

    def _lacks_base(self, header: VersionHeader, number: int) -> bool:
        """Return whether a whole version has a base that is not whole."""
        consistent = (
            (header.run_id, header.number) == (self._run_id, number)
            and 1 <= header.root <= number
            and header.base == tree_of(header).base(number)
        )
        if consistent:
            self.claimed_until = header.claimed_until
        if header.base == 0 or header.base_object is not None:
            return False
        # `rebuild` reports a header that is not consistent.
        return consistent and header.base not in self._rebuilt_numbers

    # Arrivals -----------------------------------------------------------------

    async def scan_arrivals(self, state: RunState | None) -> None:
        """Check everything that arrived, then the open waits."""
        open_waits = {} if state is None else dict(state.waits)
        open_run = state is not None and not state.run.has_ended
        if state is None and not self._version_faults:
            await self._check_arrivals_without_versions()
            return
        run_id = self._run_id
        async for key in self._objects.all_keys(layout.arrivals_prefix(run_id)):
            wait_id = layout.decided_wait_id(key, run_id)
            if wait_id is not None:
                await self._scan_decision(key, wait_id, state)
            elif key == layout.cancel_request_key(run_id):
                reading_it = read_cancel_request(self._objects, run_id)
                await self._check_record(key, reading_it, blocks=open_run)
            await self._scan_numbered(key, state, is_open=open_run)
        for wait_id, wait in open_waits.items():
            if wait.has_slots:
                await self._scan_slots(wait)
            key = layout.decision_key(wait_id)
            if not await self._objects.keys(key, limit=1):
                await self._scan_undecided_wait(key, wait_id)

    async def _scan_numbered(
        self, key: str, state: RunState | None, *, is_open: bool
    ) -> None:
        """Check an arrival with a number, or the lowest number of an id."""
        run_id = self._run_id
        reading_number = read_lowest_number(self._objects, run_id, key)
        if reading_number is not None:
            await self._check_record(key, reading_number, blocks=False)
        for log in LOGS:
            number = log.number_in(key)
            if number is not None:
                reading = log.read(self._objects, run_id, number)
                blocks = is_open and (state is None or log.is_awaited_by(state, number))
                await self._check_record(key, reading, blocks=blocks)

    async def _scan_slots(self, wait: Wait) -> None:
        """Check the slots of an open wait, and that none is missing before another."""
        prefix = layout.slots_prefix(wait.id)
        keys = [key async for key in self._objects.all_keys(prefix)]
        for number in range(1, len(keys) + 1):
            key = layout.slot_key(wait.id, number)
            reading = wait_slots.read(self._objects, wait, number)
            kind = await self._check_record(key, reading, blocks=True)
            if key not in keys:
                self._add_finding(key, "missing", "It is missing.", blocks=True)
                kind = "damaged"
            if kind == "damaged" and wait.id not in self.damaged_waits:
                self.damaged_waits.append(wait.id)

    async def _scan_undecided_wait(self, key: str, wait_id: str) -> None:
        """Check a wait without a listed decision."""
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
        except errors.WaitNotFound:
            return  # a foreign key, which the ledger ignores
        reading = read_decision(self._objects, wait_id)
        digest = wait.digest if wait else None
        kind = await self._check_record(
            key, reading, blocks=wait is not None, digest=digest
        )
        if wait is not None and kind == "damaged":
            self.damaged_waits.append(wait_id)

    async def scan_files(self, state: RunState | None) -> None:
        """Check the attachments that the messages refer to; a run may have none."""
        logs = () if state is None else state.logs.values()
        if state is None or not any(
            log.transcript_check.has_attachments for log in logs
        ):
            return
        from continuations.ledger.repair import run_files  # noqa: PLC0415 - few runs have files

        for key, attachment in run_files.referenced(state):
            reading = run_files.read_own(self._objects, key, attachment)
            kind = await self._check_record(key, reading, blocks=False)
            if kind is None and not await self._objects.keys(key, limit=1):
                self._add_finding(key, "missing", "It is missing.", blocks=False)

    async def _check_record(
        self,
        key: str,
        read_record: Coroutine[Any, Any, Any],
        *,
        blocks: bool,
        digest: str | None = None,
    ) -> FindingKind | None:
        """Read one record; add and return the problem with it, if any."""
        try:
            record = await read_record
        except NotFound:
            return None
        except (errors.FormatError, errors.StoreError) as error:
            kind = self._objects.classify(error)
            self._add_finding(key, kind, str(error), blocks=blocks)
            return kind
        if digest is not None and record is not None and record.digest != digest:
            problem = "It was made for another call."
            self._add_finding(key, "damaged", problem, blocks=blocks)
            return "damaged"
        return None

    async def _check_arrivals_without_versions(self) -> None:
        keys = await self._objects.keys(layout.arrivals_prefix(self._run_id), limit=1)
        # The run may have begun after its versions were listed.
        if keys and not self.findings and not await self._versions.newest_number():
            key = layout.version_key(self._run_id, 1)
            problem = f"It is missing, like every other version, but {keys[0]} exists."
            self._add_finding(key, "missing", problem, blocks=True)


def read_lowest_number(
    objects: Objects, run_id: str, key: str
) -> Coroutine[Any, Any, int] | None:
    """Return the reading of the lowest number of an id; `None` for another key."""
    letter = key.removeprefix(layout.arrivals_prefix(run_id)).partition("-")[0]
    log = next((each for each in LOGS if letter and each.id_letter == letter), None)
    if log is None:
        return None

    async def read() -> int:
        return log.id_record.decode(await objects.read(key), key, run_id).number

    return read()
