"""A runner for AWS Lambda: it loads agents late and stops before the time is up.

A process that only decides never imports the application's code: agents are loaded when
the first run must go on. Shortly before an invocation ends, the runner pauses its run
and asks for another invocation.
"""

from __future__ import annotations

import logging
from functools import cached_property
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, TypedDict, cast

from continuations.engine.runner.async_runner import AsyncRunner
from continuations.errors import ContinuationsError, InvalidInput
from continuations.serve.option_checks import check_callable, check_seconds

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from datetime import timedelta
    from os import PathLike

    from continuations.authoring.agent.agent import Agent
    from continuations.core.prices import Prices
    from continuations.core.rows.decisions import Door
    from continuations.engine import ports
    from continuations.engine.outcomes import Outcome, SendResult
    from continuations.engine.start.new_run import Input
    from continuations.engine.sweep.sweeping import SweepResult
    from continuations.engine.worker.worker_factory import WorkerFactory
    from continuations.engine.worker_options import RunOptions, ShouldPause
    from continuations.ledger.claims import Clock
    from continuations.ledger.repair.retention import Retention
    from continuations.serve.dispatch import Dispatcher
    from continuations_storage import Store

    Agents: TypeAlias = Agent | Sequence[Agent]

_log = logging.getLogger(__name__)


class LambdaContext(Protocol):
    """The part of Lambda's context object that the handler uses."""

    aws_request_id: str
    invoked_function_arn: str

    def get_remaining_time_in_millis(self) -> int:
        """Return the time until the invocation ends, in milliseconds."""
        ...


class RunnerOptions(TypedDict, total=False):
    """The options of `AsyncRunner` besides its agents and its store; see there."""

    lease: float
    max_attempts: int
    max_depth: int | None
    model_retry_time: timedelta | float
    max_model_failures: int | None
    context_type: Any
    prices: Prices | None
    renamed: Mapping[str, str] | None
    retention: Retention | None
    notify: ports.Notify | None
    callback_url: ports.CallbackUrl | None
    groups: ports.Groups | None
    on_event: ports.OnEvent | None
    clock: Clock | None
    ids: ports.IdGenerator | None


class TimeLeft:
    """The time until the current invocation ends.

    Args:
        margin: The time before the end in which nothing new begins, in seconds.

    Raises:
        InvalidInput: `margin` is negative or not finite.
    """

    def __init__(self, margin: float) -> None:
        check_seconds("margin", margin, above_zero=False)
        self._configured_margin = margin * 1000
        self._margin = self._configured_margin
        self._remaining: Callable[[], float] = lambda: float("inf")

    def begin_invocation(self, context: LambdaContext) -> None:
        """Measure the time of a new invocation."""
        self._remaining = context.get_remaining_time_in_millis
        # With a margin above the function's timeout, an invocation would only pause
        # and invoke the next one. So at least half of the time is used.
        self._margin = min(self._configured_margin, self._remaining() / 2)

    def is_short(self) -> bool:
        """Return whether nothing new may begin."""
        return self._remaining() <= self._margin


class LambdaRunner(AsyncRunner):
    """An `AsyncRunner` that loads its agents when the first run must go on.

    When the time of the invocation is short, it pauses the run and gives it to
    `dispatcher`. Without a dispatcher, the next sweep resumes the run.
    """

    def __init__(
        self,
        agents: str | Callable[[], Agents] | None,
        *,
        store: str | PathLike[str] | Store,
        context: str | Callable[[], Any] | None,
        time_left: TimeLeft,
        options: RunnerOptions,
    ) -> None:
        source: Any = agents
        if not (source is None or isinstance(source, str) or callable(source)):
            raise InvalidInput(
                "agents must be 'module:name' or a function that returns agents, got "
                f"{type(source).__name__}. Pass agents=lambda: agent."
            )
        if not isinstance(context, str):
            check_callable("context", context, "'module:name' or a function")
        super().__init__([], store=store, **options)
        self.dispatcher: Dispatcher | None = None
        self._agents_source = agents
        self._context_source = context
        self._time_left = time_left

    def load_agents(self) -> None:
        """Import the application's code; raise `InvalidInput` if that fails."""
        _ = self._worker_factory

    @property
    def _has_agents(self) -> bool:
        return self._agents_source is not None

    @cached_property
    def _worker_factory(self) -> WorkerFactory:
        if self._agents_source is None:
            raise InvalidInput(
                "this function has no agents, so it cannot start or resume a run. Pass "
                "agents='module:name' to handler()."
            )
        self._agents = cast("Agents", _load_or_call(self._agents_source))
        return self._make_worker_factory()

    @cached_property
    def _context(self) -> Any:
        if self._context_source is None:
            return None
        return _load_or_call(self._context_source)

    def _run_options(
        self, context: Any, should_pause: ShouldPause | None
    ) -> RunOptions:
        return super()._run_options(
            self._context if context is None else context,
            should_pause or self._time_left.is_short,
        )

    async def start(self, input: Input, **options: Any) -> Outcome:  # noqa: A002 - as in AsyncRunner
        """Start a run; see `AsyncRunner.start`."""
        outcome = await super().start(input, **options)
        await self._dispatch_if_paused(outcome)
        return outcome

    async def resume(self, run_id: str, **options: Any) -> Outcome:
        """Resume a run; see `AsyncRunner.resume`."""
        outcome = await super().resume(run_id, **options)
        await self._dispatch_if_paused(outcome)
        return outcome

    async def sweep(self, **options: Any) -> SweepResult:
        """Check every run that has a due marker; see `AsyncRunner.sweep`."""
        result = await super().sweep(**options)
        for outcome in result.resumed:
            await self._dispatch_if_paused(outcome)
        return result

    async def send_to_thread(
        self, options: Mapping[str, Any], *, own_id: str, door: Door
    ) -> tuple[SendResult[Any], int]:
        """Post a message to a thread and work on its reply.

        Args:
            options: `key` and `message`, and arguments of `AsyncThread.post`.
            own_id: The id of a message without `id`.
            door: The way by which the message came.

        Returns:
            The result, and the number of the message.
        """
        own: dict[str, Any] = {"id": own_id, **options}
        thread = self.thread(own.pop("agent", None), key=own.pop("key"))
        message = own.pop("message")
        ticket = await thread.post(message, context=self._context, door=door, **own)
        result = await ticket.reply()
        await self._dispatch_if_paused(result)
        return result, ticket.number

    async def _dispatch_if_paused(self, outcome: Outcome | SendResult[Any]) -> None:
        from continuations.engine.outcomes import Queued, Suspended  # noqa: PLC0415 - not to decide

        if not isinstance(outcome, Suspended | Queued) or not outcome.paused:
            return
        _log.info("run %s is paused; it goes on in another invocation", outcome.run_id)
        if self.dispatcher is None:
            return
        try:
            await self.dispatcher.wake(outcome.run_id)
        except ContinuationsError as error:
            # The finished steps are stored and the run's marker is due.
            _log.warning("%s", error)


def _load_or_call(source: str | Callable[[], Any]) -> Any:
    from continuations.engine.loading import load_or_call  # noqa: PLC0415 - not to decide

    return load_or_call(source)
