"""Budgets and costs: over all agents of a run, stored with it, and enforced."""

from __future__ import annotations

import asyncio
import json
from contextlib import suppress
from decimal import Decimal
from typing import Any

import pytest

from continuations import (
    Agent,
    Answer,
    Approve,
    AsyncRunner,
    Budget,
    Compaction,
    Continuation,
    Failed,
    Finished,
    Replied,
    Runner,
    Suspended,
    resume,
    run,
)
from continuations.core.messages import find_violation
from continuations.errors import (
    AlreadyDecided,
    Cancelled,
    InvalidInput,
    ModelError,
    PriceUnknown,
)
from continuations.ledger import layout
from continuations.models.interface import Message, ModelReply, ModelRequest
from continuations.models.scripted import ScriptedModel, ToolCall
from continuations.prices import Price, Prices, Usage
from continuations_storage import MemoryStore
from tests import effect_log, sample_app, scripts
from tests.clocks import ManualClock
from tests.crash_points import every_crash
from tests.engine import agent_builders
from tests.engine.agent_builders import text_tool
from tests.engine.priced_agents import PRICES, PricedModel, agrees, endless, pay
from tests.engine.priced_agents import make_boss as make_priced_boss
from tests.outcomes import expect
from tests.run_environment import RunEnvironment, run_python
from tests.scripts import Script, call

SCRIPT: Script = {
    "go": [[call("left", input="A"), call("right", input="B")], "end"],
    "A": [[call("pay", what="x")], "A done"],
    "B": [[call("act", what="1")], [call("act", what="2")], "B done"],
}


def script_with_usage(script: Script, tokens: int) -> Script:
    """Return a script whose every line costs so many tokens."""
    spent = Usage(requests=1, input_tokens=tokens - 1, output_tokens=1)
    return {
        task: [
            ModelReply(
                message=Message.from_mapping(scripts.assistant_message(line, turn)),
                usage=spent,
            )
            for turn, line in enumerate(lines)
        ]
        for task, lines in script.items()
    }


def make_boss(script: Script) -> Agent:
    """Return the sample application with a script."""
    return sample_app.make_agents(scripts.scripted_model(script))[0]


@pytest.mark.parametrize(
    ("budget", "turns"),
    [
        (Budget(requests=1), 1),
        (Budget(requests=4), 4),
        (Budget(tokens=100), 1),
        (Budget(tokens=250), 3),
        (Budget(requests=5, tokens=1), 1),
    ],
)
def test_a_run_that_has_used_up_its_budget_ends(
    environment: RunEnvironment, budget: Budget, turns: int, store: MemoryStore
) -> None:
    """The budget covers all agents; the run fails, and its transcripts stay valid."""
    script: Script = {
        "go": [[call("left", input="A")], [call("act", what="2")], "end"],
        "A": [[call("act", what="1")], "A done"],
    }
    runner = Runner(make_boss(script_with_usage(script, 100)), store=store)

    outcome = expect(runner.start("go", run_id="r1", budget=budget), Failed)

    assert "budget" == outcome.error.code
    assert turns == len(environment.turns())
    for log in outcome.continuation.run_state.logs.values():
        assert find_violation(log.messages) is None
    assert outcome.error == assert_failed(runner.resume("r1")).error
    assert [] == asyncio.run(store.keys(layout.MARKERS_PREFIX))


def all_contents(continuation: Continuation) -> list[str]:
    """Return the content of each message of each frame."""
    logs = continuation.run_state.logs.values()
    return [str(message.content) for log in logs for message in log.messages]


def assert_failed(outcome: object) -> Failed:
    assert isinstance(outcome, Failed)
    return outcome


def test_a_budget_that_is_not_used_up_changes_nothing() -> None:
    """A run that stays below its limits finishes as without a budget."""
    script: Script = {"go": [[call("act", what="1")], "end"]}
    runner = Runner(make_boss(script_with_usage(script, 100)), store=MemoryStore())

    outcome = runner.start("go", budget=Budget(requests=2, tokens=101))

    assert isinstance(outcome, Finished)
    assert ["act 1"] == effect_log.names()


def test_budget_is_kept_with_the_run_over_processes(store: MemoryStore) -> None:
    """The budget holds over suspensions, processes and a second start."""
    agent = make_boss({"go": SCRIPT["A"]})
    outcome = Runner(agent, store=store).start(
        "go", run_id="r1", budget=Budget(requests=1)
    )
    assert isinstance(outcome, Suspended)
    Runner([], store=store).decide(outcome.waits[0].id, Approve(by="kim"))

    # The approved call runs, but the model is not asked again
    ended = Runner(agent, store=store).start("go", run_id="r1")

    assert "budget" == assert_failed(ended).error.code
    assert (["pay x"], ["go 0"]) == (effect_log.names(), effect_log.turns())


def test_open_waits_are_closed_when_the_budget_ends_the_run(store: MemoryStore) -> None:
    """A late approval raises `Cancelled`, and its call does not run."""
    notified: list[str] = []
    runner = Runner(
        make_boss(SCRIPT), store=store, notify=lambda wait: notified.append(wait.id)
    )
    outcome = runner.start("go", run_id="r1", budget=Budget(requests=4))

    assert "budget" == assert_failed(outcome).error.code
    assert [] == list(runner.waiting())
    for wait_id in notified:
        with pytest.raises(Cancelled):
            runner.decide(wait_id, Approve(by="kim"))
    runner.sweep()
    assert not {"pay x"} & set(effect_log.names())
    assert [] == asyncio.run(store.keys(layout.MARKERS_PREFIX))


