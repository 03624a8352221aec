"""A forgotten `context=` is found before any work, and uses up no approval."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest

from continuations import (
    Agent,
    Approve,
    Finished,
    Runner,
    Suspended,
    ToolContext,
    resume,
    run,
    tool,
)
from continuations.errors import InvalidInput
from continuations_storage import MemoryStore
from tests import effect_log, scripts
from tests.engine.agent_builders import make_boss
from tests.engine.payment_agent import ONE_PAY_SCRIPT, start_and_get_wait
from tests.outcomes import expect, single_wait
from tests.scripts import Script, call


@dataclass(frozen=True)
class Account:
    """The object of the application."""

    owner: str


@tool(approval=True)
def pay(ctx: ToolContext) -> str:
    """Pay."""
    effect_log.append_effect("pay", ctx.context.owner)
    return "paid"


KIM = Account("kim")


def _versions(runner: Runner) -> int:
    return runner.look("r1").version


@pytest.mark.parametrize("declared_by", ["agent", "runner"])
def test_resume_without_the_context_uses_up_no_approval(declared_by: str) -> None:
    of_agent = {"context_type": Account} if declared_by == "agent" else {}
    of_runner: dict[str, Any] = {} if of_agent else {"context_type": Account}
    agent = make_boss(ONE_PAY_SCRIPT, pay, **of_agent)
    runner = Runner(agent, store=MemoryStore(), **of_runner)
    wait = single_wait(runner.start("go", run_id="r1", context=KIM))
    runner.decide(wait.id, Approve())
    before = _versions(runner)

    with pytest.raises(InvalidInput, match=r"run r1 .* of type Account, .* NoneType"):
        runner.resume("r1")

    # Then nothing was written, and the approval still counts
    assert before == _versions(runner)
    assert [] == effect_log.effects()
    assert isinstance(runner.resume("r1", context=KIM), Finished)
    assert ["pay kim"] == effect_log.names()


def test_context_of_a_sub_agent_is_checked_at_the_start(store: MemoryStore) -> None:
    script: Script = {"go": [[call("child", input="A")], "end"], "A": ["done"]}
    model = scripts.scripted_model(script)
    child = Agent("child", model=model, context_type=Account)
    boss = Agent("boss", tools=[child], model=model)

    with pytest.raises(InvalidInput, match="as agent child declares"):
        Runner(boss, store=store).start("go", run_id="r1")

    assert isinstance(
        Runner(boss, store=store).start("go", run_id="r1", context=KIM), Finished
    )


def test_sweep_without_the_context_checks_no_run() -> None:
    """Otherwise it would postpone every run."""
    runner = Runner(
        make_boss(ONE_PAY_SCRIPT, pay, context_type=Account), store="memory:"
    )
    wait = single_wait(runner.start("go", run_id="r1", context=KIM))
    runner.decide(wait.id, Approve())

    with pytest.raises(InvalidInput, match="of type Account"):
        runner.sweep()

    assert 1 == len(runner.sweep(context=KIM).resumed)


def test_sweep_resumes_the_runs_whose_agent_takes_the_context() -> None:
    """Two root agents declare different types, so each sweep serves one of them."""
    store = MemoryStore()
    types: dict[str, Any] = {"accounts": Account, "texts": str}
    model = scripts.scripted_model(ONE_PAY_SCRIPT)
    agents = [
        Agent(name, tools=[pay], model=model, context_type=type_)
        for name, type_ in types.items()
    ]
    runner = Runner(agents, store=store)
    contexts: dict[str, Any] = {"accounts": KIM, "texts": "kim"}
    for name, context in contexts.items():
        outcome = runner.start("go", run_id=name, agent=name, context=context)
        runner.decide(single_wait(outcome).id, Approve())

    result = runner.sweep(context=KIM)

    assert ["accounts"] == [outcome.run_id for outcome in result.resumed]
    assert ["texts"] == list(result.errors)
    assert "of type str" in str(result.errors["texts"])
    with pytest.raises(InvalidInput, match="of type Account"):
        runner.sweep(context=5)


def test_run_without_a_store_checks_the_context() -> None:
    agent = make_boss(ONE_PAY_SCRIPT, pay, context_type=Account | None)
    with pytest.raises(InvalidInput, match="got str"):
        run(agent, "go", context="kim")

    outcome = expect(run(agent, "go", context=None), Suspended)
    with pytest.raises(InvalidInput, match="got str"):
        resume(outcome.continuation, agent, context="kim")


def test_agent_without_a_context_type_takes_any_object() -> None:
    runner = Runner(make_boss(ONE_PAY_SCRIPT, pay), store="memory:")

    assert start_and_get_wait(runner)
    for wrong in ("Account", (Account, str), dict[str, int]):
        with pytest.raises(InvalidInput, match="context_type must be a class"):
            make_boss(ONE_PAY_SCRIPT, context_type=wrong)
        with pytest.raises(InvalidInput, match="context_type must be a class"):
            Runner([], store="memory:", context_type=wrong)
