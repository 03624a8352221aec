"""Situations that no schedule has by itself, and in which some mutants do harm."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import Any

from continuations.core import jsontext
from continuations.core.changes import tool_messages
from continuations.core.messages import Message
from continuations.core.rows.calls import CallRow
from continuations.core.rows.decisions import Decision, Deny
from continuations.core.rows.frames import FrameRow
from continuations.core.rows.state import Draft, RunState
from continuations.engine.journal.journal import StoreJournal
from continuations.engine.requests.run_requests import RunRequests
from continuations.errors import ContinuationsError, StoreUnavailable
from continuations.ledger.arrivals import wait_slots
from continuations.ledger.index import run_index
from continuations.ledger.versions import LoadedVersion, Versions
from continuations.past import Rewound
from continuations.wire.continuation import Continuation
from tests.simulation import actors, agents, tools
from tests.simulation.actors import Actor
from tests.simulation.families import Family
from tests.simulation.mutants.mutant import Original, Patches, patch, returns
from tests.simulation.past import actors as past_actors
from tests.simulation.processes import Process, current_process
from tests.simulation.protocol import laws_of_endings
from tests.simulation.seams import actors as people
from tests.simulation.sim_environment import SimEnvironment


def old_results_are_truncated() -> Patches:
    """Whenever results are appended, truncate the results of earlier turns.

    It applies only beside results that must be committed before a model reads them,
    so that the model reads the truncated ones. Such a run ends differently from an
    uninterrupted one, so the law about the same end does not apply.
    """

    def gather(
        original: Original, draft: Draft, frame: FrameRow, rows: Sequence[CallRow]
    ) -> Any:
        before = draft.log(frame.id).messages
        frame = original()
        added = draft.log(frame.id).messages[len(before) :]
        truncated = tuple(_truncated(message) for message in before)
        if truncated != before and not any(row.repeatable for row in rows):
            draft.start_log(frame.id, (*truncated, *added))
        return frame

    yield patch(tool_messages.gather, gather)
    yield returns(laws_of_endings._was_influenced, value=True)


def _truncated(message: Message) -> Message:
    fields = jsontext.parse(message.text)
    return Message.from_mapping(
        {**fields, "content": "(cut)"} if message.role == "tool" else fields
    )


def canceller_dies() -> Patches:
    """All processes die when a cancel request is recorded; no wait is decided."""

    async def end_if_cancelled(original: Original) -> Any:
        process = current_process()
        if not process.environment.faults.stopped:
            _kill_all_processes(process.environment)
            await process.die_here()
        return await original()

    yield patch(RunRequests.end_if_cancelled, end_if_cancelled)


def two_cancellers_die() -> Patches:
    """Two processes cancel a run, one after the other; then all processes die."""

    async def end_if_cancelled(original: Original, self: RunRequests) -> Any:
        process = current_process()
        if process.name == "second":
            _kill_all_processes(process.environment)
        if process.name == "second" or process.environment.faults.stopped:
            return await original()
        second = Actor(process.environment, "second")
        second.process.run(_cancel(second, partial(second.runner.cancel, self.run_id)))
        return await process.die_here()

    yield patch(RunRequests.end_if_cancelled, end_if_cancelled)


def _kill_all_processes(environment: SimEnvironment) -> None:
    environment.decide_at_end = False
    for process in environment.processes:
        process.crash()


async def _cancel(actor: Actor, operation: Callable[[], Awaitable[object]]) -> None:
    await actor.perform("cancel", operation)


def giving_up_is_slow() -> Patches:
    """Workers freeze in tools; one that gives its run up freezes before its commit."""

    def init(original: Original, environment: SimEnvironment) -> None:
        environment.max_attempts = 2
        original()

    async def commit_and_release(original: Original, state: RunState) -> None:
        failure = state.run.failure
        if failure is not None and failure.code == "attempts":
            current_process().freeze(40.0)
            await asyncio.sleep(0)
        await original()

    async def perform_effect(original: Original) -> Any:
        result = await original()
        if not current_process().environment.faults.stopped:
            current_process().freeze(50.0)
            await asyncio.sleep(0)
        return result

    yield patch(Actor.__init__, init)
    yield patch(StoreJournal.commit_and_release, commit_and_release)
    yield patch(tools.perform_effect, perform_effect)


def clocks_differ_and_workers_freeze() -> Patches:
    """All clocks are off by nearly a quarter of a claim, and workers often freeze."""

    def draw_clock_offset(self: Process) -> float:
        if self.environment.faults.stopped:
            return 0.0
        return self.rng.choice((-1, 1)) * self._max_clock_offset

    async def commit(original: Original) -> Any:
        asked = await original()
        process = current_process()
        if not process.environment.faults.stopped and process.rng.random() < 0.4:
            process.freeze(16 + 12 * process.rng.random())
            await asyncio.sleep(0)
        return asked

    yield patch(Process._draw_clock_offset, draw_clock_offset)
    yield patch(StoreJournal.commit, commit)


def starters_die_late() -> Patches:
    """A starter creates version 1 long after its guard, and dies after that."""

    async def append(original: Original, previous: LoadedVersion | None) -> Any:
        process = current_process()
        is_late = previous is None and process.name == "starter"
        if is_late:
            await asyncio.sleep(100)
        made = await original()
        if is_late:
            await process.die_here()
        return made

    yield patch(Versions.append, append)


def approvals_are_short() -> Patches:
    """Each run has an approval that is valid for 15 s, of a sub-agent or a repeat."""
    yield returns(agents.names_of_trees, list(agents.SHORT_APPROVAL_TREES))


def models_repeat_denied_calls() -> Patches:
    """The model of each run repeats a call, which most people deny."""

    def draw_verdict(original: Original, actor: Actor, wait_id: str) -> Any:
        if wait_id.startswith("approval") and actor.rng.random() < 0.8:
            return Deny(by=actor.name, reason="no")
        return original()

    yield returns(agents.names_of_trees, list(agents.REPEATING_TREES))
    yield patch(actors.draw_verdict, draw_verdict)


def voters_die_after_the_last_slot() -> Patches:
    """A process dies right after it created the slot that ends a wait."""

    async def append(original: Original) -> Any:
        after = await original()
        process = current_process()
        if isinstance(after, Decision) and not process.environment.faults.stopped:
            process.environment.decide_at_end = False
            await process.die_here()
        return after

    yield patch(wait_slots.append, append)


def workers_send() -> Patches:
    """Each worker sends messages before it works."""

    async def send_and_work(original: Original, actor: Actor) -> None:
        for _ in range(4):
            await actors.act_as_sender(actor)
        await original()

    yield patch(actors.act_as_worker, send_and_work)


def interrupted_turns_are_rewound() -> Patches:
    """Workers die when a message ends their turn, and people rewind into that turn."""

    async def commit(original: Original, state: RunState) -> Any:
        asked = await original()
        process = current_process()
        rewinds = bool(state.run.rewind_to) or process.environment.faults.stopped
        if _is_interrupted(state) and not rewinds:
            await process.die_here()
        return asked

    async def rewind_chat(actor: Actor, run_id: str) -> None:
        for _ in range(100):
            await asyncio.sleep(1)
            with suppress(ContinuationsError):
                newest = await actor.runner.look(run_id)
                if _is_interrupted(newest.run_state):
                    version = newest.version - actor.rng.randint(1, 2)
                    actor.environment.rewinds_asked.add((run_id, version))
                    rewound = await actor.runner.rewind(run_id, version)
                    actor.environment.rewound.append(rewound)
                    return

    yield patch(StoreJournal.commit, commit)
    yield patch(people._rewind_chat, rewind_chat)


def _is_interrupted(state: RunState) -> bool:
    return state.run.reads_next > state.run.last_inbox_number


def rules_decide_about_the_first_run() -> Patches:
    """A rule approves, denies, or asks a person about each of the calls of run `r0`."""

    def draw(original: Original, environment: SimEnvironment) -> Any:
        roles = original()
        environment.tree_of_run["r0"] = "ruled"
        return roles

    yield patch(Family.draw, draw)


def runs_are_rewound_before_they_are_adopted() -> Patches:
    """A process rewinds a run to the version whose bytes are then adopted."""

    async def adopt(
        original: Original, actor: Actor, source: str, taken: Continuation
    ) -> None:
        environment = actor.environment
        other = Actor(environment, f"rewinds{len(environment.processes)}")
        environment.rewinds_asked.add((source, taken.version))
        await other.process.run(_rewind(other, source, taken.version))
        await original()

    yield patch(past_actors._adopt, adopt)


async def _rewind(actor: Actor, run_id: str, version: int) -> None:
    rewind = partial(actor.runner.rewind, run_id, version)
    rewound = await actor.perform(f"rewind {run_id}", rewind)
    if isinstance(rewound, Rewound):
        actor.environment.rewound.append(rewound)


def the_index_fails_at_times() -> Patches:
    """The store often fails when a process lists a run that has ended."""

    async def move_to_ended(original: Original) -> None:
        process = current_process()
        if not process.environment.faults.stopped and process.rng.random() < 0.7:
            msg = "simulated: the index cannot be written"
            raise StoreUnavailable(msg)
        await original()

    yield patch(run_index.move_to_ended, move_to_ended)


def tools_wait() -> Patches:
    """The tools of each run wait."""
    yield returns(agents.names_of_trees, list(agents.WAITING_TREES))
