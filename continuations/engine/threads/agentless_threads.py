"""Threads of a runner without agents: messages are posted, and others reply."""

from __future__ import annotations

from typing import TYPE_CHECKING

from continuations.authoring.agent.agent import Agent
from continuations.authoring.manifest import unknown_manifest
from continuations.engine.journal.journal import StoreJournal
from continuations.engine.journal.publishing import Publisher
from continuations.engine.start.new_run import RunLimits, check_budget, initial_state
from continuations.errors import InvalidInput
from continuations.ledger.arrivals.arrivals import Arrivals
from continuations.ledger.versions import Versions
from continuations.version import __version__

if TYPE_CHECKING:
    from continuations.core.rows.run import Budget
    from continuations.engine.start.run_description import RunDescription
    from continuations.engine.threads.async_ticket import ThreadParts
    from continuations.engine.worker_options import WorkerOptions

_MAX_NAME_CHARS = 500


def check_agent_name(name: object) -> str:
    """Return the name of an agent that this process does not have."""
    if isinstance(name, str) and 0 < len(name) <= _MAX_NAME_CHARS:
        return name
    raise InvalidInput(
        "agent must be the name of an agent, because this runner has no agents, got "
        f'{name!r:.60}. Pass runner.thread("support", key=...), or make the runner '
        "with the agent."
    )


def check_not_frozen(description: RunDescription) -> None:
    """Raise `InvalidInput` for instructions that only the agent has."""
    if description.is_frozen:
        raise InvalidInput(
            'instructions="frozen" needs the agent, because its instructions are '
            "stored with the first message, and this runner has no agents. Leave "
            "instructions= out, or make the runner with the agent."
        )


def check_budget_of(
    name: str, budget: Budget | None, options: WorkerOptions
) -> Budget | None:
    """Return a valid budget or `None`; the worker checks the prices of its models."""
    return check_budget(budget, options.prices, Agent(name))


async def create_thread(
    parts: ThreadParts,
    agent: str,
    key: str,
    *,
    run_id: str,
    budget: Budget | None,
    description: RunDescription,
) -> None:
    """Store the first version of a thread; raises `StaleRun` if it exists.

    The worker that answers the first message adds the instructions and the manifest.
    """
    absent = Agent(agent)
    now = parts.ports.clock.now()
    state = initial_state(
        absent,
        (),
        "",
        run_id=run_id,
        run_nonce=parts.ports.ids.new_ulid(now),
        manifest=unknown_manifest(absent, sdk_version=__version__),
        now=now,
        limits=RunLimits(budget, parts.options.max_depth, parts.options.prices),
        thread_key=key,
    )
    state = description.describe(state)
    journal = StoreJournal(
        parts.objects,
        Versions(parts.objects, run_id),
        None,
        parts.ports,
        lease=parts.options.lease,
    )
    publisher = Publisher(parts.objects, parts.ports)
    await publisher.commit_and_publish(journal, state, state, Arrivals())
