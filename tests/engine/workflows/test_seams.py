"""Workflows meet the other features: the past, operators, readers and people."""

from __future__ import annotations

import asyncio
import logging
from datetime import timedelta
from typing import Any

import pytest

from continuations import (
    Agent,
    Answer,
    Approve,
    Budget,
    Deny,
    Failed,
    Finished,
    Flow,
    Runner,
    Suspended,
    ask,
    sleep,
    tool,
    workflow,
)
from continuations.errors import InvalidInput, RunNotFound
from continuations.events import CallEnded, WaitOpened
from continuations.models.scripted import ScriptedModel, ToolCall
from continuations_storage import MemoryStore
from tests import effect_log
from tests.clocks import ManualClock
from tests.crash_points import every_crash
from tests.engine.agent_builders import text_tool
from tests.engine.test_erasing_runs import assert_only_tombstone
from tests.engine.workflows.flow_tools import (
    RUN,
    add,
    clerk,
    make_runner,
    pay,
    the_wait,
)
from tests.outcomes import expect


@workflow(tools=[add, pay])
async def purchase(flow: Flow, cents: int) -> str:
    """Add, ask, pay and wait."""
    total = await flow.call(add, cents, 1)
    name = await ask("Who?")
    async with asyncio.timeout(3600):
        receipt = await flow.call(pay, total)
    await sleep(timedelta(minutes=1))
    return f"{name}: {receipt}"


@workflow
async def rest(flow: Flow) -> str:
    """Wait for two minutes."""
    began = flow.now()
    for _ in range(2):
        await sleep(timedelta(minutes=1))
    return f"rested {flow.now() - began}"


def at_the_approval(**options: Any) -> tuple[Runner, ManualClock]:
    """Return a runner of a run that waits for an approval."""
    clock = ManualClock()
    runner = make_runner(purchase, clock=clock, **options)
    waiting = runner.start(purchase.bind(2), run_id=RUN, by="bob")
    runner.decide(the_wait(waiting, "question"), Answer("kim"))
    runner.resume(RUN)
    return runner, clock


def finish(runner: Runner, clock: ManualClock, run_id: str) -> Any:
    """Approve and wait until a run ends."""
    for _ in range(10):
        outcome = runner.resume(run_id)
        if not isinstance(outcome, Suspended):
            return outcome
        for wait in outcome.waits:
            if wait.kind == "question":
                runner.decide(wait.id, Answer("zoe"))
            elif wait.kind == "approval":
                runner.decide(wait.id, Approve(by="kim"))
            elif wait.kind == "unknown":
                runner.decide(wait.id, Answer(3))
            elif len(outcome.waits) == 1:
                clock.seconds += 61
    pytest.fail("the run does not end")


# The past ----------------------------------------------------------------------------


def test_forks_start_at_any_version() -> None:
    runner, clock = at_the_approval()
    versions = [each.number for each in runner.history(RUN)]

    ends: list[str] = []
    for number in versions:
        fork = runner.fork(RUN, version=number, run_id=f"fork-{number}")
        ends.append(finish(runner, clock, fork).result())

    # A fork from before the first call adds again, with the seed and the start kept.
    assert {"zoe: paid 3", "kim: paid 3"} == {*ends}
    assert len(versions) == effect_log.names().count("pay 3")


def test_fork_takes_results_and_decisions_and_no_messages() -> None:
    runner, clock = at_the_approval()
    state = runner.look(RUN)
    (newest,) = [each.number for each in runner.history(RUN)][-1:]
    wait_id = next(wait.id for wait in state.waits if wait.kind == "approval")
    call_id = runner.wait(wait_id).call_id

    by_result = runner.fork(
        RUN, version=newest, run_id="f1", results={call_id: "given"}
    )
    with pytest.raises(InvalidInput, match="they are its history"):
        runner.fork(RUN, version=newest, run_id="f2", messages={"f1": "hello"})

    assert "kim: given" == finish(runner, clock, by_result).result()
    assert ["add 2+1"] == effect_log.names()

    decisions = {wait_id: Approve(by="kim")}
    by_decision = runner.fork(RUN, version=newest, run_id="f3", decisions=decisions)

    runner.resume(by_decision)
    assert ["add 2+1", "pay 3"] == effect_log.names()
    assert "kim: paid 3" == finish(runner, clock, by_decision).result()


