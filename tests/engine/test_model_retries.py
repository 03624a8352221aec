"""Models that fail: requests that are tried again, and models that stand in."""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass, field
from datetime import timedelta
from decimal import Decimal
from typing import Any, cast

import pytest

from continuations import (
    Agent,
    Approve,
    AsyncRunner,
    Budget,
    Failed,
    Fallback,
    Finished,
    Runner,
    Suspended,
    resume,
    run,
)
from continuations.core.messages import Message, user_message
from continuations.core.rows.delta import diff
from continuations.core.usage import Usage
from continuations.engine.model_registry import ModelRegistry
from continuations.errors import (
    FormatError,
    InvalidInput,
    ModelError,
    PriceUnknown,
    RunBusy,
)
from continuations.ledger import layout
from continuations.models.interface import ModelReply, ModelRequest
from continuations.models.scripted import ScriptedModel, ToolCall
from continuations.wire.envelope import decode_object
from continuations.wire.rows import delta_fields, read_delta
from continuations_storage import MemoryStore
from tests.clocks import ManualClock, OffsetClock
from tests.crash_points import every_crash
from tests.engine.agent_builders import should_pause_after
from tests.engine.priced_agents import (
    PRICES,
    SCRIPT,
    LaterModel,
    LimitedModel,
    PricedModel,
    make_boss,
    make_fallback,
)
from tests.model_server import ModelServer
from tests.models.model_calls import chat_model
from tests.outcomes import expect
from tests.run_environment import RunEnvironment, run_python

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


# Fallbacks --------------------------------------------------------------------


CENT = Decimal("0.01")
RESUME = """
import sys
from continuations import Runner
from tests.engine.priced_agents import PRICES, make_boss, make_fallback
runner = Runner(make_boss(make_fallback()), store=sys.argv[1], prices=PRICES)
outcome = runner.resume("r1")
metadata = outcome.continuation.root.metadata
print(type(outcome).__name__, outcome.usage.cost, len(metadata))
"""


def asked_models(environment: RunEnvironment) -> list[str]:
    """Return the models that were asked, in order, by all processes."""
    lines = (environment.folder / "turns").read_text().splitlines()
    return [str(json.loads(line)["model"]) for line in lines]


def approve(runner: Runner, outcome: object) -> None:
    assert isinstance(outcome, Suspended)
    runner.decide(outcome.waits[0].id, Approve(by="kim"))


@pytest.mark.fresh_interpreters
def test_three_agents_fall_back_in_fresh_processes(environment: RunEnvironment) -> None:
    """Each turn asks the first model again, and failed attempts cost."""
    runner = Runner(make_boss(make_fallback()), store=environment.store, prices=PRICES)
    approve(runner, runner.start("go", run_id="r1", budget=Budget(cost="0.13")))

    printed = run_python(RESUME, environment.store)

    assert ["Finished", "0.12", "2"] == printed.split()
    assert ["limited", "priced"] * 6 == asked_models(environment)
    metadata = runner.look("r1").root.metadata
    failed = [{"model": "limited", "status": 429, "error": "limited"}]
    assert {"model": "priced", "failed": failed} == metadata[1]


def test_metadata_is_shown_and_never_sent() -> None:
    model = ScriptedModel([ToolCall("none"), "end"], "b")
    limited = ScriptedModel(lambda _: ModelError("limited", retryable=True), "a")
    runner = Runner(Agent("boss", model=Fallback([limited, model])), store="memory:")

    runner.start("go", run_id="r1")

    sent = [message.data for message in model.requests[-1].messages]
    known = {"role", "content", "tool_calls", "tool_call_id"}
    assert all(message.keys() <= known for message in sent)
    assert "metadata" not in model.requests[-1].messages[1].text
    shown = json.loads(runner.look("r1").to_json())["frames"][0]["metadata"]
    assert {"end": "invalid"} == shown.pop("2")  # the call of a tool that is missing
    assert {"1", "3"} == shown.keys()
    assert "b" == shown["1"]["model"]
    assert all("metadata" not in message for message in runner.look("r1").root.messages)


def test_metadata_is_stored_beside_the_messages(store: MemoryStore) -> None:
    """A run without a fallback has no metadata."""
    for run_id, model in (
        ("with", Fallback([ScriptedModel(["a"], "a"), ScriptedModel(["b"], "b")])),
        ("without", ScriptedModel(["a"])),
    ):
        Runner(Agent("boss", model=model), store=store).start("go", run_id=run_id)

    def newest_log(run_id: str) -> dict[str, Any]:
        version = Runner([], store=store).look(run_id).version
        data = asyncio.run(store.read(layout.version_key(run_id, version)))
        log: dict[str, Any] = cast("Any", decode_object(data, "it").body)["logs"]["f1"]
        return log

    assert "metadata" in newest_log("with")
    assert "metadata" not in newest_log("without")


def test_metadata_survives_a_crash_at_every_operation(
    environment: RunEnvironment,
) -> None:
    """Neither the facts nor the costs of failed attempts get lost with a worker."""
    for point in every_crash("before", "after", more_than=7):
        (environment.folder / "turns").unlink(missing_ok=True)
        clock, store = ManualClock(), MemoryStore()

        def runner(store: Any, clock: ManualClock = clock) -> Runner:
            boss = make_boss(make_fallback())
            return Runner(boss, store=store, prices=PRICES, clock=clock)

        approve(runner(store), runner(store).start("go", run_id="r1"))
        with point.process(store) as dying:
            runner(dying).resume("r1")
        clock.seconds += 120
        outcome = runner(store).resume("r1")
        if isinstance(outcome, Suspended):  # the payment may have happened
            approve(runner(store), outcome)
            outcome = runner(store).resume("r1")
        assert isinstance(outcome, Finished), point
        models = {each["model"] for each in outcome.continuation.root.metadata.values()}
        assert {"priced"} == models, point
        assert outcome.usage.requests * CENT == outcome.usage.cost, point
        # A reply that was not committed is asked again: two requests more at most.
        assert 12 == outcome.usage.requests, point
        assert len(asked_models(environment)) <= 14, point


