"""Reminders, escalations and heartbeats after a rewind, a fork and an adoption."""

from __future__ import annotations

from datetime import timedelta
from typing import Any, Literal

import pytest

from continuations import Approve, Wait, escalate
from continuations.errors import DecisionRefused
from tests.engine.agent_builders import make_pay
from tests.engine.test_escalation import DAY, HOUR, PAY, Office
from tests.engine.test_heartbeats import Job

How = Literal["rewind", "fork", "adopt"]
EACH = pytest.mark.parametrize("how", ["rewind", "fork", "adopt"])


def repeated(runner: Any, how: How) -> Wait:
    """Begin run `r` again, or copy its newest version; return the only wait."""
    version = runner.look("r").version
    match how:
        case "rewind":
            runner.rewind("r", 1)
            runner.resume("r")
            return only_wait(runner, "r")
        case "fork":
            return only_wait(runner, runner.fork("r", version, run_id="f"))
        case "adopt":
            runner.adopt(runner.look("r").to_bytes(), run_id="a")
            return only_wait(runner, "a")


def only_wait(runner: Any, run_id: str) -> Wait:
    """Return the only wait of a run, as it is now."""
    [wait] = runner.look(run_id).waits
    found: Wait = runner.wait(wait.id)
    return found


def notices(office: Office, wait: Wait) -> list[str]:
    """Return what was announced about a wait."""
    return [each.notice for each in office.announced if each.id == wait.id]


@EACH
def test_reminders_are_counted_anew(how: How) -> None:
    office = Office(PAY, make_pay(remind_after=HOUR))
    first = office.start()
    office.pass_time(HOUR)
    assert ["opened", "reminder-1"] == notices(office, first)

    again = repeated(office.runner, how)
    office.pass_time(HOUR)

    assert first.id != again.id
    # An adopted wait keeps the time when it was opened.
    number = 2 if how == "adopt" else 1
    assert ["opened", f"reminder-{number}"] == notices(office, again)
    expected = ["opened", "reminder-1", *(["reminder-2"] if how != "rewind" else [])]
    assert expected == notices(office, first)


@EACH
def test_first_approvers_are_asked_again(how: How) -> None:
    """An escalation is no version: it belongs to the wait."""
    policy = {"within": DAY, "on_deadline": escalate(to=["cfo"], within=DAY)}
    office = Office(PAY, make_pay(approvers=["kim"], **policy))
    first = office.start()
    office.pass_time(DAY)
    assert ("cfo",) == office.runner.wait(first.id).approvers

    again = repeated(office.runner, how)

    if how == "adopt":  # the bytes have the escalation
        assert ("cfo",) == again.approvers
        return
    assert ("kim",) == again.approvers
    with pytest.raises(DecisionRefused, match="cfo is not one of its approvers"):
        office.runner.decide(again.id, Approve(by="cfo"))
    # Its own deadline escalates it.
    assert again.deadline is not None
    office.pass_time(again.deadline - office.clock.now())
    assert ("cfo",) == office.runner.wait(again.id).approvers


@EACH
def test_heartbeat_counts_for_one_wait(how: How) -> None:
    job = Job()
    runner = job.runner()
    outcome = runner.start("go", run_id="r")
    [wait] = outcome.waits
    runner.heartbeat(wait.id, extend=timedelta(hours=5))
    extended = runner.wait(wait.id).deadline
    assert extended is not None
    assert extended > job.clock.now() + timedelta(hours=4)

    again = repeated(runner, how)
    if again.kind == "approval":  # the job was begun since the version
        runner.decide(again.id, Approve(by="kim"))
        runner.resume("r")
        again = only_wait(runner, "r")

    assert wait.id != again.id
    assert again.deadline is not None
    minute = job.clock.now() + timedelta(minutes=1)
    assert (extended if how == "adopt" else minute) == again.deadline
