"""Attachments of a schedule: tools draw files, and people send them beside workers."""

from __future__ import annotations

from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any
from unittest import mock

from continuations.attachments import File
from continuations.core.rows import attachments
from tests.simulation.past.actors import FORKERS, act_as_forker

if TYPE_CHECKING:
    import random
    from collections.abc import Callable, Coroutine, Generator
    from typing import TypeAlias

    from tests.simulation.actors import Actor
    from tests.simulation.sim_environment import SimEnvironment

    Role: TypeAlias = "Callable[[Actor], Coroutine[Any, Any, None]]"

# All attachments of one run together: its own ones, and one of a person.
LIMIT_BYTES = 160
ATTACHER = "attacher"
_REPEATS = 10


def drawn_file(what: str) -> File:
    """Return the file that is drawn of something; equal texts give equal bytes."""
    return File(f"{what[-4:]:>4}".encode() * _REPEATS, "text/plain", f"{what}.txt")


@contextmanager
def small_limit() -> Generator[None]:
    """Let a run have few bytes of attachments. Only one family has attachments."""
    with mock.patch.object(attachments, "MAX_RUN_BYTES", LIMIT_BYTES):
        yield


def draw_attachers(
    environment: SimEnvironment, rng: random.Random
) -> list[tuple[str, Role]]:
    """Draw one to three people who send files, and perhaps one who forks the run."""
    del environment
    people: list[tuple[str, Role]] = [
        (f"{ATTACHER}{n}", act_as_attacher) for n in range(rng.randint(1, 3))
    ]
    return people + ([(f"{FORKERS}0", act_as_forker)] if rng.random() < 0.5 else [])


async def act_as_attacher(actor: Actor) -> None:
    """Send messages with files; some files are equal to those of tools and people."""
    for number in range(actor.rng.randint(1, 3)):
        await actor.pause_randomly(60)
        run_id = actor.rng.choice(list(actor.environment.tree_of_run))
        own = f"{actor.name[-1]}-{number}"
        what = actor.rng.choice(("1", "2", "same", own, own))
        text = f"{actor.name} says {number}"
        own_id = text if actor.rng.random() < 0.5 else None
        send = partial(actor.runner.send, run_id, [text, drawn_file(what)], id=own_id)
        for _ in range(1 if own_id is None else actor.rng.randint(1, 2)):
            await actor.perform(f"send {run_id}", send)
