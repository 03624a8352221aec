"""Handoffs survive crashes, and go on in fresh processes."""

from __future__ import annotations

from typing import Any

import pytest

from continuations import Answer, Approve, Runner, Suspended
from continuations.errors import RunBusy, RunNotFound
from continuations_storage import MemoryStore
from tests.clocks import ManualClock
from tests.crash_points import every_crash
from tests.engine.handoff_agents import boss
from tests.outcomes import expect
from tests.run_environment import RunEnvironment

APP = "tests.engine.handoff_agents:agents"


@pytest.mark.fresh_interpreters
def test_agent_that_got_the_conversation_goes_on_in_another_process(
    environment: RunEnvironment,
) -> None:
    started = environment.run("start", "r1", "go", app=APP)
    [wait] = started["waits"]
    assert ["boss", "triage", "refunds", "refund"] == wait["path"]
    environment.approve(wait)

    ended = environment.run("resume", "r1", app=APP)

    assert "refunds: refunded 5" == ended["output"]
    assert ["refund 5"] == [each["tool"] for each in environment.effects()]


@pytest.mark.parametrize("moment", ["before", "after"])
def test_crash_at_every_operation_loses_no_handoff(
    moment: Any, environment: RunEnvironment
) -> None:
    for point in every_crash(moment, more_than=5, step=3):
        environment.clear_logs()
        store, clock = MemoryStore(), ManualClock()
        with point.process(store) as dying:
            runner = Runner(boss(), store=dying, clock=clock)
            waiting = expect(runner.start("go", run_id="r1"), Suspended)
            runner.decide(waiting.waits[0].id, Approve(by="kim"))
            runner.resume("r1")
        outcome: Any = None
        for _ in range(8):
            clock.seconds += 120
            runner = Runner(boss(), store=store, clock=clock)
            try:
                outcome = runner.resume("r1")
            except RunBusy:
                continue
            except RunNotFound:
                outcome = runner.start("go", run_id="r1")
            if not isinstance(outcome, Suspended):
                break
            (wait,) = outcome.waits
            assert ("boss", "triage", "refunds", "refund") == wait.path, point
            ran = bool(environment.effects())  # then the outcome is known
            told = Answer("refunded 5", by="kim") if ran else Approve(by="kim")
            runner.decide(wait.id, told)
        assert "refunds: refunded 5" == outcome.result(), point
        assert 1 == len(environment.effects()), point
