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
from tests.simulation.mutants.mutant import Patch
from tests.simulation.processes import Process, current_process

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from continuations import ToolContext
    from continuations.core.calls import CallRow
    from continuations.core.draft import Draft
    from continuations.core.frames import FrameRow
    from continuations.core.state import RunState
    from continuations.wire.continuation import Continuation
    from continuations.wire.records import CancelRequest
    from tests.simulation.evidence import Evidence, RunHistory
    from tests.simulation.mutants.mutant import Patches
    from tests.simulation.sim_environment import SimEnvironment


def old_results_are_truncated() -> Patches:
    """Whenever results are appended, those of earlier turns are cut short.

    Only with results that must be kept before a model reads them: it is to read the
    cut ones. And a run ends otherwise then than it does uncut.
    """
    real = reducer._append_results

    def append(draft: Draft, frame: FrameRow, rows: list[CallRow]) -> None:
        before = draft.log(frame.id).messages
        real(draft, frame, rows)
        added = draft.log(frame.id).messages[len(before) :]
        cut = tuple(_truncated(message) for message in before)
        if cut != before and not any(row.repeatable for row in rows):
            draft.start_log(frame.id, (*cut, *added))

    def meddled(_evidence: Evidence, _story: RunHistory) -> bool:
        return True

    yield Patch(reducer, "_append_results", append)
    yield Patch(laws_of_endings, "_was_influenced", meddled)


def _truncated(message: Message) -> Message:
    fields = jsontext.parse(message.text)
    return Message.from_mapping(
        {**fields, "content": "(cut)"} if message.role == "tool" else fields
    )


def canceller_dies() -> Patches:
    """All die as soon as a wish to cancel is recorded, and nobody decides."""
    real = Worker.cancel

    async def cancel(self: Worker) -> Continuation:
        me = current_process()
        if not me.environment.faults.stopped:
            _kill_all_processes(me.environment)
            await me.die_here()
        return await real(self)

    yield Patch(Worker, "cancel", cancel)


def two_cancellers_die() -> Patches:
    """Two cancel a run, one after the other, and all die when that is recorded."""
    real = Worker.cancel

    async def cancel(self: Worker) -> Continuation:
        me = current_process()
        if me.name == "second":
            _kill_all_processes(me.environment)
        if me.name == "second" or me.environment.faults.stopped:
            return await real(self)
        second = Actor(me.environment, "second")
        second.process.run(_cancel(second, partial(second.runner.cancel, self.run_id)))
        return await me.die_here()

    yield Patch(Worker, "cancel", cancel)


def _kill_all_processes(environment: SimEnvironment) -> None:
    environment.decide_at_end = False
    for process in environment.processes:
        process.crash()


async def _cancel(actor: Actor, operation: Callable[[], Awaitable[object]]) -> None:
    await actor.perform("cancel", operation)


def giving_up_is_slow() -> Patches:
    """Workers freeze in tools; who gives their run up freezes before its last word."""
    born, real, act = (
        Actor.__init__,
        StoreJournal.commit_and_release,
        agents.perform_effect,
    )

    def init(self: Actor, environment: SimEnvironment, name: str) -> None:
        environment.max_attempts = 1
        born(self, environment, name)

    async def finish(self: StoreJournal, state: RunState) -> None:
        failure = state.run.failure
        if failure is not None and failure.code == "attempts":
            current_process().freeze(40.0)
            await asyncio.sleep(0)
        await real(self, state)

    async def effect(name: str, what: str, ctx: ToolContext, seconds: float) -> str:
        done = await act(name, what, ctx, seconds)
        if not current_process().environment.faults.stopped:
            current_process().freeze(50.0)
            await asyncio.sleep(0)
        return done

    yield Patch(Actor, "__init__", init)
    yield Patch(StoreJournal, "commit_and_release", finish)
    yield Patch(agents, "perform_effect", effect)


# Clocks -----------------------------------------------------------------------------


def clocks_differ_and_workers_freeze() -> Patches:
    """All clocks are off by nearly a quarter of a claim, and workers often freeze."""
    real = StoreJournal.commit

    def drawn_skew(self: Process) -> float:
        if self.environment.faults.stopped:
            return 0.0
        return self.rng.choice((-1, 1)) * self._max_clock_offset

    async def commit(
        self: StoreJournal, state: RunState, *, progressed: bool
    ) -> CancelRequest | None:
        wish = await real(self, state, progressed=progressed)
        me = current_process()
        if not me.environment.faults.stopped and me.rng.random() < 0.4:
            me.freeze(16 + 12 * me.rng.random())
            await asyncio.sleep(0)
        return wish

    yield Patch(Process, "_draw_clock_offset", drawn_skew)
    yield Patch(StoreJournal, "commit", commit)
