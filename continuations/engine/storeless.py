"""run and resume without a store: the continuation is the caller's to keep."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from continuations.authoring.agent import Agent
from continuations.authoring.manifest import compare_manifests
from continuations.authoring.registry import AgentRegistry
from continuations.core.events import RunStopped
from continuations.core.plan import plan
from continuations.core.reducer import advance
from continuations.core.run import ENDED_STATUSES
from continuations.engine import new_run, portal
from continuations.engine.arrival_reducer import ArrivalReducer
from continuations.engine.code_changes import current_manifest
from continuations.engine.journal import NoJournal
from continuations.engine.model_registry import ModelRegistry
from continuations.engine.outcomes import outcome_of
from continuations.engine.performer import Performer
from continuations.engine.ports import Ports
from continuations.engine.run_loop import RunLoop
from continuations.engine.run_options import RunOptions
from continuations.engine.stack_binding import StackBinding
from continuations.errors import InvalidInput, WaitNotFound
from continuations.ledger import claims
from continuations.ledger.decisions import build_decision
from continuations.wire.continuation import Continuation

if TYPE_CHECKING:
    from collections.abc import Mapping

    from continuations.authoring.manifest import ManifestChange
    from continuations.core.decisions import Decision, Verdict
    from continuations.core.run import Budget
    from continuations.core.state import RunState
    from continuations.engine.new_run import Input
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
    return portal.run_until_complete(running)


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
    return portal.run_until_complete(
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
    ulid = ports.ids.new_ulid(now)
    state = new_run.initial_state(
        agent,
        new_run.first_messages(agent, input),
        run_id=ulid,
        run_nonce=ulid,
        manifest=current_manifest(agent),
        now=now,
        budget=budget,
    )
    options = RunOptions(context=context)
    return await _run_loop(state, agent, ports, options, max_depth, ())


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
    state = given.run_state
    changes = compare_manifests(state.manifest, current_manifest(agent))
    decisions = _decisions_from_answers(state, answers or {}, ports)
    bound = StackBinding(AgentRegistry([agent]))
    bound.check_agents(state)
    folder = ArrivalReducer(bound, ports)
    if state.run.status not in ENDED_STATUSES:
        state = folder.with_decisions(folder.with_interrupted_calls(state), decisions)
    if not plan(state):
        return outcome_of(Continuation(state, given.version), agent, changes)
    options = RunOptions(context=context)
    return await _run_loop(state, agent, ports, options, max_depth, changes)


def _check_agent(agent: object) -> None:
    if not isinstance(agent, Agent):
        msg = f"A run needs an Agent, not a {type(agent).__name__}."
        raise InvalidInput(msg)


async def _run_loop(
    state: RunState,
    agent: Agent,
    ports: Ports,
    run_options: RunOptions,
    max_depth: int | None,
    changes: tuple[ManifestChange, ...],
) -> Outcome:
    stack_binding = StackBinding(AgentRegistry([agent]))
    performer = Performer(stack_binding, ports, ModelRegistry(), run_options, max_depth)
    loop = RunLoop(state, performer, NoJournal())
    await loop.run()
    state = loop.state
    if loop.failure is not None:
        state = advance(state, RunStopped(failure=loop.failure))
    continuation = Continuation(claims.released(state))
    if loop.model_error is not None:
        # What was done until now would be lost with the error otherwise.
        loop.model_error.continuation = continuation
        raise loop.model_error
    return outcome_of(continuation, agent, changes)


def _decisions_from_answers(
    state: RunState, answers: Mapping[str, Verdict], ports: Ports
) -> dict[str, Decision]:
    now = ports.clock.now()
    found: dict[str, Decision] = {}
    for wait_id, verdict in answers.items():
        wait = state.waits.get(wait_id)
        if wait is None:
            msg = (
                f"The continuation has no open wait {str(wait_id)[:80]!r}. "
                f"Nothing ran. Open are: {', '.join(state.waits) or 'none'}."
            )
            raise WaitNotFound(msg, run_id=state.run.id, wait_id=str(wait_id))
        found[wait_id] = build_decision(
            wait, verdict, now=now, decision_id=ports.ids.new_ulid(now)
        )
    return found
