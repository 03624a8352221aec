"""A model that repeats a denied call ends its agent: `Agent(max_denials=…)`."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from continuations import (
    Agent,
    ApprovalPolicy,
    Approve,
    Deny,
    Failed,
    Finished,
    Outcome,
    Runner,
    Suspended,
    resume,
    run,
    tool,
)
from continuations.tools import Tool
from continuations_storage import MemoryStore
from tests.clocks import ManualClock
from tests.engine.agent_builders import make_boss, root_tool_results, text_tool
from tests.outcomes import expect
from tests.run_environment import RunEnvironment
from tests.scripts import Line, call, scripted_model

PAY = [call("pay", cents=5)]


def always(*lines: Line) -> Any:
    """Return a script with so many turns that it never ends by itself."""
    return {"go": [*lines * 20, "end"]}


def make_pay(approval: Any = True) -> Tool[..., Any]:
    """Return a tool whose calls need an approval."""
    return text_tool(
        "pay", "paid {cents}", {"cents": int}, logs=True, approval=approval
    )


def deny_all(runner: Runner, outcome: Outcome, times: int) -> Outcome:
    """Deny what waits, so many times."""
    for _ in range(times):
        assert isinstance(outcome, Suspended)
        for wait in outcome.waits:
            runner.decide(wait.id, Deny(by="kim", reason="no"))
        outcome = runner.resume("r")
    return outcome


def test_third_denial_of_one_call_ends_the_run(environment: RunEnvironment) -> None:
    """By default, the model gets three chances; each denial says that it is one."""
    runner = Runner(make_boss(always(PAY), make_pay()), store="memory:")

    outcome = expect(deny_all(runner, runner.start("go", run_id="r"), 3), Failed)

    assert "max_denials" == outcome.error.code
    assert outcome.error.message == (
        "pay was denied in 3 turns of agent boss, with the same arguments each time. "
        "Change the instructions or the policy of the tool, or raise max_denials."
    )
    first, second, _ = root_tool_results(outcome)
    assert first.endswith("Reason: no")
    assert second.endswith(
        "Reason: no The same call was denied in 2 turns. Do not repeat it: your task "
        "may end."
    )
    assert [] == environment.effect_names()
    assert ["go 0", "go 1", "go 2"] == environment.turns()


@pytest.mark.parametrize("again", [[call("pay", cents=6)], [call("other", cents=5)]])
def test_other_calls_have_a_count_of_their_own(again: list[Any]) -> None:
    """Other arguments, or another tool, make another call."""
    script = {"go": [PAY, PAY, again, again, "end"]}
    other = tool(make_pay().function, name="other", approval=True)
    runner = Runner(make_boss(script, make_pay(), other), store="memory:")

    assert isinstance(deny_all(runner, runner.start("go", run_id="r"), 4), Finished)


def test_calls_are_the_same_if_their_effective_arguments_are() -> None:
    """The order of the fields, blanks and defaults make no other call."""

    @tool(approval=True)
    def send(to: str, text: str = "hi") -> str:
        """Send a text."""
        return f"{text}, {to}"

    calls = [call("send", to="ann"), call("send", text="hi", to="ann")]
    script = {"go": [calls[:1], calls[1:], "end"]}
    runner = Runner(make_boss(script, send, max_denials=2), store="memory:")

    assert isinstance(deny_all(runner, runner.start("go", run_id="r"), 2), Failed)


def test_identical_calls_of_one_turn_count_once() -> None:
    """The model makes them before it reads a denial."""
    script = {"go": [PAY * 5, "end"]}
    runner = Runner(make_boss(script, make_pay(), max_denials=2), store="memory:")

    assert isinstance(deny_all(runner, runner.start("go", run_id="r"), 1), Finished)


def test_call_that_ran_is_counted_from_the_beginning() -> None:
    """An approval between the denials says that the call may be made again."""
    runner = Runner(make_boss(always(PAY), make_pay(), max_denials=2), store="memory:")
    outcome = expect(deny_all(runner, runner.start("go", run_id="r"), 1), Suspended)
    runner.decide(outcome.waits[0].id, Approve(by="kim"))

    outcome = expect(deny_all(runner, runner.resume("r"), 1), Suspended)

    assert isinstance(deny_all(runner, outcome, 1), Failed)


def test_message_of_a_user_starts_the_count_again() -> None:
    """Also a message that no worker has read when the last denial arrives."""
    runner = Runner(make_boss(always(PAY), make_pay(), max_denials=2), store="memory:")
    outcome = expect(deny_all(runner, runner.start("go", run_id="r"), 1), Suspended)
    runner.send("r", "Ask for less.")

    outcome = expect(deny_all(runner, outcome, 2), Suspended)

    assert isinstance(deny_all(runner, outcome, 1), Failed)


def test_denials_of_rules_count() -> None:
    """No person is needed to stop a model that a rule denies again and again."""

    def never(cents: int) -> Deny:
        return Deny(reason=f"{cents} is too much")

    runner = Runner(make_boss(always(PAY), make_pay(never)), store="memory:")

    outcome = expect(runner.start("go", run_id="r"), Failed)

    assert "max_denials" == outcome.error.code
    assert 3 == len(root_tool_results(outcome))


@pytest.mark.parametrize("on_deadline", [None, Deny(reason="too late")])
def test_deadlines_that_refuse_the_call_count(on_deadline: Deny | None) -> None:
    policy = ApprovalPolicy(within=timedelta(minutes=5), on_deadline=on_deadline)
    clock = ManualClock()
    agent = make_boss(always(PAY), make_pay(policy), max_denials=2)
    runner = Runner(agent, store=MemoryStore(clock.now), clock=clock)
    runner.start("go", run_id="r")

    for _ in range(2):
        clock.seconds += 360
        runner.sweep()

    outcome = expect(runner.resume("r"), Failed)
    assert "max_denials" == outcome.error.code


def test_no_limit_and_the_limit_of_the_running_code(store: MemoryStore) -> None:
    """With None nothing ends; a deployment with a limit counts earlier denials."""
    model = always(PAY)
    endless = Runner(make_boss(model, make_pay(), max_denials=None), store=store)
    outcome = expect(deny_all(endless, endless.start("go", run_id="r"), 5), Suspended)
    bounded = Runner(make_boss(model, make_pay()), store=store)

    failed = expect(deny_all(bounded, outcome, 1), Failed)

    assert "pay was denied in 6 turns" in failed.error.message


def test_count_survives_other_processes(environment: RunEnvironment) -> None:
    """Each denial is decided and taken in by processes of their own."""
    script = always([call("pay", what="1")])
    outcome = environment.start(script)
    for _ in range(3):
        [wait] = outcome["waits"]
        environment.deny(wait)
        outcome = environment.resume(script)

    assert "Failed" == outcome["kind"]
    assert "max_denials" == outcome["error"]["code"]
    assert [] == environment.effects()
    assert ["go 0", "go 1", "go 2"] == environment.turns()


@pytest.mark.fresh_interpreters
def test_sub_agent_ends_with_an_error_for_its_caller(
    environment: RunEnvironment,
) -> None:
    """Three levels deep, in fresh interpreters: the agent above goes on."""
    script: Any = {
        "go": [[call("left", input="A")], "all done"],
        "A": [[call("clerk", input="C")], "A done"],
        "C": [[call("pay", what="7")]] * 9,
    }
    outcome = environment.start(script)
    for _ in range(3):
        [wait] = outcome["waits"]
        assert ["boss", "left", "clerk", "pay"] == wait["path"]
        environment.deny(wait)
        outcome = environment.resume(script)

    assert ("Finished", "all done") == (outcome["kind"], outcome["output"])
    read = environment.run("tool-results", "r1", "A", script=script)["tool_results"]
    assert "ERROR: the agent clerk failed: pay was denied in 3 turns" in read
    assert [] == environment.effects()


def test_caller_that_repeats_such_a_sub_agent_ends_too() -> None:
    """A sub-agent that repeated a denied call counts as denied for its caller."""

    def never(cents: int) -> Deny:
        return Deny(reason=f"not {cents}")

    calls = [call("clerk", input="C")]
    script: Any = {"go": [calls] * 9, "C": [PAY] * 9}
    model = scripted_model(script)
    clerk = Agent("clerk", tools=[make_pay(never)], model=model)
    boss = Agent("boss", tools=[clerk], model=model)

    outcome = expect(Runner(boss, store="memory:").start("go", run_id="r"), Failed)

    assert outcome.error.message.startswith("clerk was denied in 3 turns of agent boss")


def test_count_is_part_of_a_continuation_without_a_store() -> None:
    agent = make_boss(always(PAY), make_pay())
    outcome = run(agent, "go")
    for _ in range(3):
        assert isinstance(outcome, Suspended)
        data = outcome.continuation.to_bytes()
        outcome = resume(data, agent, answers={outcome.waits[0].id: Deny(by="kim")})

    assert isinstance(outcome, Failed)
    assert "max_denials" == outcome.error.code
