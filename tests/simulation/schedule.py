"""Run one schedule by its seed, and shrink a schedule that breaks a law."""

from __future__ import annotations

import gc
import random
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import get_args

from continuations.errors import AgentChanged
from continuations.results import SweepResult
from continuations.wire.fields import to_milliseconds
from tests.simulation import actors
from tests.simulation.actors import Actor
from tests.simulation.agents import (
    EVENT_TREES,
    JOB_TREES,
    POISON_TREES,
    SEAM_TREES,
    STAGED_TREES,
    TIMEOUT_TREES,
    WAITING_TREES,
    names_of_trees,
)
from tests.simulation.decoding_cache import versions_decoded_once
from tests.simulation.evidence import Evidence
from tests.simulation.families import Role, family_of
from tests.simulation.fault_schedule import (
    FAULT_KINDS,
    MISFITS,
    FaultSchedule,
    FlowChange,
)
from tests.simulation.files.actors import small_limit
from tests.simulation.laws import broken_laws
from tests.simulation.operators.actors import unpause_if_held
from tests.simulation.processes import EPOCH
from tests.simulation.seams.tools import PEOPLE
from tests.simulation.sim_environment import SimEnvironment
from tests.simulation.virtual_loop import NO_PROCESS
from tests.simulation.workflows.trees import FLOW_TREES

HORIZON_SECONDS = 240.0
# How many schedules have a run whose tools wait.
WAITING_PROBABILITY = 0.12
# How long a deployment takes until all processes have the new code.
ROLLOUT_SECONDS = 40.0
_EPOCH_MS = to_milliseconds(EPOCH)


@dataclass(frozen=True)
class Report:
    """The result of a schedule.

    Attributes:
        seed: The seed of the schedule.
        broken: The names of the broken laws, each with a sentence.
        summary: The seed, the trees of agents, the actors and the faults.
        parts: The actors and the faults that can be left out, by name.
        log: One line for each event.
        environment: The environment at the end.
        fault_kinds: The kinds of faults that were allowed; None for all.
        excluded: The names of the faults and actors that were left out.
    """

    seed: int
    broken: dict[str, str]
    summary: str
    parts: tuple[str, ...]
    log: tuple[str, ...]
    environment: SimEnvironment
    fault_kinds: frozenset[str] | None
    excluded: frozenset[str]


def run(
    seed: int,
    *,
    fault_kinds: frozenset[str] | None = None,
    excluded: frozenset[str] = frozenset(),
) -> Report:
    """Run one schedule.

    Args:
        seed: The seed of all random numbers.
        fault_kinds: The kinds of faults that may occur; None for all.
        excluded: Names of single faults and of actors to leave out.
    """
    allowed = FAULT_KINDS if fault_kinds is None else fault_kinds
    environment = SimEnvironment(seed, FaultSchedule(seed, allowed, excluded))
    with (
        _garbage_collection_paused(),
        versions_decoded_once(),
        small_limit(),
    ):
        rng = random.Random(f"{seed}/cast")  # noqa: S311 - not for secrets
        actor_names = draw_actors(environment, rng)
        environment.loop.run_until_idle()
        sweep_until_idle(environment)
        environment.close()
        broken = broken_laws(Evidence(environment))
    trees = ", ".join(environment.tree_of_run.values())
    faults = environment.faults.occurred
    return Report(
        seed=seed,
        broken=broken,
        summary=(
            f"seed {seed}: trees {trees}; actors {', '.join(actor_names)}; "
            f"faults {', '.join(faults) or 'none'}"
        ),
        parts=(*actor_names[1:], *faults),
        log=tuple(" ".join(map(str, line)) for line in environment.log),
        environment=environment,
        fault_kinds=fault_kinds,
        excluded=excluded,
    )


@contextmanager
def _garbage_collection_paused() -> Generator[None]:
    # Collecting the coroutines of a dead process runs code. The interpreter would do it
    # at a different point of a schedule each time. (Without it schedules are faster.)
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def shrink(report: Report, law: str | None = None) -> Report:
    """Leave out the faults and actors that a broken schedule does not need.

    Returns:
        The smallest schedule that was found and still breaks `law`, by default the
        first broken one. A schedule that breaks no law is returned as it is.
    """
    if not report.broken:
        return report
    law = law or next(iter(report.broken))
    tried: set[str] = set()
    while parts := [part for part in report.parts if part not in tried]:
        # Late faults first: they depend on earlier ones, not the other way round.
        part = parts[-1]
        tried.add(part)
        smaller = run(
            report.seed,
            fault_kinds=report.fault_kinds,
            excluded=report.excluded | {part},
        )
        if law in smaller.broken:
            report = smaller
    return report