def test_run_over_budget_recovers_from_a_crash_at_every_operation(
    environment: RunEnvironment,
) -> None:
    """Sweeps alone end the run, and no model is asked again."""
    for point in every_crash("before", "after", more_than=7):
        (environment.folder / "turns").unlink(missing_ok=True)
        clock, store = ManualClock(), MemoryStore()
        agent = make_boss(SCRIPT)
        waiting = Runner(agent, store=store, clock=clock).start(
            "go", run_id="r1", budget=Budget(requests=6)
        )
        assert isinstance(waiting, Suspended)
        runner = Runner(agent, store=store, clock=clock)
        runner.decide(waiting.waits[0].id, Approve(by="kim"))
        with point.process(store) as dying:
            Runner(agent, store=dying, clock=clock).resume("r1")
        for _ in range(3):
            clock.seconds += 120
            assert {} == runner.sweep().errors
        for wait in list(runner.waiting()):
            with suppress(AlreadyDecided):
                runner.decide(wait.id, Answer("paid x"))
        assert "budget" == assert_failed(runner.resume("r1")).error.code
        # One may be asked again: its reply was on its way when its worker died.
        assert len(environment.turns()) <= 7, point


def test_no_call_begins_after_the_budget_is_used_up(store: MemoryStore) -> None:
    """One sub-agent has no turn left; the reply of the other one comes after that."""

    class SlowModel:
        """Replies after the turn of the other sub-agent was refused."""

        name = "slow"

        async def reply(self, request: ModelRequest) -> ModelReply:
            """Wait for the version with the result that was not sent to a model."""
            looking = AsyncRunner([], store=store)
            for _ in range(6000):
                if "acted" in all_contents(await looking.look("r1")):
                    break
                await asyncio.sleep(0.01)
            line = [call("act", what="late")]
            message = scripts.assistant_message(line, len(request.messages))
            return ModelReply(message=Message.from_mapping(message))

    act = text_tool("act", "acted", {"what": str}, logs=True)
    script: Script = {
        "go": [[call("left", input="A"), call("right", input="B")]],
        "A": [[call("act", what="early")]],
    }
    model = scripts.scripted_model(script)
    left = Agent("left", tools=[act], model=model)
    right = Agent("right", tools=[act], model=SlowModel())
    runner = Runner(Agent("boss", tools=[left, right], model=model), store=store)

    outcome = runner.start("go", run_id="r1", budget=Budget(requests=2))

    assert "budget" == assert_failed(outcome).error.code
    assert ["act early"] == effect_log.names()


def test_budget_holds_without_a_store() -> None:
    """The continuation carries the budget."""
    agent = make_boss({"go": SCRIPT["A"]})
    outcome = expect(run(agent, "go", budget=Budget(requests=1)), Suspended)

    data = outcome.continuation.to_bytes()
    ended = resume(data, agent, answers={outcome.waits[0].id: Approve()})

    assert "budget" == assert_failed(ended).error.code
    assert ["pay x"] == effect_log.names()


INVALID_BUDGETS: list[Any] = [
    7,
    {"tokens": 7},
    Budget(tokens=0),
    Budget(requests=-1),
    Budget(tokens=True),
]


@pytest.mark.parametrize("budget", INVALID_BUDGETS)
def test_invalid_budget_is_rejected_before_a_write(budget: Any) -> None:
    """A budget must be a `Budget` with positive integers."""
    store = MemoryStore()
    runner = agent_builders.make_runner({}, store=store)

    with pytest.raises(InvalidInput, match="budget"):
        runner.start("go", budget=budget)

    assert [] == asyncio.run(store.keys(""))


# Costs and budgets in money ---------------------------------------------------


# Each request of `PricedModel` costs one cent.
CENT = Decimal("0.01")
CALLS_CLERK = [ToolCall("clerk", {"input": "A"}), "end"]


def make_runner(store: Any, **options: Any) -> Runner:
    """Return a runner of a process of its own: boss > hr > clerk, with prices."""
    options.setdefault("prices", PRICES)
    return Runner(make_priced_boss(PricedModel()), store=store, **options)


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
    boss = make_priced_boss(PricedModel())
    outcome = expect(run(boss, "go", prices=PRICES), Suspended)

    answers = {outcome.waits[0].id: Approve()}
    data = outcome.continuation.to_bytes()
    ended = expect(resume(data, boss, answers=answers, prices=PRICES), Finished)

    assert 6 * CENT == ended.usage.cost


# Budgets ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("cost", "turns"), [("0.01", 1), ("0.015", 2), (Decimal("0.05"), 5), (1, 6)]
)
def test_a_run_that_has_cost_its_budget_ends(cost: Any, turns: int) -> None:
    runner = make_runner("memory:")
    outcome = runner.start("go", run_id="r1", budget=Budget(cost=cost))
    if isinstance(outcome, Suspended):
        approved(runner, outcome)
        outcome = runner.resume("r1")

    assert turns == len(effect_log.turns())
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
    boss = make_priced_boss(PricedModel())
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
