"""A reader of a simulated run: it shows the texts of streams that are cut anywhere.

The reader is a person at a screen, outside of all processes: no simulated crash changes
the screen. Processes stream the run to it, one after the other or at the same time.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

from continuations.core.reading.live_events import BaseLiveEvent, LiveTranscript
from continuations.models.interface import ModelDelta
from tests.simulation.processes import current_process

if TYPE_CHECKING:
    import random
    from collections.abc import Callable, Coroutine
    from typing import TypeAlias

    from continuations.events import RunEvent
    from continuations.models.interface import ModelRequest
    from tests.simulation.actors import Actor
    from tests.simulation.sim_environment import SimEnvironment

    Role: TypeAlias = "Callable[[Actor], Coroutine[Any, Any, None]]"

# Trees with agents below each other and beside each other, and with approvals.
STREAMED_TREES = ("turns", "one", "deep", "wide")
_RUN_ID = "r0"
_PARTS = 4
_ASKED_TWICE = 0.3


@dataclass
class Screen:
    """The events of run `r0` that one reader saw.

    Attributes:
        transcript: Folds the events into texts.
        cursors: The cursors of the stored events that changed the transcript.
        problem: The first wrong thing that the reader saw, or None.
    """

    transcript: LiveTranscript = field(default_factory=LiveTranscript)
    cursors: list[str] = field(default_factory=list[str])
    problem: str | None = None

    def show(self, event: RunEvent) -> None:
        before = self.transcript.cursor
        self.transcript.add(event)
        if self.transcript.cursor != before:
            self.cursors.append(self.transcript.cursor)
        for text in self.transcript.texts:
            words = text.text.split()
            if not text.is_complete and words != _parts_of(words[0], len(words)):
                self.problem = self.problem or f"a text was shown as {text.text}"


def draw_readers(
    environment: SimEnvironment, rng: random.Random
) -> list[tuple[str, Role]]:
    """Draw two or three processes that stream the run."""
    environment.screen = Screen()
    environment.charges = []
    return [(f"streamer{n}", act_as_streamer) for n in range(rng.randint(2, 3))]


async def act_as_streamer(actor: Actor) -> None:
    """Stream the run several times; most streams are left in the middle."""
    for _ in range(actor.rng.randint(2, 5)):
        await actor.pause_randomly(25)
        count = actor.rng.choice((3, 8, 15, 1000))
        await actor.perform(f"stream {_RUN_ID}", partial(_stream, actor, count))


async def _stream(actor: Actor, count: int) -> None:
    """Show the next events, at most some of them."""
    screen = actor.environment.screen
    assert screen is not None
    last = screen.transcript.cursor
    async with actor.runner.resume_stream(_RUN_ID, after=last) as stream:
        async for event in stream:
            if not isinstance(event, BaseLiveEvent):
                if _place(event.cursor) <= _place(last):
                    screen.problem = f"event {event.cursor} came after {last}"
                last = event.cursor
            screen.show(event)
            count -= 1
            if not count:
                return


def _place(cursor: str) -> tuple[int, int]:
    version, _, ordinal = cursor.partition(".")
    return int(version or 0), int(ordinal or 0)


# The words of a model ---------------------------------------------------------------


async def write(request: ModelRequest) -> None:
    """Hand on words that name their request; some models ask their provider twice."""
    if request.on_delta is None:
        return
    process = current_process()
    number = len(process.environment.model_turns)
    words: list[str | None] = [*_parts_of(f"{number}/0", _PARTS)]
    if process.rng.random() < _ASKED_TWICE:
        again = _parts_of(f"{number}-again/0", _PARTS)
        words = [*words[: process.rng.randrange(_PARTS)], None, *again]
    for word in words:
        if word is None:
            await request.on_delta(ModelDelta(kind="restart"))
            continue
        await request.on_delta(ModelDelta(kind="text", text=f"{word} "))
        await asyncio.sleep(process.rng.random())
        if process.draw_fault("die_in_call") is not None:
            await process.die_here()


def _parts_of(first: str, count: int) -> list[str]:
    """Return the first words of the request that a first word names."""
    number = first.partition("/")[0]
    return [f"{number}/{index}" for index in range(count)]
