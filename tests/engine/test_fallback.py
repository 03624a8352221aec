"""Runs whose models have a fallback: stored, priced, resumed in other processes."""

from __future__ import annotations

import asyncio
import json
from decimal import Decimal
from typing import Any, cast

import pytest

from continuations import (
    Agent,
    Approve,
    Budget,
    Failed,
    Fallback,
    Finished,
    Runner,
    Suspended,
    resume,
    run,
)
from continuations.core.rows.delta import diff
from continuations.errors import FormatError, ModelError, PriceUnknown
from continuations.ledger import layout
from continuations.models.scripted import ScriptedModel, ToolCall
from continuations.wire.envelope import decode_object
from continuations.wire.rows import delta_fields, read_delta
from continuations_storage import MemoryStore
from tests.clocks import ManualClock
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
from tests.outcomes import expect
from tests.run_environment import RunEnvironment, run_python

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
