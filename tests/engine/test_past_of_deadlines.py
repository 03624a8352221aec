"""Extensions, escalations, expiries and reminders after a rewind, a fork, `adopt`."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from continuations import (
    Agent,
    Answer,
    ApprovalPolicy,
    Approve,
    Runner,
    Suspended,
    Wait,
    ask,
    escalate,
    external,
    tool,
)
from continuations.core.reading.past_rules import Act
from continuations.errors import DecisionRefused
from continuations.models.scripted import ScriptedModel, ToolCall
from continuations.tools import Tool, ToolWait
from continuations_storage import MemoryStore
from tests.clocks import ManualClock
from tests.outcomes import expect

HOUR, DAY = timedelta(hours=1), timedelta(days=1)
ACTS = ("rewind", "fork", "adopt")


@tool
def scan() -> ToolWait[int]:
    """Scan a document, within an hour."""
    return external("scan", int, within=HOUR)


@tool
def choose() -> ToolWait[str]:
    """Ask a person, so that the run does not end."""
    return ask("Which?")


def make_pay(**policy: Any) -> Tool[..., Any]:
    """Return a tool whose calls kim approves."""

    @tool(approval=ApprovalPolicy(approvers=["kim"], **policy))
    def pay() -> str:
        """Pay."""
        return "paid"

    return pay


class Office:
    """A run with one open wait, and the copy of it that an act makes."""

    def __init__(self, a_tool: Tool[..., Any]) -> None:
        self.clock = ManualClock()
        # Each says which notice was sent for the wait of which run.
        self.announced: list[tuple[str, str]] = []
        self.agent = Agent(
            "clerk",
            tools=[a_tool, choose],
            model=ScriptedModel([ToolCall(a_tool.name, {}), ToolCall("choose", {})]),
        )
        self.runner = self._new_runner()
        outcome = expect(self.runner.start("go", run_id="r"), Suspended)
        [self.wait] = outcome.waits
        self.version = outcome.continuation.version
        self.bytes = outcome.continuation

    def _new_runner(self) -> Runner[Any]:
        return Runner(
            self.agent,
            store=MemoryStore(self.clock.now),
            clock=self.clock,
            notify=lambda wait: self.announced.append((wait.run_id, wait.notice)),
        )

    def pass_time(self, period: timedelta) -> None:
        """Let time pass, then sweep."""
        self.clock.seconds += period.total_seconds() + 1
        assert {} == self.runner.sweep().errors

    def go_on(self, wait: Wait, decision: Approve | Answer) -> None:
        """Decide a wait of the tool, and let the run go on to the next wait."""
        self.runner.decide(wait.id, decision)
        outcome = expect(self.runner.resume(wait.run_id), Suspended)
        assert ["choose"] == [each.tool for each in outcome.waits]

    def copy(self, act: Act) -> Wait:
        """Go back to the version of the wait; return the wait that opens again."""
        if act == "adopt":
            self.runner = self._new_runner()
            self.runner.adopt(self.bytes, run_id="copy")
        elif act == "fork":
            self.runner.fork("r", self.version, run_id="copy")
        else:
            self.runner.rewind("r", self.version)
        [wait] = self.runner.look("r" if act == "rewind" else "copy").waits
        return self.runner.wait(wait.id)


@pytest.mark.parametrize("act", ACTS)
def test_extension_ends_with_its_wait(act: Act) -> None:
    """The new wait has the hour of its tool: from now on, or as the bytes have it."""
    office = Office(scan)
    office.clock.seconds = 1800
    moved = office.runner.heartbeat(office.wait.id, extend=3 * HOUR)
    assert moved.deadline == office.wait.created_at + HOUR / 2 + 3 * HOUR

    office.go_on(office.wait, Answer(7))
    wait = office.copy(act)

    began = office.wait.created_at if act == "adopt" else office.clock.now()
    assert wait.deadline == began + HOUR


@pytest.mark.parametrize("act", ACTS)
def test_first_approvers_are_asked_again_after_an_escalation(act: Act) -> None:
    office = Office(make_pay(within=HOUR, on_deadline=escalate(to=["cfo"], within=DAY)))
    office.pass_time(HOUR)
    assert ("cfo",) == office.runner.wait(office.wait.id).approvers
    office.go_on(office.wait, Approve(by="cfo"))
    if act == "adopt":
        # The bytes have the deadline of the first approvers, which has not passed.
        office.clock.seconds -= HOUR.total_seconds() / 2

    wait = office.copy(act)

    assert ("kim",) == wait.approvers
    with pytest.raises(DecisionRefused, match="cfo is not one of its approvers"):
        office.runner.decide(wait.id, Approve(by="cfo"))
    office.go_on(wait, Approve(by="kim"))


@pytest.mark.parametrize("act", ["rewind", "fork"])
def test_expiry_has_no_effect_on_the_wait_that_opens_again(act: Act) -> None:
    office = Office(make_pay(within=HOUR))
    office.pass_time(HOUR)
    assert ["choose"] == [each.tool for each in office.runner.look("r").waits]

    wait = office.copy(act)

    assert wait.deadline == office.clock.now() + HOUR
    office.go_on(wait, Approve(by="kim"))


@pytest.mark.parametrize("act", ACTS)
def test_reminders_are_counted_from_the_time_of_the_wait(act: Act) -> None:
    """A new wait is reminded of after an hour; that of adopted bytes goes on."""
    office = Office(make_pay(remind_after=HOUR))
    office.pass_time(HOUR)
    assert [("r", "opened"), ("r", "reminder-1")] == office.announced
    office.clock.seconds += HOUR.total_seconds() / 2
    office.go_on(office.wait, Approve(by="kim"))
    run_id = office.copy(act).run_id
    office.announced.clear()

    office.pass_time(HOUR / 2)
    due_by_its_first_time = [each for each in office.announced if each[0] == run_id]
    office.pass_time(HOUR / 2)

    if act == "adopt":
        assert [(run_id, "reminder-2")] == due_by_its_first_time
    else:
        assert [] == due_by_its_first_time
        assert (run_id, "reminder-1") in office.announced
