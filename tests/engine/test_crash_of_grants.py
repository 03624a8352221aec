"""A process dies at each storage operation of grants, revocations, rules and batches.

Effects are counted by the external log. Where agents are nested, a fresh interpreter
resumes the run.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from continuations import (
    ApprovalPolicy,
    Approve,
    Deny,
    Finished,
    Grant,
    Runner,
    Suspended,
)
from continuations_storage import MemoryStore, open_store
from tests.clocks import ManualClock
from tests.crash_points import every_crash
from tests.engine.test_grants import SMALL, make_pay, make_runner, turns
from tests.run_environment import KILLED
from tests.sampling import sample
from tests.scripts import call

if TYPE_CHECKING:
    from continuations import Outcome, Wait
    from continuations_storage import Store
    from tests.run_environment import RunEnvironment
    from tests.scripts import Script

MOMENTS = pytest.mark.parametrize("moment", ["before", "after"])


class Office:
    """A store with a clock, and the processes that share them."""

    def __init__(self, script: Any, policy: ApprovalPolicy | None = None) -> None:
        self.clock = ManualClock()
        self.store = MemoryStore(self.clock.now)
        self._script, self._policy = script, policy or ApprovalPolicy()

    def process(self, store: Store | None = None) -> Runner:
        """Return the runner of a new process."""
        return make_runner(
            self._script,
            make_pay(approval=self._policy),
            clock=self.clock,
            store=store or self.store,
        )

    def start(self) -> Wait:
        """Start the run in a process that stays alive; return its one wait."""
        return only_wait(self.process().start("go", run_id="r"))

    def resume(self) -> Outcome:
        """Resume the run in a new process, after the claim of the dead one."""
        self.clock.seconds += 120
        return self.process().resume("r")

    def finish(self) -> list[str]:
        """Approve what still waits until the run ends; return why each wait opened."""
        outcome, notes = self.resume(), list[str]()
        while isinstance(outcome, Suspended):
            for wait in outcome.waits:
                notes.append(f"{wait.kind} {wait.arguments['cents']}")
                self.process().decide(wait.id, Approve(by="kim"))
            outcome = self.resume()
        assert isinstance(outcome, Finished)
        for _ in range(2):
            self.clock.seconds += 120
            assert {} == self.process().sweep().errors
        assert [] == asyncio.run(self.store.keys("waits/"))
        return notes


def only_wait(outcome: Outcome) -> Wait:
    """Return the one open wait of a run."""
    assert isinstance(outcome, Suspended)
    [wait] = outcome.waits
    return wait


def effects_since(environment: RunEnvironment, before: int) -> list[str]:
    """Return the effects after the first ones."""
    return environment.effect_names()[before:]


@MOMENTS
def test_approval_with_a_grant_survives_a_crash(
    environment: RunEnvironment, moment: Any
) -> None:
    """The grant is given with the approval or not at all."""
    for point in every_crash(moment, more_than=3):
        office, before = Office(turns(5, 7)), len(environment.effect_names())
        wait = office.start()
        approve = Approve(by="kim", remember=Grant("pay", SMALL))
        with point.process(office.store) as dying:
            office.process(dying).decide(wait.id, approve)
        given = len(office.process().grants("r"))
        assert [] == effects_since(environment, before)

        asked = office.finish()

        # Without the grant both calls are approved by hand.
        assert ([] if given else ["approval 5", "approval 7"]) == asked, point
        assert ["pay 5", "pay 7"] == effects_since(environment, before), point


@MOMENTS
def test_covered_calls_survive_a_crash(
    environment: RunEnvironment, moment: Any
) -> None:
    """Each covered call runs once, or a person decides its unknown outcome."""
    for point in every_crash(moment, more_than=9, step=2):
        office, before = Office(turns(5, 7, 500)), len(environment.effect_names())
        wait = office.start()
        grant = Approve(by="kim", remember=Grant("pay", SMALL))
        office.process().decide(wait.id, grant)
        with point.process(office.store) as dying:
            office.process(dying).resume("r")

        outcome = office.resume()
        while (unknown := only_wait(outcome)).kind == "unknown":
            name = f"pay {unknown.arguments['cents']}"
            ran = name in effects_since(environment, before)
            verdict = Deny(reason="it was paid") if ran else Approve(by="kim")
            office.process().decide(unknown.id, verdict)
            outcome = office.resume()

        assert {"cents": 500} == only_wait(outcome).arguments, point
        assert ["pay 5", "pay 7"] == effects_since(environment, before), point
        lines = office.process().audit("r")
        by_rule = [line for line in lines if line.door == "rule"]
        assert 1 == len(by_rule), point
        assert (by_rule[0].rule or "").startswith("grant "), point


@MOMENTS
def test_revocation_survives_a_crash(environment: RunEnvironment, moment: Any) -> None:
    """A stored revocation counts; the same call again stores it once."""
    for point in every_crash(moment, more_than=3):
        office, before = Office(turns(5, 500, 7)), len(environment.effect_names())
        wait = office.start()
        grant = Approve(by="kim", remember=Grant("pay", SMALL))
        office.process().decide(wait.id, grant)
        second = only_wait(office.resume())
        [given] = office.process().grants("r")
        with point.process(office.store) as dying:
            office.process(dying).revoke("r", given.id, by="lee")
        stored = asyncio.run(office.store.keys("runs/r/in/g-"))
        assert [bool(stored)] == [g.revoked for g in office.process().grants("r")]

        office.process().revoke("r", given.id, by="lee")
        assert 1 == len(asyncio.run(office.store.keys("runs/r/in/g-"))), point
        office.process().decide(second.id, Approve(by="kim"))

        assert ["approval 7"] == office.finish(), point
        assert ["pay 5", "pay 500", "pay 7"] == effects_since(environment, before)


def small_amounts(cents: int) -> bool | Approve | Deny:
    """Approve small amounts, deny large ones, and ask about the others."""
    if cents < 10:
        return Approve(reason="small")
    return Deny(reason="too large") if cents > 1000 else True


@MOMENTS
def test_decisions_of_rules_survive_a_crash(
    environment: RunEnvironment, moment: Any
) -> None:
    """Each call has one record of the rule; the denied one never runs."""
    policy = ApprovalPolicy(when=small_amounts)
    for point in every_crash(moment, more_than=9, step=2):
        office = Office(turns(5, 5000, 7), policy)
        before = len(environment.effect_names())
        with point.process(office.store) as dying:
            office.process(dying).start("go", run_id="r")
        office.clock.seconds += 120
        outcome = office.process().start("go", run_id="r")
        while isinstance(outcome, Suspended):
            [unknown] = outcome.waits
            assert "unknown" == unknown.kind, point
            name = f"pay {unknown.arguments['cents']}"
            ran = name in effects_since(environment, before)
            verdict = Deny(reason="it was paid") if ran else Approve(by="kim")
            office.process().decide(unknown.id, verdict)
            outcome = office.resume()

        assert isinstance(outcome, Finished), point
        assert ["pay 5", "pay 7"] == effects_since(environment, before), point
        lines = [line for line in office.process().audit("r") if line.door == "rule"]
        assert {("small_amounts", None)} == {(line.rule, line.by) for line in lines}
        verdicts = sorted(str(line.verdict) for line in lines)
        assert ["approve", "approve", "deny"] == verdicts, point


@MOMENTS
def test_batch_survives_a_crash(environment: RunEnvironment, moment: Any) -> None:
    """The same batch again completes what is missing, and changes nothing else."""
    script = {"go": [[call("pay", cents=n) for n in (1, 2, 3)], "end"]}
    for point in every_crash(moment, more_than=8, step=2):
        office, before = Office(script), len(environment.effect_names())
        outcome = office.process().start("go", run_id="r")
        assert isinstance(outcome, Suspended)
        one, two, three = (wait.id for wait in outcome.waits)
        verdicts: dict[str, Any] = {
            one: Approve(by="kim"),
            two: Deny(by="kim"),
            three: Approve(by="kim"),
        }
        with point.process(office.store) as dying:
            office.process(dying).decide_all(verdicts)
        recorded = decided(office)
        assert [] == effects_since(environment, before), point

        again = office.process().decide_all(verdicts)

        assert set(verdicts) == set(again), point
        assert recorded.items() <= decided(office).items(), point
        assert 3 == len(decided(office)), point
        assert [] == office.finish(), point
        assert ["pay 1", "pay 3"] == sorted(effects_since(environment, before)), point


def decided(office: Office) -> dict[str, bytes]:
    """Return the recorded decisions of the run."""
    keys = asyncio.run(office.store.keys("runs/r/in/d-"))
    return {key: asyncio.run(office.store.read(key)) for key in keys}


DEEP_SCRIPT: Script = {
    "go": [[call("left", input="A")], "all"],
    "A": [[call("clerk", input="C")], "A done"],
    "C": [[call("pay", what=each)] for each in ("1", "2", "3")] + ["C done"],
}
LATER = {"ahead": "60"}
KILLS = sample([(n, m) for n in range(3, 16) for m in ("before", "after")], 11)


@pytest.mark.fresh_interpreters
@pytest.mark.parametrize(("number", "moment"), KILLS)
def test_grant_of_a_nested_call_survives_a_kill(
    environment: RunEnvironment, number: int, moment: str
) -> None:
    """Each step is a fresh interpreter; the grant covers calls three agents deep."""
    [wait] = environment.start(DEEP_SCRIPT)["waits"]
    decider = Runner([], store=open_store(environment.store))
    decider.decide(wait["id"], Approve(by="kim", remember=Grant("pay")))
    dead = environment.spawn(
        "resume", "r1", script=DEEP_SCRIPT, fault=f"{number} {moment}"
    )
    assert KILLED == dead.wait()

    result = environment.resume(DEEP_SCRIPT, **LATER)
    while result["kind"] == "Suspended":
        [wait] = result["waits"]
        assert "unknown" == wait["kind"]
        ran = f"pay {wait['arguments']['what']}" in environment.effect_names()
        paid: dict[str, Any] = {"answer": {"value": "paid"}}
        approve: dict[str, Any] = {"approve": {}}
        known = paid if ran else approve
        environment.decide(wait, known)
        result = environment.resume(DEEP_SCRIPT, **LATER)

    assert ("Finished", "all") == (result["kind"], result["output"])
    assert ["pay 1", "pay 2", "pay 3"] == environment.effect_names()
    assert [] == environment.keys("waits/")


def test_revocation_counts_for_the_worker_after_a_kill(
    environment: RunEnvironment,
) -> None:
    """A worker dies in a covered call; the next worker asks about the call after it."""
    script: Script = {
        **DEEP_SCRIPT,
        "C": [
            [call("pay", what="1")],
            [call("pay", what="2", then="die")],
            [call("pay", what="3")],
            "C done",
        ],
    }
    [wait] = environment.start(script)["waits"]
    decider = Runner([], store=open_store(environment.store))
    decider.decide(wait["id"], Approve(by="kim", remember=Grant("pay")))
    assert KILLED == environment.spawn("resume", "r1", script=script).wait()
    [grant] = decider.grants("r1")
    decider.revoke("r1", grant.id, by="lee")

    [unknown] = environment.resume(script, **LATER)["waits"]
    assert ("unknown", "2") == (unknown["kind"], unknown["arguments"]["what"])
    environment.decide(unknown, {"answer": {"value": "paid"}})
    [asked] = environment.resume(script, **LATER)["waits"]

    assert ("approval", "3") == (asked["kind"], asked["arguments"]["what"])
    assert ["pay 1", "pay 2"] == environment.effect_names()
