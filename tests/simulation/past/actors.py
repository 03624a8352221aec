"""Actors that change the past of runs: they fork and rewind beside workers."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from continuations import Answer, Deny
from continuations.core.rows.calls import CLOSED_STATES
from continuations.ledger import layout

if TYPE_CHECKING:
    import random
    from collections.abc import Callable, Coroutine, Mapping
    from typing import TypeAlias

    from continuations import Continuation
    from continuations.core.rows.decisions import Verdict
    from continuations.core.rows.state import RunState
    from tests.simulation.actors import Actor
    from tests.simulation.sim_environment import SimEnvironment

    Role: TypeAlias = "Callable[[Actor], Coroutine[Any, Any, None]]"

# Trees with free calls, approved calls and agents below each other.
CHANGED_TREES = ("turns", "one", "deep", "wide", "approved_agent", "plain", "mixed")
_FORK = "fork-"
_ADOPTED = "adopted-"
FORKERS = "forker"
ADOPTERS = "adopter"
_MAX_FORKS = 2


def is_fork(run_id: str) -> bool:
    """Return whether a run of a schedule was made of another one."""
    return run_id.startswith((_FORK, _ADOPTED))


def is_forker(process: str) -> bool:
    """Return whether a process forks or adopts runs, and does nothing else."""
    return process.startswith((FORKERS, ADOPTERS))


def draw_changers(
    environment: SimEnvironment, rng: random.Random
) -> list[tuple[str, Role]]:
    """Draw one or two actors that fork or rewind runs, and sometimes one of each."""
    environment.grants = rng.random() < 0.3
    draw = rng.random()
    roles: list[tuple[str, Role]] = []
    if draw < 0.65:
        roles += [(f"{FORKERS}{n}", act_as_forker) for n in range(rng.randint(1, 2))]
    if draw > 0.4:
        roles += [(f"rewinder{n}", act_as_rewinder) for n in range(rng.randint(1, 2))]
    return roles


def draw_rewinders(
    environment: SimEnvironment, rng: random.Random
) -> list[tuple[str, Role]]:
    """Draw one or two actors that rewind runs."""
    del environment
    return [(f"rewinder{n}", act_as_rewinder) for n in range(rng.randint(1, 2))]


@dataclass(frozen=True, slots=True)
class Fork:
    """A fork to be made: its source, its id, and what differs in it."""

    source: str
    version: int
    run_id: str
    changes: Mapping[str, Any]
    by: str | None


async def act_as_forker(actor: Actor) -> None:
    """Fork runs and forks, from any version, some with changes; repeat some forks."""
    for number in range(actor.rng.randint(1, _MAX_FORKS)):
        await actor.pause_randomly(90)
        source = actor.rng.choice(list(actor.environment.tree_of_run))
        planned: list[Fork] = []
        plan = partial(_plan, actor, source, f"{_FORK}{actor.name}-{number}", planned)
        await actor.perform(f"plan a fork of {source}", plan)
        for fork in planned * 2:
            again = partial(_make, actor, fork)
            await actor.perform(f"fork {source} as {fork.run_id}", again)
            if actor.rng.random() < 0.7:
                break


async def _plan(actor: Actor, source: str, new_id: str, planned: list[Fork]) -> None:
    newest = (await actor.runner.look(source)).version
    version = actor.rng.randint(1, newest)
    run = await actor.runner.look(source, version=version)
    changes = _changes(actor, run)
    planned.append(Fork(source, version, new_id, changes, _person(actor)))


async def _make(actor: Actor, fork: Fork) -> None:
    environment = actor.environment
    environment.sources[fork.run_id] = fork.source
    environment.tree_of_run[fork.run_id] = environment.tree_of_run[fork.source]
    if fork.changes:
        environment.changed_forks.add(fork.run_id)
    environment.fork_messages[fork.run_id] = fork.changes.get("messages", {})
    if not environment.store.keys(layout.versions_prefix(fork.run_id), limit=1):
        environment.forks_began[fork.run_id] = environment.next_timestamp
    if fork.by is not None:
        environment.forked_by[fork.run_id] = fork.by
    await actor.runner.fork(
        fork.source, fork.version, run_id=fork.run_id, by=fork.by, **fork.changes
    )


async def act_as_adopter(actor: Actor) -> None:
    """Export runs as bytes, and adopt the bytes at once or later, some of them twice.

    The bytes are those of the newest version or of an earlier one.
    """
    for number in range(actor.rng.randint(1, 3)):
        await actor.pause_randomly(60)
        source = actor.rng.choice(list(actor.environment.tree_of_run))
        taken: list[Continuation] = []
        await actor.perform(f"export {source}", partial(_export, actor, source, taken))
        if actor.rng.random() < 0.5:
            await actor.pause_randomly(40)
        new_id, by = f"{_ADOPTED}{actor.name}-{number}", _person(actor)
        for continuation in taken * 2:
            adopt = partial(_adopt, actor, source, continuation, new_id, by)
            await actor.perform(f"adopt {source} as {new_id}", adopt)
            if actor.rng.random() < 0.7:
                break


async def _export(actor: Actor, source: str, taken: list[Continuation]) -> None:
    newest = await actor.runner.look(source)
    if actor.rng.random() < 0.4:
        version = actor.rng.randint(1, newest.version)
        newest = await actor.runner.look(source, version=version)
    taken.append(newest)


async def _adopt(
    actor: Actor, source: str, taken: Continuation, new_id: str, by: str | None
) -> None:
    environment = actor.environment
    environment.sources[new_id] = source
    environment.adopted_versions[new_id] = taken.version
    environment.tree_of_run[new_id] = environment.tree_of_run[source]
    if not environment.store.keys(layout.versions_prefix(new_id), limit=1):
        environment.forks_began[new_id] = environment.next_timestamp
    if by is not None:
        environment.forked_by[new_id] = by
    await actor.runner.adopt(taken.to_bytes(), run_id=new_id, by=by)


def _person(actor: Actor) -> str | None:
    """Draw the person for whom an actor acts, where schedules have people."""
    people = actor.environment.people
    return actor.rng.choice(people) if people else None


def _changes(actor: Actor, run: Continuation) -> dict[str, Any]:
    """Draw changed decisions, results or messages of a fork."""
    rng, draw = actor.rng, actor.rng.random()
    approvals = [wait for wait in run.waits if wait.kind == "approval"]
    if draw < 0.2 and approvals:
        verdict: Verdict = Deny(by=actor.name)
        if rng.random() < 0.5:
            verdict = Answer("no", by=actor.name)
        return {"decisions": {rng.choice(approvals).id: verdict}}
    closed = [
        call.id
        for call in run.run_state.calls.values()
        if isinstance(call.state, CLOSED_STATES)
    ]
    if draw < 0.4 and closed:
        return {"results": {rng.choice(closed): "another result"}}
    if 0.4 <= draw < 0.6:
        return {"messages": _messages(actor, run.run_state)}
    return {}


def _messages(actor: Actor, state: RunState) -> dict[str, Any]:
    """Draw a message more, or another transcript, of one or two frames."""
    frame_ids = sorted(state.frames)
    drawn: dict[str, Any] = {}
    for _ in range(actor.rng.randint(1, 2)):
        frame_id = actor.rng.choice(frame_ids)
        if actor.rng.random() < 0.3 and not state.frames[frame_id].open_call_ids:
            drawn[frame_id] = f"{actor.name} adds this"
        else:
            drawn[frame_id] = _other_transcript(actor, state, frame_id)
    return drawn


def _other_transcript(actor: Actor, state: RunState, frame_id: str) -> list[Any]:
    """Return a transcript with another result, or with a message in its middle.

    The task stays, and so do the turns: the next one is that of the source.
    """
    messages: list[Any] = [dict(each.data) for each in state.logs[frame_id].messages]
    results = [n for n, each in enumerate(messages) if each["role"] == "tool"]
    if results and actor.rng.random() < 0.6:
        messages[actor.rng.choice(results)]["content"] = f"{actor.name} says so"
    else:
        text = f"{actor.name} adds this"
        messages.insert(1, {"role": "user", "content": text})
    return messages


async def act_as_rewinder(actor: Actor) -> None:
    """Rewind runs and forks to any version, some of them again."""
    for _ in range(actor.rng.randint(1, 3)):
        await actor.pause_randomly(90)
        run_id = actor.rng.choice(list(actor.environment.tree_of_run))
        await actor.perform(f"rewind {run_id}", partial(_rewind, actor, run_id))


async def _rewind(actor: Actor, run_id: str) -> None:
    newest = (await actor.runner.look(run_id)).version
    version = actor.rng.randint(1, newest)
    actor.environment.rewinds_asked.add((run_id, version))
    rewound = await actor.runner.rewind(run_id, version, by=_person(actor))
    actor.environment.rewound.append(rewound)
