"""AgentHarness: a run in a test, its decisions, its time and its restarts."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest

from continuations import Agent, Failed, ToolContext, tool, wait_for
from continuations.errors import InvalidInput, ModelError, WaitExpired
from continuations.models.scripted import LaterReply, ScriptedModel, ToolCall
from continuations.testing import AgentHarness, Effects, FrozenClock, NumberedIds
from continuations.tools import ToolWait
from tests.testing.sample_agents import (
    make_asker,
    make_boss,
    make_clerk,
    make_sleeper,
)


def test_approved_call_runs_once_in_a_nested_agent() -> None:
    effects = Effects()
    harness = AgentHarness(lambda: make_boss(effects))
    outcome = harness.run_to_pause("Pay Jane")

    assert ("boss", "clerk", "pay") == outcome.waits[0].path
    effects.assert_none("pay")
    harness.approve("pay")
    harness.restart()

    assert "Done." == harness.run_to_end().output
    assert "Done." == harness.run_to_end().output
    effects.assert_once("pay", person="Jane", cents=500)


def test_restart_makes_new_agents() -> None:
    made: list[Agent[str]] = []

    def make() -> Agent[str]:
        made.append(make_clerk(Effects()))
        return made[-1]

    harness = AgentHarness(make)
    harness.restart()

    assert 2 == len(made)


def test_denied_call_does_not_run_and_the_model_reads_the_reason() -> None:
    effects = Effects()
    harness = AgentHarness(make_clerk(effects))
    harness.run_to_pause("Pay Jane")
    harness.deny("pay", reason="no budget")
    harness.run_to_end()

    effects.assert_none("pay")
    harness.transcript().assert_result("pay", "no budget")


def test_edited_arguments_run() -> None:
    effects = Effects()
    harness = AgentHarness(make_clerk(effects))
    harness.run_to_pause("Pay Jane")
    harness.approve(arguments={"person": "Jane", "cents": 1})
    harness.run_to_end()

    effects.assert_once("pay", cents=1)


def test_every_kind_is_decided_by_tool_or_kind() -> None:
    harness = AgentHarness(make_asker())
    harness.run_to_pause("Go")
    harness.assert_waits("scan", "colour", "receipt")
    harness.answer("blue", kind="question")
    harness.answer({"cents": 5}, "receipt")
    harness.fail("paper jam", kind="external")
    harness.run_to_end()

    harness.assert_waits()
    transcript = harness.transcript()
    transcript.assert_result("colour", "blue")
    transcript.assert_result("receipt", '"cents":5')
    transcript.assert_result("scan", "paper jam")


def test_three_days_fire_three_timers_of_a_day() -> None:
    harness = AgentHarness(make_sleeper())
    harness.run_to_pause("Sleep")
    began = harness.clock.now()
    harness.advance(days=2, hours=23)
    harness.assert_waits("nap")
    harness.advance(hours=1)

    assert "Up." == harness.run_to_end().output
    assert 3 == len(harness.transcript().calls("nap"))
    assert timedelta(days=3, milliseconds=3) == harness.clock.now() - began


def test_deadline_takes_effect_when_the_time_has_come() -> None:
    harness = AgentHarness(make_asker())
    harness.run_to_pause("Go")
    harness.advance(days=1, hours=23)
    harness.assert_waits("colour", "receipt", "scan")
    harness.advance(hours=1)

    harness.assert_waits("receipt", "scan")


def test_clock_alone_moves_no_run() -> None:
    harness = AgentHarness(make_asker())
    harness.run_to_pause("Go")
    harness.clock.advance(days=3)

    with pytest.raises(WaitExpired):
        harness.answer("blue", "colour")
    harness.assert_waits("colour", "receipt", "scan")
    harness.sweep()
    harness.assert_waits("receipt", "scan")


def test_clock_does_not_go_back() -> None:
    harness = AgentHarness(make_clerk(Effects()))

    with pytest.raises(InvalidInput, match="negative"):
        harness.advance(days=-1)
    with pytest.raises(InvalidInput, match="negative"):
        harness.clock.advance(hours=1, minutes=-61)


def test_two_runs_of_a_test_have_the_same_ids() -> None:
    def ids() -> tuple[str, str]:
        harness = AgentHarness(make_clerk(Effects()))
        wait = harness.run_to_pause("Pay Jane").waits[0]
        return wait.id, harness.approve().id

    assert ids() == ids()


def test_numbered_ids_differ_and_tell_their_time() -> None:
    clock, ids = FrozenClock(), NumberedIds()
    made = [ids.new_ulid(clock.now()) for _ in range(40)]

    assert sorted(set(made)) == made
    assert all(len(each) == 26 for each in made)


def test_error_of_a_model_is_raised_at_once() -> None:
    error = ModelError("the model refuses the key.")
    harness = AgentHarness(Agent("a", model=ScriptedModel([error])))

    with pytest.raises(ModelError):
        harness.start("Go")


def test_model_that_is_down_is_asked_again_when_the_time_comes() -> None:
    error = ModelError("the model is down.", retryable=True)
    failures: Iterator[Any] = iter([error, "Done."])
    harness = AgentHarness(Agent("a", model=ScriptedModel(lambda _: next(failures))))

    paused = harness.run_to_pause("Go")
    assert "Attempt 1 failed: the model is down." == paused.waits[0].note
    harness.advance(minutes=2)

    assert "Done." == harness.run_to_end().output


def test_later_reply_is_polled_when_the_time_comes() -> None:
    model = ScriptedModel([LaterReply("Done.", polls=3)])
    harness = AgentHarness(Agent("a", model=model))
    harness.run_to_pause("Go")

    harness.advance(minutes=10)

    assert "Done." == harness.run_to_end().output
    assert (1, 3) == (len(model.requests), len(model.polls))


def test_sweep_raises_the_error_of_a_run() -> None:
    model = ScriptedModel([ToolCall("pay", {"person": "Jane", "cents": 500})])
    clerk = make_clerk(Effects())
    clerk.model = model
    harness = AgentHarness(clerk)
    harness.run_to_pause("Pay Jane")
    harness.approve()

    with pytest.raises(ModelError, match="script"):
        harness.sweep()


def test_failed_run_is_expected_or_named() -> None:
    def loop() -> str:
        """Loop."""
        return "again"

    model = ScriptedModel(lambda _: ToolCall("loop"))
    harness = AgentHarness(Agent("a", tools=[loop], model=model, max_turns=2))

    assert isinstance(harness.run_to_failure("Go"), Failed)
    with pytest.raises(AssertionError, match=r"Run run-1 failed: .*\n.*has finished"):
        harness.run_to_end()


def test_failure_names_the_open_waits() -> None:
    harness = AgentHarness(make_asker())

    with pytest.raises(AssertionError) as raised:
        harness.run_to_end("Go")
    assert "Run run-1 is suspended and has these open waits:" in str(raised.value)
    assert "question of colour(), 'Which colour?', until 2026-01-07" in str(
        raised.value
    )
    assert "event of receipt(trip='Rome'), event 'receipt', key 'Rome'" in str(
        raised.value
    )


def test_failure_names_the_output() -> None:
    harness = AgentHarness(Agent("a", model=ScriptedModel(["Bye."])))

    with pytest.raises(AssertionError, match="finished with output 'Bye"):
        harness.run_to_pause("Go")
    with pytest.raises(AssertionError, match="expected that it has failed"):
        harness.run_to_failure()


@pytest.mark.parametrize(
    ("tool", "kind", "text"),
    [
        ("pay", None, "0 open waits fit, expected one wait of pay"),
        (None, "timer", "0 open waits fit, expected one wait of kind timer"),
        (None, None, "3 open waits fit, expected one wait. Pass tool= or kind="),
        ("scan", "event", "expected one wait of kind event of scan"),
    ],
)
def test_unclear_wait_names_the_open_ones(
    tool: str | None, kind: str | None, text: str
) -> None:
    harness = AgentHarness(make_asker())
    harness.run_to_pause("Go")

    with pytest.raises(AssertionError) as raised:
        harness.approve(tool, kind=kind)
    assert text in str(raised.value)
    assert "external of scan(), 'scan'" in str(raised.value)


def test_other_waits_are_named() -> None:
    harness = AgentHarness(make_clerk(Effects()))
    harness.run_to_pause("Pay Jane")

    with pytest.raises(AssertionError) as raised:
        harness.assert_waits("refund")
    assert "expected: refund" in str(raised.value)
    assert "approval of pay(cents=500, person='Jane')" in str(raised.value)


def test_harness_without_a_run_says_so() -> None:
    with pytest.raises(AssertionError, match="has no run"):
        AgentHarness(make_clerk(Effects())).approve()


def test_context_reaches_the_tools() -> None:
    seen: list[object] = []

    def look(ctx: ToolContext) -> str:
        """Look."""
        seen.append(ctx.context)
        return "seen"

    model = ScriptedModel([ToolCall("look"), "Ok."])
    context = object()
    AgentHarness(Agent("a", tools=[look], model=model), context=context).run_to_end(
        "Go"
    )

    assert [context] == seen


def test_a_published_event_continues_the_run() -> None:
    @tool
    def delivery(order: str) -> ToolWait[str]:
        """Wait until an order is delivered."""
        return wait_for("delivered", str, key=order)

    model = ScriptedModel([ToolCall("delivery", {"order": "A-17"}), "Thanks."])
    harness = AgentHarness(Agent("clerk", tools=[delivery], model=model))
    harness.run_to_pause("Follow A-17")

    assert () == harness.publish("delivered", "never", key="B-1").run_ids
    assert ("run-1",) == harness.publish("delivered", "today", key="A-17").run_ids
    assert "Thanks." == harness.run_to_end().output
