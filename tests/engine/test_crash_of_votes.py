"""Votes and escalations survive a crash at every storage operation."""

from __future__ import annotations

from contextlib import suppress
from datetime import timedelta
from typing import TYPE_CHECKING, Annotated, Any

import pytest

from continuations import (
    ApprovalPolicy,
    Approve,
    AsyncRunner,
    Finished,
    Runner,
    Suspended,
    escalate,
    tool,
)
from continuations.errors import WaitExpired
from continuations.ledger import layout
from continuations.results import Decision, Vote
from continuations.tools import Secret
from continuations_storage import MemoryStore, faults
from continuations_storage.forwarding import ForwardingStore
from tests import effect_log
from tests.clocks import ManualClock
from tests.crash_points import every_crash, remaining_keys
from tests.engine.agent_builders import make_boss
from tests.scripts import call

if TYPE_CHECKING:
    from datetime import datetime

    from continuations import Agent, Wait
    from continuations_storage import Store
    from tests.run_environment import RunEnvironment

DAY = timedelta(days=1)


ESCALATION = escalate(to=["cfo"], within=DAY)


def make_agent(on_deadline: Any = ESCALATION) -> Agent:
    """Return an agent whose payment two persons approve, and later one other."""

    @tool(
        approval=ApprovalPolicy(
            approvers=["kim", "lee"], votes=2, within=DAY, on_deadline=on_deadline
        )
    )
    def pay(cents: int) -> str:
        """Pay an amount."""
        effect_log.append_effect("pay", cents)
        return f"paid {cents}"

    return make_boss({"go": [[call("pay", cents=5)], "end"]}, pay)


def make_agent_with_secret() -> Agent:
    """Return an agent whose payment two persons approve; its PIN is secret."""

    @tool(approval=ApprovalPolicy(approvers=["kim", "lee"], votes=2, within=DAY))
    def pay(cents: int, pin: Annotated[str, Secret()]) -> str:
        """Pay an amount."""
        effect_log.append_effect("pay", cents, pin=pin)
        return f"paid {cents}"

    return make_boss({"go": [[call("pay", cents=5, pin="hunter2")], "end"]}, pay)


class Office:
    """A store with a clock, and processes that share them."""

    def __init__(
        self, on_deadline: Any = ESCALATION, agent: Agent | None = None
    ) -> None:
        self.clock = ManualClock()
        self.agent = agent or make_agent(on_deadline)
        self.store = MemoryStore(self.clock.now)
        self.told: list[tuple[str, ...]] = []
        outcome = self.process().start("go", run_id="r")
        assert isinstance(outcome, Suspended)
        self.wait = outcome.waits[0]

    def process(self, store: Store | None = None) -> Runner:
        """Return the runner of a new process."""
        return Runner(
            self.agent,
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
def test_equal_votes_with_a_secret_survive_a_crash(
    environment: RunEnvironment, moment: Any
) -> None:
    """The arguments as shown, and no arguments, are the same vote for every process."""
    for runs, point in enumerate(every_crash(moment, more_than=5), start=1):
        office = Office(agent=make_agent_with_secret())
        shown = office.process().wait(office.wait.id).arguments
        assert {"cents": 5, "pin": "[secret]"} == shown
        office.process().decide(office.wait.id, Approve(by="kim"))
        with point.process(office.store) as dying:
            office.process(dying).decide(
                office.wait.id, Approve(by="lee", arguments=shown)
            )

        assert {} == office.process().sweep().errors
        if isinstance(office.process().resume("r"), Suspended):
            again = Approve(by="lee", arguments=shown)
            assert isinstance(office.process().decide(office.wait.id, again), Decision)

        office.finish()
        decided = office.process().audit("r")
        assert {"approve"} == {line.verdict.removeprefix("vote ") for line in decided}
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


class _SweptBeforeItsSlot(ForwardingStore):
    """The store of a voter: before its slot, the deadline passes and a sweep dies."""

    def __init__(self, office: Office) -> None:
        super().__init__(office.store)
        self._office = office

    async def create(self, key: str, body: bytes) -> datetime | None:
        """Create a key; a sweep comes before the first slot."""
        office = self._office
        prefix = layout.slots_prefix(office.wait.id)
        if key.startswith(prefix) and not await office.store.keys(prefix):
            office.clock.seconds += DAY.total_seconds() + 1
            decision = layout.decision_key(office.wait.id)
            dies = faults.on("create", faults.crashed("before"), prefix=decision)
            dying = faults.FaultyStore(office.store, dies)
            runner = AsyncRunner(office.agent, store=dying, clock=office.clock)
            with suppress(faults.Crash):
                await runner.sweep()
        return await super().create(key, body)


def test_vote_that_meets_an_expiry_leaves_a_marker(
    environment: RunEnvironment,
) -> None:
    """The voter records the expiry of a sweep that died; a later sweep ends the run."""
    office = Office(on_deadline=None)
    store = _SweptBeforeItsSlot(office)

    with pytest.raises(WaitExpired):
        office.process(store).decide(office.wait.id, Approve(by="kim"))

    office.clock.seconds += 120
    assert {} == office.process().sweep().errors
    assert "finished" == office.process().look("r").status
    assert [] == remaining_keys(office.store)
    assert [] == environment.effect_names()
