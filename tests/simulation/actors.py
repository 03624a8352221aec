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
from tests.simulation.world import Handle, Notified, Told

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from continuations import Wait
    from continuations.core.decisions import Verdict
    from tests.simulation.processes import Process
    from tests.simulation.world import World


# How often somebody waits for the beat at which others act too.
HERD = 0.4
# Nothing here is damaged, changed or without bounds: these say that we are wrong.
_NEVER = (AgentChanged, FormatError, IllegalTransition, TranscriptInvalid)


class Actor:
    """One process and what it does."""

    def __init__(self, world: World, name: str) -> None:
        self.world = world
        self.name = name
        self.process: Process = world.process(name)
        self.dice = self.process.dice
        self.handle = Handle(world, self.process)
        roots = [TREES[tree].root for tree in dict.fromkeys(world.trees.values())]
        self.runner = AsyncRunner(
            roots,
            store=self.handle,
            lease=world.lease,
            max_attempts=world.attempts,
            notify=self.notified,
            clock=self.process,
            ids=self.process,
        )

    async def notified(self, wait: Wait) -> None:
        """Be told of a wait."""
        world = self.world
        if world.over:
            return
        newest = newest_number(world, wait.run_id)
        world.note(self.name, "is told of", wait.id)
        world.seen[wait.id] = wait
        world.notified.append(
            Notified(
                at=world.moment,
                process=self.name,
                wait=wait,
                newest=newest,
                decided=layout.decision(wait.id) in world.store.bodies,
            )
        )

    async def do(self, what: str, deed: Callable[[], Awaitable[Any]]) -> object:
        """Do one thing; returns what came of it, also an error of the library."""
        stops = self.process.throw("stop")
        try:
            answer: object = await self._done(deed, stops)
        except TimeoutError:
            answer = None
        except ContinuationsError as error:
            answer = error
            self._check(error, what)
        except Exception as error:  # noqa: BLE001 - that is what is looked for
            answer = error
            self.world.leaks.append(f"{self.name} got {error!r} of {what}")
        for failed in getattr(answer, "failed", {}).values():
            self._check(failed, what)
        self.world.note(self.name, what, "->", type(answer).__name__)
        return answer

    def _check(self, error: Exception, what: str) -> None:
        if isinstance(error, _NEVER) and not isinstance(error, self.world.bearable):
            self.world.leaks.append(f"{self.name} got {error!r} of {what}")

    async def _done(
        self, deed: Callable[[], Awaitable[Any]], stops: float | None
    ) -> object:
        """Do it, or be told to stop after a while, as by Ctrl-C."""
        if stops is None:
            return await deed()
        return await asyncio.wait_for(deed(), stops * stops * 30)

    async def rest(self, seconds: float) -> None:
        """Do nothing for a while; now and then until everybody does something."""
        world = self.world
        length = self.dice.random() * seconds * world.hurry
        if self.dice.random() < HERD:
            beat = 15 * world.hurry
            length += beat - (world.loop.time() + length) % beat
        await asyncio.sleep(length)


def newest_number(world: World, run_id: str) -> int:
    """Return the number of a run's newest version, 0 if it has none."""
    keys = world.store.keys(layout.versions(run_id), limit=1)
    return layout.newest_of(keys, run_id)


# Stories ----------------------------------------------------------------------------


async def start(actor: Actor) -> None:
    """Start every run, until it is there, or again."""
    for run_id in actor.world.trees:
        for _ in range(3):
            came = await start_run(actor, run_id)
            if not isinstance(came, ContinuationsError) and actor.dice.random() < 0.8:
                break
            await actor.rest(20)


async def start_run(actor: Actor, run_id: str) -> object:
    """Start one run; returns what came of it."""
    name = TREES[actor.world.trees[run_id]].root.name
    return await actor.do(
        f"start {run_id}", lambda: actor.runner.start("go", run_id=run_id, agent=name)
    )


async def resume(actor: Actor) -> None:
    """Resume runs now and then, or start them, which is as good."""
    for _ in range(actor.dice.randint(1, 4)):
        await actor.rest(50)
        run_id = actor.dice.choice(list(actor.world.trees))
        if actor.dice.random() < 0.3:
            await start_run(actor, run_id)
        else:
            await actor.do(f"resume {run_id}", partial(actor.runner.resume, run_id))


