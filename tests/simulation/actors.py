"""Who does what in a schedule: workers, deciders, a canceller, sweepers.

Each is a process of its own, and dies and freezes on its own.
"""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING, Any

from continuations import (
    Answer,
    Approve,
    AsyncRunner,
    ContinuationsError,
    Deny,
)
from continuations.core import jsontext
from continuations.errors import (
    AgentChanged,
    FormatError,
    IllegalTransition,
    TranscriptInvalid,
)
from continuations.ledger import layout
from tests.simulation.agents import TREES, result_of
from tests.simulation.sim_environment import DecideResult, Notification, StoreClient

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from continuations import Wait
    from continuations.core.decisions import Verdict
    from tests.simulation.processes import Process
    from tests.simulation.sim_environment import SimEnvironment


# How often somebody waits for the beat at which others act too.
BEAT_PROBABILITY = 0.4
# Nothing here is damaged, changed or without bounds: these say that we are wrong.
_UNEXPECTED_ERRORS = (AgentChanged, FormatError, IllegalTransition, TranscriptInvalid)


class Actor:
    """One process and what it does."""

    def __init__(self, environment: SimEnvironment, name: str) -> None:
        self.environment = environment
        self.name = name
        self.process: Process = environment.new_process(name)
        self.rng = self.process.rng
        self.store_client = StoreClient(environment, self.process)
        roots = [
            TREES[tree].root for tree in dict.fromkeys(environment.tree_of_run.values())
        ]
        self.runner = AsyncRunner(
            roots,
            store=self.store_client,
            lease=environment.lease,
            max_attempts=environment.max_attempts,
            notify=self.notify,
            clock=self.process,
            ids=self.process,
        )

    async def notify(self, wait: Wait) -> None:
        """Be told of a wait."""
        world = self.environment
        if world.closed:
            return
        newest = newest_version_number(world, wait.run_id)
        world.log_event(self.name, "is told of", wait.id)
        world.known_waits[wait.id] = wait
        world.notifications.append(
            Notification(
                at=world.next_timestamp,
                process=self.name,
                wait=wait,
                newest_version=newest,
                decided=layout.decision_key(wait.id) in world.store.bodies,
            )
        )

    async def perform(
        self, label: str, operation: Callable[[], Awaitable[Any]]
    ) -> object:
        """Do one thing; returns what came of it, also an error of the library."""
        stops = self.process.draw_fault("stop")
        try:
            answer: object = await self._run_or_stop(operation, stops)
        except TimeoutError:
            answer = None
        except ContinuationsError as error:
            answer = error
            self._record_unexpected(error, label)
        except Exception as error:  # noqa: BLE001 - that is what is looked for
            answer = error
            self.environment.unexpected_errors.append(
                f"{self.name} got {error!r} of {label}"
            )
        for failed in getattr(answer, "failed", {}).values():
            self._record_unexpected(failed, label)
        self.environment.log_event(self.name, label, "->", type(answer).__name__)
        return answer

    def _record_unexpected(self, error: Exception, label: str) -> None:
        if isinstance(error, _UNEXPECTED_ERRORS) and not isinstance(
            error, self.environment.expected_errors
        ):
            self.environment.unexpected_errors.append(
                f"{self.name} got {error!r} of {label}"
            )

    async def _run_or_stop(
        self, operation: Callable[[], Awaitable[Any]], stop_draw: float | None
    ) -> object:
        """Do it, or be told to stop after a while, as by Ctrl-C."""
        if stop_draw is None:
            return await operation()
        return await asyncio.wait_for(operation(), stop_draw * stop_draw * 30)

    async def pause_randomly(self, seconds: float) -> None:
        """Do nothing for a while; now and then until everybody does something."""
        world = self.environment
        length = self.rng.random() * seconds * world.time_scale
        if self.rng.random() < BEAT_PROBABILITY:
            beat = 15 * world.time_scale
            length += beat - (world.loop.time() + length) % beat
        await asyncio.sleep(length)


def newest_version_number(environment: SimEnvironment, run_id: str) -> int:
    """Return the number of a run's newest version, 0 if it has none."""
    keys = environment.store.keys(layout.versions_prefix(run_id), limit=1)
    return layout.newest_version_number(keys, run_id)


# Stories ----------------------------------------------------------------------------


async def act_as_starter(actor: Actor) -> None:
    """Start every run, until it is there, or again."""
    for run_id in actor.environment.tree_of_run:
        for _ in range(3):
            came = await start_run(actor, run_id)
            if not isinstance(came, ContinuationsError) and actor.rng.random() < 0.8:
                break
            await actor.pause_randomly(20)


async def start_run(actor: Actor, run_id: str) -> object:
    """Start one run; returns what came of it."""
    name = TREES[actor.environment.tree_of_run[run_id]].root.name
    return await actor.perform(
        f"start {run_id}", lambda: actor.runner.start("go", run_id=run_id, agent=name)
    )


