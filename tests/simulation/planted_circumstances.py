"""Circumstances that no schedule has by itself, and in which some faults do harm."""

# A circumstance reaches into the machine that it spoils.
# pyright: reportPrivateUsage=false

from __future__ import annotations

import asyncio
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from continuations import Approve
from continuations.engine.journal import StoreJournal
from continuations.engine.worker import Worker
from tests.simulation import actors, agents
from tests.simulation.actors import Actor
from tests.simulation.agents import REPEATABLE
from tests.simulation.planted_fault import Swap
from tests.simulation.processes import Process, myself

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from continuations import ToolContext
    from continuations.core.decisions import Verdict
    from continuations.core.table import Table
    from continuations.wire.continuation import Continuation
    from continuations.wire.records import Cancellation
    from tests.simulation.planted_fault import Swaps
    from tests.simulation.world import World


def a_tool_kills_its_worker() -> Swaps:
    """Every worker that runs a tool which may be repeated dies of it."""
    real = agents.effect

    async def effect(name: str, what: str, ctx: ToolContext, seconds: float) -> str:
        if name in REPEATABLE and not myself().world.over:
            await myself().die_here()
        return await real(name, what, ctx, seconds)

    yield Swap(agents, "effect", effect)


def people_mistype() -> Swaps:
    """Who edits arguments gives a number for a text."""
    real = actors.verdict_of

    def verdict_of(actor: Actor, wait_id: str) -> Verdict:
        verdict = real(actor, wait_id)
        if isinstance(verdict, Approve) and verdict.arguments is not None:
            return replace(verdict, arguments={"what": 9})
        return verdict

    yield Swap(actors, "verdict_of", verdict_of)


def who_cancels_dies() -> Swaps:
    """All die as soon as a wish to cancel is recorded, and nobody decides."""
    real = Worker.cancel

    async def cancel(self: Worker) -> Continuation:
        me = myself()
        if not me.world.weather.quiet:
            _all_die(me.world)
            await me.die_here()
        return await real(self)

    yield Swap(Worker, "cancel", cancel)


def two_cancel_and_die() -> Swaps:
    """Two cancel a run, one after the other, and all die when that is recorded."""
    real = Worker.cancel

    async def cancel(self: Worker) -> Continuation:
        me = myself()
        if me.name == "second":
            _all_die(me.world)
        if me.name == "second" or me.world.weather.quiet:
            return await real(self)
        second = Actor(me.world, "second")
        second.process.live(_done(second, partial(second.runner.cancel, self.run_id)))
        return await me.die_here()

    yield Swap(Worker, "cancel", cancel)


def _all_die(world: World) -> None:
    world.settles = False
    for process in world.processes:
        process.crash()


async def _done(actor: Actor, deed: Callable[[], Awaitable[object]]) -> None:
    await actor.do("cancel", deed)


def giving_up_takes_long() -> Swaps:
    """Workers freeze in tools; who gives their run up freezes before its last word."""
    born, real, act = Actor.__init__, StoreJournal.finish, agents.effect

    def init(self: Actor, world: World, name: str) -> None:
        world.attempts = 1
        born(self, world, name)

    async def finish(self: StoreJournal, table: Table) -> None:
        failure = table.run.failure
        if failure is not None and failure.code == "attempts":
            myself().freeze(40.0)
            await asyncio.sleep(0)
        await real(self, table)

    async def effect(name: str, what: str, ctx: ToolContext, seconds: float) -> str:
        done = await act(name, what, ctx, seconds)
        if not myself().world.weather.quiet:
            myself().freeze(50.0)
            await asyncio.sleep(0)
        return done

    yield Swap(Actor, "__init__", init)
    yield Swap(StoreJournal, "finish", finish)
    yield Swap(agents, "effect", effect)


# Clocks -----------------------------------------------------------------------------


def clocks_are_wrong() -> Swaps:
    """Half of all clocks are off by up to two minutes."""

    def drawn_skew(self: Process) -> float:
        if self.world.weather.quiet or self.dice.random() < 0.5:
            return 0.0
        return self.dice.choice((-1, 1)) * (30 + 90 * self.dice.random())

    yield Swap(Process, "_drawn_skew", drawn_skew)


def clocks_differ_and_workers_dawdle() -> Swaps:
    """All clocks are off by nearly a quarter of a claim, and workers often freeze."""
    real = StoreJournal.commit

    def drawn_skew(self: Process) -> float:
        if self.world.weather.quiet:
            return 0.0
        return self.dice.choice((-1, 1)) * self._most_skew

    async def commit(
        self: StoreJournal, table: Table, *, progressed: bool
    ) -> Cancellation | None:
        wish = await real(self, table, progressed=progressed)
        me = myself()
        if not me.world.weather.quiet and me.dice.random() < 0.4:
            me.freeze(16 + 12 * me.dice.random())
            await asyncio.sleep(0)
        return wish

    yield Swap(Process, "_drawn_skew", drawn_skew)
    yield Swap(StoreJournal, "commit", commit)
