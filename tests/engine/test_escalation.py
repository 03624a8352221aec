"""Deadlines with a consequence: escalation, an answer, a denial; and reminders."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from datetime import datetime, timedelta
from typing import Any

import pytest

from continuations import (
    Answer,
    ApprovalPolicy,
    Approve,
    AsyncRunner,
    Deny,
    Finished,
    Runner,
    Wait,
    ask,
    escalate,
    tool,
)
from continuations.errors import DecisionRefused, InvalidInput, WaitExpired
from continuations.ledger import layout
from continuations.results import Decision, Vote
from continuations.tools import Tool, ToolWait
from continuations_storage import MemoryStore, faults
from continuations_storage.faults import ForwardingStore
from tests import effect_log
from tests.clocks import ManualClock, ShiftedClock
from tests.crash_points import remaining_keys
from tests.engine.agent_builders import make_boss, make_pay, root_tool_results
from tests.outcomes import only_wait
from tests.scripts import call

PAY: Any = {"go": [[call("pay", cents=5)], "end"]}
ASK: Any = {"go": [[call("color")], "end"]}
HOUR, DAY = timedelta(hours=1), timedelta(days=1)


@tool
def color() -> ToolWait[str]:
    """Ask for a color."""
    return ask("Which color?", within=DAY, on_deadline=escalate(to=["cfo"], within=DAY))


class Office:
    """A runner with a clock, and the waits that it announced."""

    def __init__(self, script: Any, a_tool: Tool[..., Any]) -> None:
        self.clock = ManualClock()
        self.announced: list[Wait] = []
        self.store = MemoryStore(self.clock.now)
        self.runner = Runner(
            make_boss(script, a_tool),
            store=self.store,
            clock=self.clock,
            notify=self.announced.append,
        )

    def start(self) -> Wait:
        """Start a run and return its wait."""
        return only_wait(self.runner.start("go", run_id="r"))

    def pass_time(self, period: timedelta) -> None:
        """Let time pass, then sweep."""
        self.clock.seconds += period.total_seconds() + 1
        result = self.runner.sweep()
        assert {} == result.errors

    def marker_keys(self) -> list[str]:
        """Return the markers of the store."""
        return asyncio.run(self.store.keys(layout.MARKERS_PREFIX))


def test_escalation_asks_other_approvers_under_the_same_id() -> None:
    """After the deadline only the next approvers decide, and earlier votes are void."""
    office = Office(
        PAY,
        make_pay(
            approvers=["kim", "lee"],
            votes=2,
            within=DAY,
            on_deadline=escalate(to=["cfo", "kim"], within=DAY),
        ),
    )
    wait = office.start()
    assert isinstance(office.runner.decide(wait.id, Approve(by="kim")), Vote)

    office.pass_time(DAY)
    now = office.runner.wait(wait.id)
    listed = list(office.runner.waiting())

    assert ("cfo", "kim") == now.approvers
    assert () == now.votes
    assert wait.deadline is not None
    assert now.deadline == wait.deadline + DAY + timedelta(seconds=1)
    assert [(wait.id, False)] == [(each.id, each.expired) for each in listed]
    assert [wait.id, wait.id] == [each.id for each in office.announced]
    assert ("cfo", "kim") == office.announced[-1].approvers
    with pytest.raises(DecisionRefused, match="lee is not one of its approvers"):
        office.runner.decide(wait.id, Approve(by="lee"))
    assert isinstance(office.runner.decide(wait.id, Approve(by="kim")), Decision)
    assert isinstance(office.runner.resume("r"), Finished)
    assert ["pay 5"] == effect_log.names()
    assert [] == office.marker_keys()


def test_worklist_has_the_approvers_and_the_deadline_of_after_the_escalation() -> None:
    """As `wait` has them; the object of the wait never changes."""
    action = escalate(to=["cfo"], within=DAY)
    pay = make_pay(approvers=["kim"], within=DAY, on_deadline=action)
    office = Office(PAY, pay)
    opened = office.start()
    assert (opened,) == tuple(row.wait for row in office.runner.worklist().waits)
    office.pass_time(DAY)

    [row] = office.runner.worklist().waits

    now = office.runner.wait(opened.id)
    assert ("cfo",) == row.wait.approvers == now.approvers
    assert opened.deadline != row.wait.deadline == now.deadline
    assert not row.expired


def test_second_deadline_expires_the_wait() -> None:
    """There is one step: after the new deadline the call is refused."""
    policy = make_pay(within=DAY, on_deadline=escalate(to=["cfo"], within=HOUR))
    office = Office(PAY, policy)
    wait = office.start()
    office.pass_time(DAY)

    office.pass_time(HOUR)

    with pytest.raises(WaitExpired):
        office.runner.decide(wait.id, Approve(by="cfo"))
    assert isinstance(office.runner.resume("r"), Finished)
    assert [] == effect_log.names()
    assert [] == office.marker_keys()


def test_escalation_of_a_question() -> None:
    """The next person answers under the same id, and the tool gets the answer."""
    office = Office(ASK, color)
    wait = office.start()
    office.pass_time(DAY)

    with pytest.raises(DecisionRefused, match="kim is not one of its approvers"):
        office.runner.decide(wait.id, Answer("red", by="kim"))
    office.runner.decide(wait.id, Answer("blue", by="cfo"))
    end = office.runner.resume("r")

    assert ["blue"] == list(root_tool_results(end))


@pytest.mark.parametrize(
    ("action", "result"),
    [
        (Answer("use the old rate"), "use the old rate"),
        (Deny(reason="too late"), "too late"),
        (None, "EXPIRED"),
    ],
)
def test_deadline_of_an_approval_has_a_consequence(action: Any, result: str) -> None:
    """The deadline answers or denies, and never lets the call run."""
    office = Office(PAY, make_pay(within=DAY, on_deadline=action))
    office.start()

    office.pass_time(DAY)
    end = office.runner.resume("r")

    [text] = root_tool_results(end)
    assert result.lower() in text.lower()
    assert [] == effect_log.names()


def test_older_names_of_the_options_still_work() -> None:
    """`expires_after` and `on_expiry` are `within` and `on_deadline`."""
    older = ApprovalPolicy(expires_after=DAY, on_expiry=Answer(1))
    newer = ApprovalPolicy(within=DAY, on_deadline=Answer(1))

    assert (older.decision_timeout, older.digest) == (DAY, newer.digest)
    with pytest.raises(InvalidInput, match="older name"):
        ApprovalPolicy(within=DAY, expires_after=DAY)


def test_people_are_reminded_three_times_at_most() -> None:
    """Each reminder has a name of its own; an early sweep sends none."""
    office = Office(PAY, make_pay(remind_after=HOUR))
    wait = office.start()

    for _ in range(10):
        office.pass_time(HOUR / 2)

    assert ["opened", "reminder-1", "reminder-2", "reminder-3"] == [
        each.notice for each in office.announced
    ]
    assert {wait.id} == {each.id for each in office.announced}
    assert [] == office.marker_keys()
    office.runner.decide(wait.id, Approve(by="kim"))
    assert isinstance(office.runner.resume("r"), Finished)


def test_late_sweep_reminds_once() -> None:
    """Reminders that were due long ago are left out."""
    office = Office(PAY, make_pay(remind_after=HOUR))
    office.start()

    office.pass_time(2 * HOUR)
    office.pass_time(timedelta())

    assert ["opened", "reminder-2"] == [each.notice for each in office.announced]


def test_decided_wait_has_no_reminder() -> None:
    """The end of the wait removes the marker of its next reminder."""
    office = Office(PAY, make_pay(remind_after=HOUR, within=DAY))
    wait = office.start()
    office.pass_time(HOUR)
    office.runner.decide(wait.id, Deny(by="kim"))
    office.runner.resume("r")

    assert [] == office.marker_keys()
    office.pass_time(HOUR)
    assert 2 == len(office.announced)


def test_reminder_tells_the_approvers_and_votes_of_now() -> None:
    """After an escalation the next approvers are reminded."""
    policy = make_pay(
        within=HOUR,
        on_deadline=escalate(to=["cfo"], within=DAY),
        remind_after=2 * HOUR,
    )
    office = Office(PAY, policy)
    office.start()
    office.pass_time(HOUR)

    office.pass_time(HOUR)

    assert [("opened", ()), ("escalated", ("cfo",)), ("reminder-1", ("cfo",))] == [
        (each.notice, each.approvers) for each in office.announced
    ]


@pytest.mark.parametrize("hours", [0, 36])
def test_sweep_with_a_wrong_clock_keeps_the_marker_of_a_moved_deadline(
    hours: int,
) -> None:
    """It takes the deadline for passed, until a reminder shows it the true time."""
    within = escalate(to=["cfo"], within=DAY)
    pay = make_pay(within=DAY, on_deadline=within, remind_after=14 * HOUR)
    office = Office(PAY, pay)
    office.start()
    office.pass_time(DAY)
    office.clock.seconds += 5 * HOUR.total_seconds()
    wrong = ShiftedClock(office.clock, timedelta(hours=hours))
    other = Runner(office.runner.root_agents, store=office.store, clock=wrong)

    other.sweep()

    assert any("-e-" in key for key in office.marker_keys())
    office.pass_time(DAY)
    assert not office.runner.look("r").waits


def test_vote_that_meets_an_expiry_leaves_a_marker() -> None:
    """The voter records the expiry of a sweep that died; a later sweep ends the run."""
    pay = make_pay(approvers=["kim", "lee"], votes=2, within=DAY)
    office = Office(PAY, pay)
    wait = office.start()

    class SweptBeforeItsSlot(ForwardingStore):
        """Before the slot of the vote, the deadline passes and a sweep dies."""

        async def create(self, key: str, body: bytes) -> datetime | None:
            prefix = layout.slots_prefix(wait.id)
            if key.startswith(prefix) and not await office.store.keys(prefix):
                office.clock.seconds += DAY.total_seconds() + 1
                decision = layout.decision_key(wait.id)
                dies = faults.on("create", faults.crashed("before"), prefix=decision)
                dying = faults.FaultyStore(office.store, dies)
                with suppress(faults.Crash):
                    await AsyncRunner(
                        make_boss(PAY, pay), store=dying, clock=office.clock
                    ).sweep()
            return await super().create(key, body)

    voter = Runner([], store=SweptBeforeItsSlot(office.store), clock=office.clock)
    with pytest.raises(WaitExpired):
        voter.decide(wait.id, Approve(by="kim"))

    office.clock.seconds += 120
    assert {} == office.runner.sweep().errors
    assert "finished" == office.runner.look("r").status
    assert [] == remaining_keys(office.store)
    assert [] == effect_log.names()