def test_continuation_keeps_metadata() -> None:
    boss = make_boss(make_fallback())
    outcome = expect(run(boss, "go"), Suspended)

    data = outcome.continuation.to_bytes()
    ended = resume(data, boss, answers={outcome.waits[0].id: Approve()})

    assert isinstance(ended, Finished)
    assert [1, 3] == list(ended.continuation.root.metadata)


def test_all_models_down_is_a_wait_for_the_model(environment: RunEnvironment) -> None:
    """After it, the first model is asked first again."""
    clock, store = ManualClock(), MemoryStore()
    down = Fallback([LimitedModel(SCRIPT, "a"), LimitedModel(SCRIPT, "b")])
    waiting = Runner(
        Agent("boss", model=down), store=store, clock=clock, model_retry_time=0
    ).start("go", run_id="r1")
    assert isinstance(waiting, Suspended)
    [wait] = waiting.waits
    assert "model" == wait.kind
    assert "a: limited; b: limited" in str(wait.note)
    assert ["a", "b"] == asked_models(environment)

    up = Fallback([ScriptedModel(["end"], "a"), LimitedModel(SCRIPT, "b")])
    clock.seconds += 120
    ended = Runner(Agent("boss", model=up), store=store, clock=clock).resume("r1")

    assert isinstance(ended, Finished)
    assert {1: {"model": "a"}} == ended.continuation.root.metadata


def test_pause_between_two_models_stops_the_worker(environment: RunEnvironment) -> None:
    """The second model is not asked, and the failure does not count."""
    boss = Agent("boss", model=make_fallback())
    runner = Runner(boss, store="memory:")

    # It is asked before the first request, and again before the second one.
    outcome = runner.start("go", run_id="r1", should_pause=should_pause_after(2))

    assert isinstance(outcome, Suspended)
    assert ["limited"] == asked_models(environment)
    assert "worker stopped" in str(outcome.waits[0].note)


LATER = """
import sys
from continuations import Fallback, Runner
from tests.engine.priced_agents import SCRIPT, LaterModel, LimitedModel, make_boss
# The order of the models has changed.
models = Fallback([LaterModel("other"), LaterModel(), LimitedModel(SCRIPT, "limited")])
runner = Runner(make_boss(models), store=sys.argv[1])
runner.wake("r1")
runner.resume("r1")
"""


def test_pending_reply_of_a_nested_agent_is_polled_at_its_owner(
    environment: RunEnvironment,
) -> None:
    """Each step is a fresh process, and the first model is another one than before."""
    boss = make_boss(Fallback([LimitedModel(SCRIPT, "limited"), LaterModel()]))
    Runner(boss, store=environment.store).start("go", run_id="r1")
    expected = ["limited", "later"]
    assert expected == asked_models(environment)

    # The second poll of a turn is its reply. Then the next agent asks its first model.
    for step in (
        ["poll later"],
        ["poll later", "other"],
        ["poll other"],
        ["poll other", "other"],
    ):
        run_python(LATER, environment.store)
        expected += step
        assert expected == asked_models(environment)


def test_budget_needs_the_price_of_each_model_of_a_fallback() -> None:
    unpriced = Fallback([PricedModel(), ScriptedModel(["end"], "unpriced")])
    runner = Runner(Agent("boss", model=unpriced), store="memory:", prices=PRICES)

    with pytest.raises(PriceUnknown, match="'unpriced' has none"):
        runner.start("go", budget=Budget(cost="1"))


def test_failed_attempts_reach_a_budget() -> None:
    agent = make_boss(make_fallback())
    runner = Runner(agent, store="memory:", prices=PRICES)

    outcome = expect(runner.start("go", budget=Budget(cost="0.04")), Failed)

    assert ("budget", 4 * CENT) == (
        outcome.error.code,
        outcome.continuation.usage.cost,
    )


def test_an_adopted_run_keeps_metadata(store: MemoryStore) -> None:
    runner = Runner(make_boss(make_fallback()), store=store)
    started = runner.start("go", run_id="r1")
    runner.adopt(started.continuation.to_bytes(), run_id="r2")
    assert runner.look("r1").root.metadata == runner.look("r2").root.metadata != {}


FORGED: list[Any] = [
    7,
    [[1]],
    [[0, "{}"], [0, "{}"]],
    [[99, "{}"]],
    [[-1, "{}"]],
    [[True, "{}"]],
    [[0, "[]"]],
    [[0, "{"]],
    [[0, 7]],
]


@pytest.mark.parametrize("forged", FORGED)
def test_forged_metadata_is_refused(forged: Any) -> None:
    outcome = run(Agent("boss", model=make_fallback()), "go")
    fields: Any = delta_fields(diff(None, outcome.continuation.run_state))
    [log] = fields["logs"].values()
    log["metadata"] = forged

    with pytest.raises(FormatError):
        read_delta(fields, "the version")
