"""The evidence of a schedule: every version, decision and wait, read once."""

from __future__ import annotations

from collections.abc import Coroutine
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property
from itertools import pairwise
from typing import Any, TypeVar

from continuations.core.rows.calls import CLOSED_STATES
from continuations.core.rows.decisions import Decision
from continuations.core.rows.run import ENDED_STATUSES
from continuations.core.rows.slots import Slot, after_slot
from continuations.core.rows.state import RunState
from continuations.core.rows.waits import Wait, next_known_wait_ulid
from continuations.ledger import layout
from continuations.ledger.layout import is_thread_id
from continuations.ledger.objects import Objects
from continuations.ledger.versions import RebuiltVersion, Versions
from continuations.wire.arrivals import REVOCATION, SLOT, Revocation
from continuations.wire.records import DECISION
from continuations_storage.contract import PAGE_SIZE
from tests.simulation.sim_environment import SimEnvironment, SimStore, StoreChange

T = TypeVar("T")


class ReadOnlyStore:
    """The final store, without faults and delays."""

    def __init__(self, store: SimStore) -> None:
        self._store = store

    async def create(self, key: str, body: bytes) -> datetime | None:
        """Refuse the create; laws do not write."""
        raise AssertionError(key, body)

    async def read(self, key: str) -> bytes:
        return self._store.read(key)

    async def keys(
        self, prefix: str, after: str = "", limit: int = PAGE_SIZE
    ) -> list[str]:
        return self._store.keys(prefix, after, limit)

    async def delete(self, key: str) -> None:
        """Refuse the delete; laws do not write."""
        raise AssertionError(key)

    async def probe(self) -> None:
        """Do nothing: the store keeps the contract."""


def run_without_waiting(coroutine: Coroutine[Any, Any, T]) -> T:
    try:
        coroutine.send(None)
    except StopIteration as end:
        value: T = end.value
        return value
    raise AssertionError(coroutine)


@dataclass(frozen=True, slots=True)
class Version:
    """One version of a run, the process that created it, and the true time."""

    number: int
    at: float
    process: str
    state: RunState


def is_rewind(before: Version, after: Version) -> bool:
    """Return whether a version is the rewound one that follows its claim."""
    return bool(before.state.run.rewind_to) and not after.state.run.rewind_to


@dataclass(frozen=True, slots=True)
class WaitRecord:
    """One wait: when a version opened it, and its decision."""

    wait: Wait
    opened_at: float
    decision: Decision | None
    decided_at: float