async def sweep(actor: Actor) -> None:
    """Sweep, now and then."""
    for _ in range(actor.dice.randint(1, 4)):
        await actor.rest(60)
        await actor.do("sweep", actor.runner.sweep)


async def cancel(actor: Actor) -> None:
    """Cancel a run, once or twice."""
    for _ in range(actor.dice.randint(1, 2)):
        await actor.rest(120)
        run_id = actor.dice.choice(list(actor.world.trees))
        deed = partial(actor.runner.cancel, run_id, reason="enough")
        await actor.do(f"cancel {run_id}", deed)


async def send(actor: Actor) -> None:
    """Send a message or two."""
    for number in range(actor.dice.randint(1, 2)):
        await actor.rest(60)
        run_id = actor.dice.choice(list(actor.world.trees))
        text = f"{actor.name} says {number}"
        await actor.do(f"send {run_id}", partial(actor.runner.send, run_id, text))


async def decide(actor: Actor) -> None:
    """Look at what waits and decide some of it, some of it twice."""
    for _ in range(actor.dice.randint(2, 6)):
        await actor.rest(40)
        await actor.do("waiting", lambda: _decide_listed(actor))


async def _decide_listed(actor: Actor) -> None:
    dice = actor.dice
    listed = [summary.id async for summary in actor.runner.waiting()]
    known = [each.wait.id for each in actor.world.notified]
    source = dice.random()
    if known and source < 0.3:
        # A link in a message, old or new.
        listed = [dice.choice(known)]
    elif source > 0.8:
        run_id = dice.choice(list(actor.world.trees))
        waits = (await actor.runner.look(run_id)).waits
        actor.world.seen.update((wait.id, wait) for wait in waits)
        listed = [wait.id for wait in waits]
    if not listed:
        return
    for wait_id in [w for w in listed if dice.random() < 0.7] or listed[:1]:
        verdict = verdict_of(actor, wait_id)
        await decide_one(actor, wait_id, verdict)
        if dice.random() < 0.2:
            await decide_one(actor, wait_id, verdict)


async def decide_one(actor: Actor, wait_id: str, verdict: Verdict) -> None:
    """Decide a wait and keep what one is told."""
    answer = await actor.do(
        f"decide {wait_id}", lambda: actor.runner.decide(wait_id, verdict)
    )
    if answer is not None:  # nobody was told anything who did not wait for it
        moment = actor.world.moment
        actor.world.told.append(Told(actor.name, moment, wait_id, verdict, answer))


def verdict_of(actor: Actor, wait_id: str) -> Verdict:
    """Return what somebody says: of an unknown outcome, what is so."""
    dice, by = actor.dice, actor.name
    throw = dice.random()
    if wait_id.startswith("unknown"):
        return _truth(actor, wait_id)
    if not actor.world.denials or throw < 0.7:
        return Approve(by=by)
    if throw < 0.85:
        return Deny(by=by, reason="no")
    # A number in the place of a text is a slip, which must not be recorded.
    return Approve(by=by, arguments={"what": dice.choice(["9", "8", 9])})


def _truth(actor: Actor, wait_id: str) -> Verdict:
    """Return what the ledger says of a call whose outcome is unknown."""
    world, by = actor.world, actor.name
    wait = known_wait(world, wait_id)
    if wait is None:
        return Deny(by=by)
    for done in world.effects:
        if (done.run_id, done.call_id) == (wait.run_id, wait.call_id):
            what = jsontext.parse(done.arguments)["what"]
            return Answer(result_of(done.tool, what), by=by)
    return Approve(by=by)


def known_wait(world: World, wait_id: str) -> Wait | None:
    """Return a wait that is shown, or that somebody was told of."""
    from continuations.wire.records import decode_wait  # noqa: PLC0415

    body = world.store.bodies.get(f"waits/{wait_id}")
    if body is not None:
        return decode_wait(body, wait_id, wait_id.partition("@")[2])
    return world.seen.get(wait_id)
