"""Coroutines that run and resume without a store: the caller keeps the continuation.

The run loop is that of runs with a store, with a journal that keeps nothing. A `Runner`
with a store in memory would need a fifth to a quarter more time for a cold `resume`. It
loads the modules of claims, markers, versions and publishing.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any, TypeAlias, cast

from continuations.authoring.agent.agent import Agent, check_made, got_no_agent
from continuations.authoring.manifest import compare_manifests
from continuations.authoring.registry import AgentRegistry
from continuations.core.changes.events import Reopened, RunStopped, SuspensionBegan
from continuations.core.changes.operator_changes import without_operator_waits
from continuations.core.changes.plan import plan
from continuations.core.changes.reducer import advance
from continuations.core.rows.decisions import Decision, Escalate, Verdict
from continuations.core.rows.slots import Slot, after_slot, objection_to
from continuations.engine import deadlines, worker_options
from continuations.engine.arrivals.arrival_reducer import ArrivalReducer
from continuations.engine.arrivals.readiness import check_tools, due_decisions
from continuations.engine.code_changes import current_manifest
from continuations.engine.inbox_messages import with_confirmed_reply
from continuations.engine.journal.job_cancellation import JobCanceller
from continuations.engine.model_registry import ModelRegistry
from continuations.engine.outcomes import outcome_of
from continuations.engine.ports import Ports
from continuations.engine.runner.runner_parts import with_listeners
from continuations.engine.stack.stack_binding import StackBinding
from continuations.engine.start import new_run
from continuations.engine.worker.performer import Performer
from continuations.engine.worker.run_loop import RunLoop
from continuations.engine.worker_options import RunOptions
from continuations.engine.workflow.flows_of_worker import FlowsOfWorker
from continuations.errors import InvalidInput, WaitNotFound
from continuations.ledger import claims
from continuations.ledger.arrivals.arrivals import Arrivals
from continuations.ledger.decision_errors import refused_error
from continuations.ledger.decisions.decisions import build_decision
from continuations.value_class import dataclass, replace
from continuations.wire.continuation import Continuation
from continuations.wire.fields import whole_milliseconds

if TYPE_CHECKING:
    from datetime import datetime

    from continuations.authoring.manifest import ManifestChange
    from continuations.authoring.workflow.workflow import BoundWorkflow
    from continuations.core.declared_types import Output
    from continuations.core.identity import Identity
    from continuations.core.prices import Prices
    from continuations.core.rows.run import Budget
    from continuations.core.rows.state import RunState
    from continuations.core.rows.waits import Wait
    from continuations.engine.events.event_feeds import StorelessFeed
    from continuations.engine.outcomes import Outcome
    from continuations.engine.ports import OnEvent
    from continuations.engine.start.new_run import Input
    from continuations.engine.start.run_description import RunDescription
    from continuations.engine.sync.run_streams import AsyncRunStream
    from continuations.ledger.claims import Clock
    from continuations.wire.arrivals import InboxMessage


async def run_async(  # noqa: PLR0913 - what a start may say, all by keyword
    agent: Agent[Output] | BoundWorkflow[Output],
    input: Input = "",  # noqa: A002 - the best name for the caller
    *,
    context: Any = None,
    max_depth: int | None = None,
    budget: Budget | None = None,
    prices: Prices | None = None,
    clock: Clock | None = None,
    by: str | Identity | None = None,
    settings: Mapping[str, Any] | None = None,
    on_event: OnEvent | None = None,
) -> Outcome[Output]:
    """Run an agent until it ends or must wait, without a store.

    The caller keeps the continuation. There is no claim: two resumes of the same
    continuation run its calls twice. A crash loses everything since the continuation
    was made.

    Args:
        agent: The root agent, or a workflow with its arguments: `NAME.bind(...)`.
        input: A text, or a list: texts and attachments, or chat messages.
        context: Your object for the tools, `ctx.context`. It is never stored.
        max_depth: Maximum number of levels of agents, or `None` for no limit. It is
            stored with the run.
        budget: Limits for the model usage of the whole run.
        prices: The prices of models: with them, `Usage.cost` is known.
        clock: The clocks of this machine, for tests.
        by: The requester: a name or an `Identity`, whose name is stored.
        settings: Model settings of the run, JSON values. In each turn of each agent
            they win over `Agent(settings=...)`. They are stored: pass no secrets.
        on_event: A function, plain or async, that gets each event, as of `run_stream`.

    Returns:
        `Finished`, `Suspended` or `Failed`, with the continuation.

    Raises:
        InvalidInput: `agent`, `input`, `context`, `max_depth`, `budget`, `clock`,
            `by`, `settings` or `on_event` is invalid, or the agent's instructions
            function raised.
        ModelError: A model refused. The error's `continuation` can be resumed.
    """
    root, input = _root_and_input(agent, input)  # noqa: A001 - as the parameter
    work = await _make_work(root, context, max_depth, prices, clock)
    listening = with_listeners(work.run_options, on_event)
    messages = new_run.first_messages(root, input, work.ports)
    limits = new_run.RunLimits(budget, work.max_depth, work.prices)
    state = await new_run.first_state(
        work.agent, messages, input, ports=work.ports, context=context, limits=limits
    )
    if by is not None or settings is not None:
        state = _description(by, settings).describe(state)
    contents = new_run.contents_of(messages, input)
    files = {each.digest: each.data for each in contents}
    async with listening as run_options:
        return await replace(work, run_options=run_options).start(state, files)


def _root_and_input(agent: Any, given: Input) -> tuple[Agent[Any], Any]:
    """Return the root agent and its input, which a workflow with its arguments has.

    Raises:
        InvalidInput: There are both arguments and an input.
    """
    if isinstance(agent, Agent) or not hasattr(agent, "workflow"):
        return cast("Agent[Any]", agent), given
    if given:
        raise InvalidInput(
            f"run did not start {agent.name}: {agent.name}.bind(...) has its arguments "
            "already, and an input was given too. Leave the input out."
        )
    return agent.workflow, agent


async def resume_async(  # noqa: PLR0913 - what a resume may say, all by keyword
    data: bytes | Continuation,
    agent: Agent[Output],
    *,
    answers: Answers | None = None,
    unpause: bool = False,
    context: Any = None,
    max_depth: int | None = None,
    prices: Prices | None = None,
    clock: Clock | None = None,
    on_event: OnEvent | None = None,
) -> Outcome[Output]:
    """Decide waits of a continuation and continue its run, without a store.

    Waits without a verdict stay open. `data` is not changed.

    Args:
        data: A continuation, or its bytes.
        agent: The root agent.
        answers: Verdicts (`Approve`, `Deny`, `Answer` or `Fail`) by wait id. If several
            persons must agree, the value is the list of all their verdicts.
        unpause: Whether to end the waits of conditions (`suspend_when`), as
            `Runner.unpause` does in a store.
        context: Your object for the tools, `ctx.context`. It is never stored.
        max_depth: Maximum number of levels of agents, or `None` for that of the
            start. The smaller one counts.
        prices: As for `run`.
        clock: The clocks of this machine, for tests.
        on_event: As for `run`.

    Returns:
        `Finished`, `Suspended` or `Failed`, with the new continuation.

    Raises:
        InvalidInput: `data`, `agent`, `answers`, `context`, `max_depth`, `clock`
            or `on_event` is invalid.
        FormatError: `data` is not a continuation, or has a newer format.
        Corrupt: `data` is damaged.
        WaitNotFound: `answers` names a wait that is not open. Nothing ran.
        DecisionRefused: A verdict is invalid for its wait, its person may not decide
            it, or a list has too few votes. Nothing ran.
        WaitExpired: The deadline of a decided wait has passed. Nothing ran.
        AgentChanged: An agent of the run is missing, or the tool of a pending call that
            needed no approval is missing or has changed.
        ModelError: A model refused. The error's `continuation` can be resumed.
    """
    continuation = _read_continuation(data)
    work = await _make_work(agent, context, max_depth, prices, clock)
    listening = with_listeners(work.run_options, on_event)
    state = continuation.run_state
    worker_options.check_run_prices(state.run, work.prices, agent)
    _check_answers(answers)
    now = work.ports.clock.now()  # once: a deadline may pass between two readings
    state = with_escalated_waits(state, now)
    decisions = decisions_from_answers(state, answers or {}, work.ports, now)
    _check_code(work.stack_binding, state, decisions, now)
    async with listening as run_options:
        work = replace(work, run_options=run_options)
        return await work.resume(continuation, state, decisions, now, unpause=unpause)


def run_stream_async(  # noqa: PLR0913 - as for `run`
    agent: Agent[Output] | BoundWorkflow[Output],
    input: Input = "",  # noqa: A002 - the best name for the caller
    *,
    context: Any = None,
    max_depth: int | None = None,
    budget: Budget | None = None,
    prices: Prices | None = None,
    clock: Clock | None = None,
    by: str | Identity | None = None,
    settings: Mapping[str, Any] | None = None,
) -> AsyncRunStream[Outcome[Output]]:
    """Run an agent without a store, and yield the events while this process works.

    The events are those of `Runner.stream`. If the loop is left early, the work is
    cancelled, and its results are lost: they are in no continuation.

    Args:
        agent: The root agent, or a workflow with its arguments: `NAME.bind(...)`.
        input: As for `run`, as all arguments.
        context: Your object for the tools, `ctx.context`.
        max_depth: Maximum number of levels of agents.
        budget: Limits for the model usage of the whole run.
        prices: The prices of models.
        clock: The clocks of this machine, for tests.
        by: The requester.
        settings: Model settings of the run.

    Returns:
        The stream. Iterate over it; at the end, `stream.outcome` has the outcome. The
        iteration raises the errors of `run`.
    """
    from continuations.engine.sync.run_streams import AsyncRunStream  # noqa: PLC0415 - only for streams

    return AsyncRunStream(
        lambda events: run_async(
            agent,
            input,
            context=context,
            max_depth=max_depth,
            budget=budget,
            prices=prices,
            clock=clock,
            by=by,
            settings=settings,
            on_event=events,
        ),
        None,
    )


def resume_stream_async(
    data: bytes | Continuation,
    agent: Agent[Output],
    *,
    answers: Answers | None = None,
    unpause: bool = False,
    context: Any = None,
    max_depth: int | None = None,
    prices: Prices | None = None,
    clock: Clock | None = None,
) -> AsyncRunStream[Outcome[Output]]:
    """Continue a run without a store, and yield the events while this process works.

    Their cursors follow those of the calls before. If the loop is left early, the work
    is cancelled, and `data` is the last continuation.

    Args:
        data: A continuation, or its bytes.
        agent: The root agent.
        answers: Verdicts by wait id, as for `resume`.
        unpause: Whether to end the waits of conditions.
        context: Your object for the tools, `ctx.context`.
        max_depth: Maximum number of levels; the smaller one of this and the start's.
        prices: The prices of models.
        clock: The clocks of this machine, for tests.

    Returns:
        The stream, as of `run_stream`. The iteration raises the errors of `resume`.
    """
    from continuations.engine.sync.run_streams import AsyncRunStream  # noqa: PLC0415 - only for streams

    return AsyncRunStream(
        lambda events: resume_async(
            data,
            agent,
            answers=answers,
            unpause=unpause,
            context=context,
            max_depth=max_depth,
            prices=prices,
            clock=clock,
            on_event=events,
        ),
        None,
    )


async def _make_work(
    agent: Agent,
    context: Any,
    max_depth: int | None,
    prices: Prices | None,
    clock: Clock | None,
) -> StorelessWork:
    """Check the arguments that a start and a resume share; list the tools of sources.

    Raises `InvalidInput`, `ToolsUnavailable`.
    """
    _check_agent(agent)
    worker_options.check_context(context, agent)
    depth = worker_options.check_max_depth(max_depth)
    known_prices = worker_options.check_prices(prices)
    ports = Ports.with_defaults(clock=clock, ids=None, notify=None)
    registry = await AgentRegistry([agent]).listed(agent.name)
    listed = registry.find_root_agent(agent.name)
    binding = StackBinding(registry, has_store=False)
    return StorelessWork(
        agent=cast("Agent[Any]", listed),
        stack_binding=binding,
        flows=FlowsOfWorker(binding, ports),
        ports=ports,
        run_options=RunOptions(context=context),
        max_depth=depth,
        prices=known_prices,
    )


def _read_continuation(data: Any) -> Continuation:
    if isinstance(data, Agent):
        raise InvalidInput(
            "data must be a Continuation or its bytes, got an Agent. Call "
            "resume(data, agent): data comes first."
        )
    if inspect.iscoroutine(data):
        data.close()
        raise InvalidInput(
            "data must be a Continuation or its bytes, got a coroutine. Write await "
            "before the call that returned it, and pass outcome.continuation."
        )
    return data if isinstance(data, Continuation) else Continuation.from_bytes(data)


def _check_agent(agent: object) -> None:
    check_made(agent)
    if not isinstance(agent, Agent):
        raise InvalidInput(f"agent must be an Agent, {got_no_agent(agent)}")


def _description(
    by: str | Identity | None, settings: Mapping[str, Any] | None
) -> RunDescription:
    from continuations.engine.start.run_description import (  # noqa: PLC0415 - rarely given
        RunDescription,
    )

    return RunDescription.from_arguments(by=by, settings=settings)


def _check_code(
    stack_binding: StackBinding,
    state: RunState,
    decisions: Mapping[str, Decision],
    now: datetime,
) -> None:
    stack_binding.check_agents(state, decisions)
    due = due_decisions(state, state.waits.values(), now)
    check_tools(state, {**due, **decisions}, stack_binding)


def _check_answers(answers: object) -> None:
    if not isinstance(answers, Mapping | None):
        raise InvalidInput(
            "answers must be a mapping of wait ids to verdicts, got "
            f"{type(answers).__name__}. Pass {{wait.id: Approve()}}."
        )


Answers: TypeAlias = "Mapping[str, Verdict | list[Verdict] | tuple[Verdict, ...]]"


def with_escalated_waits(state: RunState, now: datetime) -> RunState:
    """Return the run with the next approvers of the waits whose deadline has passed."""
    for wait in deadlines.late_waits(state.waits.values(), now):
        action = wait.on_deadline
        if not isinstance(action, Escalate):
            continue
        deadline = whole_milliseconds(now + timedelta(seconds=action.within))
        slot = Slot.of(wait, "escalate", "", now)
        after = after_slot(wait, replace(slot, deadline=deadline))
        if not isinstance(after, Decision):
            # The row itself changes: there are no slots that say it.
            escalated = replace(after, last_slot=0, notice="opened")
            reopened = Reopened(call_id=wait.call_id, wait=escalated)
            of_call = wait.subject == "call"
            event = reopened if of_call else SuspensionBegan(wait=escalated)
            state = advance(state, event)
    return state


def decisions_from_answers(
    state: RunState, answers: Answers, ports: Ports, now: datetime
) -> dict[str, Decision]:
    """Return the decisions that the verdicts make, by wait id.

    Raises:
        WaitNotFound: A wait is not open.
        DecisionRefused: A verdict does not fit its wait, its person may not decide it,
            or the votes are not enough.
        WaitExpired: The deadline of a wait has passed.
    """
    decisions: dict[str, Decision] = {}
    for wait_id, given in answers.items():
        wait = state.waits.get(wait_id)
        if wait is None:
            msg = (
                f"answers has {str(wait_id)[:80]!r}, which is not an open wait of run "
                f"{state.run.id}. Nothing ran. Open waits: "
                f"{', '.join(state.waits) or 'none'}."
            )
            raise WaitNotFound(msg, run_id=state.run.id, wait_id=str(wait_id))
        decisions[wait_id] = _decision(wait, _verdicts(given), ports, now)
    return decisions


def _verdicts(
    given: Verdict | list[Verdict] | tuple[Verdict, ...],
) -> list[Verdict]:
    # The check of the verdict refuses any other value.
    return list(given) if isinstance(given, list | tuple) else [given]


def _decision(
    wait: Wait, verdicts: list[Verdict], ports: Ports, now: datetime
) -> Decision:
    """Return the decision that several verdicts make together."""
    current: Wait | Decision = wait
    for number, verdict in enumerate(verdicts):
        if isinstance(current, Decision):
            why = f"verdict {number} of its list of {len(verdicts)} ended it already"
            raise refused_error(wait, why, "Leave the other verdicts out.")
        ulid = ports.ids.new_ulid(now)
        vote = build_decision(current, verdict, now=now, decision_id=ulid)
        if current.quorum is None:
            current = vote
            continue
        objection = objection_to(current, vote)
        if objection is not None:
            raise refused_error(wait, objection.why, objection.next_step)
        current = after_slot(
            current, replace(Slot.of(wait, "vote", ulid, now), vote=vote)
        )
    if isinstance(current, Decision):
        return current
    count = len(current.votes)
    why = f"its verdicts are {count} of the {wait.votes_needed} votes that it needs"
    raise refused_error(wait, why, "Pass all verdicts of the wait as one list.")


class NoJournal:
    """For runs without a store: it counts the versions, and keeps none.

    Attributes:
        version_number: The number of the last version.
        feed: Takes the events of each version, if there is a listener.
    """

    can_start_action = True
    seconds_to_renewal = None
    claim_end = None

    def __init__(
        self, version_number: int = 0, feed: StorelessFeed | None = None
    ) -> None:
        self.version_number = version_number
        self.feed = feed

    async def commit(self, state: RunState, *, progressed: bool) -> Arrivals:
        """Count a version; without a store, a crash loses the run."""
        del progressed
        await self.count(state)
        return Arrivals()

    async def count(self, state: RunState) -> None:
        """Count a version."""
        self.version_number += 1
        if self.feed is not None:
            await self.feed.report(state, self.version_number)

    async def read_next_message(self, state: RunState) -> InboxMessage | None:
        """Return `None`; without a store, a run has no inbox."""
        del state
        return None

    async def read_messages(self, numbers: Sequence[int]) -> Arrivals:
        """Return nothing; without a store, a run has no inbox."""
        del numbers
        return Arrivals()

    async def read_late_arrivals(self, state: RunState) -> Arrivals:
        """Return nothing; without a store, a run has no inbox."""
        del state
        return Arrivals()

    async def close_cancelled_waits(
        self, state: RunState, by_reason: Mapping[str, Sequence[Wait]]
    ) -> None:
        """Do nothing; without a store, no process decides a wait meanwhile."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StorelessWork:
    """Works on one run without a store, in this process."""

    agent: Agent
    stack_binding: StackBinding
    ports: Ports
    run_options: RunOptions
    max_depth: int | None
    prices: Prices | None
    flows: FlowsOfWorker

    async def start(self, state: RunState, files: Mapping[str, bytes]) -> Outcome:
        """Work on a new run."""
        journal = NoJournal(0, self._feed(state, None))
        return await self._run_loop(state, journal, files, ())

    async def resume(
        self,
        continuation: Continuation,
        state: RunState,
        decisions: Mapping[str, Decision],
        now: datetime,
        *,
        unpause: bool,
    ) -> Outcome:
        """Apply decisions and passed deadlines, and work on the run if it can go on.

        Args:
            continuation: The last continuation.
            state: Its state, whose approvals are escalated.
            decisions: The decisions of the caller, by wait id.
            now: The time at which the waits were looked at.
            unpause: Whether to end the waits of conditions.
        """
        before = continuation.run_state
        changes = compare_manifests(before.manifest, current_manifest(self.agent))
        feed = self._feed(state, before)
        journal = NoJournal(continuation.version, feed)
        if not state.run.has_ended:
            expiries = deadlines.expiries_of(state.waits.values(), self.ports, now)
            canceller = JobCanceller(
                stack_binding=self.stack_binding,
                ports=self.ports,
                journal=journal,
                context=self.run_options.context,
            )
            await canceller.cancel_expired(state, expiries)
            reducer = ArrivalReducer(self.stack_binding, self.ports, self.flows, feed)
            state = reducer.with_interrupted_calls(reducer.replayed(state))
            state = reducer.with_decisions(state, {**decisions, **expiries})
            if unpause:
                state = without_operator_waits(state, now)
            if unpause or decisions:
                state = with_confirmed_reply(state)
        if plan(state):
            return await self._run_loop(state, journal, continuation.files, changes)
        if state is not before:
            await journal.count(state)
        same = Continuation(state, journal.version_number, continuation.files)
        return outcome_of(same, self.agent, changes, has_store=False)

    def _feed(self, state: RunState, known: RunState | None) -> StorelessFeed | None:
        sink = self.run_options.events
        if sink is None:
            return None
        from continuations.engine.events.event_feeds import StorelessFeed  # noqa: PLC0415 - for listeners

        return StorelessFeed(state.run.id, sink, self.ports.clock, known)

    async def _run_loop(
        self,
        state: RunState,
        journal: NoJournal,
        files: Mapping[str, bytes],
        changes: tuple[ManifestChange, ...],
    ) -> Outcome:
        models = ModelRegistry(
            worker_options.DEFAULT_MODEL_RETRY_TIME.total_seconds(),
            self.ports.clock,
            worker_options.DEFAULT_MODEL_FAILURES,
            self.prices,
        )
        performer = Performer(
            self.stack_binding,
            self.ports,
            models,
            self.run_options,
            self.max_depth,
            feed=journal.feed,
            flows=self.flows,
        )
        if files:
            from continuations.engine.journal.file_storing import MemoryFiles  # noqa: PLC0415 - few runs have attachments

            performer.files = MemoryFiles(files)
        loop = RunLoop(state, performer, journal)
        try:
            await loop.run()
        finally:
            self.flows.close()
        state = loop.state
        if loop.failure is not None:
            state = advance(loop.ending_state, RunStopped(failure=loop.failure))
        state = claims.released(state)
        await journal.count(state)
        kept = None if performer.files is None else performer.files.data
        continuation = Continuation(state, journal.version_number, kept)
        if loop.model_error is not None:
            # Without it, the error would lose everything that was done so far.
            loop.model_error.continuation = continuation
            raise loop.model_error
        return outcome_of(continuation, self.agent, changes, has_store=False)
