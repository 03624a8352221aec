"""Families of schedules: a capability has schedules, trees and actors of its own.

The number of a schedule's family is its seed divided by `SEEDS_PER_FAMILY`. So a new
family changes no schedule of another one, and no seed of a mutant. Seed 3,000,007 is
schedule 7 of family 3.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Any, TypeAlias, get_args

from tests.simulation.actors import Actor
from tests.simulation.agents import (
    FILE_TREES,
    GUARDED_TREES,
    HANDOFF_TREES,
    JUDGED_TREES,
    POLICY_TREES,
    SEAM_TREES,
    SHORTENED_TREES,
    STAGED_TREES,
    STATE_TREES,
    VOTING_TREES,
)
from tests.simulation.costs.charging import BUDGET_TREES, draw_budgets
from tests.simulation.events.actors import EVENT_TREE_NAMES, draw_reporters
from tests.simulation.fault_schedule import (
    CodeChange,
    Deployment,
    FlowChange,
    NameChange,
    PolicyChange,
)
from tests.simulation.files.actors import draw_attachers
from tests.simulation.jobs.actors import JOB_TREE_NAMES, draw_job_systems
from tests.simulation.models.slow_provider import SLOW_TREES, draw_slow_models
from tests.simulation.operators.actors import OPERATED_TREES, draw_operators
from tests.simulation.past.actors import CHANGED_TREES, draw_changers, draw_rewinders
from tests.simulation.policy.actors import draw_policy_actors
from tests.simulation.seams.actors import draw_people
from tests.simulation.sim_environment import SimEnvironment
from tests.simulation.streams.actors import STREAMED_TREES, draw_readers
from tests.simulation.threads.actors import draw_writers
from tests.simulation.votes.actors import draw_voters
from tests.simulation.watches.actors import draw_servers
from tests.simulation.workflows.actors import draw_flow_actors
from tests.simulation.workflows.trees import FLOW_TREES

Role: TypeAlias = "Callable[[Actor], Coroutine[Any, Any, None]]"
SEEDS_PER_FAMILY = 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Family:
    """Trees and actors that only the schedules of a family have.

    Attributes:
        number: The number of the family.
        trees: Names of trees (`agents.py`). Run `r0` gets one of them.
        roles: Draws the actors that only this family has, each with a name. It may
            set options of the environment.
        deployments: The changes that a deployment of its schedules may make.
        deployment_rate: A factor for the probability of a deployment.
        deployment_delay: The seconds before which no deployment begins.
    """

    number: int
    trees: tuple[str, ...]
    roles: Callable[[SimEnvironment, random.Random], list[tuple[str, Role]]]
    deployments: tuple[Deployment, ...] = get_args(CodeChange)
    deployment_rate: float = 1.0
    deployment_delay: float = 0.0

    @property
    def first_seed(self) -> int:
        """The seed of the family's first schedule."""
        return self.number * SEEDS_PER_FAMILY

    def draw(self, environment: SimEnvironment) -> list[tuple[str, Role]]:
        """Draw the tree of run `r0` and the actors of a schedule."""
        rng = random.Random(f"{environment.seed}/family")  # noqa: S311 - not for secrets
        if self.trees:
            environment.tree_of_run["r0"] = rng.choice(self.trees)
        return self.roles(environment, rng)


def _no_roles(
    environment: SimEnvironment, rng: random.Random
) -> list[tuple[str, Role]]:
    del environment, rng
    return []


# Everything that has no family of its own.
GENERAL = Family(number=0, trees=(), roles=_no_roles)

MODELS = Family(number=1, trees=SLOW_TREES, roles=draw_slow_models)
EVENTS = Family(number=3, trees=EVENT_TREE_NAMES, roles=draw_reporters)
JOBS = Family(number=4, trees=JOB_TREE_NAMES, roles=draw_job_systems)
VOTES = Family(number=5, trees=tuple(VOTING_TREES), roles=draw_voters)

POLICY = Family(
    number=6,
    trees=tuple(POLICY_TREES),
    roles=draw_policy_actors,
    deployments=(*get_args(CodeChange), *get_args(PolicyChange)),
    # Between the first grants and the last calls.
    deployment_rate=2.0,
    deployment_delay=10.0,
)

# The history of an agent is shortened, while another call of the run waits.
COMPACTIONS = Family(number=9, trees=tuple(SHORTENED_TREES), roles=_no_roles)

