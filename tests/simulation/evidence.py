"""What a schedule left behind, read once: every version, decision and wait."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeVar

from continuations.core.calls import CLOSED_STATES
from continuations.core.run import ENDED_STATUSES
from continuations.ledger import layout
from continuations.ledger.objects import Objects
from continuations.ledger.versions import RebuiltVersion, Versions
from continuations.wire.records import decode_decision
from continuations_storage.contract import PAGE_SIZE

if TYPE_CHECKING:
    from collections.abc import Coroutine
    from datetime import datetime

    from continuations.core.decisions import Decision
    from continuations.core.state import RunState
    from continuations.core.waits import Wait
    from tests.simulation.sim_environment import SimEnvironment, SimStore, StoreChange

T = TypeVar("T")


class ReadOnlyStore:
    """The store as it is, at once and without a network."""

    def __init__(self, store: SimStore) -> None:
        self._store = store

    async def create(self, key: str, body: bytes) -> datetime | None:
        """Refuse: laws write nothing."""
        raise AssertionError(key, body)

    async def read(self, key: str) -> bytes:
        """Return a body."""
        return self._store.read(key)

    async def keys(
        self, prefix: str, after: str = "", limit: int = PAGE_SIZE
    ) -> list[str]:
        """Return a page of keys."""
        return self._store.keys(prefix, after, limit)

    async def delete(self, key: str) -> None:
        """Refuse: laws write nothing."""
        raise AssertionError(key)

    async def probe(self) -> None:
        """Prove nothing."""


def run_without_waiting(coroutine: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine that never has to wait."""
    try:
        coroutine.send(None)
    except StopIteration as end:
        value: T = end.value
        return value
    raise AssertionError(coroutine)


@dataclass(frozen=True, slots=True)
class Version:
    """One version, who made it, and when."""

    number: int
    at: float
    process: str
    table: RunState


@dataclass(frozen=True, slots=True)
class WaitRecord:
    """One wait that a version named, since when, and what was decided."""

    wait: Wait
    opened_at: float
    decision: Decision | None
    decided_at: float


@dataclass
class RunHistory:
    """All that became of one run."""

    run_id: str
    versions: list[Version] = field(default_factory=list[Version])
    load_error: str | None = None

    @property
    def newest_state(self) -> RunState:
        """The newest version."""
        return self.versions[-1].table

    @property
    def ended(self) -> bool:
        """Whether the run has ended."""
        return bool(self.versions) and self.newest_state.run.status in ENDED_STATUSES

    @property
    def ended_at(self) -> float:
        """When the run ended."""
        return next(v.at for v in self.versions if v.table.run.status in ENDED_STATUSES)

    def version_before(self, at: float) -> Version | None:
        """Return the newest version that had landed before a time."""
        found = None
        for version in self.versions:
            if version.at >= at:
                break
            found = version
        return found

    @cached_property
    def call_closed_at(self) -> dict[str, float]:
        """When each call first had a committed result, or was gone with its turn."""
        closed: dict[str, float] = {}
        seen: set[str] = set()
        for version in self.versions:
            calls = version.table.calls
            for call in calls.values():
                if isinstance(call.state, CLOSED_STATES):
                    closed.setdefault(call.id, version.at)
            for call_id in seen:
                if call_id not in calls:
                    closed.setdefault(call_id, version.at)
            seen.update(calls)
        return closed

    @cached_property
    def reply_kept_at(self) -> dict[tuple[str, int], float]:
        """When each model turn, by its frame's task, was first kept."""
        found: dict[tuple[str, int], float] = {}
        before: dict[str, str] = {}
        for version in self.versions:
            logs = version.table.logs
            for frame, log in logs.items():
                if frame not in before:
                    before[frame] = next(
                        m.content for m in log.messages if m.role == "user"
                    )
                turns = sum(m.role == "assistant" for m in log.messages)
                for turn in range(turns):
                    found.setdefault((before[frame], turn), version.at)
            for frame, task in before.items():
                if frame not in logs:
                    for turn in range(10):
                        found.setdefault((task, turn), version.at)
        return found


class Evidence:
    """What laws look at, beside the world itself."""

    def __init__(self, environment: SimEnvironment) -> None:
        self.environment = environment
        self.created: dict[str, list[StoreChange]] = {}
        self.deleted: dict[str, list[StoreChange]] = {}
        for landed in environment.store.changes:
            where = self.created if landed.verb == "create" else self.deleted
            where.setdefault(landed.key, []).append(landed)
        self.runs = {run_id: self._run(run_id) for run_id in environment.tree_of_run}
        self.decisions = self._decisions()
        self.waits = self._waits()

    def _run(self, run_id: str) -> RunHistory:
        story = RunHistory(run_id)
        prefix = layout.versions_prefix(run_id)
        versions = Versions(Objects(ReadOnlyStore(self.environment.store)), run_id)
        steps: dict[int, RebuiltVersion] = {}
        for key in reversed(self.environment.store.keys(prefix)):
            number = layout.version_number(key)
            try:
                steps[number] = run_without_waiting(versions.rebuild(number, steps))
            except Exception as error:  # noqa: BLE001 - the law says what is wrong
                story.load_error = (
                    f"version {number} of {run_id} does not load: {error!r}"
                )
                break
            made = self.created[key][0]
            story.versions.append(
                Version(number, made.at, made.process, steps[number].state)
            )
        return story

    def _decisions(self) -> dict[str, tuple[Decision, float]]:
        found: dict[str, tuple[Decision, float]] = {}
        for key, made in self.created.items():
            head, _, name = key.rpartition("/")
            if head.endswith("/in") and name.startswith("d-"):
                run_id = head.split("/")[1]
                decision = decode_decision(made[0].body, key, run_id)
                found[f"{name[2:]}@{run_id}"] = decision, made[0].at
        return found

    def _waits(self) -> dict[str, WaitRecord]:
        found: dict[str, WaitRecord] = {}
        for story in self.runs.values():
            for version in story.versions:
                for wait in version.table.waits.values():
                    if wait.id not in found:
                        decision, at = self.decisions.get(wait.id, (None, 0.0))
                        found[wait.id] = WaitRecord(wait, version.at, decision, at)
        return found
