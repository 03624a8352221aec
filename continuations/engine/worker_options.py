"""The options of a runner's workers, and of one call that works on runs.

Those of the workers are validated when the runner is made.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable
from dataclasses import field
from datetime import timedelta
from typing import TYPE_CHECKING, Any, TypeAlias, TypeGuard

from continuations.core.declared_types import is_context_class
from continuations.errors import InvalidInput
from continuations.value_class import dataclass

if TYPE_CHECKING:
    from collections.abc import Mapping

    from continuations.authoring.tool.tool_protocol import AgentProtocol
    from continuations.core.prices import Prices
    from continuations.core.rows.run import RunRow
    from continuations.engine.event_reading import Cursor
    from continuations.engine.ports import EventSink
    from continuations.engine.work_observers import WatchedSession, WorkObserver


# A shorter claim ends before a slow store has responded. A longer claim blocks a run
# for days after its worker died.
MIN_LEASE, MAX_LEASE = 0.1, 86_400.0
# A process that waits costs money: a longer outage is for the next sweep.
MAX_MODEL_RETRY_TIME = 3_600.0
DEFAULT_MODEL_RETRY_TIME = timedelta(seconds=30)
# With the delays between them, these are about two days.
DEFAULT_MODEL_FAILURES = 50
# No call starts in the second half of a claim, nor in the time by which the clock check
# is uncertain. A sixth of the claim must remain.
_RESOLUTIONS_IN_LEASE = 3
_COUNT = "an integer, at least 1"
_LIMIT = f"{_COUNT}, or None for no limit"


def option_error(option: str, wanted: str, value: object) -> InvalidInput:
    """Return the error of an option that has another value than it may have."""
    return InvalidInput(f"{option} must be {wanted}, got {value!r}.")


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerOptions:
    """The options of every worker of a runner.

    Attributes:
        lease: Length of a claim in seconds.
        max_attempts: How many workers of a run may die in a row at one point.
        max_depth: Maximum number of levels of agents, or `None` for no limit.
        model_retry_time: How many seconds a failed model request is repeated. After a
            response without a usable message it is repeated at most twice.
        max_model_failures: How many requests of one turn may fail in a row, each for
            longer than `model_retry_time`, before the run fails; `None` for no limit.
        context_type: The class of the application's object, or `None` for any.
        prices: The prices of models, or `None`.
        renamed: The new name of each old name of an agent or tool.
    """

    lease: float
    max_attempts: int
    max_depth: int | None
    model_retry_time: float
    context_type: Any = None
    max_model_failures: int | None = None
    prices: Prices | None = None
    renamed: Mapping[str, str] = field(default_factory=dict[str, str])

    @classmethod
    def validate(
        cls,
        *,
        lease: object,
        max_attempts: object,
        max_depth: object,
        model_retry_time: object,
        context_type: Any = None,
        max_model_failures: object = None,
        prices: object = None,
        renamed: object = None,
    ) -> WorkerOptions:
        """Return valid options; raises `InvalidInput`."""
        if not is_number(lease) or not MIN_LEASE <= lease <= MAX_LEASE:
            wanted = f"{MIN_LEASE:g} to {MAX_LEASE:g} seconds"
            raise option_error("lease", wanted, lease)
        if not is_count(max_attempts):
            raise option_error("max_attempts", _COUNT, max_attempts)
        if max_model_failures is not None and not is_count(max_model_failures):
            raise option_error("max_model_failures", _LIMIT, max_model_failures)
        if not is_context_class(context_type):
            wanted = "a class, a union of classes, or None for any object"
            raise option_error("context_type", wanted, context_type)
        return cls(
            lease=float(lease),
            max_attempts=max_attempts,
            max_depth=check_max_depth(max_depth),
            model_retry_time=_retry_seconds(model_retry_time),
            context_type=context_type,
            max_model_failures=max_model_failures,
            prices=check_prices(prices),
            renamed=check_renamed(renamed),
        )

    def check_lease(self, time_resolution: timedelta) -> None:
        """Raise `InvalidInput` if a store with this resolution cannot carry claims."""
        shortest = time_resolution.total_seconds() * _RESOLUTIONS_IN_LEASE
        if self.lease < shortest:
            raise InvalidInput(
                f"lease must be at least {shortest:g} seconds with this store, got "
                f"{self.lease:g}: the store tells its time only to "
                f"{time_resolution.total_seconds():g} s, so that the clock cannot be "
                "checked for a shorter claim."
            )


def check_renamed(renamed: object) -> Mapping[str, str]:
    """Return a valid mapping of old names to new ones; raises `InvalidInput`."""
    if renamed is None:
        return {}
    from continuations.authoring import registry  # noqa: PLC0415 - few runners have any

    return registry.check_renamed(renamed)


def check_prices(prices: Any) -> Prices | None:
    """Return valid prices or `None`; raises `InvalidInput`."""
    if prices is None:
        return None
    from continuations.core.prices import Prices  # noqa: PLC0415 - few runners have prices

    if isinstance(prices, Prices):
        return prices
    msg = f"prices must be Prices({{...}}) or None, got {type(prices).__name__}."
    raise InvalidInput(msg)


def check_max_depth(max_depth: object) -> int | None:
    """Return a valid limit of levels; raises `InvalidInput`."""
    if max_depth is None or is_count(max_depth):
        return max_depth
    raise option_error("max_depth", _LIMIT, max_depth)


def _retry_seconds(option: object) -> float:
    seconds = option.total_seconds() if isinstance(option, timedelta) else option
    if is_number(seconds) and 0 <= seconds <= MAX_MODEL_RETRY_TIME:
        return float(seconds)
    wanted = f"a timedelta or seconds, from 0 to {MAX_MODEL_RETRY_TIME:g} seconds"
    raise option_error("model_retry_time", wanted, option)


def is_number(value: object) -> TypeGuard[float]:
    """Return whether a value is a finite number, and not a truth value."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    return math.isfinite(value)


