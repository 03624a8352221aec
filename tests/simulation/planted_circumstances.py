"""Circumstances that no schedule has by itself, and in which some faults do harm."""

# A circumstance reaches into the machine that it spoils.
# pyright: reportPrivateUsage=false

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING

from continuations.core import jsontext, reducer
from continuations.core.messages import Message
from continuations.engine.journal import StoreJournal
from continuations.engine.worker import Worker
from tests.simulation import agents, laws_of_endings
from tests.simulation.actors import Actor
from tests.simulation.planted_fault import Swap
from tests.simulation.processes import Process, myself

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from continuations import ToolContext
    from continuations.core.calls import CallRow
    from continuations.core.draft import Draft
    from continuations.core.frames import FrameRow
    from continuations.core.table import Table
    from continuations.wire.continuation import Continuation
    from continuations.wire.records import Cancellation
    from tests.simulation.evidence import Evidence, RunStory
    from tests.simulation.planted_fault import Swaps
    from tests.simulation.world import World


def old_results_are_cut() -> Swaps:
    """Whenever results are appended, those of earlier turns are cut short.

    Only with results that must be kept before a model reads them: it is to read the
    cut ones. And a run ends otherwise then than it does uncut.
    """
    real = reducer._append_results

    def append(draft: Draft, frame: FrameRow, rows: list[CallRow]) -> None:
        before = draft.log(frame.id).messages
        real(draft, frame, rows)
        added = draft.log(frame.id).messages[len(before) :]
        cut = tuple(_cut(message) for message in before)
        if cut != before and not any(row.repeatable for row in rows):
            draft.new_log(frame.id, (*cut, *added))

    def meddled(_evidence: Evidence, _story: RunStory) -> bool:
        return True

    yield Swap(reducer, "_append_results", append)
    yield Swap(laws_of_endings, "_meddled", meddled)


def _cut(message: Message) -> Message:
    fields = jsontext.parse(message.text)
    return Message.of(
        {**fields, "content": "(cut)"} if message.role == "tool" else fields
    )


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
