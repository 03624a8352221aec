"""A model request that may succeed later is repeated inside the worker, for a while."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

import pytest

from continuations import Agent, AsyncRunner, Budget, Failed, Finished, Runner, run
from continuations.core.messages import Message, user_message
from continuations.core.usage import Usage
from continuations.engine.model_registry import ModelRegistry
from continuations.errors import InvalidInput, ModelError, RunBusy
from continuations.models.interface import ModelReply, ModelRequest
from continuations_storage import MemoryStore
from tests.clocks import ManualClock, OffsetClock
from tests.model_server import ModelServer
from tests.models.model_calls import chat_model
from tests.outcomes import expect

REPLY = ModelReply(
    message=Message.from_mapping({"role": "assistant", "content": "done"})
)
REQUEST = ModelRequest(messages=[user_message("hello")], run_id="jane-1")


def outage(retry_after: float | None = None, *, retryable: bool = True) -> ModelError:
    return ModelError(
        "no reply", status=429, retryable=retryable, retry_after=retry_after
    )


@dataclass
class UnreliableModel:
    """Raises errors, one for each request, then replies.

    Attributes:
        errors: The errors that are left.
        requests: The number of requests.
    """

    errors: list[ModelError]
    requests: int = 0
    name: str = "unreliable"

    async def reply(self, request: ModelRequest) -> ModelReply:
        del request
        self.requests += 1
        if self.errors:
            raise self.errors.pop(0)
        return REPLY


@dataclass
class Waiting:
    """A clock that `asyncio.sleep` moves, and the seconds that were slept.

    Attributes:
        clock: The clock.
        pause_at: The time at which the application asks for a pause.
    """

    clock: ManualClock = field(default_factory=ManualClock)
    pause_at: float = float("inf")

    async def sleep(self, seconds: float) -> None:
        self.clock.seconds += seconds

    def should_pause(self) -> bool:
        return self.clock.seconds >= self.pause_at

    def reply_of(
        self, model: UnreliableModel, model_retry_time: float = 30.0
    ) -> ModelReply:
        registry = ModelRegistry(model_retry_time, self.clock)
        agent = Agent("hr", model=model)
        reply = asyncio.run(registry.get_reply(agent, REQUEST, self.should_pause))
        assert isinstance(reply, ModelReply)
        return reply


@pytest.fixture
def waiting(monkeypatch: pytest.MonkeyPatch) -> Waiting:
    waiting = Waiting()
    monkeypatch.setattr(
        "continuations.engine.model_registry.asyncio.sleep", waiting.sleep
    )
    return waiting


def test_outage_of_some_seconds_is_not_an_error(waiting: Waiting) -> None:
    model = UnreliableModel([outage(), outage(), outage()])

    assert REPLY is waiting.reply_of(model)
    assert 4 == model.requests
    assert 0 < waiting.clock.seconds <= 1 + 2 + 4


def test_wait_that_the_provider_asks_for_is_kept(waiting: Waiting) -> None:
    model = UnreliableModel([outage(20.0)])

    assert REPLY is waiting.reply_of(model)
    assert 20 <= waiting.clock.seconds <= 21


def test_wait_that_is_longer_than_the_retry_time_is_an_error_at_once(
    waiting: Waiting,
) -> None:
    model = UnreliableModel([outage(3600.0)])

    with pytest.raises(ModelError) as caught:
        waiting.reply_of(model)

    assert (0.0, 1, 3600.0) == (
        waiting.clock.seconds,
        model.requests,
        caught.value.retry_after,
    )


def test_outage_that_lasts_is_an_error_when_the_retry_time_ends(
    waiting: Waiting,
) -> None:
    model = UnreliableModel([outage() for _ in range(200)])

    with pytest.raises(ModelError, match="no reply"):
        waiting.reply_of(model)

    assert 15 < waiting.clock.seconds <= 30
    assert 3 < model.requests < 30


@pytest.mark.parametrize(
    ("retryable", "model_retry_time"),
    [(False, 30.0), (True, 0.0)],
    ids=["refused", "0 s"],
)
def test_request_is_made_once(
    waiting: Waiting, *, retryable: bool, model_retry_time: float
) -> None:
    """A refused request fails again, and a retry time of 0 allows no repetition."""
    model = UnreliableModel([outage(retryable=retryable)])

    with pytest.raises(ModelError):
        waiting.reply_of(model, model_retry_time)

    assert (0.0, 1) == (waiting.clock.seconds, model.requests)


def test_pause_ends_the_wait(waiting: Waiting) -> None:
    """A process that must stop does not stay for a retry."""
    waiting.pause_at = 5.0
    model = UnreliableModel([outage(20.0)])

    with pytest.raises(ModelError):
        waiting.reply_of(model)

    assert 1 == model.requests
    assert 5 <= waiting.clock.seconds < 6


def test_runs_do_not_retry_at_the_same_moments(waiting: Waiting) -> None:
    moments: list[float] = []
    for run_id in ("jane-1", "jane-2", "jane-1"):
        waiting.clock.seconds = 0.0
        registry = ModelRegistry(30.0, waiting.clock)
        agent = Agent("hr", model=UnreliableModel([outage()]))
        request = ModelRequest(messages=REQUEST.messages, run_id=run_id)
        asyncio.run(registry.get_reply(agent, request))
        moments.append(waiting.clock.seconds)

    assert moments[0] == moments[2] != moments[1]


def test_frames_of_a_run_do_not_retry_at_the_same_moments(waiting: Waiting) -> None:
    """Sub-agents that ran into one rate limit together come back one by one."""
    registry = ModelRegistry(30.0, waiting.clock)
    moments: list[float] = []
    for _ in range(3):
        waiting.clock.seconds = 0.0
        agent = Agent("hr", model=UnreliableModel([outage()]))
        asyncio.run(registry.get_reply(agent, REQUEST))
        moments.append(waiting.clock.seconds)

    assert 3 == len({*moments})


# Responses that cost something ------------------------------------------------

TOKENS = Usage(requests=1, input_tokens=100, output_tokens=20)


def billed() -> ModelError:
    return ModelError("no message", status=200, retryable=True, usage=TOKENS)


def test_usage_of_unusable_responses_is_part_of_the_usage_of_the_reply(
    waiting: Waiting,
) -> None:
    reply = waiting.reply_of(UnreliableModel([billed(), outage(), billed()]))

    assert REPLY.message is reply.message
    assert Usage(requests=3, input_tokens=200, output_tokens=40) == reply.usage


def test_request_whose_responses_cost_something_is_repeated_twice(
    waiting: Waiting,
) -> None:
    """Each response costs the whole conversation; an outage costs nothing."""
    errors = [billed(), outage(), outage(), *(billed() for _ in range(9))]
    model = UnreliableModel(errors)

    with pytest.raises(ModelError) as caught:
        waiting.reply_of(model)

    assert 2 + 3 == model.requests
    assert Usage(requests=3, input_tokens=300, output_tokens=60) == caught.value.usage


def test_outage_has_no_usage(waiting: Waiting) -> None:
    with pytest.raises(ModelError) as caught:
        waiting.reply_of(UnreliableModel([outage()]), model_retry_time=0)

    assert caught.value.usage is None


UNUSABLE: dict[str, Any] = {
    "content": "Pay",
    "finish_reason": "error",
    "usage": {"prompt_tokens": 100, "completion_tokens": 20},
}


def test_usage_of_a_turn_that_failed_is_stored_and_counts_for_the_budget() -> None:
    with ModelServer({"": [UNUSABLE]}) as server:
        agent = Agent("hr", model=chat_model(server))
        clock = ManualClock()
        runner = Runner(
            agent, store=MemoryStore(clock.now), model_retry_time=0, clock=clock
        )
        runner.start("hello", run_id="jane-1", budget=Budget(tokens=120))
        assert TOKENS == runner.look("jane-1").usage
        clock.seconds += 100

        outcome = runner.resume("jane-1")

    assert isinstance(outcome, Failed)
    assert "budget" == outcome.error.code
    assert TOKENS == outcome.continuation.usage
    assert 1 == len(server.requests)


def test_usage_of_a_turn_that_failed_is_in_the_continuation_of_the_error() -> None:
    refused = ModelError("no message", status=200, usage=TOKENS)

    with pytest.raises(ModelError) as caught:
        run(Agent("hr", model=UnreliableModel([refused])), "hello")

    assert TOKENS == caught.value.continuation.usage


@pytest.mark.parametrize("usage", ["many", 7, {"requests": 1}])
def test_usage_of_another_type_is_not_counted(usage: Any) -> None:
    """An application's own model may put anything into its error."""
    refused = ModelError("no message", status=200, usage=usage)

    with pytest.raises(ModelError) as caught:
        run(Agent("hr", model=UnreliableModel([refused])), "hello")

    assert Usage() == caught.value.continuation.usage


