"""The world of a schedule: one store, its network, and what everybody did."""

from __future__ import annotations

import asyncio
from bisect import bisect_left, bisect_right, insort
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar

from continuations_storage.contract import PAGE_SIZE, Page
from continuations_storage.errors import (
    AlreadyExists,
    Inconclusive,
    NotFound,
    StorageError,
    Throttled,
    Unavailable,
)
from continuations_storage.keys import check_key, check_prefix
from tests.simulation.processes import ClockSample, Process, ProcessKilled, wall_time
from tests.simulation.virtual_loop import NO_PROCESS, VirtualLoop

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime

    from continuations import Wait
    from continuations.core.decisions import Verdict
    from tests.simulation.fault_schedule import FaultSchedule, OperationPlan

T = TypeVar("T")

# How far a listing of waits may lag, in seconds.
LISTING_LAG = 8.0
# More operations than any schedule needs: one that does more goes round for ever.
MAX_OPERATIONS = 20_000


@dataclass(frozen=True, slots=True)
class StoreChange:
    """A create or delete that changed the store."""

    at: float
    process: str
    verb: str
    key: str
    body: bytes = b""


@dataclass(slots=True)
class Effect:
    """What a tool did outside; `looked`: when its process last looked at a clock."""

    process: str
    tool: str
    run_id: str
    call_id: str
    key: str
    arguments: str
    fence: int
    attempt: int
    clock_sample: ClockSample
    began: float
    ended: float | None = None

    def __str__(self) -> str:
        where = f"{self.run_id} {self.call_id}"
        which = f"attempt {self.attempt} fence {self.fence}"
        return f"{self.tool}({self.arguments}) of {where} {which} by {self.process}"


@dataclass(frozen=True, slots=True)
class ModelTurn:
    """A question to a model; `looked` is as in `Effect`."""

    process: str
    run_id: str
    frame_task: str
    turn: int
    messages: tuple[str, ...]
    clock_sample: ClockSample
    began: float

    def __str__(self) -> str:
        return f"turn {self.turn} of {self.run_id} {self.frame_task} by {self.process}"


@dataclass(frozen=True, slots=True)
class DecideResult:
    """What somebody who decided was told."""

    process: str
    at: float
    wait_id: str
    decision: Verdict
    result: object


@dataclass(frozen=True, slots=True)
class Notification:
    """Somebody was told of a wait; `newest` is the run's newest version then."""

    at: float
    process: str
    wait: Wait
    newest_version: int
    decided: bool


class SimStore:
    """The shared store: every change takes effect in one instant, and is kept."""

    def __init__(self) -> None:
        self.bodies: dict[str, bytes] = {}
        self.changes: list[StoreChange] = []
        self._sorted: list[str] = []
        self._makers: dict[str, tuple[str, int]] = {}

    def create(
        self, key: str, body: bytes, maker: tuple[str, int], at: float
    ) -> datetime:
        """Put a body; a maker's own second request is recognised."""
        if key in self.bodies:
            if self._makers[key] == maker:
                return wall_time(at)
            raise AlreadyExists(key)
        self.bodies[key] = body
        self._makers[key] = maker
        insort(self._sorted, key)
        self.changes.append(StoreChange(at, maker[0], "create", key, body))
        return wall_time(at)

    def read(self, key: str) -> bytes:
        """Return a body."""
        try:
            return self.bodies[key]
        except KeyError:
            raise NotFound(key) from None

    def keys(self, prefix: str, after: str = "", limit: int = PAGE_SIZE) -> list[str]:
        """Return a page of keys."""
        start = max(
            bisect_left(self._sorted, prefix), bisect_right(self._sorted, after)
        )
        found: list[str] = []
        for key in self._sorted[start : start + limit]:
            if not key.startswith(prefix):
                break
            found.append(key)
        return found

    def delete(self, key: str, process: str, at: float) -> None:
        """Remove a key."""
        if self.bodies.pop(key, None) is not None:
            del self._sorted[bisect_left(self._sorted, key)]
            self.changes.append(StoreChange(at, process, "delete", key))


