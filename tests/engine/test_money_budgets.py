"""The cost of a run, and budgets in money over the whole tree of agents."""

from __future__ import annotations

import asyncio
import json
from decimal import Decimal
from typing import Any

import pytest

from continuations import (
    Agent,
    Approve,
    Budget,
    Compaction,
    Failed,
    Finished,
    Replied,
    Runner,
    Suspended,
    resume,
    run,
)
from continuations.errors import InvalidInput, ModelError, PriceUnknown
from continuations.models.interface import Message, ModelReply, ModelRequest
from continuations.models.scripted import ScriptedModel, ToolCall
from continuations.prices import Price, Prices, Usage
from continuations_storage import MemoryStore
from tests.clocks import ManualClock
from tests.crash_points import every_crash
from tests.engine.priced_agents import (
    PRICES,
    PricedModel,
    agrees,
    endless,
    make_boss,
    pay,
)
from tests.outcomes import expect
from tests.run_environment import RunEnvironment, run_python

# Each request of `PricedModel` costs one cent.
CENT = Decimal("0.01")
CALLS_CLERK = [ToolCall("clerk", {"input": "A"}), "end"]


def make_runner(store: Any, **options: Any) -> Runner:
    """Return a runner of a process of its own: boss > hr > clerk, with prices."""
    options.setdefault("prices", PRICES)
    return Runner(make_boss(PricedModel()), store=store, **options)


def approved(runner: Runner, outcome: object) -> None:
    assert isinstance(outcome, Suspended)
    runner.decide(outcome.waits[0].id, Approve(by="kim"))


# Costs ------------------------------------------------------------------------


def test_cost_of_a_run_covers_all_agents_and_processes(
    environment: RunEnvironment,
) -> None:
    runner = make_runner(environment.store)
    waiting = runner.start("go", run_id="r1")
    approved(runner, waiting)
    assert isinstance(waiting, Suspended)
    assert 3 * CENT == waiting.continuation.usage.cost

    ended = expect(make_runner(environment.store).resume("r1"), Finished)

    assert (6 * CENT, "USD") == (ended.usage.cost, ended.usage.currency)
    shown = json.loads(runner.look("r1").to_json())
    assert ("0.06", "USD") == (shown["usage"]["cost"], shown["usage"]["currency"])


def test_without_prices_no_cost_is_known_and_nothing_new_is_stored() -> None:
    store = MemoryStore()
    runner = make_runner(store, prices=None)
    outcome = expect(runner.start("go", run_id="r1"), Suspended)

    usage = outcome.continuation.usage
    assert (None, "", 0) == (usage.cost, usage.currency, usage.priced)
    shown = json.loads(outcome.continuation.to_json())["usage"]
    assert (None, None) == (shown["cost"], shown["currency"])


def test_cost_stays_as_it_was_when_prices_change(store: MemoryStore) -> None:
    """The cost of a reply is computed when the reply is committed."""
    runner = make_runner(store)
    approved(runner, runner.start("go", run_id="r1"))
    dearer = Prices({"priced": Price(input="2000", output="0")})

    ended = expect(make_runner(store, prices=dearer).resume("r1"), Finished)

    assert 3 * CENT + 3 * 2 * CENT == ended.usage.cost


def test_a_model_without_a_price_makes_the_cost_of_the_run_unknown() -> None:
    clerk = Agent("clerk", tools=[pay], model=ScriptedModel(["done"]))
    boss = Agent("boss", tools=[clerk], model=PricedModel(CALLS_CLERK))

    outcome = expect(run(boss, "go", prices=PRICES), Finished)

    assert (None, "USD") == (outcome.usage.cost, outcome.usage.currency)
    assert 2 * 10 * 10**9 == outcome.usage.cost_units


def test_unusable_responses_cost_too() -> None:
    class Flaky(PricedModel):
        calls = 0

        async def reply(self, request: ModelRequest) -> Any:
            self.calls += 1
            if self.calls == 1:
                usage = Usage(requests=1, input_tokens=10)
                raise ModelError("unusable", retryable=True, usage=usage)
            return await super().reply(request)

    outcome = run(Agent("boss", model=Flaky(["end"])), "go", prices=PRICES)

    assert isinstance(outcome, Finished)
    assert (2, 2 * CENT) == (outcome.usage.requests, outcome.usage.cost)


def test_reply_of_a_thread_has_its_own_cost(store: MemoryStore) -> None:
    """The cost of a message does not contain those before it, priced or not."""
    agent = Agent("boss", model=PricedModel(agrees))
    Runner(agent, store=store).thread(key="jane").send("Hello")

    thread = Runner(agent, store=store, prices=PRICES).thread(key="jane")
    replies = [thread.send("And now?"), thread.send("And then?")]

    for reply in replies:
        assert isinstance(reply, Replied)
        assert CENT == reply.usage.cost
        assert reply.continuation.usage.cost is None  # the first message has no cost