def report_text(report: Report) -> str:
    """Return the log of a schedule as text, and around it the laws that it broke."""
    sentences = [f"{name}: {what}" for name, what in report.broken.items()]
    broken = "\n".join(sentences) or "no law is broken"
    return "\n".join([broken, report.summary, *report.log, broken, report.summary])


def shrunk_text(report: Report) -> str:
    """Return a broken schedule, shrunk, as text; "" if it breaks no law."""
    return report_text(shrink(report)) if report.broken else ""


# Actors -----------------------------------------------------------------------------


def draw_actors(environment: SimEnvironment, rng: random.Random) -> list[str]:
    """Draw the trees and the actors, and start them; returns the actors' names."""
    names = names_of_trees()
    for number in range(1 + (rng.random() < 0.12)):
        environment.tree_of_run[f"r{number}"] = names.pop(rng.randrange(len(names)))
    extra = random.Random(f"{environment.seed}/extra")  # noqa: S311 - not for secrets
    if extra.random() < environment.faults.rate_of(
        "poison_run"
    ) and environment.faults.record("p0/0 poison_run"):
        environment.tree_of_run["p0"] = extra.choice(list(POISON_TREES))
    environment.allow_denials = rng.random() < 0.6
    environment.decide_at_end = rng.random() < 0.7
    environment.max_attempts = rng.choice((2, 5, 5))
    environment.listings_tell_time = rng.random() < 0.6
    environment.time_scale = rng.choice((0.1, 0.4, 1.0, 1.0))
    slow = random.Random(f"{environment.seed}/slow")  # noqa: S311 - not for secrets
    if environment.faults.rate_of("tool_times_out") and slow.random() < 0.3:
        environment.tree_of_run["r0"] = slow.choice(list(TIMEOUT_TREES))
    waits = random.Random(f"{environment.seed}/waits")  # noqa: S311 - not for secrets
    if waits.random() < WAITING_PROBABILITY:
        environment.tree_of_run["r0"] = waits.choice(list(WAITING_TREES))
    extra_roles = family_of(environment.seed).draw(environment)
    environment.tools_wait = any(
        tree in WAITING_TREES | STAGED_TREES | JOB_TREES or tree in FLOW_TREES
        for tree in environment.tree_of_run.values()
    )
    roles: list[tuple[str, Role]] = [("starter", actors.act_as_starter)]
    roles += [(f"worker{n}", actors.act_as_worker) for n in range(rng.randint(1, 3))]
    roles += [(f"decider{n}", actors.act_as_decider) for n in range(rng.randint(1, 3))]
    roles += [(f"sweeper{n}", actors.act_as_sweeper) for n in range(rng.randint(0, 2))]
    roles += [("canceller", actors.act_as_canceller)] * (rng.random() < 0.15)
    roles += [("sender", actors.act_as_sender)] * (rng.random() < 0.2)
    roles += [("repairer", actors.act_as_repairer)] * (extra.random() < 0.15)
    roles += extra_roles
    _plan_deployment(environment, [name for name, _ in roles])
    present: list[str] = []
    for name, role in roles:
        draws = [rng.random() for _ in range(7)]
        if name in environment.faults.excluded:
            continue
        present.append(name)
        actor = Actor(environment, name)
        actor.process.run(role(actor))
        _plan_process_faults(environment, actor, draws)
    return present


def _plan_deployment(environment: SimEnvironment, processes: list[str]) -> None:
    """Let all processes get other code, each at a time of its own."""
    faults = environment.faults
    rng = random.Random(f"{environment.seed}/deployment")  # noqa: S311 - not for secrets
    family = family_of(environment.seed)
    if rng.random() >= faults.rate_of("deployment") * family.deployment_rate:
        return
    change = rng.choice(family.deployments)
    if faults.record(f"code/0 deployment {change}"):
        environment.deployment = change
        if change in ("removal", "renames", *get_args(FlowChange)):
            # A worker without the tool of an approved call leaves the run alone. So
            # does one that has only the old name of a tool or an agent, or another
            # workflow.
            environment.expected_errors = (*environment.expected_errors, AgentChanged)
        begin = rng.random() * HORIZON_SECONDS / 3 * environment.time_scale
        begin += family.deployment_delay * environment.time_scale
        for name in processes:
            delay = rng.random() * ROLLOUT_SECONDS * environment.time_scale
            environment.deployed_at[name] = begin + delay


