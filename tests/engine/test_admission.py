"""Before every begin: is the approval still valid, and is this the approved call?

One check holds for tools and sub-agents, first attempts and repeats.
"""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any

import pytest

from continuations import (
    Agent,
    Answer,
    ApprovalPolicy,
    Approve,
    Deny,
    Finished,
    Outcome,
    Runner,
    Suspended,
    ToolContext,
    tool,
)
from continuations_storage import faults
from continuations_storage.contract import Changes
from tests import effect_log, scripts
from tests.engine.agent_builders import make_boss, root_tool_results, should_pause_after
from tests.engine.payment_agent import make_pay_tool, start_and_get_wait
from tests.engine.shared_store import SharedStore
from tests.outcomes import expect, single_wait
from tests.run_environment import RunEnvironment
from tests.scripts import call

SCRIPT: Any = {"go": [[call("pay", cents=5)], "end"]}
MONTH = timedelta(days=30).total_seconds()


class Shop(SharedStore):
    """One store that processes with other code share."""

    def runner(self, *tools: Any) -> Runner:
        """Return a process whose agent has these tools."""
        return self.machine(agents=make_boss(SCRIPT, *tools))

    def approve_and_pause(self, *tools: Any) -> None:
        """Approve the only call; the worker stops before the call begins."""
        runner = self.runner(*tools)
        runner.decide(start_and_get_wait(runner).id, Approve(by="kim"))
        paused = runner.resume("r1", should_pause=should_pause_after(1))
        assert isinstance(paused, Suspended)
        assert (True, ()) == (paused.paused, paused.waits)


@pytest.fixture
def shop() -> Shop:
    return Shop()


def is_small(cents: int) -> bool:
    return cents < 100


def divide_by_zero(cents: int) -> bool:
    return bool(cents / 0)


def effects(environment: RunEnvironment) -> list[str]:
    return environment.effect_names()


# First begins -----------------------------------------------------------------------


def test_tool_that_begins_too_late_waits_again(
    shop: Shop, environment: RunEnvironment
) -> None:
    pay = make_pay_tool(ApprovalPolicy(valid_for=60))
    shop.approve_and_pause(pay)
    shop.clock.seconds += 61

    wait = single_wait(shop.runner(pay).resume("r1"))

    assert "The approval was valid until 2026-01-01 00:01:00 UTC." == wait.note
    assert [] == effects(environment)
    shop.runner(pay).decide(wait.id, Approve(by="kim"))
    assert isinstance(shop.runner(pay).resume("r1"), Finished)
    assert ["pay 5 kim"] == effects(environment)


def test_sub_agent_that_is_entered_too_late_waits_again(shop: Shop) -> None:
    """The model of an approved sub-agent is not asked after the approval is void."""
    script: Any = {"go": [[call("clerk", input="A")], "end"], "A": ["A done"]}
    model = scripts.scripted_model(script)
    policy = ApprovalPolicy(valid_for=60)
    clerk = Agent("clerk", model=model).as_tool(approval=policy)
    runner = shop.machine(agents=Agent("boss", tools=[clerk], model=model))
    runner.decide(start_and_get_wait(runner).id, Approve())
    runner.resume("r1", should_pause=should_pause_after(1))
    shop.clock.seconds += 61

    wait = single_wait(runner.resume("r1"))

    assert "valid until" in str(wait.note)
    assert ["go 0"] == effect_log.turns()
    runner.decide(wait.id, Approve())
    assert isinstance(runner.resume("r1"), Finished)
    assert ["go 0", "A 0", "go 1"] == effect_log.turns()


def test_changed_tool_of_an_approved_call_that_has_not_begun_waits_again(
    shop: Shop, environment: RunEnvironment
) -> None:
    """The wait is gone by then; the note still names the old parameters."""
    shop.approve_and_pause(make_pay_tool())

    @tool(name="pay", approval=True)
    def pay_in(cents: int, to: str = "kim", currency: str = "EUR") -> str:
        """Pay in a currency."""
        effect_log.append_effect("pay", f"{cents} {to} {currency}")
        return "paid"

    wait = single_wait(shop.runner(pay_in).resume("r1"))

    assert {"cents": 5, "to": "kim", "currency": "EUR"} == wait.arguments
    note = str(wait.note)
    assert "parameter currency was added" in note
    assert "Old contract: pay(cents, to)." in note
    assert 'to: string = "kim", currency: string = "EUR").' in note
    shop.runner(pay_in).decide(wait.id, Approve())
    assert isinstance(shop.runner(pay_in).resume("r1"), Finished)
    assert ["pay 5 kim EUR"] == effects(environment)


