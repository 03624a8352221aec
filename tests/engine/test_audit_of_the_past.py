"""The audit tells who rewound or forked a run, when, and from which version."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from continuations import Answer, Identity, Runner
from continuations.core.rows.decisions import Door
from continuations.engine.ports import SystemClock
from continuations.ledger import layout
from tests.clocks import ManualClock
from tests.engine.past_agents import RUN_ID, only_wait, version_with
from tests.engine.test_rewind import asking_run

pytestmark = pytest.mark.usefixtures("environment")


def test_rewind_is_a_line_with_its_person() -> None:
    runner = asking_run()
    version = version_with(runner, "pay", "waiting")
    question = only_wait(runner)

    rewound = runner.rewind(
        RUN_ID, version, by=Identity("lee", ["ops"]), door=Door("console", "proxy")
    )

    lines = Runner([], store=runner.store).audit(RUN_ID)
    (line,) = [each for each in lines if each.verdict == "rewind"]
    assert ("run", "lee", "console", "proxy", f"to version {version}") == (
        line.kind,
        line.by,
        line.door,
        line.authentication,
        line.reason,
    )
    (stored,) = [v for v in runner.history(RUN_ID) if v.number == rewound.version]
    assert stored.at == line.at
    (closed,) = [each for each in lines if each.wait == question.id]
    assert ("cancel", "lee", "console") == (closed.verdict, closed.by, closed.door)


@pytest.mark.parametrize("clock", [SystemClock(), ManualClock()], ids=["", "stopped"])
def test_each_rewind_is_a_line_of_its_own(clock: Any) -> None:
    """The time of two rewinds may be the same."""
    runner = asking_run(clock=clock)
    version = version_with(runner, "pay", "waiting")
    for person in ("kim", "lee"):
        runner.rewind(RUN_ID, version, by=person)

    found = [each for each in runner.audit(RUN_ID) if each.verdict == "rewind"]

    assert [("kim", "python"), ("lee", "python")] == [
        (each.by, each.door) for each in found
    ]


def test_rewind_that_ended_no_open_wait_has_no_name() -> None:
    """A decision that was recorded before keeps its own person."""
    runner = asking_run()
    version = version_with(runner, "pay", "waiting")
    runner.decide(only_wait(runner).id, Answer("red", by="kim"))
    runner.rewind(RUN_ID, version, by="lee")

    (line,) = [each for each in runner.audit(RUN_ID) if each.verdict == "rewind"]

    assert (None, f"to version {version}") == (line.by, line.reason)


def test_fork_tells_of_its_source() -> None:
    runner = asking_run()
    runner.fork(RUN_ID, 2, run_id="fork", by="lee")

    (line,) = runner.audit("fork")

    assert ("run", "fork", "lee", f"version 2 of run {RUN_ID}") == (
        line.kind,
        line.verdict,
        line.by,
        line.reason,
    )
    assert runner.look("fork").run_state.run.created_at == line.at
    assert [] == runner.audit("fork", past=False)


def test_audit_of_a_run_with_a_damaged_version_has_its_other_lines() -> None:
    runner = asking_run()
    version = version_with(runner, "pay", "waiting")
    runner.rewind(RUN_ID, version, by="lee")

    asyncio.run(runner.store.delete(layout.version_key(RUN_ID, 2)))

    assert "rewind" in {each.verdict for each in runner.audit(RUN_ID)}