def test_continuation_keeps_its_cost() -> None:
    boss = make_boss(PricedModel())
    outcome = expect(run(boss, "go", prices=PRICES), Suspended)

    answers = {outcome.waits[0].id: Approve()}
    data = outcome.continuation.to_bytes()
    ended = expect(resume(data, boss, answers=answers, prices=PRICES), Finished)

    assert 6 * CENT == ended.usage.cost


# Budgets ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("cost", "turns"), [("0.01", 1), ("0.015", 2), (Decimal("0.05"), 5), (1, 6)]
)
def test_a_run_that_has_cost_its_budget_ends(
    environment: RunEnvironment, cost: Any, turns: int
) -> None:
    runner = make_runner("memory:")
    outcome = runner.start("go", run_id="r1", budget=Budget(cost=cost))
    if isinstance(outcome, Suspended):
        approved(runner, outcome)
        outcome = runner.resume("r1")

    assert turns == len(environment.turns())
    if turns == 6:
        assert isinstance(outcome, Finished)
        return
    assert isinstance(outcome, Failed)
    assert "budget" == outcome.error.code
    assert f"budget of {cost} USD" in outcome.error.message


RESUME = """
import sys
from continuations import Runner
from tests.engine.priced_agents import PRICES, PricedModel, make_boss
runner = Runner(make_boss(PricedModel()), store=sys.argv[1], prices=PRICES)
outcome = runner.resume("r1")
print(type(outcome).__name__, outcome.continuation.usage.cost, outcome.error.code)
"""


def test_budget_of_three_agents_holds_in_a_fresh_process(
    environment: RunEnvironment,
) -> None:
    """The clerk, two levels below the root agent, reaches the budget of the run."""
    runner = make_runner(environment.store)
    approved(runner, runner.start("go", run_id="r1", budget=Budget(cost="0.04")))

    printed = run_python(RESUME, environment.store)

    assert ["Failed", "0.04", "budget"] == printed.split()
    assert ["pay x"] == environment.effect_names()
    assert 4 == len(environment.turns())


def test_cost_is_neither_lost_nor_counted_twice_over_crashes(
    environment: RunEnvironment,
) -> None:
    """After any crash, the cost is that of the replies that are stored."""
    for point in every_crash("before", "after", more_than=7):
        (environment.folder / "turns").unlink(missing_ok=True)
        clock, store = ManualClock(), MemoryStore()
        budget = Budget(cost="0.06")
        runner = make_runner(store, clock=clock)
        approved(runner, runner.start("go", run_id="r1", budget=budget))
        with point.process(store) as dying:
            make_runner(dying, clock=clock).resume("r1")
        clock.seconds += 120
        outcome = make_runner(store, clock=clock).resume("r1")
        if isinstance(outcome, Suspended):  # the payment may have happened
            approved(runner, outcome)
            outcome = make_runner(store, clock=clock).resume("r1")
        turns = outcome.continuation.usage.requests
        assert turns * CENT == outcome.continuation.usage.cost, point
        assert turns <= len(environment.turns()) <= turns + 1, point
        assert isinstance(outcome, Finished), point


def written(store: MemoryStore) -> list[str]:
    return asyncio.run(store.keys(""))


UNKNOWN: list[Any] = [
    None,
    Prices({}),
    Prices({"other": Price(input=1, output=1)}),
    Prices({"priced": Price(input=1, output=1)}, currency="EUR"),
]


@pytest.mark.parametrize("prices", UNKNOWN)
def test_budget_in_money_without_a_price_starts_nothing(prices: Any) -> None:
    """It is never a run without a limit."""
    store = MemoryStore()
    runner = make_runner(store, prices=prices)

    with pytest.raises(PriceUnknown):
        runner.start("go", run_id="r1", budget=Budget(cost="1", currency="USD"))

    assert [] == written(store)


def test_every_agent_of_the_tree_needs_a_price() -> None:
    clerk = Agent("clerk", model=ScriptedModel(["done"], name="unpriced"))
    boss = Agent("boss", tools=[clerk], model=PricedModel(CALLS_CLERK))

    with pytest.raises(PriceUnknown, match="'unpriced' has none"):
        run(boss, "go", budget=Budget(cost="1"), prices=PRICES)
    with pytest.raises(PriceUnknown, match="'unpriced' has none"):
        Runner(boss, store="memory:", prices=PRICES).thread(
            key="jane", budget=Budget(cost="1")
        )