def test_strict_policy_asks_again_if_the_description_changed_before_the_begin(
    shop: Shop, environment: RunEnvironment
) -> None:
    policy = ApprovalPolicy(strict=True)
    shop.approve_and_pause(make_pay_tool(policy))
    reworded = tool(
        make_pay_tool().function, approval=policy, description="Pay at once."
    )

    wait = single_wait(shop.runner(reworded).resume("r1"))

    assert "The tool's description changed after the approval." == wait.note
    assert [] == effects(environment)


@pytest.mark.parametrize(
    ("before", "after", "note"),
    [
        (False, True, "The tool's policy is strict, and the approval was not."),
        (True, False, "The approval was strict, and the tool's policy no longer is."),
    ],
)
def test_note_tells_a_changed_policy_from_a_changed_description(
    shop: Shop, environment: RunEnvironment, note: str, *, before: bool, after: bool
) -> None:
    shop.approve_and_pause(make_pay_tool(ApprovalPolicy(strict=before)))
    pay = make_pay_tool(ApprovalPolicy(strict=after))

    wait = single_wait(shop.runner(pay).resume("r1"))

    assert note == wait.note
    shop.runner(pay).decide(wait.id, Approve())
    assert isinstance(shop.runner(pay).resume("r1"), Finished)
    assert ["pay 5 kim"] == effects(environment)


def test_call_is_asked_about_if_the_code_that_begins_it_asks_for_approval(
    shop: Shop, environment: RunEnvironment
) -> None:
    """It was accepted by a deployment whose tool needed no approval."""
    shop.runner(make_pay_tool(None)).start(
        "go", run_id="r1", should_pause=lambda: bool(environment.turns())
    )
    pay = make_pay_tool(ApprovalPolicy(when=is_small))

    wait = single_wait(shop.runner(pay).resume("r1"))

    assert "accepted without an approval" in str(wait.note)
    assert ("approval", {"cents": 5, "to": "kim"}) == (wait.kind, wait.arguments)
    shop.runner(pay).decide(wait.id, Approve())
    assert isinstance(shop.runner(pay).resume("r1"), Finished)
    assert ["pay 5 kim"] == effects(environment)


def test_policy_is_asked_once_if_the_process_that_examined_the_call_begins_it(
    shop: Shop, environment: RunEnvironment
) -> None:
    asked: list[int] = []

    def is_large(cents: int) -> bool:
        asked.append(cents)
        return cents > 100

    pay = make_pay_tool(ApprovalPolicy(when=is_large))

    assert isinstance(shop.runner(pay).start("go", run_id="r1"), Finished)

    assert ([5], ["pay 5 kim"]) == (asked, effects(environment))


def test_policy_that_raises_before_the_begin_keeps_the_call_from_running(
    shop: Shop, environment: RunEnvironment
) -> None:
    shop.runner(make_pay_tool(None)).start(
        "go", run_id="r1", should_pause=lambda: bool(environment.turns())
    )

    def fail(cents: int) -> bool:
        raise ValueError(cents)

    ended = expect(shop.runner(make_pay_tool(fail)).resume("r1"), Finished)

    [result] = root_tool_results(ended)
    assert result.startswith("ERROR: the call was not executed: ")
    assert [] == effects(environment)


def test_approval_that_becomes_too_old_while_the_start_is_recorded_waits_again(
    shop: Shop, environment: RunEnvironment
) -> None:
    """The start is stored, and the tool does not run."""
    pay = make_pay_tool(ApprovalPolicy(valid_for=5))
    runner = shop.runner(pay)
    runner.decide(start_and_get_wait(runner).id, Approve())

    # Given a store on which each commit takes six seconds
    original = shop.store.commit

    async def commit(changes: Changes) -> Any:
        if "/v/" in changes.key:
            shop.clock.seconds += 6
        return await original(changes)

    shop.store.commit = commit  # type: ignore[method-assign]
    wait = single_wait(runner.resume("r1"))

    assert ("approval", "valid until" in str(wait.note)) == (wait.kind, True)
    assert [] == effects(environment)
    states = [
        call.state
        for number in range(1, runner.look("r1").version + 1)
        for call in runner.look("r1", version=number).root.calls
    ]
    assert ["waiting", "started", "waiting"] == states


# Repeats ----------------------------------------------------------------------------


def make_interrupted_tool(began: asyncio.Event, **options: Any) -> Any:
    """Return an idempotent tool whose first attempt never ends."""

    @tool(name="pay", idempotent=True, **options)
    async def pay(cents: int, ctx: ToolContext) -> str:
        """Pay."""
        effect_log.append_effect("pay", f"{cents} {ctx.idempotency_key[-2:]}")
        if ctx.attempt == 1:
            began.set()
            await asyncio.Event().wait()
        return "paid"

    return pay


