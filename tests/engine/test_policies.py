"""Which calls need an approval, and what an approval is bound to."""

from __future__ import annotations

import asyncio
import os
from typing import Any

import pytest

from continuations import (
    Agent,
    ApprovalPolicy,
    Approve,
    AsyncRunner,
    Finished,
    Runner,
    Suspended,
    ToolContext,
    tool,
)
from continuations.errors import DecisionRefused, InvalidInput, RunBusy
from continuations_storage import MemoryStore
from tests import effect_log, scripts
from tests.clocks import ManualClock
from tests.engine.agent_builders import make_boss, root_tool_results
from tests.engine.payment_agent import (
    PAY_SCRIPT,
    make_pay_tool,
    make_payment_runner,
    single_wait,
    start_and_get_wait,
)
from tests.outcomes import expect
from tests.run_environment import RunEnvironment
from tests.scripts import Script, call


def over_three(cents: int) -> bool:
    """Ask a person about more than three."""
    effect_log.append_turn(task="policy", turn=cents)
    return cents > 3


def test_a_policy_is_asked_once_on_the_effective_arguments(
    environment: RunEnvironment, store: MemoryStore
) -> None:
    """It is not asked again on resume, and a changed policy does not close a wait."""
    runner = make_payment_runner(over_three, store=store)
    wait = start_and_get_wait(runner)

    # When it is resumed undecided, and then with a policy that would let it pass
    runner.resume("r1")
    lenient = Runner(make_boss(PAY_SCRIPT, make_pay_tool(policy=False)), store=store)
    assert isinstance(lenient.resume("r1"), Suspended)

    assert [] == environment.effects()
    assert 1 == environment.turns().count("policy 5")
    assert "over_three" == wait.policy
    lenient.decide(wait.id, Approve())
    assert isinstance(lenient.resume("r1"), Finished)
    assert ["pay 5 kim"] == environment.effect_names()


def test_policy_that_returns_false_runs_the_call() -> None:
    """The call runs without an approval."""
    script: Script = {"go": [[call("pay", cents=2)], "end"]}

    assert isinstance(make_payment_runner(over_three, script).start("go"), Finished)

    assert ["pay 2 kim"] == effect_log.names()


async def test_nothing_runs_while_a_policy_hangs(clock: ManualClock) -> None:
    """Another worker takes the run over, and the late answer lets no call pass."""
    store = MemoryStore(clock.now)
    entered, go_on = asyncio.Event(), asyncio.Event()

    async def hangs(cents: int) -> bool:
        entered.set()
        await go_on.wait()
        return cents < 0  # the call may pass

    def runner(policy: Any) -> AsyncRunner:
        boss = make_boss(PAY_SCRIPT, make_pay_tool(policy))
        return AsyncRunner(boss, store=store, clock=clock)

    first = asyncio.create_task(runner(hangs).start("go", run_id="r1"))
    await entered.wait()
    look = await runner(hangs).look("r1")
    assert "running" == look.status
    with pytest.raises(RunBusy):
        await runner(over_three).resume("r1")

    # When its claim has ended, and the policy answers afterwards
    clock.seconds += 60
    outcome = await runner(over_three).resume("r1")
    go_on.set()
    late = await first

    assert isinstance(outcome, Suspended)
    assert isinstance(late, Suspended)
    assert outcome.waits == late.waits
    assert [] == effect_log.effects()


JUNK: list[Any] = [None, 0, 1, "", "no", "false", [], {}, Approve]


async def is_negative_async(cents: int) -> bool:
    """Return False for ordinary amounts, asynchronously."""
    await asyncio.sleep(0)
    return cents < 0


class CustomBaseException(BaseException):
    """Not an Exception."""


def raising_policy(error: BaseException) -> Any:
    """Return a policy that raises."""

    def policy(cents: int) -> bool:
        del cents
        raise error

    return policy


def returning_policy(value: object) -> Any:
    """Return a policy that returns a value."""

    def policy() -> Any:
        return value

    return policy


