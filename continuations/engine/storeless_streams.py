"""run_stream and resume_stream: the events of a run without a store, as it goes on."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from continuations.engine.run_streams import AsyncRunStream, RunStream
from continuations.engine.storeless import resume_async, run_async

if TYPE_CHECKING:
    from collections.abc import Mapping

    from continuations.authoring.agent import Agent
    from continuations.core.identity import Identity
    from continuations.core.output_type import Output
    from continuations.core.prices import Prices
    from continuations.core.run import Budget
    from continuations.engine.new_run import Input
    from continuations.engine.outcomes import Outcome
    from continuations.engine.storeless_answers import Answers
    from continuations.ledger.claims import Clock
    from continuations.wire.continuation import Continuation


def run_stream(  # noqa: PLR0913 - as for `run`
    agent: Agent[Output],
    input: Input,  # noqa: A002 - the best name for the caller
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
        agent: The root agent.
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
    return RunStream(
        run_stream_async(
            agent,
            input,
            context=context,
            max_depth=max_depth,
            budget=budget,
            prices=prices,
            clock=clock,
            by=by,
            settings=settings,
        )
    )


def run_stream_async(  # noqa: PLR0913 - as for `run`
    agent: Agent[Output],
    input: Input,  # noqa: A002 - the best name for the caller
    *,
    context: Any = None,
    max_depth: int | None = None,
    budget: Budget | None = None,
    prices: Prices | None = None,
    clock: Clock | None = None,
    by: str | Identity | None = None,
    settings: Mapping[str, Any] | None = None,
) -> AsyncRunStream[Outcome[Output]]:
    """Run an agent without a store, and yield its events; see `run_stream`.

    Args:
        agent: The root agent.
        input: As for `run`, as all arguments.
        context: Your object for the tools, `ctx.context`.
        max_depth: Maximum number of levels of agents.
        budget: Limits for the model usage of the whole run.
        prices: The prices of models.
        clock: The clocks of this machine, for tests.
        by: The requester.
        settings: Model settings of the run.

    Returns:
        The stream, for `async for`.
    """
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
    return RunStream(
        resume_stream_async(
            data,
            agent,
            answers=answers,
            unpause=unpause,
            context=context,
            max_depth=max_depth,
            prices=prices,
            clock=clock,
        )
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
    """Continue a run without a store, and yield its events; see `resume_stream`.

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
        The stream, for `async for`.
    """
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
