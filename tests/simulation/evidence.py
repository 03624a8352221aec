"""What a schedule left behind, read once: every version, decision and wait."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeVar

from continuations.core.calls import CLOSED
from continuations.core.run import ENDED
from continuations.ledger import layout
from continuations.ledger.objects import Objects
from continuations.ledger.versions import Step, Versions
from continuations.wire.records import decode_decision
from continuations_storage.contract import PAGE

if TYPE_CHECKING:
    from collections.abc import Coroutine
    from datetime import datetime

    from continuations.core.decisions import Decision
    from continuations.core.table import Table
    from continuations.core.waits import Wait
    from tests.simulation.world import Landed, SimStore, World

T = TypeVar("T")


class Still:
    """The store as it is, at once and without a network."""

    def __init__(self, store: SimStore) -> None:
        self._store = store

    async def create(self, key: str, body: bytes) -> datetime | None:
        """Refuse: laws write nothing."""
        raise AssertionError(key, body)

    async def read(self, key: str) -> bytes:
        """Return a body."""
        return self._store.read(key)

    async def keys(self, prefix: str, after: str = "", limit: int = PAGE) -> list[str]:
        """Return a page of keys."""
        return self._store.keys(prefix, after, limit)

    async def delete(self, key: str) -> None:
        """Refuse: laws write nothing."""
        raise AssertionError(key)

    async def probe(self) -> None:
        """Prove nothing."""


def at_once(story: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine that never has to wait."""
    try:
        story.send(None)
    except StopIteration as end:
        value: T = end.value
        return value
    raise AssertionError(story)


@dataclass(frozen=True, slots=True)
class Version:
    """One version, who made it, and when."""

    number: int
    at: float
    process: str
    table: Table


@dataclass(frozen=True, slots=True)
class Known:
    """One wait that a version named, since when, and what was decided."""

    wait: Wait
    since: float
    decision: Decision | None
    decided_at: float


@dataclass
class RunStory:
    """All that became of one run."""

    run_id: str
    versions: list[Version] = field(default_factory=list[Version])
    fault: str | None = None

    @property
    def last(self) -> Table:
        """The newest version."""
        return self.versions[-1].table

    @property
    def ended(self) -> bool:
        """Whether the run has ended."""
        return bool(self.versions) and self.last.run.status in ENDED

    @property
    def ended_at(self) -> float:
        """When the run ended."""
        return next(v.at for v in self.versions if v.table.run.status in ENDED)

    def before(self, at: float) -> Version | None:
        """Return the newest version that had landed before a time."""
        found = None
        for version in self.versions:
            if version.at >= at:
                break
            found = version
        return found

    @cached_property
    def closed_at(self) -> dict[str, float]:
        """When each call first had a committed result, or was gone with its turn."""
        closed: dict[str, float] = {}
        seen: set[str] = set()
        for version in self.versions:
            calls = version.table.calls
            for call in calls.values():
                if isinstance(call.state, CLOSED):
                    closed.setdefault(call.id, version.at)
            for call_id in seen:
                if call_id not in calls:
                    closed.setdefault(call_id, version.at)
            seen.update(calls)
        return closed

    @cached_property
    def answered_at(self) -> dict[tuple[str, int], float]:
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

    def __init__(self, world: World) -> None:
        self.world = world
        self.made: dict[str, list[Landed]] = {}
        self.removed: dict[str, list[Landed]] = {}
        for landed in world.store.landed:
            where = self.made if landed.verb == "create" else self.removed
            where.setdefault(landed.key, []).append(landed)
        self.runs = {run_id: self._run(run_id) for run_id in world.trees}
        self.decisions = self._decisions()
        self.waits = self._waits()

    def _run(self, run_id: str) -> RunStory:
        story = RunStory(run_id)
        prefix = layout.versions(run_id)
        versions = Versions(Objects(Still(self.world.store)), run_id)
        steps: dict[int, Step] = {}
        for key in reversed(self.world.store.keys(prefix)):
            number = layout.version_number(key)
            try:
                steps[number] = at_once(versions.step(number, steps))
            except Exception as error:  # noqa: BLE001 - the law says what is wrong
                story.fault = f"version {number} of {run_id} does not load: {error!r}"
                break
            made = self.made[key][0]
            story.versions.append(
                Version(number, made.at, made.process, steps[number].table)
            )
        return story

    def _decisions(self) -> dict[str, tuple[Decision, float]]:
        found: dict[str, tuple[Decision, float]] = {}
        for key, made in self.made.items():
            head, _, name = key.rpartition("/")
            if head.endswith("/in") and name.startswith("d-"):
                run_id = head.split("/")[1]
                decision = decode_decision(made[0].body, key, run_id)
                found[f"{name[2:]}@{run_id}"] = decision, made[0].at
        return found

    def _waits(self) -> dict[str, Known]:
        found: dict[str, Known] = {}
        for story in self.runs.values():
            for version in story.versions:
                for wait in version.table.waits.values():
                    if wait.id not in found:
                        decision, at = self.decisions.get(wait.id, (None, 0.0))
                        found[wait.id] = Known(wait, version.at, decision, at)
        return found