def is_count(value: object) -> TypeGuard[int]:
    """Return whether a value is an integer, at least 1."""
    return type(value) is int and value >= 1


def check_concurrency(max_concurrent_runs: object) -> None:
    """Raise `InvalidInput` unless a number of concurrent runs is valid."""
    if not is_count(max_concurrent_runs):
        raise option_error("max_concurrent_runs", _COUNT, max_concurrent_runs)


def check_run_prices(run: RunRow, prices: Prices | None, root: AgentProtocol) -> None:
    """Raise `PriceUnknown` if a run has a budget in money, and a price is missing."""
    if run.budget is None or run.budget.cost is None or run.has_ended:
        return
    from continuations.engine.start import money_budgets  # noqa: PLC0415 - few runs have one

    money_budgets.check_prices(run.budget, prices, root, run.id)


def check_context(
    context: object,
    agent: AgentProtocol,
    runner_type: Any = None,
    run_id: str | None = None,
) -> None:
    """Raise `InvalidInput` unless a runner, an agent and its sub-agents take an object.

    Args:
        context: The object.
        agent: A root agent.
        runner_type: The `context_type` of the runner; `None`: any.
        run_id: The run that would continue, for the error.
    """
    required = [("the runner", runner_type)] if runner_type is not None else []
    required += [(f"agent {name}", type_) for name, type_ in agent.context_types]
    for owner, type_ in required:
        if isinstance(context, type_):
            continue
        run = f"run {run_id} did not continue: " if run_id is not None else ""
        name = getattr(type_, "__name__", str(type_))
        msg = (
            f"{run}context must be of type {name}, as {owner} declares, got "
            f"{type(context).__name__}. Nothing ran, and no approval was used up. Pass "
            f"context=, of type {name}."
        )
        raise InvalidInput(msg, run_id=run_id)


# The options of one call ----------------------------------------------------------

ShouldPause: TypeAlias = Callable[[], bool]


def never_pause() -> bool:
    """Return False."""
    return False


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOptions:
    """The options of one `start`, `resume`, `sweep` or `serve_forever`.

    Attributes:
        context: The application's object for its tools, `ctx.context`. It is never
            stored.
        should_pause: Called before every model call and every new tool call. Once it
            returns True, calls in progress are completed and nothing new begins.
        awaited_message: A thread is not worked on any further once this message has its
            reply; `None`: as long as there is a message.
        reopens: An approved call whose tool is missing here waits again. Otherwise the
            run is left to another process.
        events: Takes the events of the runs; `None`: there is no listener.
        events_after: Only later events are handed on. `None`: those after the version
            that the worker finds.
        observer: Observes the work, or `None`.
        session: The session of one worker for the observer, or `None`.
    """

    context: Any = None
    should_pause: ShouldPause = never_pause
    awaited_message: int | None = None
    reopens: bool = False
    events: EventSink | None = None
    events_after: Cursor | None = None
    observer: WorkObserver | None = None
    session: WatchedSession | None = None

    def is_enough(self, run: RunRow) -> bool:
        """Return whether the awaited message of a thread has its reply."""
        awaited = self.awaited_message
        return awaited is not None and run.rests and run.answered >= awaited

    def check_run(self, run: RunRow) -> None:
        """Raise `RunExists` if a message is awaited from a run that is not a thread."""
        if self.awaited_message is not None and run.thread_key is None:
            from continuations.ledger.arrivals.thread_arrivals import check_thread  # noqa: PLC0415 - rarely needed

            check_thread(run)

    @classmethod
    def from_arguments(
        cls,
        *,
        context: Any = None,
        should_pause: ShouldPause | None = None,
        observer: WorkObserver | None = None,
    ) -> RunOptions:
        """Return the options of a method's arguments; raises `InvalidInput`."""
        if should_pause is None:
            return cls(context=context, observer=observer)
        pause: object = should_pause
        # The coroutine of an async function is true: each run would pause at once.
        if not callable(pause) or inspect.iscoroutinefunction(pause):
            got = "an async function" if callable(pause) else repr(pause)[:80]
            msg = f"should_pause must be a plain function or None, got {got}."
            raise InvalidInput(msg)
        return cls(context=context, should_pause=should_pause, observer=observer)


DEFAULT_RUN_OPTIONS = RunOptions()
