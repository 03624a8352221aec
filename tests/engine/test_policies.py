"""Which calls wait for a person, and what an approval is bound to."""

from __future__ import annotations

import asyncio
import os
from typing import TYPE_CHECKING, Any

import pytest

from continuations import (
    Agent,
    ApprovalPolicy,
    Approve,
    DecisionRefused,
    Finished,
    InvalidInput,
    Runner,
    Suspended,
    ToolContext,
    tool,
)
from continuations_storage import MemoryStore
from tests.engine import ledgers, scripts
from tests.engine.offices import boss, results
from tests.engine.payers import PAY, office, only, payer, waiting

if TYPE_CHECKING:
    from tests.engine.scripts import Script
    from tests.engine.world import World


def over_three(cents: int) -> bool:
    """Ask a person about more than three."""
    ledgers.add(ledgers.TURNS, task="policy", turn=cents)
    return cents > 3


def test_a_policy_is_asked_once_on_the_effective_arguments(world: World) -> None:
    """R-C6, X-13: not on resume, in any process, and it cannot take a wait back."""
    store = MemoryStore()
    runner = office(over_three, store=store)
    wait = waiting(runner)

    # When it is resumed undecided, and then with a policy that would let it pass
    runner.resume("r1")
    lenient = Runner(boss(PAY, payer(policy=False)), store=store)
    assert isinstance(lenient.resume("r1"), Suspended)

    assert [] == world.effects()
    assert 1 == world.turns().count("policy 5")
    assert "over_three" == wait.policy
    lenient.decide(wait.id, Approve())
    assert isinstance(lenient.resume("r1"), Finished)
    assert ["pay 5 kim"] == world.done()


def test_a_policy_that_says_no_wait_lets_it_run(world: World) -> None:
    """R-G5: the other way."""
    script: Script = {"go": [[["pay", {"cents": 2}]], "end"]}

    outcome = office(over_three, script).start("go")

    assert isinstance(outcome, Finished)
    assert ["pay 2 kim"] == world.done()


JUNK: list[Any] = [None, 0, 1, "", "no", "false", [], {}, Approve]


async def later(cents: int) -> bool:
    """Ask nobody, after a while."""
    await asyncio.sleep(0)
    return cents < 0


class Odd(BaseException):
    """Not an Exception."""


def raising(error: BaseException) -> Any:
    """Return a policy that raises."""

    def policy(cents: int) -> bool:
        del cents
        raise error

    return policy


def returning(value: object) -> Any:
    """Return a policy that returns a value."""

    def policy() -> Any:
        return value

    return policy


@pytest.mark.parametrize(
    "policy",
    [
        *(returning(value) for value in JUNK),
        *(raising(error) for error in (ValueError(), StopIteration(), TimeoutError())),
        *(raising(error) for error in (Odd(), asyncio.CancelledError())),
        *(raising(error) for error in (SystemExit(), KeyboardInterrupt())),
    ],
)
def test_a_policy_that_says_neither_yes_nor_no_never_runs_the_call(
    world: World, policy: Any
) -> None:
    """R-C5: fail closed; the model is told, and the agent goes on."""
    outcome = office(policy).start("go")

    assert isinstance(outcome, Finished)
    assert "not executed" in results(outcome)[0]
    assert [] == world.effects()


def test_an_async_policy(world: World) -> None:
    """R-C5."""
    assert isinstance(office(later).start("go"), Finished)
    assert ["pay 5 kim"] == world.done()


def described(text: str, *, strict: bool) -> Agent:
    """Return an agent whose tool has a description and a policy."""

    @tool(approval=ApprovalPolicy(strict=strict), description=text)
    def pay(cents: int, ctx: ToolContext) -> str:
        ledgers.add(ledgers.EFFECTS, tool="pay", what=str(cents), key=ctx.call_id)
        return "paid"

    return boss(PAY, pay)


def test_other_words_void_an_approval_only_under_a_strict_policy(world: World) -> None:
    """Section 6, R-C1: a changed description is reported, and strictly it asks anew."""
    for strict in (False, True):
        store, run_id = MemoryStore(), f"strict-{strict}"
        before = Runner(described("Pay.", strict=strict), store=store)
        wait = waiting(before, run_id)
        before.decide(wait.id, Approve())

        # When the description says another thing on resume
        after = Runner(described("Pay it all.", strict=strict), store=store)
        outcome = after.resume(run_id)

        # Then it is reported, and the strict one asks again
        assert ["compatible boss/pay"] == [
            f"{change.kind} {change.where}" for change in outcome.changes
        ]
        if strict:
            again = only(outcome)
            assert "description changed" in str(again.note)
            after.decide(again.id, Approve())
            assert isinstance(after.resume(run_id), Finished)
        else:
            assert isinstance(outcome, Finished)
    assert 2 == len(world.effects())


def test_an_agent_as_a_tool_can_need_approval_and_pause_again_inside(
    world: World,
) -> None:
    """SL-26: the way in waits, then the call inside waits."""
    script: Script = {
        "go": [[["child", {"input": "A"}]], "end"],
        "A": [[["pay", {"cents": 1}]], "A done"],
    }
    model = scripts.model(script)
    child = Agent("child", tools=[payer()], model=model)
    root = Agent("boss", tools=[child.as_tool(approval=True)], model=model)
    runner = Runner(root, store=MemoryStore())

    outer = waiting(runner)
    assert (("boss", "child"), {"input": "A"}) == (outer.path, outer.arguments)
    assert ["go 0"] == world.turns()
    runner.decide(outer.id, Approve(arguments={"input": "A"}))
    inner = only(runner.resume("r1"))
    assert ("boss", "child", "pay") == inner.path
    runner.decide(inner.id, Approve())
    outcome = runner.resume("r1")

    assert isinstance(outcome, Finished)
    assert ["pay 1 kim"] == world.done()
    assert results(outcome)[0].endswith("A done")


def test_texts_that_are_none_are_refused_before_anything_is_written() -> None:
    """R-A4: `by` and `reason` are texts."""
    runner = office()
    wait = waiting(runner)

    with pytest.raises(DecisionRefused):
        runner.decide(wait.id, Approve(by=5))  # type: ignore[arg-type]
    with pytest.raises(InvalidInput):
        runner.cancel("r1", reason=os)  # type: ignore[arg-type]
    assert isinstance(runner.resume("r1"), Suspended)
