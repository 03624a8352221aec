"""A crash at any storage operation loses no attachment that a message refers to."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any

import pytest

from continuations import Answer, Approve, Runner
from continuations.errors import RunExists
from continuations_storage import MemoryStore
from tests.clocks import ManualClock
from tests.crash_points import every_crash, remaining_keys
from tests.engine.attachment_agents import PHOTO, three_deep
from tests.scripts import call

if TYPE_CHECKING:
    from tests.run_environment import RunEnvironment
    from tests.scripts import Script

SCRIPT: Script = {
    "go": [
        [call("draw", what="pie"), call("hr", input="below")],
        [call("publish", what="pie")],
        "root saw SEEN",
    ],
    "below": [[call("clerk", input="desk")], "hr done"],
    "desk": [[call("draw", what="line"), call("publish", what="line")], "saw SEEN"],
}
TEXTS = ("root saw the photo, the chart, the report", "saw the chart, the report")
APP = "tests.engine.attachment_agents:agents"


def finish(runner: Runner, clock: ManualClock) -> Any:
    """Sweep and decide until the run ends; return its outcome."""
    for _ in range(20):
        clock.seconds += 120
        assert {} == runner.sweep().errors
        for summary in list(runner.waiting()):
            wait = runner.wait(summary.id)
            is_unknown = wait.kind == "unknown"
            verdict = Answer("published") if is_unknown else Approve()
            runner.decide(wait.id, verdict)
        if runner.look("r1").status == "finished":
            return runner.resume("r1")
    raise AssertionError(list(runner.waiting()))


def test_attachments_of_a_start_that_died_are_deleted(
    environment: RunEnvironment,
) -> None:
    """A sweep deletes them after days, and never those of a start in progress."""
    del environment
    clock = ManualClock()
    store = MemoryStore(clock.now)
    crashed_between = 0
    for point in every_crash("after", more_than=2):
        clock.seconds = 0
        store = MemoryStore(clock.now)
        with point.process(store) as dying:
            runner = Runner(three_deep(SCRIPT), store=dying, clock=clock)
            runner.start(["go", PHOTO], run_id="r1", work=False)
        bodies = store._bodies  # pyright: ignore[reportPrivateUsage]
        files = [key for key in bodies if "/x/" in key]
        versions = [key for key in bodies if "/v/" in key]
        if versions or not files:
            continue
        crashed_between += 1
        sweeper = Runner(three_deep(SCRIPT), store=store, clock=clock)
        for _ in range(20):
            clock.seconds += 3600
            sweeper.sweep()
        assert files == [key for key in bodies if "/x/" in key]
        for _ in range(60):
            clock.seconds += 12 * 3600
            sweeper.sweep()
        assert [] == [key for key in bodies if key.startswith("runs/")]
        # The id is free, and a late start has its attachments.
        sweeper.start(["go", PHOTO], run_id="r1")
        assert TEXTS[0] == finish(sweeper, clock).output
    assert crashed_between


def test_a_start_that_loses_the_race_deletes_only_its_own_attachments(
    environment: RunEnvironment,
) -> None:
    """The winner's run keeps its bytes, whether the inputs are equal or not."""
    del environment

    class Racing(MemoryStore):
        """A store in which another process starts the run just before version 1."""

        is_first = True

        async def create(self, key: str, body: bytes) -> Any:
            if "/v/" in key and self.is_first:
                self.is_first = False
                await runner.async_runner.start(["go", PHOTO], run_id="r1")
            return await super().create(key, body)

    clock = ManualClock()
    store = Racing(clock.now)
    runner = Runner(three_deep(SCRIPT), store=store, clock=clock)
    with pytest.raises(RunExists):
        runner.start(["go"], run_id="r1")  # another input, without attachments
    assert 3 == sum("/x/" in key for key in store._bodies)  # pyright: ignore[reportPrivateUsage]

    store.is_first = True
    with suppress(RunExists):
        runner.start(["go", PHOTO], run_id="r1")
    assert TEXTS[0] == finish(runner, clock).output
    assert [] == remaining_keys(store)


@pytest.mark.fresh_interpreters
def test_fresh_processes_see_the_attachments_at_every_depth(
    environment: RunEnvironment,
) -> None:
    """Each step happens in a fresh interpreter."""
    outcome = environment.start(SCRIPT, app=APP)
    while outcome["kind"] == "Suspended":
        environment.approve(outcome["waits"][-1])
        outcome = environment.resume(SCRIPT, app=APP)
    expected = "root saw the chart, the report"
    assert ("Finished", expected) == (outcome["kind"], outcome["output"])
    runner = Runner([], store=environment.store)
    desk = runner.look("r1").root.messages
    assert "hr done" == desk[3]["content"]
    once = ["draw line", "draw pie", "publish line", "publish pie"]
    assert once == sorted(environment.effect_names())