def test_rewind_goes_on_from_an_earlier_step() -> None:
    runner, clock = at_the_approval()
    runner.rewind(RUN, version=2)

    assert "zoe: paid 3" == finish(runner, clock, RUN).result()
    assert ["add 2+1", "pay 3"] == effect_log.names()


def test_adopted_bytes_go_on_in_another_store() -> None:
    runner, clock = at_the_approval()
    data = runner.look(RUN).to_bytes()
    other = make_runner(purchase, clock=clock)

    other.adopt(data, run_id="adopted")

    assert "kim: paid 3" == finish(other, clock, "adopted").result()
    assert ["add 2+1", "pay 3"] == effect_log.names()


# Operators ---------------------------------------------------------------------------


@pytest.mark.parametrize("how", ["fork", "rewind", "adopt"])
def test_timer_wakes_a_run_that_came_from_the_past(how: str) -> None:
    """A sweep alone goes on with it: it needs no resume before its time."""
    clock = ManualClock()
    runner = make_runner(rest, clock=clock)
    runner.start(rest.bind(), run_id=RUN)
    version = runner.look(RUN).version
    run_id = RUN
    if how == "fork":
        run_id = runner.fork(RUN, run_id="forked")
    elif how == "adopt":
        data = runner.look(RUN).to_bytes()
        runner = make_runner(rest, clock=clock)
        run_id = runner.adopt(data, run_id="adopted").run_id
    else:
        clock.seconds += 61
        runner.resume(RUN)
        runner.rewind(RUN, version=version)
    assert ["alarm"] == [wait.kind for wait in runner.look(run_id).waits]

    for _ in range(2):
        clock.seconds += 61
        runner.sweep()

    assert "finished" == runner.look(run_id).run_state.run.status


def test_paused_workflow_begins_nothing() -> None:
    runner, clock = at_the_approval()
    runner.pause(RUN, reason="audit")
    runner.decide(the_wait(runner.resume(RUN)), Approve(by="kim"))

    assert isinstance(runner.resume(RUN), Suspended)
    assert ["add 2+1"] == effect_log.names()
    runner.unpause(RUN)
    assert "kim: paid 3" == finish(runner, clock, RUN).result()


@pytest.mark.parametrize(
    ("questions", "effects"), [(0, []), (1, ["add 2+1"]), (2, ["add 2+1"])]
)
def test_worker_that_must_stop_leaves_the_step_to_another(
    questions: int,
    effects: list[str],
) -> None:
    """It stops before the step that asks; the step is made once."""
    stops = iter([False] * questions)
    runner = make_runner(purchase)

    paused = runner.start(
        purchase.bind(2), run_id=RUN, should_pause=lambda: next(stops, True)
    )

    assert isinstance(paused, Suspended)
    assert () == paused.waits
    assert effects == effect_log.names()
    the_wait(runner.resume(RUN), "question")
    assert ["add 2+1"] == effect_log.names()


def test_cancelled_run_keeps_its_history() -> None:
    runner, _ = at_the_approval()
    before = runner.look(RUN).root.messages
    runner.cancel(RUN, reason="too late")

    ended = expect(runner.resume(RUN), Failed)

    assert "cancelled" == ended.error.code
    *kept, last = runner.look(RUN).root.messages
    assert [*before] == kept
    assert "too late" in last["content"]
    assert ["add 2+1"] == effect_log.names()


def test_operator_cancels_a_workflow_below_an_agent() -> None:
    model = ScriptedModel([ToolCall("purchase", {"cents": 1}), "done"])
    boss = Agent("boss", model=model, tools=[purchase])
    runner = make_runner(boss)
    runner.start("go", run_id=RUN)

    runner.cancel(RUN, call="boss/purchase")

    assert "done" == runner.resume(RUN).result()
    assert ["add 1+1"] == effect_log.names()
    assert [] == list(runner.waiting())


def test_erased_run_leaves_nothing_but_its_tombstone(store: MemoryStore) -> None:
    runner, clock = at_the_approval(store=store)

    runner.cancel(RUN)
    runner.resume(RUN)
    runner.erase(RUN)
    for _ in range(3):
        clock.seconds += 86_401
        assert {} == runner.sweep().errors

    assert_only_tombstone(store)


def test_budget_counts_the_models_below(caplog: pytest.LogCaptureFixture) -> None:
    helper = clerk()

    @workflow(agents=[helper])
    async def asks(flow: Flow) -> None:
        while True:
            await flow.call(helper, "go")

    with caplog.at_level(logging.CRITICAL):
        ended = make_runner(asks).start(
            asks.bind(), run_id=RUN, budget=Budget(requests=2)
        )

    assert isinstance(ended, Failed)
    assert "budget" == ended.error.code