def test_agent_that_writes_summaries_needs_a_price() -> None:
    writer = Agent("writer", model=ScriptedModel(["short"], name="unpriced"))
    compaction = Compaction(soft=1000, hard=2000, summarize=writer)
    boss = Agent("boss", model=PricedModel(agrees), compaction=compaction)

    with pytest.raises(PriceUnknown, match="'unpriced' has none"):
        run(boss, "go", budget=Budget(cost="1"), prices=PRICES)


@pytest.mark.parametrize("prices", UNKNOWN)
def test_process_without_prices_does_not_continue_such_a_run(prices: Any) -> None:
    """Nothing is written, so a process with prices resumes it."""
    store, clock = MemoryStore(), ManualClock()
    runner = make_runner(store, clock=clock)
    approved(runner, runner.start("go", run_id="r1", budget=Budget(cost="1")))
    before = written(store)
    other = make_runner(store, prices=prices, clock=clock)

    with pytest.raises(PriceUnknown, match="run r1 did not continue"):
        other.resume("r1")
    clock.seconds += 120
    assert ["r1"] == list(other.sweep().errors)

    assert before == written(store)
    assert isinstance(runner.resume("r1"), Finished)
    # An ended run needs no prices.
    assert isinstance(other.resume("r1"), Finished)


def test_continuation_with_a_budget_needs_prices() -> None:
    boss = make_boss(PricedModel())
    outcome = expect(run(boss, "go", budget=Budget(cost="1"), prices=PRICES), Suspended)

    with pytest.raises(PriceUnknown):
        resume(outcome.continuation, boss, answers={outcome.waits[0].id: Approve()})


def test_budget_ends_a_run_whose_cost_became_unknown() -> None:
    """A model that changes its name is never asked without limit."""

    class Renamed(PricedModel):
        asked = 0

        @property
        def name(self) -> str:
            return "priced" if self.asked == 0 else "renamed"

        async def reply(self, request: ModelRequest) -> Any:
            self.asked += 1
            return await super().reply(request)

    model = Renamed(endless)
    outcome = run(
        Agent("boss", model=model), "go", budget=Budget(cost="1"), prices=PRICES
    )

    assert isinstance(outcome, Failed)
    assert ("budget", 1) == (outcome.error.code, model.asked)
    assert "not known" in outcome.error.message


def test_budget_of_a_thread_limits_each_message() -> None:
    agent = Agent("boss", model=PricedModel(endless))
    runner = Runner(agent, store="memory:", prices=PRICES)
    thread = runner.thread(key="jane", budget=Budget(cost="0.02"))

    for _ in range(2):
        reply = expect(thread.send("go"), Failed)
        assert "budget" == reply.error.code


@pytest.mark.parametrize(
    "budget",
    [
        Budget(cost=0.5),  # type: ignore[arg-type]
        Budget(cost="0"),
        Budget(cost="-1"),
        Budget(cost="much"),
        Budget(cost=True),
        Budget(cost="1", currency="dollars"),
    ],
)
def test_invalid_budget_in_money_is_rejected(budget: Budget) -> None:
    store = MemoryStore()
    with pytest.raises(InvalidInput):
        make_runner(store).start("go", budget=budget)
    assert [] == written(store)


def test_runner_takes_only_prices() -> None:
    with pytest.raises(InvalidInput, match="prices"):
        make_runner("memory:", prices={"priced": 1})


class CachingModel:
    """Calls a tool that does not exist; each reply has the same usage."""

    name = "cached"

    def __init__(self, usage: Usage) -> None:
        self.usage = usage

    async def reply(self, request: ModelRequest) -> ModelReply:
        """Return a call, and an end after five turns."""
        if len(request.messages) > 10:
            fields: dict[str, Any] = {"role": "assistant", "content": "end"}
            return ModelReply(message=Message.from_mapping(fields), usage=self.usage)
        function = {"name": "none", "arguments": "{}"}
        call = {"id": "c1", "type": "function", "function": function}
        fields = {"role": "assistant", "content": None, "tool_calls": [call]}
        return ModelReply(message=Message.from_mapping(fields), usage=self.usage)


def test_a_reply_without_usage_is_free_and_an_unknown_cost_is_not() -> None:
    """`Usage()` is a statement of the model; the default is one request."""
    prices = Prices({"cached": Price(input=1, output=1)})
    budget = Budget(cost="0.01", requests=4)

    def outcome_with(usage: Usage) -> Any:
        agent = Agent("a", model=CachingModel(usage))
        return run(agent, "go", prices=prices, budget=budget)

    free = expect(outcome_with(Usage()), Finished)
    assert (Decimal(0), 0) == (free.usage.cost, free.usage.requests)

    unknown = expect(outcome_with(Usage(requests=1)), Failed)
    assert "budget" == unknown.error.code
    assert 1 == unknown.continuation.usage.requests
