"""The models of this process, by name."""

from __future__ import annotations

import asyncio
import logging
from contextvars import ContextVar
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, TypeGuard

from continuations.authoring import callables
from continuations.core.model_protocol import (
    LostReply,
    ModelDelta,
    ModelReply,
    PendingReply,
)
from continuations.core.usage import USAGE_COUNTS, Usage
from continuations.core.visible_text import escape_invisible
from continuations.engine.worker_options import ShouldPause, never_pause
from continuations.errors import ModelError
from continuations.value_class import replace

if TYPE_CHECKING:
    from collections.abc import Callable

    from continuations.core.model_protocol import Model, ModelRequest
    from continuations.core.prices import Prices
    from continuations.engine.work_observers import Work
    from continuations.ledger.claims import Clock
    from continuations_storage.retries import RetryState

_log = logging.getLogger("continuations")

# The limits of the random wait before a retry: the first one, and all of them. A wait
# that the provider asks for is added.
_FIRST_DELAY, _MAX_DELAY = 1.0, 8.0
_MAX_ATTEMPTS = 100
# Each of these repetitions costs the whole conversation.
_MAX_BILLED_REPEATS = 2
_PAUSE_CHECK_INTERVAL = 0.25
_MAX_REPLY_ID_CHARS = 500
_MAX_LOGGED_CHARS = 500
# No provider counts or bills more for one reply.
_MAX_COUNT, _MAX_COST_UNITS = 2**53, 10**24

# A model returns a reply, or the id of a reply that comes later.
ModelAnswer: TypeAlias = ModelReply | PendingReply | LostReply

# The work for which a task asks models. Each action of a run has a task, and so a value
# of its own.
CURRENT_WORK: ContextVar[Work | None] = ContextVar("continuations_work", default=None)


class AskedAgent(Protocol):
    """An agent whose model is asked."""

    @property
    def name(self) -> str:
        """The name of the agent."""
        ...

    @property
    def model(self) -> str | Model | None:
        """The name of a model, or a `Model`; `None`: the agent has no model."""
        ...

    @property
    def model_name(self) -> str | None:
        """The name of the model; `None` if the agent has no model."""
        ...


