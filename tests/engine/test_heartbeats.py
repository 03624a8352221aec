"""Heartbeats: another system says that its job is in progress, and gets more time."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from continuations import (
    Agent,
    Answer,
    Finished,
    Runner,
    ToolContext,
    Wait,
    ask,
    errors,
    external,
    tool,
)
from continuations.models.scripted import ScriptedModel, ToolCall
from continuations.tools import ToolWait
from continuations_storage import MemoryStore, Store
from tests.clocks import ManualClock
from tests.crash_points import every_crash
from tests.engine.agent_builders import root_tool_results
from tests.outcomes import expect, single_wait


class Job:
    """A run whose job has a minute, on a store that tells the right time."""

    def __init__(
        self,
        wait: Callable[[], ToolWait[Any]] = lambda: external("scan", within=60),
    ) -> None:
        self.clock = ManualClock()
        self.store = MemoryStore(self.clock.now)
        self.ids: list[str] = []
        self.before_return: Callable[[str], Any] = lambda _: None

        @tool
        def scan(document: str, ctx: ToolContext) -> ToolWait[Any]:
            """Scan a document."""
            del document
            self.ids.append(ctx.wait_id)
            self.before_return(ctx.wait_id)
            return wait()

        @scan.on_answer
        def scanned(answer: int) -> str:
            return f"{answer} pages"

        model = ScriptedModel([ToolCall("scan", {"document": "a"}), "end"])
        self.agent = Agent("boss", tools=[scan], model=model)

    def runner(self, store: Store | None = None, *, agents: Any = None) -> Runner[Any]:
        return Runner(
            self.agent if agents is None else agents,
            store=self.store if store is None else store,
            clock=self.clock,
        )

    def start(self) -> Wait:
        return single_wait(self.runner().start("go", run_id="r1"))

    def beat(self, extend: float = 60) -> Wait:
        return self.runner(agents=[]).heartbeat(self.ids[0], extend=extend)

    def after(self, wait: Wait, seconds: float) -> bool:
        """Return whether a wait ends this many seconds after it was opened."""
        return wait.deadline == wait.created_at + timedelta(seconds=seconds)

    def slots(self) -> list[str]:
        keys = asyncio.run(self.store.keys("runs/r1/in/"))
        return [key for key in keys if "/in/f-" in key]


def test_heartbeat_moves_the_deadline_and_the_job_may_end_later() -> None:
    job = Job()
    opened = job.start()
    job.clock.seconds += 50

    moved = job.beat()

    assert job.after(moved, 110)
    assert moved.deadline == job.runner(agents=[]).wait(opened.id).deadline
    job.clock.seconds += 50
    assert [] == list(job.runner().sweep().resumed)
    job.runner(agents=[]).decide(opened.id, Answer(7))
    ended = expect(job.runner().resume("r1"), Finished)
    assert ["7 pages"] == root_tool_results(ended)
    assert [] == asyncio.run(job.store.keys("markers/"))


def test_job_whose_heartbeats_stop_expires() -> None:
    job = Job()
    job.start()
    for _ in range(5):
        job.clock.seconds += 50
        job.beat()
    job.clock.seconds += 61

    with pytest.raises(
        errors.WaitExpired, match="got no heartbeat: its deadline has passed"
    ):
        job.beat()
    [ended] = job.runner().sweep().resumed

    assert isinstance(ended, Finished)
    assert "did not report a result in time" in root_tool_results(ended)[0]
    with pytest.raises(errors.WaitExpired):
        job.beat()
    assert [] == asyncio.run(job.store.keys("markers/"))


def test_deadline_never_moves_to_an_earlier_time() -> None:
    job = Job()
    wait = job.start()
    assert job.after(job.beat(600), 600)
    assert job.after(job.beat(10), 600)
    assert job.after(job.beat(600), 600)
    assert wait.deadline != job.runner(agents=[]).wait(wait.id).deadline


def test_many_heartbeats_write_few_slots() -> None:
    """A slot is written if the deadline moves by a tenth of `extend` at least."""
    job = Job()
    job.start()
    for _ in range(100):
        job.clock.seconds += 1
        job.beat(100)

    assert len(job.slots()) <= 11


def test_heartbeat_before_the_tool_returns_changes_nothing() -> None:
    job = Job()
    early: list[Wait] = []
    job.before_return = lambda wait_id: early.append(
        job.runner(agents=[]).heartbeat(wait_id, extend=600)
    )
    wait = job.start()

    assert [None] == [each.deadline for each in early]
    assert job.after(wait, 60)


def test_heartbeat_of_a_job_that_ended_is_refused() -> None:
    job = Job()
    wait = job.start()
    job.runner(agents=[]).decide(wait.id, Answer(7))
    with pytest.raises(errors.AlreadyDecided):
        job.beat()

    cancelled = Job()
    cancelled.start()
    cancelled.runner(agents=[]).cancel("r1")
    with pytest.raises(errors.Cancelled):
        cancelled.beat()

    question = Job(lambda: ask("Which one?", within=60))
    asked = question.start()
    with pytest.raises(errors.DecisionRefused, match="only a job"):
        question.runner(agents=[]).heartbeat(asked.id, extend=5)
    with pytest.raises(errors.WaitNotFound):
        question.runner(agents=[]).heartbeat(question.ids[0], extend=5)


@pytest.mark.parametrize("extend", [0, -1, None, "5", True, timedelta(days=4000)])
def test_invalid_time_is_refused(extend: Any) -> None:
    job = Job()
    job.start()
    with pytest.raises(errors.InvalidInput, match="heartbeat: extend"):
        job.beat(extend)


def test_heartbeat_follows_a_job_whose_answer_was_rejected() -> None:
    job = Job()
    wait = job.start()
    job.runner(agents=[]).decide(wait.id, Answer("seven"))
    job.runner().resume("r1")
    job.clock.seconds += 30

    moved = job.beat(90)

    assert wait.id != moved.id
    assert moved.deadline == moved.created_at + timedelta(seconds=120)


def test_wrong_clock_of_the_sender_does_not_count() -> None:
    """The deadline is a time of the store, which tells it with each create."""
    job = Job()
    wait = job.start()
    job.clock.seconds += 30
    for hours in (24, -24):
        wrong = ManualClock(hours * 3600)
        runner = Runner([], store=job.store, clock=wrong)
        assert job.after(runner.heartbeat(wait.id, extend=60), 90)


def test_crash_at_any_operation_leaves_a_deadline_that_is_kept() -> None:
    for point in every_crash("before", "after", more_than=3):
        job = Job()
        wait = job.start()
        job.clock.seconds += 50
        with point.process(job.store) as dying:
            job.runner(dying, agents=[]).heartbeat(wait.id, extend=60)
        moved = job.runner(agents=[]).wait(wait.id).deadline
        assert moved is not None
        assert moved in (wait.deadline, wait.created_at + timedelta(seconds=110))
        if not point.has_crashed:
            assert moved != wait.deadline

        # A sweep before the deadline ends nothing; one after it ends the wait
        left = moved - wait.created_at - timedelta(seconds=51)
        job.clock.seconds += left.total_seconds()
        assert () == job.runner().sweep().resumed
        job.clock.seconds += 2
        [ended] = job.runner().sweep().resumed
        assert isinstance(ended, Finished)
        job.runner().sweep()
        job.clock.seconds += 600
        job.runner().sweep()
        assert [] == asyncio.run(job.store.keys("markers/"))


def test_crash_of_a_sender_with_a_wrong_clock_leaves_no_marker_for_years() -> None:
    """A marker that is dated by that clock would outlive the run."""
    for point in every_crash("before", "after", more_than=3):
        job = Job()
        wait = job.start()
        fast = ManualClock(timedelta(days=365).total_seconds())
        with point.process(job.store) as dying:
            Runner([], store=dying, clock=fast).heartbeat(wait.id, extend=60)

        job.runner(agents=[]).decide(wait.id, Answer(3))
        [ended] = job.runner().sweep().resumed

        assert isinstance(ended, Finished), point
        job.runner().sweep()
        assert [] == asyncio.run(job.store.keys("markers/")), point


# Erasing ------------------------------------------------------------------------------


def test_erase_deletes_the_marker_of_a_moved_deadline() -> None:
    job = Job()
    job.start()
    job.clock.seconds += 30
    job.beat()
    runner = job.runner(agents=[])

    runner.erase("r1")

    # Only the later look of the erasure itself is left
    [marker] = asyncio.run(job.store.keys("markers/"))
    assert "-g-" in marker