@dataclass
class SimEnvironment:
    """All that a schedule has, and all that laws look at.

    `tells`: listings tell the store's time, as creates always do.
    """

    seed: int
    faults: FaultSchedule
    lease: float = 30.0
    loop: VirtualLoop = field(default_factory=VirtualLoop)
    store: SimStore = field(default_factory=SimStore)
    processes: list[Process] = field(default_factory=list[Process])
    effects: list[Effect] = field(default_factory=list[Effect])
    model_turns: list[ModelTurn] = field(default_factory=list[ModelTurn])
    decide_results: list[DecideResult] = field(default_factory=list[DecideResult])
    notifications: list[Notification] = field(default_factory=list[Notification])
    known_waits: dict[str, Wait] = field(default_factory=dict[str, Any])
    unexpected_errors: list[str] = field(default_factory=list[str])
    expected_errors: tuple[type[Exception], ...] = ()
    tree_of_run: dict[str, str] = field(default_factory=dict[str, str])
    allow_denials: bool = True
    decide_at_end: bool = False
    time_scale: float = 1.0
    max_attempts: int = 5
    listings_tell_time: bool = False
    log: list[tuple[Any, ...]] = field(default_factory=list[Any])
    closed: bool = False
    _ticks: int = 0

    def new_process(self, name: str) -> Process:
        """Return a new process."""
        process = Process(self, name)
        self.processes.append(process)
        return process

    @property
    def next_timestamp(self) -> float:
        """The virtual time; no two moments are the same, so that one was first."""
        self._ticks += 1
        return self.loop.time() + self._ticks * 1e-9

    def log_event(self, *what: Any) -> None:
        """Add a line to the log."""
        self.log.append((round(self.loop.time(), 6), *what))

    def close(self) -> None:
        """End the schedule: what dead processes left is cleared away."""
        self.closed = True
        for process in self.processes:
            process.cancel_tasks()
        self.loop.run_until_idle()
        self.loop.close()