def interrupt(shop: Shop, *, approve: bool, **options: Any) -> None:
    """Begin an idempotent call; its worker stops before the call ends."""

    async def scenario() -> None:
        began = asyncio.Event()
        pay = make_interrupted_tool(began, **options)
        runner = shop.runner(pay).async_runner
        if approve:
            outcome = await runner.start("go", run_id="r1")
            await runner.decide(single_wait(outcome).id, Approve())
            working = asyncio.create_task(runner.resume("r1"))
        else:
            working = asyncio.create_task(runner.start("go", run_id="r1"))
        await began.wait()
        working.cancel()
        with pytest.raises(asyncio.CancelledError):
            await working

    asyncio.run(scenario())


def resume(shop: Shop, seconds: float, **options: Any) -> Outcome:
    """Resume the run later, in a process whose code may differ."""
    shop.clock.seconds += seconds
    return shop.runner(make_interrupted_tool(asyncio.Event(), **options)).resume("r1")


HOUR = {"approval": ApprovalPolicy(valid_for=timedelta(hours=1))}


def test_repeat_within_the_validity_of_its_approval_runs(
    shop: Shop, environment: RunEnvironment
) -> None:
    interrupt(shop, approve=True, **HOUR)

    assert isinstance(resume(shop, 60, **HOUR), Finished)

    assert ["pay 5 c3", "pay 5 c3"] == effects(environment)


@pytest.mark.parametrize(
    ("verdict", "count", "result"),
    [
        (Approve(), 2, "paid"),
        (Answer("it was paid"), 1, "it was paid"),
        (Deny(), 1, "NOT EXECUTED: the call was started and interrupted."),
    ],
)
def test_repeat_after_thirty_days_is_neither_run_nor_refused_but_asked_about(
    shop: Shop, environment: RunEnvironment, verdict: Any, count: int, result: str
) -> None:
    """It may have happened, so a person finds out; a new yes repeats it."""
    interrupt(shop, approve=True, **HOUR)

    wait = single_wait(resume(shop, MONTH, **HOUR))

    assert "unknown" == wait.kind
    assert "valid until 2026-01-01 01:00:00 UTC" in str(wait.note)
    assert "it may have happened" in str(wait.note)
    assert ["pay 5 c3"] == effects(environment)
    shop.runner().decide(wait.id, verdict)
    ended = expect(resume(shop, 0, **HOUR), Finished)
    assert ["pay 5 c3"] * count == effects(environment)
    assert root_tool_results(ended)[0].startswith(result)


@pytest.mark.parametrize(
    ("before", "after", "reason"),
    [
        (
            {"approval": ApprovalPolicy(strict=True)},
            {"approval": ApprovalPolicy(strict=True), "description": "Pay twice."},
            "The tool's description changed",
        ),
        ({"approval": True}, {"approval": True, "version": "2"}, "version was not"),
        ({}, {"approval": True}, "accepted without an approval"),
        ({}, {"approval": divide_by_zero}, "The approval policy raised"),
    ],
)
def test_repeat_by_other_code_is_asked_about(
    shop: Shop,
    environment: RunEnvironment,
    before: dict[str, Any],
    after: dict[str, Any],
    reason: str,
) -> None:
    interrupt(shop, approve=bool(before), **before)

    wait = single_wait(resume(shop, 60, **after))

    assert ("unknown", True) == (wait.kind, reason in str(wait.note))
    assert ["pay 5 c3"] == effects(environment)


def test_unknown_outcome_whose_tool_changed_is_not_repeated_by_an_old_yes(
    shop: Shop, environment: RunEnvironment
) -> None:
    """The new contract never runs under the question about the old call."""
    interrupt(shop, approve=True, **HOUR)
    wait = single_wait(resume(shop, MONTH, **HOUR))
    changed = {"approval": True, "version": "2"}

    shop.runner().decide(wait.id, Approve())
    again = single_wait(resume(shop, 0, **changed))
    assert ("unknown", True) == (
        again.kind,
        "Deny it, or answer it." in str(again.note),
    )

    shop.runner().decide(again.id, Answer("it was paid"))
    assert isinstance(resume(shop, 0, **changed), Finished)
    assert ["pay 5 c3"] == effects(environment)


def test_verify_does_not_run_a_call_that_needs_an_approval_now(
    shop: Shop, environment: RunEnvironment
) -> None:
    """Earlier code began the call without one, and its worker died."""

    def pay_tool(**options: Any) -> Any:
        return tool(make_pay_tool().function, verify=Approve, **options)

    dies = faults.on("create", faults.crashed("before"), prefix="runs/", skip=2)
    boss = make_boss(SCRIPT, pay_tool())
    with pytest.raises(faults.Crash):
        shop.machine(agents=boss, store=faults.FaultyStore(shop.store, dies)).start(
            "go", run_id="r1"
        )
    shop.clock.seconds = 31

    wait = single_wait(shop.runner(pay_tool(approval=True)).resume("r1"))

    assert ("unknown", "pay") == (wait.kind, wait.tool)
    assert ["pay 5 kim"] == effects(environment)
    ended = shop.runner(pay_tool()).resume("r1")
    assert wait.id == single_wait(ended).id
