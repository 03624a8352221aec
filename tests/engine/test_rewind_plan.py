"""`plan_rewind` tells what a rewind would do, and a rewind can depend on it."""

from __future__ import annotations

import asyncio

import pytest

from continuations import Answer, Approve, Grant, Runner, Suspended
from continuations.errors import InvalidInput, StaleRun
from continuations.ledger.objects import Objects
from continuations.value_class import replace
from tests.engine.past_agents import RUN_ID, SCRIPT, only_wait, version_with
from tests.engine.test_rewind import asking_run, make_runner
from tests.scripts import call

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
    again = runner.plan_rewind(RUN_ID, version, newest=plan.newest)
    assert replace(plan, digest="", decided=()) == replace(again, digest="", decided=())


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


def deciding_run() -> tuple[Runner, int]:
    """Return a runner whose run asks a question, and the version before it."""
    runner = asking_run()
    return runner, version_with(runner, "pay", "waiting")


def test_decision_since_the_plan_makes_it_stale() -> None:
    """The person confirms the end of an open wait, and not that of a decided one."""
    runner, version = deciding_run()
    wait = only_wait(runner)
    plan = runner.plan_rewind(RUN_ID, version)
    assert () == plan.decided
    runner.decide(wait.id, Answer("red", by="lee"))
    before = objects_of(runner)

    with pytest.raises(StaleRun, match="something was decided for it"):
        runner.rewind(RUN_ID, version, shown=plan.digest)

    assert before == objects_of(runner)
    again = runner.plan_rewind(RUN_ID, version)
    assert (wait.id,) == again.decided
    assert version == runner.rewind(RUN_ID, version, shown=again.digest).rewound_to


def test_vote_since_the_plan_makes_it_stale() -> None:
    turns = [[call("wire", what="b")], "clerk done"]
    runner = make_runner({**SCRIPT, "C": turns})
    runner.start("go", run_id=RUN_ID, by="jane")
    wait = only_wait(runner)
    plan = runner.plan_rewind(RUN_ID, 1)
    runner.decide(wait.id, Approve(by="kim"))

    with pytest.raises(StaleRun):
        runner.rewind(RUN_ID, 1, shown=plan.digest)

    again = runner.plan_rewind(RUN_ID, 1)
    assert ["kim"] == [vote.by for vote in again.waits[0].votes]
    runner.rewind(RUN_ID, 1, shown=again.digest)


def test_grant_revoked_since_the_plan_makes_it_stale() -> None:
    turns = [[call("pay", what="a")], [call("choose", what="b")], "clerk done"]
    runner = make_runner({**SCRIPT, "C": turns})
    runner.start("go", run_id=RUN_ID)
    runner.decide(only_wait(runner).id, Approve(by="kim", remember=Grant("pay")))
    runner.resume(RUN_ID)
    plan = runner.plan_rewind(RUN_ID, 2)
    (grant,) = runner.grants(RUN_ID)
    runner.revoke(RUN_ID, grant.id, by="lee")

    with pytest.raises(StaleRun):
        runner.rewind(RUN_ID, 2, shown=plan.digest)


def test_digest_of_a_plan_is_for_its_version_only() -> None:
    runner, version = deciding_run()
    plan = runner.plan_rewind(RUN_ID, version)

    with pytest.raises(StaleRun, match="the plan is for another version"):
        runner.rewind(RUN_ID, version + 1, shown=plan.digest)


@pytest.mark.parametrize("shown", ["", "x", "f" * 64, f"1-{'0' * 32}-{'0' * 32}"])
def test_digest_of_no_version_says_so(shown: str) -> None:
    runner, version = deciding_run()

    with pytest.raises(InvalidInput, match="digest of no version of this run"):
        runner.rewind(RUN_ID, version, shown=shown)


def test_digest_of_a_later_version_says_so() -> None:
    runner, version = deciding_run()
    digest = runner.plan_rewind(RUN_ID, version).digest

    with pytest.raises(InvalidInput, match="digest of no version of this run"):
        runner.rewind(RUN_ID, version, shown="9" + digest)
