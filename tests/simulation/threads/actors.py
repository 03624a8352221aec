"""Threads of a schedule: people who write, repeat, interrupt, stop and close."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from continuations.errors import ContinuationsError
from continuations.ledger.layout import thread_run_id
from tests.simulation import actors
from tests.simulation.agents import THREAD_TREES
from tests.simulation.operators.actors import act_as_operator

if TYPE_CHECKING:
    import random

    from continuations.core.rows.run import WhenBusy
    from continuations.engine.threads.async_thread import AsyncThread
    from tests.simulation.actors import Actor
    from tests.simulation.families import Role
    from tests.simulation.sim_environment import SimEnvironment

KEY = "customer 42"
_PEOPLE = ("ann", "bob")
# The wishes of messages. Some stand here twice, so that they are drawn more often.
_WISHES = ("say", "say", "note", "pay", "pay", "clerk", "both")
_WAYS: tuple[WhenBusy, ...] = ("queue", "queue", "merge", "interrupt")


@dataclass(frozen=True, slots=True)
class SentMessage:
    """A message that an actor tried to send.

    Attributes:
        text: Its text, which no other message has.
        by: The person who sends it.
        own_id: The id that the sender chose, or `None`.
        when_busy: The effect while an earlier message is answered.
    """

    text: str
    by: str
    own_id: str | None
    when_busy: WhenBusy


@dataclass(frozen=True, slots=True)
class SendAnswer:
    """The result of a message, or its error, that an actor got."""

    process: str
    message: SentMessage
    result: object


def draw_writers(
    environment: SimEnvironment, rng: random.Random
) -> list[tuple[str, Role]]:
    """Draw two to four writers, and perhaps who repeats, stops, closes and pauses."""
    tree = rng.choice(list(THREAD_TREES))
    environment.thread_tree = tree
    environment.tree_of_run.pop("r1", None)
    for generation in (1, 2):
        environment.tree_of_run[thread_run_id(tree, KEY, generation)] = tree
    roles: list[tuple[str, Role]] = [
        (f"writer{n}", act_as_writer) for n in range(rng.randint(2, 4))
    ]
    roles += [("repeater", act_as_repeater)] * (rng.random() < 0.6)
    roles += [("stopper", act_as_stopper)] * (rng.random() < 0.4)
    roles += [("closer", act_as_closer)] * (rng.random() < 0.3)
    roles += [(f"helper{n}", actors.act_as_worker) for n in range(rng.randint(0, 2))]
    if rng.random() < 0.3:
        environment.operators = True
        roles += [("operator", act_as_operator)]
    return roles


def _thread(actor: Actor) -> AsyncThread[Any]:
    return actor.runner.thread(actor.environment.thread_tree, key=KEY)


async def act_as_writer(actor: Actor) -> None:
    """Send messages of one person, some of them again after an error."""
    by = actor.rng.choice(_PEOPLE)
    for number in range(actor.rng.randint(1, 3)):
        await actor.pause_randomly(60)
        text = f"{actor.name}-{number} {actor.rng.choice(_WISHES)}"
        own_id = text if actor.rng.random() < 0.6 else None
        message = SentMessage(text, by, own_id, actor.rng.choice(_WAYS))
        actor.environment.sent_messages.append(message)
        failed = await send(actor, message)
        if failed and own_id is not None:
            await send(actor, message)


async def act_as_repeater(actor: Actor) -> None:
    """Send messages with an id again, whose sender may be dead."""
    for _ in range(actor.rng.randint(1, 4)):
        await actor.pause_randomly(60)
        known = [each for each in actor.environment.sent_messages if each.own_id]
        if known:
            await send(actor, actor.rng.choice(known))


async def send(actor: Actor, message: SentMessage) -> bool:
    """Send or post a message, and record its result; return whether it failed."""
    operation = partial(_send, actor, message, posts=actor.rng.random() < 0.4)
    result = await actor.perform(f"send {message.text}", operation)
    answer = SendAnswer(actor.name, message, result)
    actor.environment.send_answers.append(answer)
    return result is None or isinstance(result, ContinuationsError)


async def _send(actor: Actor, message: SentMessage, *, posts: bool) -> object:
    thread = _thread(actor)
    options: dict[str, Any] = {
        "by": message.by,
        "id": message.own_id,
        "when_busy": message.when_busy,
    }
    if not posts:
        return await thread.send(message.text, **options)
    ticket = await thread.post(message.text, **options)
    await actor.pause_randomly(40)
    return await ticket.reply()


async def act_as_stopper(actor: Actor) -> None:
    """Stop the turn, whatever it answers."""
    for _ in range(actor.rng.randint(1, 3)):
        await actor.pause_randomly(60)
        await actor.perform(
            "stop the turn", lambda: _thread(actor).stop_turn(by=actor.name)
        )


async def act_as_closer(actor: Actor) -> None:
    """Close the thread, once or twice; later messages open the next generation."""
    for _ in range(actor.rng.randint(1, 2)):
        await actor.pause_randomly(120)
        await actor.perform("close", lambda: _thread(actor).close(by=actor.name))