async def test_claim_is_renewed_while_a_worker_waits_for_a_model() -> None:
    """No other worker takes the run over, and nothing is asked twice."""
    store, has_failed, may_reply = MemoryStore(), asyncio.Event(), asyncio.Event()

    class HeldModel(UnreliableModel):
        """Its second reply comes after the test has looked."""

        async def reply(self, request: ModelRequest) -> ModelReply:
            if has_failed.is_set():
                await may_reply.wait()
            has_failed.set()
            return await super().reply(request)

    model, unasked = HeldModel([outage(1.5)]), UnreliableModel([])
    runner = AsyncRunner(Agent("hr", model=model), store=store, lease=0.9)
    starting = asyncio.create_task(runner.start("hello", run_id="jane-1"))
    await has_failed.wait()

    # When another worker comes after the first claim, during the wait
    await asyncio.sleep(1.2)
    with pytest.raises(RunBusy):
        await AsyncRunner(Agent("hr", model=unasked), store=store).resume("jane-1")

    # Then the first worker still has the run
    may_reply.set()
    outcome = expect(await starting, Finished)
    assert "done" == outcome.output
    assert (2, 0) == (model.requests, unasked.requests)


def test_retry_waits_until_a_process_that_was_frozen_has_renewed_its_claim() -> None:
    """Two thirds of the claim are over when the process wakes up."""
    clock = OffsetClock()
    store = MemoryStore(clock.now)
    left: list[float] = []

    class FlakyModel:
        """Fails once, and notes how much of the claim is left at each request."""

        name = "flaky"

        async def reply(self, request: ModelRequest) -> ModelReply:
            """Raise an error, then reply."""
            del request
            now = clock.now()
            run = (await AsyncRunner([], store=store).look("jane-1")).run_state.run
            assert run.claim is not None
            left.append((run.claim.until - now).total_seconds())
            if len(left) == 1:
                raise outage()
            return REPLY

    def freeze_once() -> bool:
        if left and not clock.offset_seconds:
            clock.offset_seconds = 2.0
        return False

    runner = Runner(Agent("hr", model=FlakyModel()), store=store, clock=clock, lease=3)
    outcome = runner.start("hello", run_id="jane-1", should_pause=freeze_once)

    assert isinstance(outcome, Finished)
    assert (2, 2.0) == (len(left), clock.offset_seconds)
    assert min(left) > 1.25


@pytest.mark.parametrize(
    "model_retry_time", [-1, float("nan"), "30", True, timedelta(days=1)]
)
def test_model_retry_time_outside_of_its_limits_is_refused(
    model_retry_time: Any,
) -> None:
    with pytest.raises(
        InvalidInput, match="model_retry_time must be a timedelta or seconds"
    ):
        Runner([], store="memory:", model_retry_time=model_retry_time)
