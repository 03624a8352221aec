"""Crashes of what a store keeps beside the versions of a run: events, attachments."""

from __future__ import annotations

import re
from contextlib import suppress
from typing import Any

from continuations import Agent, Approve, Finished, Wait
from continuations.errors import RunBusy, RunErased, RunNotFound
from continuations_storage.faults import Crash, FaultyStore, at, crashed
from tests.engine import attachment_agents
from tests.engine.agent_builders import make_boss, root_tool_results
from tests.engine.attachment_agents import PHOTO, three_deep
from tests.engine.crash_scenario import DAY, RunToItsEnd, Scenario
from tests.engine.test_erasing_runs import (
    assert_only_tombstone,
    start_listening,
    start_voting,
    start_waiting,
)
from tests.engine.test_publish import make_price, script
from tests.outcomes import expect, single_wait
from tests.scripts import call

# Published events --------------------------------------------------------------------


class _Market(Scenario):
    """Runs that wait for two prices, and a publisher; every step may be repeated."""

    more_than = 15

    def agents(self) -> Agent:
        return make_boss(script(["tea"], ["tea"]), make_price())

    def work(self, run_id: str) -> None:
        """Start or resume a run."""
        for _ in range(20):
            try:
                self.process().resume(run_id)
            except RunNotFound:
                with suppress(RunBusy):
                    self.process().start("go", run_id=run_id)
            except RunBusy:
                self.clock.seconds += 61
                continue
            return
        raise AssertionError

    def publish(self, price: int, event_id: str | None = None) -> None:
        self.process([]).publish("price", price, key="tea", id=event_id)

    def taken(self, run_id: str) -> int:
        """Return how many events a run has taken."""
        return len(self.process().look(run_id).run_state.run.events_taken)

    def cancel(self, *run_ids: str) -> None:
        for each in run_ids:
            self.process().cancel(each)

    def finish(self) -> None:
        """Check that no key is left but those of the runs.

        A worker may die between the index of a wait and its version. The publisher
        deletes the index, so an event is published. It is deleted after two days.
        """
        self.publish(3)
        for hours in (1, 1, 1, 48, 1):
            self.clock.seconds += 3600 * hours
            self.process().sweep()
        assert [] == self.left()

    def left(self) -> list[str]:
        """Return the keys that must not stay."""
        kept = re.compile("runs/|probe/|index/ended/")
        return [key for key in self.keys("") if not kept.match(key)]


class Trade(_Market):
    """Each run takes each event once, in their order: one waits before, one after."""

    step = 8
    recoveries = ("repeat", "sweep")

    def dies(self) -> None:
        self.work("early")
        for price in (1, 2):
            self.clock.seconds += 1
            self.publish(price, f"m-{price}")
        self.work("early")
        self.work("late")

    def then(self) -> None:
        """Sweep or not, and do it again."""
        if self.recovery == "sweep":
            self.clock.seconds += 61
            self.process().sweep()
        self.dies()
        for run_id in ("early", "late"):
            outcome = expect(self.process().resume(run_id), Finished)
            assert ["1", "2"] == root_tool_results(outcome)


class DeadPublisher(_Market):
    """No process publishes again: the event is for all runs, or for none."""

    def before(self) -> None:
        self.work("a")
        self.work("b")

    def dies(self) -> None:
        self.publish(1)

    def then(self) -> None:
        self.clock.seconds += 61
        self.process().sweep()
        assert self.taken("a") == self.taken("b")
        assert self.taken("a") == sum("/e-" in key for key in self.left())
        self.cancel("a", "b")


class DeadSweepOfAPublication(_Market):
    """A sweep finishes a publication, and dies at each of its operations."""

    step = 3

    def before(self) -> None:
        self.work("a")
        dying = FaultyStore(self.store, at(3, crashed("before")))
        with suppress(Crash):
            _Market.publish(self.on(dying), 1)  # type: ignore[arg-type]
        assert dying.has_crashed

    def dies(self) -> None:
        self.process().sweep()

    def then(self) -> None:
        for _ in range(2):
            self.clock.seconds += 61
            self.process().sweep()
        assert 1 == self.taken("a")
        self.cancel("a")