@pytest.mark.parametrize(
    "policy",
    [
        *(returning_policy(value) for value in JUNK),
        *(
            raising_policy(error)
            for error in (ValueError(), StopIteration(), TimeoutError())
        ),
        *(
            raising_policy(error)
            for error in (CustomBaseException(), asyncio.CancelledError())
        ),
        *(raising_policy(error) for error in (SystemExit(), KeyboardInterrupt())),
    ],
)
def test_a_policy_that_says_neither_yes_nor_no_never_runs_the_call(policy: Any) -> None:
    """Policies fail closed: the model gets an error, and the agent continues."""
    outcome = expect(make_payment_runner(policy).start("go"), Finished)

    assert "not executed" in root_tool_results(outcome)[0]
    assert [] == effect_log.effects()


def test_async_policy_is_awaited() -> None:
    """A policy may be a coroutine function."""
    assert isinstance(make_payment_runner(is_negative_async).start("go"), Finished)
    assert ["pay 5 kim"] == effect_log.names()


def agent_with_description(text: str, *, strict: bool) -> Agent:
    """Return an agent whose tool has a description and a policy."""

    @tool(approval=ApprovalPolicy(strict=strict), description=text)
    def pay(cents: int, ctx: ToolContext) -> str:
        effect_log.append_effect("pay", str(cents), key=ctx.call_id)
        return "paid"

    return make_boss(PAY_SCRIPT, pay)


def test_changed_description_voids_an_approval_only_with_strict() -> None:
    """Otherwise the changed description is only reported."""
    for strict in (False, True):
        store, run_id = MemoryStore(), f"strict-{strict}"
        before = Runner(agent_with_description("Pay.", strict=strict), store=store)
        wait = start_and_get_wait(before, run_id)
        before.decide(wait.id, Approve())

        # When the description has changed on resume
        after = Runner(
            agent_with_description("Pay it all.", strict=strict), store=store
        )
        outcome = after.resume(run_id)

        # Then the change is reported, and the strict policy asks again
        assert ["compatible boss/pay"] == [
            f"{change.kind} {change.where}" for change in outcome.code_changes
        ]
        if strict:
            again = single_wait(outcome)
            assert "description changed" in str(again.note)
            after.decide(again.id, Approve())
            assert isinstance(after.resume(run_id), Finished)
        else:
            assert isinstance(outcome, Finished)
    assert 2 == len(effect_log.effects())


def test_an_agent_as_a_tool_can_need_approval_and_pause_again_inside(
    environment: RunEnvironment,
) -> None:
    """First the call of the sub-agent waits, then the call inside it."""
    script: Script = {
        "go": [[call("child", input="A")], "end"],
        "A": [[call("pay", cents=1)], "A done"],
    }
    model = scripts.scripted_model(script)
    child = Agent("child", tools=[make_pay_tool()], model=model)
    root = Agent("boss", tools=[child.as_tool(approval=True)], model=model)
    runner = Runner(root, store=MemoryStore())

    outer = start_and_get_wait(runner)
    assert (("boss", "child"), {"input": "A"}) == (outer.path, outer.arguments)
    assert ["go 0"] == environment.turns()
    runner.decide(outer.id, Approve(arguments={"input": "A"}))
    inner = single_wait(runner.resume("r1"))
    assert ("boss", "child", "pay") == inner.path
    runner.decide(inner.id, Approve())
    outcome = expect(runner.resume("r1"), Finished)

    assert ["pay 1 kim"] == environment.effect_names()
    assert root_tool_results(outcome)[0].endswith("A done")


def test_by_and_reason_must_be_texts() -> None:
    """Other types are rejected, and nothing is recorded."""
    runner = make_payment_runner()
    wait = start_and_get_wait(runner)

    with pytest.raises(DecisionRefused):
        runner.decide(wait.id, Approve(by=5))  # type: ignore[arg-type]
    with pytest.raises(InvalidInput):
        runner.cancel("r1", reason=os)  # type: ignore[arg-type]
    assert isinstance(runner.resume("r1"), Suspended)


def test_arguments_are_validated_before_an_approval() -> None:
    """No person is asked about a call that could not run."""
    script: Any = {"go": [[call("pay", cents="x"), call("pay")], "end"]}
    outcome = expect(make_payment_runner(script=script).start("go"), Finished)

    assert all(text.startswith("ERROR") for text in root_tool_results(outcome))
    assert [] == effect_log.effects()
