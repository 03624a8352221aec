"""A runner for a function that lives for minutes: code late, and never out of time.

Deciding happens in a process that may never move a run on, so the application's code
is imported when the first run must be. And what moves a run on must be finished before
the invocation is: shortly before, it is asked to pause, and woken again elsewhere.
"""

from __future__ import annotations

import logging
from functools import cached_property
from importlib import import_module
from typing import TYPE_CHECKING, Any, Protocol, TypedDict, cast

from continuations.engine.async_runner import AsyncRunner
from continuations.engine.outcomes import Suspended
from continuations.errors import ContinuationsError, InvalidInput

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from os import PathLike
    from typing import TypeAlias

    from continuations.authoring.agent import Agent
    from continuations.core.run import Budget
    from continuations.engine.new_run import Input
    from continuations.engine.outcomes import Outcome
    from continuations.engine.ports import IdGenerator, Notify
    from continuations.engine.run_options import RunOptions, ShouldPause
    from continuations.engine.sweeping import SweepResult
    from continuations.engine.worker_factory import WorkerFactory
    from continuations.ledger.claims import Clock
    from continuations.serve.dispatch import Dispatcher
    from continuations_storage import Store

    Agents: TypeAlias = Agent | Sequence[Agent]

__all__ = ["LambdaContext", "LambdaRunner", "RunnerOptions", "TimeLeft", "load_named"]

_log = logging.getLogger(__name__)


class LambdaContext(Protocol):
    """What is used of the context that AWS hands to a handler."""

    aws_request_id: str
    invoked_function_arn: str

    def get_remaining_time_in_millis(self) -> int:
        """Return how long the invocation may still last."""
        ...


class RunnerOptions(TypedDict, total=False):
    """What an `AsyncRunner` can be told beside its agents and its store."""

    lease: float
    max_attempts: int
    max_depth: int | None
    notify: Notify | None
    clock: Clock | None
    ids: IdGenerator | None


class TimeLeft:
    """The time that an invocation has left; told of each, one after the other."""

    def __init__(self, margin: float) -> None:
        if not 0 <= margin < float("inf"):
            raise InvalidInput("`margin` is a number of seconds, 0 or more")
        self._configured_margin = margin * 1000
        self._margin = self._configured_margin
        self._remaining: Callable[[], float] = lambda: float("inf")

    def begin_invocation(self, context: LambdaContext) -> None:
        """Begin to count for an invocation."""
        self._remaining = context.get_remaining_time_in_millis
        # A margin above the function's timeout would pause, wake and pay for ever.
        self._margin = min(self._configured_margin, self._remaining() / 2)

    def is_short(self) -> bool:
        """Tell whether nothing new should be begun."""
        return self._remaining() <= self._margin


def load_named(source: str | Callable[[], Any]) -> Any:
    """Return what `module:attribute` names, or a function makes; called if callable.

    Raises `InvalidInput` if there is no such thing, and what the module raises.
    """
    if not isinstance(source, str):
        return source()
    module, _, attribute = source.partition(":")
    if not module or not attribute:
        msg = f"{source[:80]!r} names nothing: give 'module:attribute'."
        raise InvalidInput(msg)
    imported = import_module(module)
    if not hasattr(imported, attribute):
        raise InvalidInput(f"The module {module!r} has no {attribute!r}.")
    found = getattr(imported, attribute)
    return found() if callable(found) else found


class LambdaRunner(AsyncRunner):
    """An `AsyncRunner` whose agents are loaded by the first start, resume or sweep.

    Whatever it moves on pauses when the time is short, and is woken again through
    `again`; without that, its marker waits for the next sweep.
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
        super().__init__([], store=store, **options)
        self.dispatcher: Dispatcher | None = None
        self._agents_source = agents
        self._context_source = context
        self._time_left = time_left

    def load_agents(self) -> None:
        """Import the application's code; raises what that raises."""
        _ = self._worker_factory

    @cached_property
    def _worker_factory(self) -> WorkerFactory:
        if self._agents_source is None:
            raise InvalidInput(
                "This function has no agents, so it cannot move a run on: it lists, "
                "looks, decides and cancels. Give it agents='module:attribute'."
            )
        self._agents = cast("Agents", load_named(self._agents_source))
        return self._make_worker_factory()

    @cached_property
    def _context(self) -> Any:
        return (
            None if self._context_source is None else load_named(self._context_source)
        )

    def _run_options(
        self, context: Any, should_pause: ShouldPause | None
    ) -> RunOptions:
        return super()._run_options(
            self._context if context is None else context,
            should_pause or self._time_left.is_short,
        )

    async def start(
        self,
        input: Input,  # noqa: A002 - as in AsyncRunner
        *,
        run_id: str | None = None,
        agent: str | None = None,
        context: Any = None,
        budget: Budget | None = None,
        should_pause: ShouldPause | None = None,
    ) -> Outcome:
        """Begin a run; see `AsyncRunner.start`."""
        outcome = await super().start(
            input,
            run_id=run_id,
            agent=agent,
            budget=budget,
            context=context,
            should_pause=should_pause,
        )
        await self._wake_again(outcome)
        return outcome

    async def resume(
        self,
        run_id: str,
        *,
        context: Any = None,
        should_pause: ShouldPause | None = None,
    ) -> Outcome:
        """Go on with a run; see `AsyncRunner.resume`."""
        outcome = await super().resume(
            run_id, context=context, should_pause=should_pause
        )
        await self._wake_again(outcome)
        return outcome

    async def sweep(
        self, *, context: Any = None, should_pause: ShouldPause | None = None
    ) -> SweepResult:
        """Look at every run whose time has come; see `AsyncRunner.sweep`."""
        swept = await super().sweep(context=context, should_pause=should_pause)
        for outcome in swept.resumed:
            await self._wake_again(outcome)
        return swept

    async def _wake_again(self, outcome: Outcome) -> None:
        if not isinstance(outcome, Suspended) or not outcome.paused:
            return
        _log.info("run %s pauses: the time of this invocation is up", outcome.run_id)
        if self.dispatcher is None:
            return
        try:
            await self.dispatcher.wake(outcome.run_id)
        except ContinuationsError as error:
            # What was done is kept, and its marker is due: the sweep goes on with it.
            _log.warning("%s", error)
