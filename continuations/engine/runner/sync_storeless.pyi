# Written by tools/sync_stubs.py. Do not edit it: change the async source.
from collections.abc import Mapping
from continuations.authoring.agent.agent import Agent
from continuations.authoring.workflow.workflow import BoundWorkflow
from continuations.core.declared_types import Output
from continuations.core.identity import Identity
from continuations.core.prices import Prices
from continuations.core.rows.run import Budget
from continuations.engine.outcomes import Outcome
from continuations.engine.ports import OnEvent
from continuations.engine.runner.storeless import Answers
from continuations.engine.start.new_run import Input
from continuations.engine.sync.run_streams import RunStream
from continuations.ledger.claims import Clock
from continuations.wire.continuation import Continuation
from typing import Any

def run(
    agent: Agent[Output] | BoundWorkflow[Output],
    input: Input = "",
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

def resume(
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

def run_stream(
    agent: Agent[Output] | BoundWorkflow[Output],
    input: Input = "",
    *,
    context: Any = None,
    max_depth: int | None = None,
    budget: Budget | None = None,
    prices: Prices | None = None,
    clock: Clock | None = None,
    by: str | Identity | None = None,
    settings: Mapping[str, Any] | None = None,
) -> RunStream[Outcome[Output]]:
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

def resume_stream(
    data: bytes | Continuation,
    agent: Agent[Output],
    *,
    answers: Answers | None = None,
    unpause: bool = False,
    context: Any = None,
    max_depth: int | None = None,
    prices: Prices | None = None,
    clock: Clock | None = None,
) -> RunStream[Outcome[Output]]:
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
