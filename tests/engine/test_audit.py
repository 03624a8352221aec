"""The audit of a run: who decided what, through which door, and when."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from continuations import (
    Answer,
    ApprovalPolicy,
    Approve,
    AsyncRunner,
    Deny,
    Finished,
    Identity,
    Runner,
    Suspended,
    tool,
)
from continuations.core.reading.audit import AuditLine
from continuations.engine.ports import SystemClock
from continuations.errors import Corrupt, InvalidId, RunNotFound
from continuations.ledger import layout
from continuations.ledger.arrivals.recorded_decisions import read_decision
from continuations.ledger.decisions.decisions import record_decision
from continuations.ledger.objects import Objects
from continuations.results import Decision, Door
from continuations.tools import Tool
from continuations.wire.report import to_json
from continuations_storage import MemoryStore
from continuations_storage.sync import SyncStore
from tests.clocks import ManualClock
from tests.engine.agent_builders import make_boss, text_tool
from tests.engine.past_agents import RUN_ID, only_wait, version_with
from tests.engine.test_rewind import asking_run
from tests.engine.test_signals import make_receipt
from tests.outcomes import expect
from tests.scripts import call


def make_pay(**options: Any) -> Tool[..., Any]:
    return text_tool(
        "pay", "paid {cents}", {"cents": int}, approval=ApprovalPolicy(**options)
    )


pytestmark = pytest.mark.usefixtures("environment")

TWO: Any = {"go": [[call("pay", cents=1), call("pay", cents=2)], "end"]}


def make_runner(script: Any, *tools: Tool[..., Any], clock: ManualClock) -> Runner:
    """Return a runner on a store of its own, whose time is that of the clock."""
    return Runner(make_boss(script, *tools), store=MemoryStore(clock.now), clock=clock)


def facts(line: AuditLine) -> tuple[Any, ...]:
    """Return what a line says, without time and digest."""
    return line.kind, line.verdict, line.by, line.door, line.authentication, line.reason


def test_every_decision_is_a_line_also_after_the_end(clock: ManualClock) -> None:
    """A person, a program with a door of its own, and times in their order."""
    runner = make_runner(TWO, make_pay(), clock=clock)
    first = expect(runner.start("go", run_id="r"), Suspended)
    one, two = first.waits

    runner.decide(two.id, Deny(by="lee", reason="too much"))
    clock.seconds += 60
    slack = Door("slack", "signed request")
    runner.decide(one.id, Approve(by=Identity("kim", ["finance"])), door=slack)
    assert isinstance(runner.resume("r"), Finished)

    denied, approved = Runner([], store=runner.store).audit("r")
    assert facts(denied) == ("approval", "deny", "lee", "python", None, "too much")
    assert facts(approved)[1:5] == ("approve", "kim", "slack", "signed request")
    assert (two.id, two.digest) == (denied.wait, denied.digest)
    assert (("finance",), "r") == (approved.groups, approved.run)
    assert timedelta(seconds=60) == approved.at - denied.at
    assert {
        "name": "kim",
        "groups": ["finance"],
        "authentication": "signed request",
    } == (to_json(approved)["identity"])
    assert to_json(denied)["identity"] is None


def test_every_vote_is_a_line_and_the_last_one_is_the_decision() -> None:
    clock = ManualClock()
    runner = make_runner(TWO, make_pay(votes=2), clock=clock)
    wait_id = expect(runner.start("go", run_id="r"), Suspended).waits[0].id
    for person in ("kim", "lee"):
        runner.decide(wait_id, Approve(by=person), door=Door("console"))
        clock.seconds += 1

    assert [
        ("vote approve", "kim", "console"),
        ("approve", "lee", "console"),
    ] == [(line.verdict, line.by, line.door) for line in runner.audit("r")]


def test_expiries_and_cancellations_are_lines(clock: ManualClock) -> None:
    runner = make_runner(TWO, make_pay(expires_after=60), clock=clock)
    for run_id in ("late", "cancelled"):
        runner.start("go", run_id=run_id)
    runner.cancel("cancelled", by="kim", reason="no more", door=Door("console"))
    clock.seconds += 61
    runner.sweep()

    assert {("approval", "expire", None, "deadline", None, None)} == {
        facts(line) for line in runner.audit("late")
    }
    request, *closed = runner.audit("cancelled")
    assert facts(request) == ("run", "cancel", "kim", "console", None, "no more")
    assert [("cancel", "end of the run")] * 2 == [
        (line.verdict, line.door) for line in closed
    ]


def test_requests_of_operators_are_lines_and_say_who(clock: ManualClock) -> None:
    """The wait of the cancelled call was closed by an operator; the run goes on."""
    runner = make_runner(TWO, make_pay(), clock=clock)
    first = expect(runner.start("go", run_id="r"), Suspended)
    console = Door("console", "badge")
    runner.pause("r", by="kim", reason="check", door=console)
    clock.seconds += 1
    runner.unpause("r", by="lee", door=console)
    clock.seconds += 1
    call_id = first.waits[0].call_id
    runner.cancel("r", call=call_id, by="kim", reason="twice", door=console)
    clock.seconds += 1
    runner.cancel("r", by="lee")

    paused, unpaused, *rest = map(facts, runner.audit("r"))
    assert ("run", "pause", "kim", "console", "badge", "check") == paused
    assert ("run", "unpause", "lee", "console", "badge", None) == unpaused
    assert {
        ("call", "cancel", "kim", "console", "badge", "twice"),
        ("approval", "cancel", None, "operator", None, "twice"),
    } == {*rest[:2]}
    assert ("run", "cancel", "lee", "python", None, None) == rest[2]
    assert ["end of the run"] == [line[3] for line in rest[3:]]


def test_decision_of_a_cancelled_call_has_the_words_of_its_operator() -> None:
    """Also if the worker takes the requests in; each call has those of its own."""
    clock = ManualClock()

    @tool(idempotent=True)
    async def work() -> str:
        """Work, while an operator cancels the calls that wait."""
        for wait, reason in zip(
            (await operator.look("r")).waits, ("one", "two", None), strict=True
        ):
            await operator.cancel("r", call=wait.call_id, reason=reason)
        return "done"

    payments = [call("pay", cents=cents) for cents in (1, 2, 3)]
    script: Any = {"go": [[*payments, call("work")], "end"]}
    runner = make_runner(script, make_pay(), work, clock=clock)
    operator = AsyncRunner([], store=runner.store, clock=clock)

    assert isinstance(runner.start("go", run_id="r"), Finished)

    closed = [facts(line) for line in runner.audit("r") if line.kind == "approval"]
    assert sorted(closed) == [
        ("approval", "cancel", None, "operator", None, reason)
        for reason in ("An operator cancelled it.", "one", "two")
    ]


def test_signals_are_lines_and_so_are_their_decisions(clock: ManualClock) -> None:
    script = {"go": [[call("receipt", trip="Rome")], "end"]}
    runner = make_runner(script, make_receipt(), clock=clock)
    runner.start("go", run_id="r")
    runner.signal("r", "receipt", "here", by="shop", door=Door("bank", "mutual TLS"))
    clock.seconds += 1
    runner.resume("r")

    signal, ended = runner.audit("r")
    assert facts(signal) == (
        "signal",
        "signal",
        "shop",
        "bank",
        "mutual TLS",
        "receipt",
    )
    assert facts(ended) == ("event", "answer", "shop", "signal", None, None)
    assert signal.wait is None
    assert ended.wait is not None


def test_decision_of_an_earlier_release_has_no_door(clock: ManualClock) -> None:
    """Nothing is guessed about a decision that recorded no door."""
    runner = make_runner(TWO, make_pay(), clock=clock)
    first = expect(runner.start("go", run_id="r"), Suspended)
    recorded = runner.decide(first.waits[0].id, Answer("paid", by="kim"))
    assert isinstance(recorded, Decision)
    old = replace(recorded, id="01old", wait_id=first.waits[1].id, door=None)
    asyncio.run(record_decision(Objects(runner.store), old))

    lines = {line.wait: line.door for line in runner.audit("r")}

    assert {first.waits[0].id: "python", first.waits[1].id: None} == lines


def test_a_run_without_decisions_has_no_lines() -> None:
    runner = make_runner(TWO, make_pay(), clock=ManualClock())
    runner.start("go", run_id="r")

    assert [] == runner.audit("r")
    with pytest.raises(RunNotFound):
        runner.audit("other")
    with pytest.raises(InvalidId):
        runner.audit("../r")


def test_a_damaged_decision_is_named() -> None:
    """An audit that leaves out a line would be a wrong one."""
    runner = make_runner(TWO, make_pay(), clock=ManualClock())
    wait_id = expect(runner.start("go", run_id="r"), Suspended).waits[0].id
    runner.decide(wait_id, Approve())
    assert asyncio.run(read_decision(Objects(runner.store), wait_id)) is not None
    key = layout.decision_key(wait_id)
    store = SyncStore(runner.store)
    store.delete(key)
    store.create(key, b"CONT damaged")

    with pytest.raises(Corrupt, match=key):
        runner.audit("r")


# Rewinds and forks ------------------------------------------------------------


def test_rewind_is_a_line_with_its_person() -> None:
    runner = asking_run()
    version = version_with(runner, "pay", "waiting")
    question = only_wait(runner)

    rewound = runner.rewind(
        RUN_ID, version, by=Identity("lee", ["ops"]), door=Door("console", "proxy")
    )

    lines = Runner([], store=runner.store).audit(RUN_ID)
    (line,) = [each for each in lines if each.verdict == "rewind"]
    assert ("run", "lee", "console", "proxy", f"to version {version}") == (
        line.kind,
        line.by,
        line.door,
        line.authentication,
        line.reason,
    )
    (stored,) = [v for v in runner.history(RUN_ID) if v.number == rewound.version]
    assert stored.at == line.at
    (closed,) = [each for each in lines if each.wait == question.id]
    assert ("cancel", "lee", "console") == (closed.verdict, closed.by, closed.door)


@pytest.mark.parametrize("clock", [SystemClock(), ManualClock()], ids=["", "stopped"])
def test_each_rewind_is_a_line_of_its_own(clock: Any) -> None:
    """The time of two rewinds may be the same."""
    runner = asking_run(clock=clock)
    version = version_with(runner, "pay", "waiting")
    for person in ("kim", "lee"):
        runner.rewind(RUN_ID, version, by=person)

    found = [each for each in runner.audit(RUN_ID) if each.verdict == "rewind"]

    assert [("kim", "python"), ("lee", "python")] == [
        (each.by, each.door) for each in found
    ]


def test_rewind_that_ended_no_open_wait_has_no_name() -> None:
    """A decision that was recorded before keeps its own person."""
    runner = asking_run()
    version = version_with(runner, "pay", "waiting")
    runner.decide(only_wait(runner).id, Answer("red", by="kim"))
    runner.rewind(RUN_ID, version, by="lee")

    (line,) = [each for each in runner.audit(RUN_ID) if each.verdict == "rewind"]

    assert (None, f"to version {version}") == (line.by, line.reason)


def test_fork_tells_of_its_source() -> None:
    runner = asking_run()
    runner.fork(RUN_ID, 2, run_id="fork", by="lee")

    (line,) = runner.audit("fork")

    assert ("run", "fork", "lee", f"version 2 of run {RUN_ID}") == (
        line.kind,
        line.verdict,
        line.by,
        line.reason,
    )
    assert runner.look("fork").run_state.run.created_at == line.at
    assert [] == runner.audit("fork", past=False)


def test_audit_of_a_run_with_a_damaged_version_has_its_other_lines() -> None:
    runner = asking_run()
    version = version_with(runner, "pay", "waiting")
    runner.rewind(RUN_ID, version, by="lee")

    asyncio.run(runner.store.delete(layout.version_key(RUN_ID, 2)))

    assert "rewind" in {each.verdict for each in runner.audit(RUN_ID)}
