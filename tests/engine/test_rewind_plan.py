"""`plan_rewind` tells what a rewind would do, and a rewind can depend on it."""

from __future__ import annotations

import asyncio

import pytest

from continuations import Answer, Runner, StaleRun, Suspended
from continuations.ledger.objects import Objects
from tests.engine.past_agents import RUN_ID, only_wait, version_with
from tests.engine.test_rewind import asking_run

pytestmark = pytest.mark.usefixtures("environment")


def objects_of(runner: Runner) -> list[str]:
    """Return the keys of the runner's store."""

    async def read() -> list[str]:
        return sorted([key async for key in Objects(runner.store).all_keys("")])

    return asyncio.run(read())


def test_plan_tells_what_the_rewind_does_and_writes_nothing() -> None:
    runner = asking_run()
    runner.send(RUN_ID, "Hurry", by="kim")
    assert isinstance(runner.resume(RUN_ID), Suspended)
    version = version_with(runner, "pay", "waiting")
    before = objects_of(runner)

    plan = runner.plan_rewind(RUN_ID, version)

    assert before == objects_of(runner)
    assert [only_wait(runner).id] == [wait.id for wait in plan.waits]
    assert ["pay", "mail", "choose"] == [each.tool for each in plan.calls]
    assert plan.refusal is None
    rewound = runner.rewind(RUN_ID, version, shown=plan.digest)
    assert (plan.calls, plan.messages) == (rewound.calls, rewound.messages)
    # The plan of the version that was rewound tells of it afterwards.
    assert plan == runner.plan_rewind(RUN_ID, version, newest=plan.newest)


def test_run_that_moved_on_since_the_plan_is_not_rewound() -> None:
    runner = asking_run()
    version = version_with(runner, "pay", "waiting")
    plan = runner.plan_rewind(RUN_ID, version)
    runner.pause(RUN_ID, by="lee")
    before = objects_of(runner)

    with pytest.raises(StaleRun, match="moved on since the plan"):
        runner.rewind(RUN_ID, version, shown=plan.digest)

    assert before == objects_of(runner)
    runner.rewind(RUN_ID, version, shown=runner.plan_rewind(RUN_ID, version).digest)


def test_plan_says_why_a_rewind_is_refused() -> None:
    runner = asking_run()
    newest = runner.look(RUN_ID).version
    assert "newest one" in (runner.plan_rewind(RUN_ID, newest).refusal or "")
    runner.decide(only_wait(runner).id, Answer("red", by="kim"))
    runner.resume(RUN_ID)
    assert "Fork it" in (runner.plan_rewind(RUN_ID, 2).refusal or "")