# People ------------------------------------------------------------------------------


@tool(approval=True, summary="Pay {cents} cents")
def charge(cents: int) -> str:
    """Charge."""
    return f"charged {cents}"


def test_approver_sees_the_results_before() -> None:
    @workflow(tools=[add, charge])
    async def charges(flow: Flow) -> str:
        sums = await asyncio.gather(
            flow.call(add, 1, 1), flow.call(add, 2, 2), flow.call(add, 3, 3)
        )
        return await flow.call(charge, sum(sums))

    runner = make_runner(charges)
    wait = runner.wait(the_wait(runner.start(charges.bind(), run_id=RUN)))

    assert "Pay 12 cents" == wait.title
    assert [("add", "2"), ("add", "4"), ("add", "6")] == sorted(
        (found.source, found.text) for found in wait.evidence
    )
    assert 3 == len(effect_log.effects())


def test_edited_arguments_run() -> None:
    @workflow(tools=[pay])
    async def pays(flow: Flow) -> str:
        return await flow.call(pay, 5)

    runner = make_runner(pays)
    waiting = runner.start(pays.bind(), run_id=RUN)
    runner.decide(the_wait(waiting), Approve(by="kim", arguments={"cents": 7}))

    assert "paid 7" == runner.resume(RUN).result()
    assert ["pay 7"] == effect_log.names()


# Crashes -----------------------------------------------------------------------------


ship = text_tool("ship", "shipped", {"box": str}, logs=True)


@pytest.mark.parametrize("denies", [False, True])
def test_unknown_outcome_is_settled_by_a_person(denies: bool) -> None:
    """A person who knows whether the box is gone, or one who gives it up."""

    @workflow(tools=[ship])
    async def ships(flow: Flow) -> str:
        try:
            return await flow.call(ship, "a")
        except Exception as error:  # noqa: BLE001 - the name is the result
            return type(error).__name__

    unknown = 0
    for point in every_crash("before", more_than=3):
        effect_log.clear()
        store, clock = MemoryStore(), ManualClock()
        with point.process(store) as dying:
            make_runner(ships, store=dying, clock=clock).start(ships.bind(), run_id=RUN)
        clock.seconds = 3600
        runner = make_runner(ships, store=store, clock=clock)
        shipped = effect_log.names()
        try:
            outcome = runner.resume(RUN)
        except RunNotFound:
            assert [] == shipped
            continue
        if isinstance(outcome, Suspended):
            unknown += 1
            truth = Answer("shipped") if shipped else Approve(by="kim")
            verdict = Deny(by="kim") if denies else truth
            runner.decide(the_wait(outcome, "unknown"), verdict)
            if denies:
                assert "CallDenied" == runner.resume(RUN).result()
                assert shipped == effect_log.names()
                continue
            outcome = runner.resume(RUN)
        assert "shipped" == outcome.result()
        assert ["ship a"] == effect_log.names(), point

    assert unknown


# Readers -----------------------------------------------------------------------------


def test_events_tell_of_steps_as_they_happen() -> None:
    runner, clock = at_the_approval()
    finish(runner, clock, RUN)

    events = list(runner.events(RUN))

    ended = [event.tool for event in events if isinstance(event, CallEnded)]
    assert ["add", ".ask", "pay"] == ended
    opened = [each.wait.kind for each in events if isinstance(each, WaitOpened)]
    assert ["question", "approval"] == [kind for kind in opened if kind != "alarm"]


def test_waits_name_the_workflow_and_the_audit_names_the_waits() -> None:
    runner, clock = at_the_approval()
    wait_id = the_wait(runner.resume(RUN))
    assert ("purchase", "pay") == runner.wait(wait_id).path
    finish(runner, clock, RUN)

    lines = {(each.kind, each.verdict): each for each in runner.audit(RUN)}
    assert {("question", "answer"), ("approval", "approve")} == {*lines}
    approved = lines["approval", "approve"]
    assert (wait_id, "kim") == (approved.wait, approved.by)


def test_finished_workflow_has_its_result() -> None:
    runner, clock = at_the_approval()

    assert isinstance(finish(runner, clock, RUN), Finished)

    assert "kim: paid 3" == runner.look(RUN).output
