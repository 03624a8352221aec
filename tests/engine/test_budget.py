"""Budgets: counted over all agents of a run, stored with it, and enforced."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Any

import pytest

from continuations import (
    Agent,
    Answer,
    Approve,
    AsyncRunner,
    Budget,
    Continuation,
    Failed,
    Finished,
    Runner,
    Suspended,
    resume,
    run,
    tool,
)
from continuations.core.messages import Message, find_violation
from continuations.errors import AlreadyDecided, Cancelled, InvalidInput
from continuations.ledger import layout
from continuations.models.interface import ModelReply, ModelRequest
from continuations.prices import Usage
from continuations_storage import MemoryStore
from tests import effect_log, sample_app, scripts
from tests.clocks import ManualClock
from tests.crash_points import every_crash
from tests.engine import agent_builders
from tests.outcomes import expect
from tests.run_environment import RunEnvironment
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


def test_budget_is_kept_with_the_run_over_processes(
    environment: RunEnvironment, store: MemoryStore
) -> None:
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
    assert (["pay x"], ["go 0"]) == (environment.effect_names(), environment.turns())


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

    @tool
    def act(what: str) -> str:
        """Act."""
        effect_log.append_effect("act", what)
        return "acted"

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