@dataclass
class RunHistory:
    """All versions of one run.

    Attributes:
        run_id: The id of the run.
        versions: The versions, the first one first.
        load_error: Why a version cannot be loaded, or None.
    """

    run_id: str
    versions: list[Version] = field(default_factory=list[Version])
    load_error: str | None = None

    @property
    def newest_state(self) -> RunState:
        return self.versions[-1].state

    @property
    def ended(self) -> bool:
        return bool(self.versions) and self.newest_state.run.status in ENDED_STATUSES

    @property
    def ended_at(self) -> float:
        """The true time of the version that ended the run."""
        return next(v.at for v in self.versions if v.state.run.status in ENDED_STATUSES)

    @cached_property
    def parts(self) -> tuple[RunHistory, ...]:
        """The run between its rewinds: a later part begins with a rewound version."""
        parts: list[RunHistory] = [RunHistory(self.run_id)]
        for before, version in pairwise([None, *self.versions]):
            assert version is not None
            if before is not None and is_rewind(before, version):
                parts.append(RunHistory(self.run_id))
            parts[-1].versions.append(version)
        return (self,) if len(parts) == 1 else tuple(parts)

    def part_number(self, at: float) -> int:
        """Return the index of the part at a true time."""
        begun = [n for n, part in enumerate(self.parts) if part.begins_by(at)]
        return begun[-1] if begun else 0

    def part_at(self, at: float) -> RunHistory:
        """Return the part at a true time."""
        return self.parts[self.part_number(at)]

    def begins_by(self, at: float) -> bool:
        """Return whether the first version exists at a true time."""
        return bool(self.versions) and self.versions[0].at <= at

    def version_before(self, at: float) -> Version | None:
        """Return the newest version that was created before a true time."""
        newest = None
        for version in self.versions:
            if version.at >= at:
                break
            newest = version
        return newest

    def frame_of(self, call_id: str) -> str:
        """Return the id of the frame of a call, or ""."""
        for version in self.versions:
            if call_id in version.state.calls:
                return version.state.calls[call_id].frame_id
        return ""

    @cached_property
    def call_closed_at(self) -> dict[str, float]:
        """When each call first had a committed result, or was removed with its turn."""
        closed: dict[str, float] = {}
        seen: set[str] = set()
        for version in self.versions:
            calls = version.state.calls
            for call in calls.values():
                if isinstance(call.state, CLOSED_STATES):
                    closed.setdefault(call.id, version.at)
            for call_id in seen:
                if call_id not in calls:
                    closed.setdefault(call_id, version.at)
            seen.update(calls)
        return closed

    @cached_property
    def reply_committed_at(self) -> dict[tuple[str, int], float]:
        """When the reply of each turn (frame task, number) was first committed."""
        committed: dict[tuple[str, int], float] = {}
        task_of_frame: dict[str, str] = {}
        for version in self.versions:
            logs = version.state.logs
            for frame_id, log in logs.items():
                asked = [m.content for m in log.messages if m.role == "user"]
                if not asked:
                    continue  # a thread without a message
                task_of_frame.setdefault(frame_id, asked[0])
                turns = sum(m.role == "assistant" for m in log.messages)
                for turn in range(turns):
                    committed.setdefault((task_of_frame[frame_id], turn), version.at)
            for frame_id, task in task_of_frame.items():
                if frame_id not in logs:
                    for turn in range(10):
                        committed.setdefault((task, turn), version.at)
        return committed


@dataclass(frozen=True, slots=True)
class Origin:
    """The run from which a fork or an adopted run goes on, and the version."""

    source: RunHistory
    version: Version


