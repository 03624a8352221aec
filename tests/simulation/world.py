"""The world of a schedule: one store, its network, and what everybody did."""

from __future__ import annotations

import asyncio
from bisect import bisect_left, bisect_right, insort
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar

from continuations_storage.contract import PAGE, Page
from continuations_storage.errors import (
    AlreadyExists,
    Inconclusive,
    NotFound,
    StorageError,
    Throttled,
    Unavailable,
)
from continuations_storage.keys import check_key, check_prefix
from tests.simulation.loop import NOBODY, VirtualLoop
from tests.simulation.processes import Crash, Look, Process, wall

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime

    from continuations import Wait
    from continuations.core.decisions import Verdict
    from tests.simulation.weather import Strike, Weather

T = TypeVar("T")

# How far a listing of waits may lag, in seconds.
LAG = 8.0
# More operations than any schedule needs: one that does more goes round for ever.
MOST_OPERATIONS = 20_000


@dataclass(frozen=True, slots=True)
class Landed:
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
    looked: Look
    began: float
    ended: float | None = None

    def __str__(self) -> str:
        where = f"{self.run_id} {self.call_id}"
        which = f"attempt {self.attempt} fence {self.fence}"
        return f"{self.tool}({self.arguments}) of {where} {which} by {self.process}"


@dataclass(frozen=True, slots=True)
class Asked:
    """A question to a model; `looked` is as in `Effect`."""

    process: str
    run_id: str
    task: str
    turn: int
    messages: tuple[str, ...]
    looked: Look
    began: float

    def __str__(self) -> str:
        return f"turn {self.turn} of {self.run_id} {self.task} by {self.process}"


@dataclass(frozen=True, slots=True)
class Told:
    """What somebody who decided was told."""

    process: str
    at: float
    wait_id: str
    verdict: Verdict
    answer: object


@dataclass(frozen=True, slots=True)
class Notified:
    """Somebody was told of a wait; `newest` is the run's newest version then."""

    at: float
    process: str
    wait: Wait
    newest: int
    decided: bool


class SimStore:
    """The shared store: every change takes effect in one instant, and is kept."""

    def __init__(self) -> None:
        self.bodies: dict[str, bytes] = {}
        self.landed: list[Landed] = []
        self._sorted: list[str] = []
        self._makers: dict[str, tuple[str, int]] = {}

    def create(
        self, key: str, body: bytes, maker: tuple[str, int], at: float
    ) -> datetime:
        """Put a body; a maker's own second request is recognised."""
        if key in self.bodies:
            if self._makers[key] == maker:
                return wall(at)
            raise AlreadyExists(key)
        self.bodies[key] = body
        self._makers[key] = maker
        insort(self._sorted, key)
        self.landed.append(Landed(at, maker[0], "create", key, body))
        return wall(at)

    def read(self, key: str) -> bytes:
        """Return a body."""
        try:
            return self.bodies[key]
        except KeyError:
            raise NotFound(key) from None

    def keys(self, prefix: str, after: str = "", limit: int = PAGE) -> list[str]:
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
            self.landed.append(Landed(at, process, "delete", key))


@dataclass
class World:
    """All that a schedule has, and all that laws look at.

    `tells`: listings tell the store's time, as creates always do.
    """

    seed: int
    weather: Weather
    lease: float = 30.0
    loop: VirtualLoop = field(default_factory=VirtualLoop)
    store: SimStore = field(default_factory=SimStore)
    processes: list[Process] = field(default_factory=list[Process])
    effects: list[Effect] = field(default_factory=list[Effect])
    asked: list[Asked] = field(default_factory=list[Asked])
    told: list[Told] = field(default_factory=list[Told])
    notified: list[Notified] = field(default_factory=list[Notified])
    seen: dict[str, Wait] = field(default_factory=dict[str, Any])
    leaks: list[str] = field(default_factory=list[str])
    bearable: tuple[type[Exception], ...] = ()
    trees: dict[str, str] = field(default_factory=dict[str, str])
    denials: bool = True
    settles: bool = False
    hurry: float = 1.0
    attempts: int = 5
    tells: bool = False
    log: list[tuple[Any, ...]] = field(default_factory=list[Any])
    over: bool = False
    _ticks: int = 0

    def process(self, name: str) -> Process:
        """Return a new process."""
        process = Process(self, name)
        self.processes.append(process)
        return process

    @property
    def moment(self) -> float:
        """The virtual time; no two moments are the same, so that one was first."""
        self._ticks += 1
        return self.loop.time() + self._ticks * 1e-9

    def note(self, *what: Any) -> None:
        """Add a line to the log."""
        self.log.append((round(self.loop.time(), 6), *what))

    def bury(self) -> None:
        """End the schedule: what dead processes left is cleared away."""
        self.over = True
        for process in self.processes:
            process.bury()
        self.loop.run_until_idle()
        self.loop.close()