async def act_as_worker(actor: Actor) -> None:
    """Resume runs now and then, or start them, which is as good."""
    for _ in range(actor.rng.randint(1, 4)):
        await actor.pause_randomly(50)
        run_id = actor.rng.choice(list(actor.environment.tree_of_run))
        if actor.rng.random() < 0.3:
            await start_run(actor, run_id)
        else:
            await actor.perform(
                f"resume {run_id}", partial(actor.runner.resume, run_id)
            )


async def act_as_sweeper(actor: Actor) -> None:
    """Sweep, now and then."""
    for _ in range(actor.rng.randint(1, 4)):
        await actor.pause_randomly(60)
        await actor.perform("sweep", actor.runner.sweep)


async def act_as_canceller(actor: Actor) -> None:
    """Cancel a run, once or twice."""
    for _ in range(actor.rng.randint(1, 2)):
        await actor.pause_randomly(120)
        run_id = actor.rng.choice(list(actor.environment.tree_of_run))
        deed = partial(actor.runner.cancel, run_id, reason="enough")
        await actor.perform(f"cancel {run_id}", deed)


async def act_as_sender(actor: Actor) -> None:
    """Send a message or two."""
    for number in range(actor.rng.randint(1, 2)):
        await actor.pause_randomly(60)
        run_id = actor.rng.choice(list(actor.environment.tree_of_run))
        text = f"{actor.name} says {number}"
        await actor.perform(f"send {run_id}", partial(actor.runner.send, run_id, text))


async def act_as_decider(actor: Actor) -> None:
    """Look at what waits and decide some of it, some of it twice."""
    for _ in range(actor.rng.randint(2, 6)):
        await actor.pause_randomly(40)
        await actor.perform("waiting", lambda: _decide_listed(actor))


async def _decide_listed(actor: Actor) -> None:
    dice = actor.rng
    listed = [summary.id async for summary in actor.runner.waiting()]
    known = [each.wait.id for each in actor.environment.notifications]
    source = dice.random()
    if known and source < 0.3:
        # A link in a message, old or new.
        listed = [dice.choice(known)]
    elif source > 0.8:
        run_id = dice.choice(list(actor.environment.tree_of_run))
        waits = (await actor.runner.look(run_id)).waits
        actor.environment.known_waits.update((wait.id, wait) for wait in waits)
        listed = [wait.id for wait in waits]
    if not listed:
        return
    for wait_id in [w for w in listed if dice.random() < 0.7] or listed[:1]:
        verdict = draw_decision(actor, wait_id)
        await decide_wait(actor, wait_id, verdict)
        if dice.random() < 0.2:
            await decide_wait(actor, wait_id, verdict)


async def decide_wait(actor: Actor, wait_id: str, decision: Verdict) -> None:
    """Decide a wait and keep what one is told."""
    answer = await actor.perform(
        f"decide {wait_id}", lambda: actor.runner.decide(wait_id, decision)
    )
    if answer is not None:  # nobody was told anything who did not wait for it
        moment = actor.environment.next_timestamp
        actor.environment.decide_results.append(
            DecideResult(actor.name, moment, wait_id, decision, answer)
        )


def draw_decision(actor: Actor, wait_id: str) -> Verdict:
    """Return what somebody says: of an unknown outcome, what is so."""
    dice, by = actor.rng, actor.name
    throw = dice.random()
    if wait_id.startswith("unknown"):
        return _true_decision(actor, wait_id)
    if not actor.environment.allow_denials or throw < 0.7:
        return Approve(by=by)
    if throw < 0.85:
        return Deny(by=by, reason="no")
    # A number in the place of a text is a slip, which must not be recorded.
    return Approve(by=by, arguments={"what": dice.choice(["9", "8", 9])})


def _true_decision(actor: Actor, wait_id: str) -> Verdict:
    """Return what the ledger says of a call whose outcome is unknown."""
    world, by = actor.environment, actor.name
    wait = known_wait(world, wait_id)
    if wait is None:
        return Deny(by=by)
    for done in world.effects:
        if (done.run_id, done.call_id) == (wait.run_id, wait.call_id):
            what = jsontext.parse(done.arguments)["what"]
            return Answer(result_of(done.tool, what), by=by)
    return Approve(by=by)


def known_wait(environment: SimEnvironment, wait_id: str) -> Wait | None:
    """Return a wait that is shown, or that somebody was told of."""
    from continuations.wire.records import decode_wait  # noqa: PLC0415

    body = environment.store.bodies.get(f"waits/{wait_id}")
    if body is not None:
        return decode_wait(body, wait_id, wait_id.partition("@")[2])
    return environment.known_waits.get(wait_id)