def _plan_process_faults(
    environment: SimEnvironment, actor: Actor, draws: list[float]
) -> None:
    """Kill or freeze a process, or set its clock, at drawn times."""
    faults, process = environment.faults, actor.process
    when = draws[1] * HORIZON_SECONDS / 2 * environment.time_scale
    if draws[0] < faults.rate_of("kill") and faults.record(f"{actor.name}/at kill"):
        environment.loop.call_later(when, process.crash, context=NO_PROCESS)
    when = draws[3] * HORIZON_SECONDS / 2 * environment.time_scale
    if draws[2] < faults.rate_of("freeze_later") and faults.record(
        f"{actor.name}/at freeze_later"
    ):
        pause = 5 + draws[1] * 100
        environment.loop.call_later(when, process.freeze, pause, context=NO_PROCESS)
    when = draws[5] * HORIZON_SECONDS / 2 * environment.time_scale
    if draws[4] < faults.rate_of("clock_set") and faults.record(
        f"{actor.name}/at clock_set"
    ):
        environment.loop.call_later(
            when, process.set_clock, draws[6], context=NO_PROCESS
        )


def run_uninterrupted(tree: str) -> Evidence:
    """Run a tree of agents without faults, with every wait approved."""
    environment = SimEnvironment(0, FaultSchedule(0, frozenset(), frozenset()))
    environment.tree_of_run["r0"] = tree
    environment.requesters["r0"] = PEOPLE[0]
    environment.tools_wait = tree in (
        WAITING_TREES | STAGED_TREES | EVENT_TREES | JOB_TREES | SEAM_TREES
    ) or (tree in FLOW_TREES)
    environment.allow_denials, environment.decide_at_end = False, True
    environment.faults.stopped = True
    actor = Actor(environment, "starter")
    actor.process.run(actors.act_as_starter(actor))
    environment.loop.run_until_idle()
    sweep_until_idle(environment, first_wait_seconds=1.0)
    environment.close()
    return Evidence(environment)


# The end ----------------------------------------------------------------------------

MAX_SWEEP_ROUNDS = 24
LONGEST_CLAIM_SECONDS = 200.0
# No marker but that of a deadline may be due later. Deadlines are within minutes here.
LONGEST_DELAY_SECONDS = 32 * 3600.0


def sweep_until_idle(
    environment: SimEnvironment, first_wait_seconds: float = 61.0
) -> None:
    """Stop all faults, and sweep until nothing is due."""
    environment.faults.stopped = True
    unchanged = 0
    for number in range(MAX_SWEEP_ROUNDS):
        before = dict(environment.store.bodies)
        due = _seconds_to_next_marker(environment)
        _advance_time(
            environment,
            first_wait_seconds
            if number < 2 or due is None
            else min(due, LONGEST_DELAY_SECONDS),
        )
        actor = Actor(environment, f"last{number}")
        actor.process.run(_sweep_and_decide(actor))
        environment.loop.run_until_idle()
        if environment.deployment in MISFITS:
            # Some runs fit only the code before the deployment.
            environment.deployed_at[f"first{number}"] = float("inf")
            actor = Actor(environment, f"first{number}")
            actor.process.run(_sweep_and_decide(actor))
            environment.loop.run_until_idle()
        is_idle = due is None and before == environment.store.bodies
        unchanged = unchanged + 1 if is_idle else 0
        if unchanged == 1:
            # A claim that was made with a wrong clock may last longer.
            _advance_time(environment, LONGEST_CLAIM_SECONDS)
        elif unchanged > 1:
            return


async def _sweep_and_decide(actor: Actor) -> None:
    environment = actor.environment
    if environment.operators:
        for run_id in environment.tree_of_run:
            await unpause_if_held(actor, run_id)
    swept = await actor.perform("sweep", actor.runner.sweep)
    if isinstance(swept, SweepResult):
        for run_id, error in swept.errors.items():
            changed = isinstance(error, AgentChanged)
            if changed and environment.deployment not in get_args(FlowChange):
                # The tool does not come back: an operator asks again about its call.
                reopen = partial(actor.runner.resume, run_id, reopen=True)
                await actor.perform(f"reopen {run_id}", reopen)
    if actor.environment.decide_at_end:
        wait_ids = await actors.list_wait_ids(actor)
        for wait_id in wait_ids:
            for verdict in actors.closing_verdicts(actor, wait_id):
                await actors.decide_wait(actor, wait_id, verdict)
        if wait_ids:
            await actor.perform("sweep", actor.runner.sweep)


def _advance_time(environment: SimEnvironment, seconds: float) -> None:
    environment.loop.call_later(seconds, lambda: None, context=NO_PROCESS)
    environment.loop.run_until_idle()


def _seconds_to_next_marker(environment: SimEnvironment) -> float | None:
    """Return the seconds until the next future marker is due, if there is one."""
    now = int((environment.loop.time()) * 1000) + _EPOCH_MS
    due_times = [int(key[8:21]) for key in environment.store.keys("markers/")]
    future = [due for due in due_times if due > now]
    return (min(future) - now) / 1000 + 1 if future else None