class DeadSweepOfOldEvents(_Market):
    """Event, id and marker go in this order, so a repeat finds what is left."""

    more_than = 3

    def before(self) -> None:
        self.publish(1, "m-1")
        self.clock.seconds += 3 * DAY

    def dies(self) -> None:
        self.process().sweep()

    def then(self) -> None:
        self.process().sweep()
        assert [] == self.left()


# Attachments -------------------------------------------------------------------------


class AttachmentsOfADeadStart(RunToItsEnd):
    """A sweep deletes them after days, and never those of a start in progress."""

    more_than = 2
    step = 2
    reaches = frozenset({"files without a run"})

    def agents(self) -> Agent:
        return three_deep(attachment_agents.DEEP_SCRIPT)

    def verdict(self, wait: Wait) -> Any:
        assert "approval" == wait.kind
        return Approve()

    def dies(self) -> None:
        self.process().start(["go", PHOTO], run_id=self.run_id, work=False)

    def then(self) -> None:
        """Sweep for a day, and for a month; then the id is free."""
        files = self.keys(f"runs/{self.run_id}/x/")
        if files and not self.keys(f"runs/{self.run_id}/v/"):
            self.reached.add("files without a run")
            self.sweep_each_hour(20)
            assert files == self.keys(f"runs/{self.run_id}/x/")
            self.sweep_each_hour(60, hours=12)
            assert [] == self.keys("runs/")
        with suppress(RunBusy):
            self.process().start(["go", PHOTO], run_id=self.run_id)
        self.sweep_to_end()
        outcome = expect(self.process().resume(self.run_id), Finished)
        assert "root saw the photo, the chart, the report" == outcome.output

    def sweep_each_hour(self, count: int, hours: int = 1) -> None:
        for _ in range(count):
            self.clock.seconds += 3600 * hours
            self.process().sweep()


class ForkWithAttachments(Scenario):
    """A repeat makes the fork whole, also if the source is erased after it."""

    more_than = 8
    wait: Wait

    def agents(self) -> Agent:
        calls = [[call("draw", what="x")], [call("publish", what="x")], "done"]
        model = attachment_agents.seeing_model({"go": calls})
        return Agent("boss", tools=attachment_agents.TOOLS, model=model)

    def before(self) -> None:
        self.wait = single_wait(self.process().start("go", run_id=self.run_id))

    def dies(self) -> None:
        decisions = {self.wait.id: Approve(by="kim")}
        self.process().fork(self.run_id, run_id="fork", decisions=decisions)

    def then(self) -> None:
        self.clock.seconds += 120
        assert {} == self.process().sweep().errors
        self.dies()
        self.process().erase(self.run_id)
        assert isinstance(self.process().resume("fork"), Finished)
        nonce = self.process().look("fork").run_state.run.run_nonce
        assert 2 == len(self.keys(f"runs/fork/x/{nonce}"))


# Erasure -----------------------------------------------------------------------------


class Erase(Scenario):
    """A second call, or sweeps alone, leave nothing of a run but its tombstone."""

    more_than = 12
    step = 3
    recoveries = ("repeat", "sweep")

    def agents(self) -> Agent:
        return make_boss({})

    def before(self) -> None:
        start_waiting(self.store, self.clock)

    def dies(self) -> None:
        self.process([]).erase(self.run_id)

    def then(self) -> None:
        if self.recovery == "repeat" or not self.is_erased():
            self.process([]).erase(self.run_id)
        for _ in range(3):
            self.clock.seconds += DAY + 1
            assert {} == self.process([]).sweep().errors
        assert_only_tombstone(self.store)

    def is_erased(self) -> bool:
        """Return whether the tombstone is stored."""
        try:
            self.process([]).look(self.run_id)
        except RunErased:
            return True
        return False


class EraseOfVotes(Erase):
    """The run has a wait with a vote."""

    def before(self) -> None:
        start_voting(self.store, self.clock)


class EraseOfAListener(Erase):
    """The run waits for an event."""

    def before(self) -> None:
        start_listening(self.store, self.clock)