class StoreClient:
    """A process's way to the store. What it sent lands, whatever becomes of it."""

    def __init__(self, environment: SimEnvironment, process: Process) -> None:
        self._environment = environment
        self._process = process
        self._sent = 0

    async def create(self, key: str, body: bytes) -> datetime | None:
        """Put a body if its key is absent."""
        check_key(key)
        world, process = self._environment, self._process
        maker = (process.name, self._sent)

        def land() -> datetime:
            return world.store.create(key, body, maker, world.next_timestamp)

        return await self._request("create", key, land)

    async def read(self, key: str) -> bytes:
        """Return a body."""
        return await self._request(
            "read", key, lambda: self._environment.store.read(key)
        )

    async def keys(
        self, prefix: str, after: str = "", limit: int = PAGE_SIZE
    ) -> list[str]:
        """Return a page of keys; those of waits may be of a moment ago."""
        check_prefix(prefix)
        if prefix == "waits/" and self._process.draw_fault("stale") is not None:
            return await self._request(
                "keys", prefix, lambda: self._stale_page(after, limit)
            )
        return await self._request(
            "keys", prefix, lambda: self._page(prefix, after, limit)
        )

    async def delete(self, key: str) -> None:
        """Remove a key."""
        world, name = self._environment, self._process.name
        await self._request(
            "delete", key, lambda: world.store.delete(key, name, world.next_timestamp)
        )

    async def probe(self) -> None:
        """Prove nothing: this store keeps its word."""

    # On its way --------------------------------------------------------------------

    async def _request(self, verb: str, key: str, apply: Callable[[], T]) -> T:
        world, process = self._environment, self._process
        if world.closed:
            raise ProcessKilled
        self._sent += 1
        if self._sent > MAX_OPERATIONS:
            msg = f"{process.name} goes round for ever"
            world.unexpected_errors.append(msg)
            raise ProcessKilled(msg)
        if world.faults.stopped:
            return self._apply(verb, key, apply)
        name = f"{process.name}/{self._sent}"
        strike = world.faults.plan_operation(name, process.rng, verb)
        await self._inject_fault(strike, "before")
        if strike.kind == "refused":
            world.log_event(process.name, verb, key, "refused")
            kind = Throttled if strike.phase == "before" else Unavailable
            raise kind(key, "simulated")
        reply: asyncio.Future[Any] = world.loop.create_future()
        self._send(verb, key, apply, strike, reply)
        await self._inject_fault(strike, "flight")
        value, error = await reply
        await self._inject_fault(strike, "after")
        if error is not None:
            raise error
        return value  # type: ignore[no-any-return]

    def _send(
        self,
        verb: str,
        key: str,
        apply: Callable[[], Any],
        plan: OperationPlan,
        reply: asyncio.Future[Any],
    ) -> None:
        loop, kind = self._environment.loop, plan.kind

        def arrive() -> None:
            outcome = self._reply_for(verb, key, apply, kind)
            if plan.reply_delay:
                loop.call_later(plan.reply_delay, answer, outcome, context=NO_PROCESS)
            else:
                answer(outcome)

        def answer(outcome: tuple[Any, Exception | None]) -> None:
            if not reply.done():
                reply.set_result(outcome)

        loop.call_later(plan.request_delay, arrive, context=NO_PROCESS)
        if kind == "late":
            late = plan.request_delay + plan.freeze_seconds / 4
            loop.call_later(
                late, self._apply_or_error, verb, key, apply, context=NO_PROCESS
            )
        if kind == "twice":
            again = plan.request_delay + plan.reply_delay / 2
            loop.call_later(
                again, self._apply_or_error, verb, key, apply, context=NO_PROCESS
            )

    def _reply_for(
        self, verb: str, key: str, apply: Callable[[], Any], kind: str | None
    ) -> tuple[Any, Exception | None]:
        if kind not in ("unlanded", "late"):
            value, error = self._apply_or_error(verb, key, apply)
            if kind != "lost":
                return value, error
        wrong = Inconclusive if verb == "create" else Unavailable
        return None, wrong(key, "simulated")

    def _apply_or_error(
        self, verb: str, key: str, apply: Callable[[], Any]
    ) -> tuple[Any, Exception | None]:
        try:
            return self._apply(verb, key, apply), None
        except StorageError as error:
            return None, error

    def _apply(self, verb: str, key: str, apply: Callable[[], T]) -> T:
        note, name = self._environment.log_event, self._process.name
        try:
            value = apply()
        except StorageError as error:
            note(name, verb, key, type(error).__name__)
            raise
        note(name, verb, key)
        return value

    async def _inject_fault(self, plan: OperationPlan, phase: str) -> None:
        if plan.phase != phase:
            return
        if plan.kind == "crash":
            await self._process.die_here()
        if plan.kind == "freeze":
            self._process.freeze(plan.freeze_seconds)
            await asyncio.sleep(0)

    def _page(self, prefix: str, after: str, limit: int) -> list[str]:
        keys = self._environment.store.keys(prefix, after, limit)
        if not self._environment.listings_tell_time:
            return keys
        page = Page(keys)
        page.store_time = wall_time(self._environment.next_timestamp)
        return page

    def _stale_page(self, after: str, limit: int) -> list[str]:
        """Return the keys of waits as they were a moment ago."""
        keys = set(self._environment.store.keys("waits/"))
        since = self._environment.loop.time() - LISTING_LAG
        for change in reversed(self._environment.store.changes):
            if change.at < since:
                break
            if change.key.startswith("waits/"):
                (keys.discard if change.verb == "create" else keys.add)(change.key)
        return sorted(key for key in keys if key > after)[:limit]
