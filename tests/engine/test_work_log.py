"""The log of a worker: one line for each run that it moved."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from continuations import Agent, Approve, Runner, Suspended
from continuations.errors import ModelError
from continuations_storage import MemoryStore, Store
from tests import scripts
from tests.clocks import ManualClock
from tests.engine.agent_builders import make_boss
from tests.engine.payment_agent import ONE_PAY_SCRIPT, pay
from tests.outcomes import expect

FIELDS = ("run_id", "version_from", "version_to", "outcome", "seconds")


@pytest.fixture
def lines(caplog: pytest.LogCaptureFixture) -> pytest.LogCaptureFixture:
    """Capture the log at INFO."""
    caplog.set_level(logging.INFO, logger="continuations")
    return caplog


def moved(lines: pytest.LogCaptureFixture) -> list[tuple[Any, ...]]:
    """Return the fields of the lines about runs, and forget them."""
    found = [
        tuple(getattr(record, name) for name in FIELDS)
        for record in lines.records
        if hasattr(record, "version_from")
    ]
    lines.clear()
    return found


def test_worker_logs_one_line_for_each_run_that_it_moved(
    lines: pytest.LogCaptureFixture, clock: ManualClock
) -> None:
    """The line names run, versions, outcome and duration."""
    runner = Runner(make_boss(ONE_PAY_SCRIPT, pay), store=MemoryStore(), clock=clock)

    outcome = expect(runner.start("go", run_id="r1"), Suspended)
    assert [("r1", 0, 2, "suspended", 0.0)] == moved(lines)
    runner.resume("r1")  # moves nothing
    runner.sweep()
    assert [] == moved(lines)

    runner.decide(outcome.waits[0].id, Approve())
    clock.seconds += 120
    runner.sweep()

    assert [("r1", 2, 5, "finished", 0.0)] == moved(lines)


def test_line_has_no_texts_of_the_run(lines: pytest.LogCaptureFixture) -> None:
    """Neither the input nor arguments nor replies are in the log."""
    Runner(make_boss({"secret": ["hidden"]}), store=MemoryStore()).start(
        "secret", run_id="r1"
    )

    [record] = [each for each in lines.records if hasattr(each, "version_from")]
    assert "run r1: finished after " in record.getMessage()
    assert not {"secret", "hidden"} & set(record.getMessage().split())


def test_line_names_the_error_that_ended_the_work(
    lines: pytest.LogCaptureFixture,
) -> None:
    """Also a worker that could not finish has moved its run."""
    store: Store = MemoryStore()
    model = scripts.scripted_model({"go": [ModelError("down")]})

    with pytest.raises(ModelError):
        Runner(Agent("boss", model=model), store=store).start("go", run_id="r1")

    [(run_id, first, last, outcome, _)] = moved(lines)
    assert ("r1", 0, 2, "ModelError") == (run_id, first, last, outcome)
