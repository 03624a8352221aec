"""Errors of the prototype that must not return.

The files of their subjects have tests for the others.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from continuations import (
    Approve,
    Deny,
    Failed,
    Finished,
    Runner,
    Suspended,
    resume,
    run,
    tool,
)
from continuations.errors import AlreadyDecided, WaitNotFound
from continuations_storage import MemoryStore
from tests import effect_log
from tests.engine import agent_builders
from tests.engine.agent_builders import root_tool_results
from tests.scripts import call

if TYPE_CHECKING:
    from tests.run_environment import RunEnvironment
    from tests.scripts import Script


@tool(approval=True)
def pay(what: str, note: str | None = None) -> dict[str, Any]:
    """Pay."""
    effect_log.append_effect("pay", what)
    return {"paid": what, "note": note}


def make_runner(script: Script, *tools: Any) -> Runner:
    """Return a runner of an agent that pays."""
    return Runner(agent_builders.make_boss(script, pay, *tools), store=MemoryStore())


def start_and_get_wait_ids(runner: Runner) -> tuple[str, ...]:
    """Start a run and return the ids of its waits."""
    outcome = runner.start("go", run_id="r")
    assert isinstance(outcome, Suspended)
    return tuple(wait.id for wait in outcome.waits)


ONE_PAYMENT_SCRIPT: Script = {"go": [[call("pay", what="a")], "end"]}


def test_unknown_wait_id_is_rejected_and_decides_nothing(
    environment: RunEnvironment,
) -> None:
    """The real call still waits."""
    runner = make_runner(ONE_PAYMENT_SCRIPT)
    [wait] = start_and_get_wait_ids(runner)
    with pytest.raises(WaitNotFound):
        runner.decide(f"approval-{'0' * 26}@r", Approve())

    runner.decide(wait, Approve())
    with pytest.raises(AlreadyDecided):
        runner.decide(wait, Deny())
    assert isinstance(runner.resume("r"), Finished)
    assert ["pay a"] == environment.effect_names()


def test_turns_are_counted_per_run_over_processes() -> None:
    """Suspensions and processes do not reset the count."""
    script: Script = {"go": [[call("pay", what="a")]] * 5}
    store = MemoryStore()

    def fresh() -> Runner:
        return Runner(agent_builders.make_boss(script, pay, max_turns=2), store=store)

    for run_id in ("r", "s"):
        outcome = fresh().start("go", run_id=run_id)
        for _ in range(2):
            assert isinstance(outcome, Suspended)
            fresh().decide(outcome.waits[0].id, Approve())
            outcome = fresh().resume(run_id)
        assert isinstance(outcome, Failed)
        assert "max_turns" == outcome.error.code


def test_arguments_are_validated_before_an_approval(
    environment: RunEnvironment,
) -> None:
    """No person is asked about a call that could not run."""
    outcome = make_runner({"go": [[call("pay", what=5), call("pay")], "end"]}).start(
        "go"
    )

    assert isinstance(outcome, Finished)
    assert all(text.startswith("ERROR") for text in root_tool_results(outcome))
    assert [] == environment.effects()


def test_resume_does_not_change_its_argument(environment: RunEnvironment) -> None:
    """A continuation is immutable."""
    agent = agent_builders.make_boss(ONE_PAYMENT_SCRIPT, pay)
    outcome = run(agent, "go")
    assert isinstance(outcome, Suspended)
    before = outcome.continuation.to_bytes()
    resume(outcome.continuation, agent, answers={outcome.waits[0].id: Approve()})

    assert before == outcome.continuation.to_bytes()
    assert ["pay a"] == environment.effect_names()