class ModelRegistry:
    """Requests replies; makes the adapter of a named model on its first request.

    A request that failed and may succeed later is repeated for `model_retry_time`
    seconds. But after a response that has a usage, and so cost something, it is
    repeated only twice. If no server was reached, and no model of the run has replied
    before, the address is probably wrong: the request is not repeated.

    Attributes:
        max_failures: How many requests of a turn may fail in a row, each for longer
            than `model_retry_time`, before the run fails; `None` for no limit.
        prices: The prices of models, or `None`.
    """

    def __init__(
        self,
        model_retry_time: float,
        clock: Clock,
        max_failures: int | None = None,
        prices: Prices | None = None,
    ) -> None:
        self.max_failures = max_failures
        self.prices = prices
        self._retry_time = model_retry_time
        self._clock = clock
        self._by_name: dict[str, Model] = {}
        # The models whose servers have answered this process: names, or ids of objects,
        # which live as long as their agents.
        self._answered: set[str | int] = set()
        self._retried_count = 0

    async def get_reply(
        self,
        agent: AskedAgent,
        request: ModelRequest,
        should_pause: ShouldPause = never_pause,
        *,
        pending_reply: str | None = None,
        may_request: Callable[[], bool] = lambda: True,
        may_be_first: Callable[[], bool] = lambda: False,
    ) -> ModelAnswer:
        """Return the answer of an agent's model; raises only `ModelError`.

        With the id of a pending reply, the model is polled and not asked.

        No retry begins once `should_pause` returns True. A retry waits until
        `may_request` returns True: a process that was frozen between two requests must
        renew its claim before the second one. The first failure of a request that is
        repeated is logged. `may_be_first` returns whether no model of the run has
        replied before.

        The usage of the reply, or of the error, includes the responses that could not
        be used.
        """
        request = self._for_several_models(agent, request, may_request, should_pause)
        retries = None
        costs: list[Usage] = []
        while True:
            try:
                reply = await self._request_once(agent, request, pending_reply)
            except ModelError as error:
                if retries is None and error.retryable:
                    self._examine_first_failure(agent, request, error, may_be_first)
                costs += self._costs_of(agent, error)
                error.usage = sum(costs, Usage()) if costs else None
                too_costly = len(costs) > _MAX_BILLED_REPEATS
                if not error.retryable or too_costly or should_pause():
                    raise
                retries = retries or self._begin_retries(request.run_id, should_pause)
                may_retry = await retries.wait_for_retry(error.retry_after or 0.0)
                if not may_retry or should_pause():
                    raise
                if request.on_delta is not None:
                    await request.on_delta(ModelDelta(kind="restart"))
            else:
                if not costs and self.prices is None:
                    return reply
                usage = self._with_cost(agent, reply.usage)
                return replace(reply, usage=sum(costs, usage))
            while not may_request():  # noqa: ASYNC110 - a claim's renewal has no event
                await asyncio.sleep(_PAUSE_CHECK_INTERVAL)

    def _for_several_models(
        self,
        agent: AskedAgent,
        request: ModelRequest,
        may_request: Callable[[], bool],
        should_pause: ShouldPause,
    ) -> ModelRequest:
        if not hasattr(agent.model, "priced_names"):
            return request
        again = partial(_may_ask_again, may_request, should_pause)
        return replace(request, prices=self.prices, may_ask_again=again)

    def _examine_first_failure(
        self,
        agent: AskedAgent,
        request: ModelRequest,
        error: ModelError,
        may_be_first: Callable[[], bool],
    ) -> None:
        """Log a failure that may pass, or make it one that stays."""
        text = str(error)
        is_known = _key_of(agent) in self._answered
        if error.unreachable and not is_known and may_be_first():
            error.retryable = False
            advice = (
                "No model of this run has replied yet, so the request is not repeated. "
                "Correct the cause, then resume the run."
            )
            error.args = (f"{text} {advice}",)
            return
        run_id = request.run_id
        reason = text.removeprefix(f"run {run_id}, ")
        if len(reason) > _MAX_LOGGED_CHARS:
            reason = f"{reason[:_MAX_LOGGED_CHARS]}…"
        _log.warning(
            "run %s, agent %s: a request to the model failed and will be repeated: %s",
            run_id,
            agent.name,
            escape_invisible(reason),
        )

    def _costs_of(self, agent: AskedAgent, error: ModelError) -> list[Usage]:
        usage = error.usage
        return [self._with_cost(agent, usage)] if _is_usage(usage) else []

    def _with_cost(self, agent: AskedAgent, usage: Usage) -> Usage:
        name = agent.model_name
        if self.prices is None or name is None:
            return usage
        return self.prices.with_cost(usage, name)

    def _begin_retries(self, run_id: str, should_pause: ShouldPause) -> RetryState:
        """Begin to count the retry time: the first request has just failed."""
        import random  # noqa: PLC0415 - rarely needed

        from continuations_storage.retries import RetryPolicy  # noqa: PLC0415

        self._retried_count += 1
        seed = f"{run_id} {self._retried_count}"

        async def sleep(seconds: float) -> None:
            until = self._clock.elapsed() + seconds
            # `should_pause` is a function of the application, so it is polled.
            while not should_pause():
                left = until - self._clock.elapsed()
                if left <= 0:
                    break
                await asyncio.sleep(min(left, _PAUSE_CHECK_INTERVAL))

        return RetryPolicy(
            max_attempts=_MAX_ATTEMPTS,
            max_seconds=self._retry_time,
            first_delay=_FIRST_DELAY,
            max_delay=_MAX_DELAY,
            clock=self._clock.elapsed,
            sleep=sleep,
            # Seeded, so that a test can replay it. Neither runs nor the frames of a run
            # retry together.
            random_fraction=random.Random(seed).random,  # noqa: S311 - no secret
        ).begin()

    async def _request_once(
        self, agent: AskedAgent, request: ModelRequest, pending_reply: str | None
    ) -> ModelAnswer:
        model: Any = self.model_of(agent, request.run_id, pending_reply)
        can_poll = hasattr(model, "poll")
        try:
            asked = (
                model.reply(request)
                if pending_reply is None
                else model.poll(pending_reply, request)
            )
            work = CURRENT_WORK.get()
            answer = (
                await asked
                if work is None
                else await work.request(agent, model, request, pending_reply, asked)
            )
        except ModelError as error:
            error.run_id = request.run_id
            if error.status is not None:
                self._answered.add(_key_of(agent))
            raise
        except BaseException as error:
            if callables.is_task_cancellation(error):
                raise
            msg = (
                f"run {request.run_id}: the model of agent {agent.name!r} raised "
                f"{type(error).__name__}. Correct the cause, then resume the run."
            )
            raise ModelError(msg, run_id=request.run_id) from error
        self._answered.add(_key_of(agent))
        if _is_reply(answer) or (can_poll and _is_pending(answer)):
            return answer
        if pending_reply is not None and _is_lost(answer):
            return answer
        msg = (
            f"run {request.run_id}: the model of agent {agent.name!r} did not return a "
            "ModelReply with an assistant message and a usage of whole numbers from 0. "
            "Correct the model, then resume the run."
        )
        raise ModelError(msg, run_id=request.run_id)

    def model_of(
        self, agent: AskedAgent, run_id: str, pending_reply: str | None
    ) -> Model:
        """Return the model that an agent asks; nothing is sent.

        Raises `ModelError` if the agent has no model, or if the model cannot be asked
        for the pending reply.
        """
        model = agent.model
        if model is None:
            msg = (
                f"run {run_id}: agent {agent.name!r} has no model. Pass "
                'Agent(..., model="gpt-5-mini"), then resume the run.'
            )
            raise ModelError(msg, run_id=run_id)
        if isinstance(model, str):
            if model not in self._by_name:
                from continuations.models.openai_chat import OpenAIChat  # noqa: PLC0415 - only when a model is asked

                self._by_name[model] = OpenAIChat(model)
            model = self._by_name[model]
        if pending_reply is not None and not hasattr(model, "poll"):
            msg = (
                f"run {run_id}: agent {agent.name!r} waits for a pending reply,"
                " and its model has no method poll(). Restore the model, then resume "
                "the run."
            )
            raise ModelError(msg, run_id=run_id)
        return model


