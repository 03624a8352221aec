"""AgentHarness and crashes with a workflow: its steps, its time and its restarts."""

from __future__ import annotations

from datetime import timedelta

from continuations import Agent, Flow, ToolContext, ask, sleep, tool, workflow
from continuations.errors import CallDenied
from continuations.models.scripted import ScriptedModel
from continuations.testing import AgentHarness, CrashPoint, Effects, every_crash

BOUGHT = "laptop in blue, receipt 500, Enjoy!"


@tool
def reserve(ctx: ToolContext, item: str) -> int:
    """Reserve an item; return its price in cents."""
    ctx.context.record("reserve", item=item)
    return 500


@tool(approval=True)
def pay(ctx: ToolContext, cents: int) -> str:
    """Pay an amount."""
    ctx.context.record("pay", cents=cents)
    return f"receipt {cents}"


@tool(idempotent=True)
def note(ctx: ToolContext, text: str) -> str:
    """Note a text."""
    ctx.context.record("note", text=text)
    return text


writer: Agent[str] = Agent("writer", model=ScriptedModel(["Enjoy!"]))


@workflow(tools=[reserve, pay], agents=[writer])
async def order(flow: Flow, item: str) -> str:
    """Order an item, and write a mail a week later."""
    price = await flow.call(reserve, item)
    color = await ask("Which color?")
    try:
        receipt = await flow.call(pay, price)
    except CallDenied as denied:
        return f"no {item}: {denied.text}"
    await sleep(timedelta(days=7))
    return f"{item} in {color}, {receipt}, {await flow.call(writer, 'Write.')}"


def make_order() -> Agent[str]:
    """Return the workflow, as a function for the harness."""
    return order


@workflow(tools=[reserve, note])
async def two_steps(flow: Flow, item: str) -> str:
    """Reserve an item, then note its price."""
    price = await flow.call(reserve, item)
    return await flow.call(note, f"{item}: {price}")


def test_crash_between_two_steps_repeats_no_finished_step() -> None:
    """Only a call that had begun is decided by a person, or idempotent."""
    endings: set[str] = set()
    for crash in every_crash():
        effects = Effects()
        harness = AgentHarness(two_steps, context=effects)
        with crash.during(harness):
            harness.start(two_steps.bind("lamp"))
        harness.recover()
        again = harness.start(two_steps.bind("lamp"))
        if harness.waits:
            happened = len(effects.of("reserve"))
            harness.wait("reserve", kind="unknown")
            harness.answer(500) if happened else harness.approve()
            endings.add(f"unknown after {happened}")
            again = harness.resume()

        assert "lamp: 500" == again.result()
        effects.assert_once("reserve", item="lamp")
        endings.add(f"noted {len(effects.of('note'))} times")
    assert {
        "unknown after 0",
        "unknown after 1",
        "noted 1 times",
        "noted 2 times",
    } == endings


def test_crash_anywhere_after_an_approval_pays_once() -> None:
    unknown: set[int] = set()
    for crash in every_crash(both_moments=False):
        effects = Effects()
        harness = AgentHarness(order, context=effects)
        harness.run_to_pause(order.bind("laptop"))
        harness.answer("blue")
        harness.run_to_pause()
        with crash.during(harness):
            harness.approve("pay")
            harness.run_to_pause()
            harness.advance(days=7)
        harness.recover()
        for wait in harness.waits:
            happened = len(effects.of("pay"))
            if wait.kind == "unknown":
                unknown.add(happened)
            if wait.kind != "alarm":
                harness.answer("receipt 500") if happened else harness.approve()
        harness.sweep()
        harness.advance(days=7)

        assert BOUGHT == harness.run_to_end().output, crash
        effects.assert_once("reserve", item="laptop")
        effects.assert_once("pay", cents=500)
    assert {0, 1} == unknown


def test_sleep_ends_when_the_clock_is_moved_over_it() -> None:
    harness = AgentHarness(order, context=Effects())
    harness.run_to_pause(order.bind("laptop"))
    harness.answer("blue")
    harness.run_to_pause()
    harness.approve("pay")
    harness.run_to_pause()
    harness.advance(days=6, hours=23)
    assert "alarm" == harness.run_to_pause().waits[0].kind
    harness.advance(hours=1)

    assert BOUGHT == harness.runner.look(harness.run_id).output


def test_denial_reaches_the_code_of_the_workflow() -> None:
    effects = Effects()
    harness = AgentHarness(order, context=effects)
    harness.run_to_pause(order.bind("laptop"))
    harness.answer("blue", kind="question")
    harness.run_to_pause()
    harness.deny("pay", reason="no budget")

    assert "no budget" in harness.run_to_end().result()
    effects.assert_none("pay")


def test_restart_before_each_step_replays_the_steps_before() -> None:
    effects = Effects()
    harness = AgentHarness(make_order, context=effects)
    harness.run_to_pause(order.bind("laptop"))
    harness.restart()
    harness.answer("blue")
    harness.restart()
    harness.run_to_pause()
    harness.restart()
    harness.approve("pay")
    harness.restart()
    harness.run_to_pause()
    harness.restart()
    harness.advance(days=7)

    assert BOUGHT == harness.run_to_end().output
    effects.assert_once("reserve", item="laptop")
    effects.assert_once("pay", cents=500)


def test_process_that_dies_in_a_call_leaves_one_unknown_outcome() -> None:
    effects = Effects()
    harness = AgentHarness(order, context=effects)
    point = CrashPoint(3, "after")
    with point.during(harness):
        harness.start(order.bind("laptop"))
    harness.recover()

    assert point.happened is True
    assert ("unknown", "reserve") == (harness.wait().kind, harness.wait().tool)
    harness.approve()
    assert "Which color?" == harness.run_to_pause().waits[0].question
    effects.assert_once("reserve", item="laptop")