class Evidence:
    """All that laws read.

    Attributes:
        environment: The simulation, with its effects, model turns and notifications.
        created: The creates of each key, the first one first.
        deleted: The deletes of each key.
        runs: The history of each run.
        decisions: The decision of each wait id, and the true time of its create.
        waits: Each wait that a version opened.
        revocations: The revocation of each number of each run, and the true time.
        slots: The slots of each wait id in their order, with the true times.
    """

    def __init__(self, environment: SimEnvironment) -> None:
        self.environment = environment
        self.created: dict[str, list[StoreChange]] = {}
        self.deleted: dict[str, list[StoreChange]] = {}
        for change in environment.store.changes:
            changes = self.created if change.verb == "create" else self.deleted
            changes.setdefault(change.key, []).append(change)
        for run_id in self._generations():
            tree = environment.thread_tree
            assert tree is not None
            environment.tree_of_run.setdefault(run_id, tree)
        self.runs = {
            run_id: self._run_history(run_id) for run_id in environment.tree_of_run
        }
        if environment.deployment == "renames":
            self._name_tools_as_stored()
        self.decisions = self._decisions()
        self.waits = self._waits()
        self.slots = self._slots()
        self.revocations = self._revocations()

    def _generations(self) -> list[str]:
        """Return the ids of the runs of threads."""
        ids = {key.split("/")[1] for key in self.created if key.startswith("runs/")}
        return sorted(run_id for run_id in ids if is_thread_id(run_id))

    def _run_history(self, run_id: str) -> RunHistory:
        history = RunHistory(run_id)
        prefix = layout.versions_prefix(run_id)
        versions = Versions(Objects(ReadOnlyStore(self.environment.store)), run_id)
        rebuilt: dict[int, RebuiltVersion] = {}
        for key in reversed(self.environment.store.keys(prefix)):
            number = layout.version_number(key)
            try:
                rebuilt[number] = run_without_waiting(versions.rebuild(number, rebuilt))
            except Exception as error:  # noqa: BLE001 - a law reports it
                history.load_error = (
                    f"version {number} of {run_id} does not load: {error!r}"
                )
                break
            create = self.created[key][0]
            history.versions.append(
                Version(number, create.at, create.process, rebuilt[number].state)
            )
        return history

    def _name_tools_as_stored(self) -> None:
        """Give the tool of each effect the name that its call has in the run.

        A renamed tool runs a stored call as a copy with the old name.
        """
        names = {
            (history.run_id, call.id): call.tool
            for history in self.runs.values()
            for version in history.versions
            for call in version.state.calls.values()
        }
        for effect in self.environment.effects:
            name = names.get((effect.run_id, effect.call_id), effect.code.name)
            effect.code = effect.code.with_name(name)

    def origin_of(self, history: RunHistory) -> Origin | None:
        """Return the version from which a fork or an adopted run goes on, if any."""
        source = self.runs.get(self.environment.sources.get(history.run_id, ""))
        if source is None or source.load_error is not None or not history.versions:
            return None
        forked_from = history.versions[0].state.run.forked_from
        number = self.environment.adopted_versions.get(history.run_id)
        if forked_from is not None:
            number = int(forked_from.rpartition("@")[2])
        return None if number is None else Origin(source, source.versions[number - 1])

    def next_wait_of_job(self, wait_id: str) -> str | None:
        """Return the id of the wait after one whose answer a tool rejected."""
        name = layout.parse_wait_id(wait_id)
        history = self.runs.get(name.run_id)
        if (
            history is None
            or not history.versions
            or not layout.is_known_early(wait_id)
        ):
            return None
        run = history.versions[0].state.run
        ulid = next_known_wait_ulid(run, name.ulid)
        next_id = layout.build_wait_id(name.kind, ulid, name.run_id)
        return next_id if next_id in self.decisions or next_id in self.waits else None

    def _decisions(self) -> dict[str, tuple[Decision, float]]:
        decisions: dict[str, tuple[Decision, float]] = {}
        for key, creates in self.created.items():
            head, _, name = key.rpartition("/")
            if head.endswith("/in") and name.startswith("d-"):
                run_id = head.split("/")[1]
                decision = DECISION.decode(creates[0].body, key, run_id)
                decisions[f"{name[2:]}@{run_id}"] = decision, creates[0].at
        return decisions

    def as_slots_left(self, wait: Wait) -> Wait:
        """Return a wait as its slots left it before its end."""
        for slot, _ in self.slots.get(wait.id, ()):
            following = after_slot(wait, slot)
            if isinstance(following, Decision):
                break
            wait = following
        return wait

    def _slots(self) -> dict[str, list[tuple[Slot, float]]]:
        slots: dict[str, list[tuple[Slot, float]]] = {}
        for key, creates in sorted(self.created.items()):
            run_id = key.split("/")[1] if key.startswith("runs/") else ""
            parsed = layout.parse_slot_key(key, run_id)
            if parsed is not None:
                slot = SLOT.decode(creates[0].body, key, run_id)
                slots.setdefault(parsed[0], []).append((slot, creates[0].at))
        return slots

    def _revocations(self) -> dict[str, list[tuple[Revocation, float]]]:
        revocations: dict[str, list[tuple[Revocation, float]]] = {}
        for key, creates in sorted(self.created.items()):
            if layout.number_in(layout.REVOCATION, key) is not None:
                run_id = key.split("/")[1]
                revocation = REVOCATION.decode(creates[0].body, key, run_id)
                revocations.setdefault(run_id, []).append((revocation, creates[0].at))
        return revocations

    def _waits(self) -> dict[str, WaitRecord]:
        records: dict[str, WaitRecord] = {}
        for history in self.runs.values():
            for version in history.versions:
                for wait in version.state.waits.values():
                    if wait.id not in records:
                        decision, at = self.decisions.get(wait.id, (None, 0.0))
                        records[wait.id] = WaitRecord(wait, version.at, decision, at)
        return records
