"""People who ask, decide, write, fork, adopt and rewind; operators of signals."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from continuations.ledger.layout import thread_run_id
from tests.simulation import actors
from tests.simulation.agents import SEAM_CHATS
from tests.simulation.events.actors import EVENT_NAME, draw_reporters
from tests.simulation.past.actors import (
    ADOPTERS,
    FORKERS,
    act_as_adopter,
    act_as_forker,
    act_as_rewinder,
)
from tests.simulation.policy.actors import act_as_revoker
from tests.simulation.seams.tools import PEOPLE
from tests.simulation.sim_environment import SignalList
from tests.simulation.threads.actors import (
    KEY,
    act_as_closer,
    act_as_repeater,
    act_as_stopper,
    act_as_writer,
)

if TYPE_CHECKING:
    import random

    from tests.simulation.actors import Actor
    from tests.simulation.families import Role
    from tests.simulation.sim_environment import SimEnvironment


def draw_people(
    environment: SimEnvironment, rng: random.Random
) -> list[tuple[str, Role]]:
    """Draw the thread, its writers, who changes the past, and who reports events."""
    environment.people = PEOPLE
    environment.grants = rng.random() < 0.6
    tree = rng.choice(list(SEAM_CHATS))
    environment.thread_tree = tree
    environment.tree_of_run.pop("r1", None)
    environment.requesters["r0"] = rng.choice(PEOPLE)
    environment.tree_of_run[thread_run_id(tree, KEY, 1)] = tree
    closes = rng.random() < 0.1
    if closes:
        environment.tree_of_run[thread_run_id(tree, KEY, 2)] = tree
    roles: list[tuple[str, Role]] = [
        (f"writer{n}", act_as_writer) for n in range(rng.randint(1, 3))
    ]
    roles += [("repeater", act_as_repeater)] * (rng.random() < 0.3)
    roles += [("stopper", act_as_stopper)] * (rng.random() < 0.2)
    roles += [("closer", act_as_closer)] * closes
    roles += [("revoker", act_as_revoker)] * (rng.random() < 0.2)
    draw = rng.random()
    if draw < 0.6:
        roles += [(f"{FORKERS}{n}", act_as_forker) for n in range(rng.randint(1, 2))]
    if draw > 0.3:
        roles += [(f"rewinder{n}", act_as_rewinder) for n in range(rng.randint(1, 2))]
        roles += [("chat_rewinder", act_as_chat_rewinder)]
    if rng.random() < 0.4:
        roles += [(f"{ADOPTERS}{n}", act_as_adopter) for n in range(rng.randint(1, 2))]
    roles += draw_reporters(environment, rng)
    if rng.random() < 0.4:
        roles += [("other_signaller", act_as_other_signaller)]
        roles += [("signal_operator", act_as_signal_operator)]
    roles += [(f"person{n}", actors.act_as_decider) for n in range(rng.randint(0, 2))]
    roles += [(f"helper{n}", actors.act_as_worker) for n in range(rng.randint(0, 2))]
    return roles


async def act_as_chat_rewinder(actor: Actor) -> None:
    """Rewind the thread, mostly while it works on a message."""
    environment = actor.environment
    tree = environment.thread_tree
    assert tree is not None
    run_id = thread_run_id(tree, KEY, 1)
    for _ in range(actor.rng.randint(1, 4)):
        await actor.pause_randomly(60)
        await actor.perform(f"rewind {run_id}", partial(_rewind_chat, actor, run_id))


async def _rewind_chat(actor: Actor, run_id: str) -> None:
    newest = (await actor.runner.look(run_id)).version
    version = max(1, newest - actor.rng.randint(1, 8))
    by = actor.rng.choice(PEOPLE)
    actor.environment.rewinds_asked.add((run_id, version))
    rewound = await actor.runner.rewind(run_id, version, by=by)
    actor.environment.rewound.append(rewound)


# No wait takes a signal with this name.
OTHER_NAME = "fax"
_NAMES = (None, EVENT_NAME, OTHER_NAME)


async def act_as_other_signaller(actor: Actor) -> None:
    """Send signals that no wait takes, beside those of `signaller0`."""
    for number in range(actor.rng.randint(1, 3)):
        await actor.pause_randomly(60)
        data = f"{actor.name} says {number}"
        name = actor.rng.choice((EVENT_NAME, OTHER_NAME, OTHER_NAME))
        send = partial(actor.runner.signal, "r0", name, data, by=actor.name)
        await actor.perform(f"signal {name} {data}", send)


async def act_as_signal_operator(actor: Actor) -> None:
    """List the signals that no wait has taken, and drop all of them or those of a name.

    A drop that failed may be recorded; some of them are repeated.
    """
    for _ in range(actor.rng.randint(1, 4)):
        await actor.pause_randomly(60)
        await actor.perform("list signals", partial(_list_signals, actor))
        if actor.rng.random() < 0.3:
            continue
        name, by = actor.rng.choice(_NAMES), actor.rng.choice(PEOPLE)
        drop = partial(actor.runner.drop_signals, "r0", name=name, by=by)
        for _ in range(1 + (actor.rng.random() < 0.3)):
            await actor.perform(f"drop the signals {name}", drop)


async def _list_signals(actor: Actor) -> None:
    environment = actor.environment
    began_at = environment.next_timestamp
    listed = await actor.runner.signals("r0")
    numbers = tuple(each.number for each in listed)
    found = SignalList("r0", began_at, environment.next_timestamp, numbers)
    environment.signal_lists.append(found)