# Run `r0` is one of the general trees, beside a thread.
THREADS = Family(number=7, trees=("plain", "one"), roles=draw_writers)

# Without deployments, each call that changes a state may be repeated.
STATES = Family(
    number=8, trees=tuple(STATE_TREES), roles=_no_roles, deployment_rate=0.0
)

# Without deployments, as the calls of these trees change states too.
GUARDS = Family(
    number=10, trees=tuple(GUARDED_TREES), roles=_no_roles, deployment_rate=0.0
)

# People judge inputs and outputs, and an agent judges calls.
JUDGES = Family(
    number=14, trees=tuple(JUDGED_TREES), roles=_no_roles, deployment_rate=0.0
)
# Processes stream run `r0` to one screen.
STREAMS = Family(number=13, trees=STREAMED_TREES, roles=draw_readers)

# Without deployments: a tool with another result is a test of its own.
ATTACHMENTS = Family(
    number=12, trees=tuple(FILE_TREES), roles=draw_attachers, deployment_rate=0.0
)

# People fork and rewind runs. Each process has the first code.
PAST = Family(number=11, trees=CHANGED_TREES, roles=draw_changers, deployment_rate=0.0)

# Everything meets: a thread, several senders, signals, events, rules, grants, forks,
# rewinds, adopted runs, and processes that have other names of tools and agents.
SEAMS = Family(
    number=16,
    trees=tuple(SEAM_TREES),
    roles=draw_people,
    deployments=get_args(NameChange),
)

# Run `r0` has a budget in money.
BUDGETS = Family(number=15, trees=BUDGET_TREES, roles=draw_budgets)

# Run `r0` has workflows; processes get code that a history does not fit, or a patch.
WORKFLOWS = Family(
    number=17,
    trees=tuple(FLOW_TREES),
    roles=draw_flow_actors,
    # Half of the deployments have the patch.
    deployments=(*get_args(FlowChange), "patched"),
    deployment_rate=2.0,
)

# Without deployments: an agent that is removed ends its run.
HANDOFFS = Family(
    number=18, trees=tuple(HANDOFF_TREES), roles=_no_roles, deployment_rate=0.0
)

# People rewind workflows. Each process has the first code.
PASTS_OF_WORKFLOWS = Family(
    number=19, trees=tuple(FLOW_TREES), roles=draw_rewinders, deployment_rate=0.0
)

# Tools wait again and again. The deployments change other tools.
STAGES = Family(number=20, trees=tuple(STAGED_TREES), roles=_no_roles)

# Worker loops run on a store whose reports cannot be trusted.
WATCHES = Family(number=21, trees=(), roles=draw_servers)


def _draw_commits(
    environment: SimEnvironment, rng: random.Random
) -> list[tuple[str, Role]]:
    """Draw the tree and the actors of another family, on a store that commits."""
    environment.has_commits = True
    other = rng.choice([each for each in FAMILIES.values() if each is not COMMITS])
    if other.trees:
        environment.tree_of_run["r0"] = rng.choice(other.trees)
    return other.roles(environment, rng)


# The store makes several changes in one request. Without deployments, as some trees of
# other families must have none.
COMMITS = Family(number=22, trees=(), roles=_draw_commits, deployment_rate=0.0)

OPERATORS = Family(number=2, trees=OPERATED_TREES, roles=draw_operators)

FAMILIES: dict[str, Family] = {
    "general": GENERAL,
    "models": MODELS,
    "operators": OPERATORS,
    "events": EVENTS,
    "jobs": JOBS,
    "votes": VOTES,
    "policy": POLICY,
    "threads": THREADS,
    "states": STATES,
    "compactions": COMPACTIONS,
    "guards": GUARDS,
    "past": PAST,
    "judges": JUDGES,
    "attachments": ATTACHMENTS,
    "streams": STREAMS,
    "budgets": BUDGETS,
    "seams": SEAMS,
    "workflows": WORKFLOWS,
    "handoffs": HANDOFFS,
    "pasts of workflows": PASTS_OF_WORKFLOWS,
    "stages": STAGES,
    "watches": WATCHES,
    "commits": COMMITS,
}


def family_of(seed: int) -> Family:
    number = seed // SEEDS_PER_FAMILY
    return next(each for each in FAMILIES.values() if each.number == number)
