"""Errors of the prototype that must not return.

There is one short test for each; longer tests are in the files of their subjects.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from continuations import (
    Agent,
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
from continuations.core.messages import Message
from continuations.errors import AlreadyDecided, WaitNotFound
from continuations.models.interface import ModelReply
from continuations_storage import MemoryStore
from tests import effect_log, scripts
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


@tool
def fail() -> str:
    """Raise."""
    raise RuntimeError("boo")


def make_runner(script: Script, *tools: Any) -> Runner:
    """Return a runner of an agent that pays."""
    return Runner(
        agent_builders.make_boss(script, pay, fail, *tools), store=MemoryStore()
    )


def start_and_get_wait_ids(runner: Runner) -> tuple[str, ...]:
    """Start a run and return the ids of its waits."""
    outcome = runner.start("go", run_id="r")
    assert isinstance(outcome, Suspended)
    return tuple(wait.id for wait in outcome.waits)


ONE_PAYMENT_SCRIPT: Script = {"go": [[call("pay", what="a")], "end"]}
TWO_PAYMENTS_SCRIPT: Script = {
    "go": [[call("pay", what="a"), call("pay", what="b")], "end"]
}
NESTED: Script = {
    "go": [[call("child", input="A")], "end"],
    "A": [*TWO_PAYMENTS_SCRIPT["go"][:1], "A done"],
}


def make_nested_runner() -> Runner:
    """Return a runner of an agent whose child pays twice in one turn."""
    model = scripts.scripted_model(NESTED)
    child = Agent("child", tools=[pay], model=model)
    return Runner(Agent("boss", tools=[child], model=model), store=MemoryStore())


def test_denial_at_the_root_does_not_run_the_call(environment: RunEnvironment) -> None:
    """The denied call of the root agent has no effect."""
    runner = make_runner(ONE_PAYMENT_SCRIPT)
    [wait] = start_and_get_wait_ids(runner)
    runner.decide(wait, Deny())

    assert isinstance(runner.resume("r"), Finished)
    assert [] == environment.effects()


@pytest.mark.parametrize("yes", [0, 1])
def test_each_call_of_a_child_has_its_own_decision(
    environment: RunEnvironment, yes: int
) -> None:
    """One call is approved and one denied, in both orders."""
    runner = make_nested_runner()
    waits = start_and_get_wait_ids(runner)
    runner.decide(waits[yes], Approve())
    runner.decide(waits[1 - yes], Deny())
    runner.resume("r")

    assert [f"pay {'ab'[yes]}"] == environment.effect_names()


def test_denial_is_reported_to_the_model_which_continues(
    environment: RunEnvironment,
) -> None:
    """A denial is a result of its own kind."""
    runner = make_runner(ONE_PAYMENT_SCRIPT)
    runner.decide(start_and_get_wait_ids(runner)[0], Deny(reason="Too expensive."))
    outcome = runner.resume("r")

    assert isinstance(outcome, Finished)
    assert ("end", True) == (
        outcome.output,
        "Too expensive." in root_tool_results(outcome)[0],
    )
    assert [] == environment.effects()


def test_second_resume_runs_nothing_again(environment: RunEnvironment) -> None:
    """A finished run stays as it is."""
    runner = make_runner(ONE_PAYMENT_SCRIPT)
    runner.decide(start_and_get_wait_ids(runner)[0], Approve())
    for _ in range(3):
        assert isinstance(runner.resume("r"), Finished)

    assert ["pay a"] == environment.effect_names()


def test_suspension_during_a_resume_keeps_every_pending_call(
    environment: RunEnvironment,
) -> None:
    """The second suspension loses neither calls nor approvals."""
    runner = make_runner(TWO_PAYMENTS_SCRIPT)
    first, second = start_and_get_wait_ids(runner)
    runner.decide(first, Approve())
    outcome = runner.resume("r")

    assert isinstance(outcome, Suspended)
    assert [second] == [wait.id for wait in outcome.waits]
    assert {"returned", "waiting"} == {c.state for c in outcome.continuation.root.calls}
    runner.decide(second, Approve())
    assert isinstance(runner.resume("r"), Finished)
    assert ["pay a", "pay b"] == environment.effect_names()


def test_nested_wait_keeps_its_kind_and_path() -> None:
    """The wait of a nested call names all agents above it."""
    outcome = make_nested_runner().start("go")

    assert isinstance(outcome, Suspended)
    expected = {("approval", ("boss", "child", "pay"))}
    assert expected == {(wait.kind, wait.path) for wait in outcome.waits}


def test_truncated_reply_fails_the_run() -> None:
    """A reply that the length limit cut is not the output."""
    cut: Any = ModelReply(
        message=Message.from_mapping({"role": "assistant", "content": None}),
        finish_reason="length",
    )
    outcome = make_runner({"go": [cut]}).start("go")

    assert isinstance(outcome, Failed)
    assert "length" == outcome.error.code


def test_tool_exception_becomes_an_error_result() -> None:
    """The run continues."""
    outcome = make_runner({"go": [[call("fail")], "end"]}).start("go")

    assert isinstance(outcome, Finished)
    assert ["ERROR: the tool failed: RuntimeError: boo"] == root_tool_results(outcome)


def test_any_agent_may_have_a_child_that_suspends() -> None:
    """There is only one kind of agent."""
    runner = make_nested_runner()
    for wait in start_and_get_wait_ids(runner):
        runner.decide(wait, Approve())

    assert ["A done"] == root_tool_results(runner.resume("r"))


def test_edited_arguments_run_and_are_reported(environment: RunEnvironment) -> None:
    """The model reads that the arguments were edited."""
    runner = make_runner(ONE_PAYMENT_SCRIPT)
    runner.decide(start_and_get_wait_ids(runner)[0], Approve(arguments={"what": "c"}))
    [results] = root_tool_results(runner.resume("r"))

    assert ["pay c"] == environment.effect_names()
    assert "changed its arguments" in results


def test_optional_parameters_and_dict_results_are_typed(
    environment: RunEnvironment,
) -> None:
    """Defaults are not required, `X | None` is typed, and a dict becomes JSON."""
    schema = pay.parameters
    assert ["what"] == schema["required"]
    assert {"string", "null"} == {
        each["type"] for each in schema["properties"]["note"]["anyOf"]
    }

    runner = make_runner(ONE_PAYMENT_SCRIPT)
    runner.decide(start_and_get_wait_ids(runner)[0], Approve())
    [results] = root_tool_results(runner.resume("r"))
    assert {"paid": "a", "note": None} == json.loads(results)
    assert ["pay a"] == environment.effect_names()


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


def test_decision_records_the_decider() -> None:
    """The record has name and reason, and the loser's error contains it."""
    runner = make_runner(ONE_PAYMENT_SCRIPT)
    [wait] = start_and_get_wait_ids(runner)
    decision = runner.decide(wait, Approve(by="kim@example.com", reason="Fine."))

    assert ("approve", "kim@example.com", "Fine.") == (
        decision.kind,
        decision.by,
        decision.reason,
    )
    with pytest.raises(AlreadyDecided) as raised:
        runner.decide(wait, Deny(by="jo"))
    assert decision == raised.value.decision


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
