"""A compaction survives a crash at every storage operation: no summary is lost."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any

import pytest

from continuations import Agent, Compaction, Finished, Replied, Runner, tool
from continuations.errors import RunNotFound
from continuations.events import Compacted, MessageAdded
from continuations_storage import MemoryStore
from tests import effect_log
from tests.clocks import ManualClock
from tests.crash_points import every_crash, remaining_keys
from tests.engine.compacted_agents import PADDING, steps, worker

if TYPE_CHECKING:
    from continuations_storage import Store
    from tests.run_environment import RunEnvironment


@tool(read_only=True)
def step(number: int) -> str:
    """Make a step that may be repeated."""
    effect_log.append_effect("step", number)
    return f"step {number} done {PADDING}"


def agent(summarize: Any = None) -> Agent:
    """Return an agent with six steps, whose history is shortened once or twice."""
    compaction = Compaction(soft=400, hard=900, keep_last=2, summarize=summarize)
    return worker(steps(6), tools=[step], compaction=compaction)


class Site:
    """A store with a clock, and processes that share them."""

    def __init__(self, environment: RunEnvironment) -> None:
        self.clock = ManualClock()
        self.store = MemoryStore(self.clock.now)
        self.environment = environment
        self.asked_before = self._all_asked()

    def runner(self, store: Store | None = None, **options: Any) -> Runner:
        """Return the runner of a new process."""
        return Runner(agent(**options), store=store or self.store, clock=self.clock)

    def _all_asked(self) -> int:
        return sum(each["tool"] == "summary" for each in self.environment.effects())

    @property
    def asked(self) -> int:
        """How many summaries were asked for."""
        return self._all_asked() - self.asked_before

    def recover(self) -> None:
        """Let the claims of dead processes end, and sweep until nothing is due."""
        for _ in range(3):
            self.clock.seconds += 120
            assert {} == self.runner().sweep().errors

    def stored(self, run_id: str) -> int:
        """Return how many compactions a run has; none if it does not exist."""
        with suppress(RunNotFound):
            events = self.runner().events(run_id)
            return sum(isinstance(each, Compacted) for each in events)
        return 0

    def finish(self) -> None:
        """Check that no marker is left, also after the longest delay."""
        self.clock.seconds += 3 * 86400
        self.recover()
        assert [] == remaining_keys(self.store)


@pytest.mark.parametrize("moment", ["before", "after"])
def test_stored_summary_is_not_asked_again(
    environment: RunEnvironment, moment: Any
) -> None:
    """A crash before its version asks again; after it, no process does."""
    for point in every_crash(moment, more_than=15, step=3):
        site = Site(environment)
        with point.process(site.store) as dying:
            site.runner(dying).start("go", run_id="r")
        asked, stored = site.asked, site.stored("r")
        site.recover()
        # A repeat of the start, which finds the run or starts it.
        outcome = site.runner().start("go", run_id="r")
        assert isinstance(outcome, Finished)
        assert "all 6 steps are done" == outcome.output
        assert asked - stored in (0, 1)
        assert site.asked - asked == site.stored("r") - stored
        events = [*site.runner().events("r")]
        added = [each.message for each in events if isinstance(each, MessageAdded)]
        results = [each["tool_call_id"] for each in added if each["role"] == "tool"]
        assert [f"s{number}" for number in range(1, 7)] == results
        site.finish()


@pytest.mark.parametrize("moment", ["before", "after"])
def test_failed_summary_survives_a_crash(
    environment: RunEnvironment, moment: Any
) -> None:
    """The history is whole, and the attempts are as few as without a crash."""
    tried: list[int] = []

    def summarize(messages: list[dict[str, Any]]) -> str:
        tried.append(len(messages))
        return ""

    compaction = Compaction(soft=400, hard=9000, keep_last=2, summarize=summarize)

    def runner(site: Site, store: Store | None = None) -> Runner:
        made = worker(steps(5), tools=[step], compaction=compaction)
        return Runner(made, store=store or site.store, clock=site.clock)

    whole = Site(environment)
    runner(whole).start("go", run_id="r")
    usual = len(tried)
    for point in every_crash(moment, more_than=15, step=3):
        site = Site(environment)
        tried.clear()
        with point.process(site.store) as dying:
            runner(site, dying).start("go", run_id="r")
        for _ in range(3):
            site.clock.seconds += 120
            assert {} == runner(site).sweep().errors
        outcome = runner(site).start("go", run_id="r")

        assert isinstance(outcome, Finished)
        assert 2 + 10 + 1 == len(outcome.continuation.root.messages)
        assert usual <= len(tried) <= usual + 1


@pytest.mark.parametrize("moment", ["before", "after"])
def test_thread_with_a_summary_survives_a_crash(
    environment: RunEnvironment, moment: Any
) -> None:
    """Old tickets have their replies, and the next message is answered once."""

    def runner(site: Site, store: Store | None = None) -> Runner:
        compaction = Compaction(soft=120, hard=900, keep_last=2)
        made = worker(reply, name="chat", tools=[], compaction=compaction)
        return Runner(made, store=store or site.store, clock=site.clock)

    def reply(request: Any) -> str:
        if request.agent.endswith("/summary"):
            effect_log.append_effect("summary", 0)
            return "They talked."
        return f"You said {request.messages[-1].content}. " + "word " * 40

    for point in every_crash(moment, more_than=8):
        site = Site(environment)
        first = runner(site).thread("chat", key="k").post("one")
        first.reply()
        for text in ("two", "and two"):
            runner(site).thread("chat", key="k").send(text)
        with point.process(site.store) as dying:
            runner(site, dying).thread("chat", key="k").send("three", id="m3")
        stored = site.stored(first.run_id)
        asked = site.asked
        for _ in range(3):
            site.clock.seconds += 120
            assert {} == runner(site).sweep().errors
        third = runner(site).thread("chat", key="k").send("three", id="m3")

        assert isinstance(third, Replied)
        assert third.output.startswith("You said three.")
        old = first.reply()
        assert isinstance(old, Replied)
        assert old.output.startswith("You said one.")
        assert site.asked - asked == site.stored(first.run_id) - stored
        assert site.stored(first.run_id)