def _key_of(agent: AskedAgent) -> str | int:
    return agent.model if isinstance(agent.model, str) else id(agent.model)


async def _may_ask_again(
    may_request: Callable[[], bool], should_pause: ShouldPause
) -> bool:
    """Wait until a request may begin; return False if the worker must stop."""
    while not (should_pause() or may_request()):  # noqa: ASYNC110 - a claim's renewal has no event
        await asyncio.sleep(_PAUSE_CHECK_INTERVAL)
    return not should_pause()


# An application's own model may return anything.


def _is_reply(value: object) -> TypeGuard[ModelReply]:
    if not isinstance(value, ModelReply) or not _has_usage(value):
        return False
    return value.message.role == "assistant"


def _is_pending(value: Any) -> TypeGuard[PendingReply]:
    if not isinstance(value, PendingReply) or not _has_usage(value):
        return False
    fields: tuple[Any, Any] = (value.id, value.poll_after)
    match fields:
        case (str() as reply_id, timedelta() as poll_after):
            fits = 0 < len(reply_id) <= _MAX_REPLY_ID_CHARS
            return fits and poll_after >= timedelta()
        case _:
            return False


def _is_lost(value: Any) -> TypeGuard[LostReply]:
    is_lost = isinstance(value, LostReply) and _has_usage(value)
    return is_lost and _is_text(value.reason) and _is_bool(value.retryable)


def _has_usage(value: Any) -> bool:
    return _is_usage(value.usage)


def _is_usage(usage: Any) -> bool:
    if not isinstance(usage, Usage):
        return False
    counts = [getattr(usage, name) for name in (*USAGE_COUNTS, "priced")]
    is_counted = all(type(count) is int and 0 <= count < _MAX_COUNT for count in counts)
    units = usage.cost_units
    return is_counted and type(units) is int and 0 <= units <= _MAX_COST_UNITS


def _is_text(value: object) -> bool:
    return isinstance(value, str)


def _is_bool(value: object) -> bool:
    return isinstance(value, bool)
