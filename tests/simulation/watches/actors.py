"""Worker loops on a store that reports creates late, twice, for nothing, or not."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING

from tests.simulation.virtual_loop import NO_PROCESS

if TYPE_CHECKING:
    import random

    from tests.simulation.actors import Actor
    from tests.simulation.families import Role
    from tests.simulation.processes import Process
    from tests.simulation.sim_environment import SimEnvironment

INTERVAL = 10.0
# Longer than the loop may leave the markers alone; see `laws.py`.
_SHORTEST_SESSION, _LONGEST_SESSION = 90.0, 240.0
_MAX_LATENESS = 30.0


class SimWatch:
    """The reports that one process gets of the creates of a prefix."""

    def __init__(
        self, environment: SimEnvironment, process: Process, prefix: str
    ) -> None:
        self._loop = environment.loop
        self._latency = environment.faults.latency
        self._process = process
        self._prefix = prefix
        self._reported = asyncio.Event()

    def tell(self, key: str) -> None:
        """Report a create, unless the report is lost."""
        process = self._process
        if not key.startswith(self._prefix) or process.draw_fault("report_lost"):
            return
        late = process.draw_fault("report_late")
        delay = self._latency if late is None else late * _MAX_LATENESS
        self._report_after(delay)
        again = process.draw_fault("report_doubled")
        if again is not None:
            self._report_after(delay + again)

    async def wait(self, seconds: float) -> bool:
        """Wait for a report, which may be about nothing."""
        spurious = self._process.draw_fault("report_spurious")
        if spurious is not None:
            self._report_after(spurious * seconds)
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._reported.wait()
        was_reported = self._reported.is_set()
        self._reported.clear()
        return was_reported

    def _report_after(self, seconds: float) -> None:
        self._loop.call_later(seconds, self._reported.set, context=NO_PROCESS)


def draw_servers(
    environment: SimEnvironment, rng: random.Random
) -> list[tuple[str, Role]]:
    """Draw one or two worker loops."""
    environment.has_watches = True
    return [(f"server{number}", act_as_server) for number in range(rng.randint(1, 2))]


async def act_as_server(actor: Actor) -> None:
    """Resume due runs in a worker loop, once or twice."""
    for _ in range(actor.rng.randint(1, 2)):
        await actor.pause_randomly(30)
        span = _LONGEST_SESSION - _SHORTEST_SESSION
        seconds = _SHORTEST_SESSION + actor.rng.random() * span
        await actor.perform("serve", partial(_serve, actor, seconds))


async def _serve(actor: Actor, seconds: float) -> None:
    stop, process = asyncio.Event(), actor.process
    timer = actor.environment.loop.call_later(seconds, stop.set)
    began_at = process.awake_seconds
    try:
        await actor.runner.serve_forever(interval=INTERVAL, stop=stop)
    finally:
        timer.cancel()
        if not process.dead:
            session = (actor.name, began_at, process.awake_seconds)
            actor.environment.served.append(session)