class Handle:
    """A process's way to the store. What it sent lands, whatever becomes of it."""

    def __init__(self, world: World, process: Process) -> None:
        self._world = world
        self._process = process
        self._sent = 0

    async def create(self, key: str, body: bytes) -> datetime | None:
        """Put a body if its key is absent."""
        check_key(key)
        world, process = self._world, self._process
        maker = (process.name, self._sent)

        def land() -> datetime:
            return world.store.create(key, body, maker, world.moment)

        return await self._do("create", key, land)

    async def read(self, key: str) -> bytes:
        """Return a body."""
        return await self._do("read", key, lambda: self._world.store.read(key))

    async def keys(self, prefix: str, after: str = "", limit: int = PAGE) -> list[str]:
        """Return a page of keys; those of waits may be of a moment ago."""
        check_prefix(prefix)
        if prefix == "waits/" and self._process.throw("stale") is not None:
            return await self._do("keys", prefix, lambda: self._lagging(after, limit))
        return await self._do("keys", prefix, lambda: self._page(prefix, after, limit))

    async def delete(self, key: str) -> None:
        """Remove a key."""
        world, name = self._world, self._process.name
        await self._do(
            "delete", key, lambda: world.store.delete(key, name, world.moment)
        )

    async def probe(self) -> None:
        """Prove nothing: this store keeps its word."""

    # On its way --------------------------------------------------------------------

    async def _do(self, verb: str, key: str, land: Callable[[], T]) -> T:
        world, process = self._world, self._process
        if world.over:
            raise Crash
        self._sent += 1
        if self._sent > MOST_OPERATIONS:
            msg = f"{process.name} goes round for ever"
            world.leaks.append(msg)
            raise Crash(msg)
        if world.weather.quiet:
            return self._land(verb, key, land)
        name = f"{process.name}/{self._sent}"
        strike = world.weather.operation(name, process.dice, verb)
        await self._suffer(strike, "before")
        if strike.kind == "refused":
            world.note(process.name, verb, key, "refused")
            kind = Throttled if strike.moment == "before" else Unavailable
            raise kind(key, "simulated")
        reply: asyncio.Future[Any] = world.loop.create_future()
        self._send(verb, key, land, strike, reply)
        await self._suffer(strike, "flight")
        value, error = await reply
        await self._suffer(strike, "after")
        if error is not None:
            raise error
        return value  # type: ignore[no-any-return]

    def _send(
        self,
        verb: str,
        key: str,
        land: Callable[[], Any],
        strike: Strike,
        reply: asyncio.Future[Any],
    ) -> None:
        loop, kind = self._world.loop, strike.kind

        def arrive() -> None:
            outcome = self._arrival(verb, key, land, kind)
            if strike.coming:
                loop.call_later(strike.coming, answer, outcome, context=NOBODY)
            else:
                answer(outcome)

        def answer(outcome: tuple[Any, Exception | None]) -> None:
            if not reply.done():
                reply.set_result(outcome)

        loop.call_later(strike.going, arrive, context=NOBODY)
        if kind == "late":
            late = strike.going + strike.pause / 4
            loop.call_later(late, self._try, verb, key, land, context=NOBODY)
        if kind == "twice":
            again = strike.going + strike.coming / 2
            loop.call_later(again, self._try, verb, key, land, context=NOBODY)

    def _arrival(
        self, verb: str, key: str, land: Callable[[], Any], kind: str | None
    ) -> tuple[Any, Exception | None]:
        if kind not in ("unlanded", "late"):
            value, error = self._try(verb, key, land)
            if kind != "lost":
                return value, error
        wrong = Inconclusive if verb == "create" else Unavailable
        return None, wrong(key, "simulated")

    def _try(
        self, verb: str, key: str, land: Callable[[], Any]
    ) -> tuple[Any, Exception | None]:
        try:
            return self._land(verb, key, land), None
        except StorageError as error:
            return None, error

    def _land(self, verb: str, key: str, land: Callable[[], T]) -> T:
        note, name = self._world.note, self._process.name
        try:
            value = land()
        except StorageError as error:
            note(name, verb, key, type(error).__name__)
            raise
        note(name, verb, key)
        return value

    async def _suffer(self, strike: Strike, moment: str) -> None:
        if strike.moment != moment:
            return
        if strike.kind == "crash":
            await self._process.die_here()
        if strike.kind == "freeze":
            self._process.freeze(strike.pause)
            await asyncio.sleep(0)

    def _page(self, prefix: str, after: str, limit: int) -> list[str]:
        keys = self._world.store.keys(prefix, after, limit)
        if not self._world.tells:
            return keys
        page = Page(keys)
        page.told = wall(self._world.moment)
        return page

    def _lagging(self, after: str, limit: int) -> list[str]:
        """Return the keys of waits as they were a moment ago."""
        keys = set(self._world.store.keys("waits/"))
        since = self._world.loop.time() - LAG
        for change in reversed(self._world.store.landed):
            if change.at < since:
                break
            if change.key.startswith("waits/"):
                (keys.discard if change.verb == "create" else keys.add)(change.key)
        return sorted(key for key in keys if key > after)[:limit]
