"""run and resume without a store: the continuation is the caller's to keep."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from continuations.authoring.agent import Agent
from continuations.authoring.binding import Binding
from continuations.authoring.manifest import differences
from continuations.core.events import RunStopped
from continuations.core.plan import plan
from continuations.core.reducer import advance
from continuations.core.run import ENDED
from continuations.engine import opening, portal
from continuations.engine.bound import Bound
from continuations.engine.drive import Drive
from continuations.engine.fold import Folder
from continuations.engine.journal import NoJournal
from continuations.engine.outcomes import outcome_of
from continuations.engine.perform import ModelShelf, Performer
from continuations.engine.ports import Ports
from continuations.engine.worker import manifest
from continuations.errors import InvalidInput, WaitNotFound
from continuations.ledger import claims
from continuations.ledger.decide import record
from continuations.wire.continuation import Continuation

if TYPE_CHECKING:
    from collections.abc import Mapping

    from continuations.authoring.manifest import Change
    from continuations.core.decisions import Decision, Verdict
    from continuations.core.run import Budget
    from continuations.core.table import Table
    from continuations.engine.opening import Input
    from continuations.engine.outcomes import Outcome


def run(
    agent: Agent,
    input: Input,  # noqa: A002 - the word of the design
    *,
    context: Any = None,
    max_depth: int | None = None,
    budget: Budget | None = None,
) -> Outcome:
    """Run an agent until it ends or must wait, keeping nothing anywhere.

    Without a store there is no claim: whoever resumes one continuation twice runs its
    calls twice, and a crash loses what was done since it was made. Raises
    `InvalidInput` and `ModelError`.
    """
    running = run_async(
        agent, input, context=context, max_depth=max_depth, budget=budget
    )
    return portal.call(running)


def resume(
    data: bytes | Continuation,
    agent: Agent,
    *,
    answers: Mapping[str, Verdict] | None = None,
    context: Any = None,
    max_depth: int | None = None,
) -> Outcome:
    """Go on with a continuation, deciding some or all of its waits by their ids.

    Waits without an answer stay open. The value that was given is not changed. Raises
    `FormatError`, `Corrupt`, `WaitNotFound` (an answer to no open wait; nothing ran),
    `DecisionRefused`, `WaitExpired`, `AgentChanged` and `ModelError`.
    """
    return portal.call(
        resume_async(data, agent, answers=answers, context=context, max_depth=max_depth)
    )


async def run_async(
    agent: Agent,
    input: Input,  # noqa: A002 - the word of the design
    *,
    context: Any = None,
    max_depth: int | None = None,
    budget: Budget | None = None,
) -> Outcome:
    """Do what `run` does, as a coroutine."""
    _check_agent(agent)
    ports = Ports()
    now = ports.clock.now()
    ulid = ports.ids.ulid(now)
    table = opening.opened(
        agent,
        opening.first_messages(agent, input),
        run_id=ulid,
        birth=ulid,
        manifest=manifest(agent),
        now=now,
        budget=budget,
    )
    return await _driven(table, agent, ports, context, max_depth, ())


async def resume_async(
    data: bytes | Continuation,
    agent: Agent,
    *,
    answers: Mapping[str, Verdict] | None = None,
    context: Any = None,
    max_depth: int | None = None,
) -> Outcome:
    """Do what `resume` does, as a coroutine."""
    _check_agent(agent)
    ports = Ports()
    given = data if isinstance(data, Continuation) else Continuation.from_bytes(data)
    table = given.table
    changes = differences(table.manifest, manifest(agent))
    decisions = _decisions(table, answers or {}, ports)
    bound = Bound(Binding([agent]))
    bound.check(table)
    folder = Folder(bound, ports)
    if table.run.status not in ENDED:
        table = folder.decided(folder.interrupted(table), decisions)
    if not plan(table):
        return outcome_of(Continuation(table, given.version), agent, changes)
    return await _driven(table, agent, ports, context, max_depth, changes)


def _check_agent(agent: object) -> None:
    if not isinstance(agent, Agent):
        msg = f"A run needs an Agent, not a {type(agent).__name__}."
        raise InvalidInput(msg)


async def _driven(
    table: Table,
    agent: Agent,
    ports: Ports,
    context: Any,
    max_depth: int | None,
    changes: tuple[Change, ...],
) -> Outcome:
    bound = Bound(Binding([agent]))
    performer = Performer(bound, ports, ModelShelf(), context, max_depth)
    drive = Drive(table, performer, NoJournal())
    await drive.drive()
    table = drive.table
    if drive.failure is not None:
        table = advance(table, RunStopped(failure=drive.failure))
    continuation = Continuation(claims.released(table))
    if drive.model_error is not None:
        # What was done until now would be lost with the error otherwise.
        drive.model_error.continuation = continuation
        raise drive.model_error
    return outcome_of(continuation, agent, changes)


def _decisions(
    table: Table, answers: Mapping[str, Verdict], ports: Ports
) -> dict[str, Decision]:
    now = ports.clock.now()
    found: dict[str, Decision] = {}
    for wait_id, verdict in answers.items():
        wait = table.waits.get(wait_id)
        if wait is None:
            msg = (
                f"The continuation has no open wait {str(wait_id)[:80]!r}. "
                f"Nothing ran. Open are: {', '.join(table.waits) or 'none'}."
            )
            raise WaitNotFound(msg, run_id=table.run.id, wait_id=str(wait_id))
        found[wait_id] = record(wait, verdict, now=now, ulid=ports.ids.ulid(now))
    return found
