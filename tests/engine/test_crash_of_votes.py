"""Votes and escalations survive a crash at every storage operation."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

from continuations import (
    ApprovalPolicy,
    Approve,
    Decision,
    Finished,
    Runner,
    Suspended,
    Vote,
    escalate,
    tool,
)
from continuations_storage import MemoryStore
from tests import effect_log
from tests.clocks import ManualClock
from tests.crash_points import every_crash
from tests.engine.agent_builders import make_boss
from tests.engine.test_crash_at_every_operation import remaining_keys
from tests.scripts import call

if TYPE_CHECKING:
    from continuations import Agent, Wait
    from continuations_storage import Store
    from tests.run_environment import RunEnvironment

DAY = timedelta(days=1)


def make_agent() -> Agent:
    """Return an agent whose payment two persons approve, and later one other."""

    @tool(
        approval=ApprovalPolicy(
            approvers=["kim", "lee"],
            votes=2,
            within=DAY,
            on_deadline=escalate(to=["cfo"], within=DAY),
        )
    )
    def pay(cents: int) -> str:
        """Pay an amount."""
        effect_log.append_effect("pay", cents)
        return f"paid {cents}"

    return make_boss({"go": [[call("pay", cents=5)], "end"]}, pay)


class Office:
    """A store with a clock, and processes that share them."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.store = MemoryStore(self.clock.now)
        self.told: list[tuple[str, ...]] = []
        outcome = self.process().start("go", run_id="r")
        assert isinstance(outcome, Suspended)
        self.wait = outcome.waits[0]

    def process(self, store: Store | None = None) -> Runner:
        """Return the runner of a new process."""
        return Runner(
            make_agent(),
            store=store or self.store,
            clock=self.clock,
            notify=self._tell,
        )

    def _tell(self, wait: Wait) -> None:
        self.told.append(wait.approvers)

    def finish(self) -> None:
        """Sweep until the run has ended."""
        result = self.process().sweep()
        assert {} == result.errors
        assert isinstance(self.process().resume("r"), Finished)
        # A process that died may have left the marker of a deadline that no slot has.
        self.clock.seconds += 2 * DAY.total_seconds()
        self.process().sweep()
        assert [] == remaining_keys(self.store)


@pytest.mark.parametrize("moment", ["before", "after"])
def test_last_vote_survives_a_crash(environment: RunEnvironment, moment: Any) -> None:
    """A sweep finishes the decision, or the vote was not recorded; it counts once."""
    for runs, point in enumerate(every_crash(moment, more_than=5), start=1):
        office = Office()
        assert isinstance(
            office.process().decide(office.wait.id, Approve(by="kim")), Vote
        )
        with point.process(office.store) as dying:
            office.process(dying).decide(office.wait.id, Approve(by="lee"))

        assert {} == office.process().sweep().errors
        if isinstance(office.process().resume("r"), Suspended):
            again = office.process().decide(office.wait.id, Approve(by="lee"))
            assert isinstance(again, Decision)
            assert ("kim", "lee") == again.voters

        office.finish()
        assert runs == len(environment.effect_names())


@pytest.mark.parametrize("moment", ["before", "after"])
def test_first_vote_survives_a_crash(environment: RunEnvironment, moment: Any) -> None:
    """The vote is recorded once or not at all; nothing runs before the second one."""
    for point in every_crash(moment, more_than=4):
        office = Office()
        before = len(environment.effect_names())
        with point.process(office.store) as dying:
            office.process(dying).decide(office.wait.id, Approve(by="kim"))
        office.process().sweep()
        assert before == len(environment.effect_names())

        office.process().decide(office.wait.id, Approve(by="kim"))
        votes = office.process().wait(office.wait.id).votes
        assert ["kim"] == [vote.by for vote in votes]
        office.process().decide(office.wait.id, Approve(by="lee"))
        office.finish()


@pytest.mark.parametrize("moment", ["before", "after"])
def test_escalation_survives_a_crash(environment: RunEnvironment, moment: Any) -> None:
    """The next approvers are notified, and they decide; earlier votes do not count."""
    for point in every_crash(moment, more_than=8):
        office = Office()
        office.process().decide(office.wait.id, Approve(by="kim"))
        office.clock.seconds += DAY.total_seconds() + 1
        with point.process(office.store) as dying:
            office.process(dying).sweep()
        office.clock.seconds += 120
        before = len(environment.effect_names())

        assert {} == office.process().sweep().errors
        wait = office.process().wait(office.wait.id)
        assert (("cfo",), ()) == (wait.approvers, wait.votes)
        assert ("cfo",) in office.told
        assert [False] == [each.expired for each in office.process().waiting()]
        assert before == len(environment.effect_names())
        office.process().decide(office.wait.id, Approve(by="cfo"))
        office.finish()
