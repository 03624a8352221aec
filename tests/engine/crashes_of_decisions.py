"""Crashes of decisions: votes, escalations, grants, rules, batches, notices."""

from __future__ import annotations

from datetime import timedelta
from typing import Annotated, Any, ClassVar

from continuations import (
    Agent,
    ApprovalPolicy,
    Approve,
    Deny,
    Finished,
    Grant,
    Outcome,
    Suspended,
    Wait,
    escalate,
    tool,
)
from continuations.results import Decision, Vote
from continuations.tools import Secret
from continuations_storage import Store
from tests import effect_log
from tests.engine import payment_agent
from tests.engine.agent_builders import make_boss
from tests.engine.crash_scenario import DAY, RunToItsEnd, Scenario, tell
from tests.engine.test_grants import SMALL, make_pay, turns
from tests.outcomes import expect, single_wait
from tests.scripts import call
from tests.stores import StoreWithListingTime

# Votes -------------------------------------------------------------------------------

TWO_OF_US = ApprovalPolicy(
    approvers=["kim", "lee"],
    votes=2,
    within=timedelta(days=1),
    on_deadline=escalate(to=["cfo"], within=timedelta(days=1)),
)


class _Votes(Scenario):
    """A payment that two persons approve, and after a day one other."""

    wait: Wait

    def agents(self) -> Agent:
        @tool(approval=TWO_OF_US)
        def pay(cents: int) -> str:
            """Pay an amount."""
            effect_log.append_effect("pay", cents)
            return f"paid {cents}"

        return make_boss({"go": [[call("pay", cents=5)], "end"]}, pay)

    def options(self) -> dict[str, Any]:
        return {"notify": tell}

    def before(self) -> None:
        self.wait = self.start()

    def vote(self, name: str, **verdict: Any) -> Decision | Vote:
        return self.process().decide(self.wait.id, Approve(by=name, **verdict))

    def end(self) -> None:
        assert {} == self.process().sweep().errors
        assert isinstance(self.process().resume(self.run_id), Finished)
        assert 1 == len(self.effects("told"))


class FirstVote(_Votes):
    """The vote is recorded once or not at all; nothing runs before the second one."""

    more_than = 4

    def dies(self) -> None:
        self.vote("kim")

    def then(self) -> None:
        self.process().sweep()
        assert [] == self.effects("told")
        self.vote("kim")
        votes = self.process().wait(self.wait.id).votes
        assert ["kim"] == [vote.by for vote in votes]
        self.vote("lee")
        self.end()


class LastVote(_Votes):
    """A sweep finishes the decision, or the vote was not recorded; it counts once."""

    verdict: ClassVar[dict[str, Any]] = {}

    def before(self) -> None:
        super().before()
        assert isinstance(self.vote("kim"), Vote)

    def dies(self) -> None:
        self.vote("lee", **self.verdict)

    def then(self) -> None:
        """Sweep, and vote again if nothing was recorded."""
        assert {} == self.process().sweep().errors
        if isinstance(self.process().resume(self.run_id), Suspended):
            again = expect(self.vote("lee", **self.verdict), Decision)
            assert ("kim", "lee") == again.voters
        self.end()


class EqualVotesWithASecret(LastVote):
    """The arguments as shown, and no arguments, are the same vote for every process."""

    verdict: ClassVar[dict[str, Any]] = {"arguments": {"cents": 5, "pin": "[secret]"}}

    def agents(self) -> Agent:
        @tool(approval=TWO_OF_US)
        def pay(cents: int, pin: Annotated[str, Secret()]) -> str:
            """Pay an amount."""
            effect_log.append_effect("pay", cents, pin=pin)
            return f"paid {cents}"

        return make_boss({"go": [[call("pay", cents=5, pin="hunter2")], "end"]}, pay)

    def before(self) -> None:
        super().before()
        shown = self.process().wait(self.wait.id).arguments
        assert self.verdict["arguments"] == shown

    def end(self) -> None:
        super().end()
        lines = self.process().audit(self.run_id)
        assert {"approve"} == {line.verdict.removeprefix("vote ") for line in lines}


class Escalation(_Votes):
    """The next approvers are notified, and they decide; earlier votes do not count."""

    more_than = 8

    def before(self) -> None:
        super().before()
        self.vote("kim")
        self.clock.seconds += DAY + 1

    def dies(self) -> None:
        self.process().sweep()

    def then(self) -> None:
        self.clock.seconds += 120
        assert {} == self.process().sweep().errors
        wait = self.process().wait(self.wait.id)
        assert (("cfo",), ()) == (wait.approvers, wait.votes)
        told = [each.get("approvers") for each in self.environment.effects()]
        assert ["cfo"] in told
        assert [False] == [each.expired for each in self.process().waiting()]
        assert [] == self.effects("told")
        self.vote("cfo")
        self.end()


# Grants, rules and batches -----------------------------------------------------------


class _Payments(Scenario):
    """Payments that people, grants and rules decide."""

    cents: ClassVar[tuple[int, ...]] = (5, 7)
    policy: ClassVar[ApprovalPolicy] = ApprovalPolicy()
    wait: Wait

    def agents(self) -> Agent:
        return make_boss(turns(*self.cents), make_pay(approval=self.policy))

    def before(self) -> None:
        self.wait = self.start()

    def grant(self) -> None:
        """Approve the first payment, and the small ones after it."""
        approve = Approve(by="kim", remember=Grant("pay", SMALL))
        self.process().decide(self.wait.id, approve)

    def settle(self, outcome: Outcome) -> Outcome:
        """Say the truth about unknown outcomes, until the run goes on without them."""
        while isinstance(outcome, Suspended) and outcome.waits[0].kind == "unknown":
            wait = single_wait(outcome)
            ran = f"pay {wait.arguments['cents']}" in self.effects()
            verdict = Deny(reason="it was paid") if ran else Approve(by="kim")
            self.process().decide(wait.id, verdict)
            outcome = self.resume()
        return outcome

    def approve_all(self) -> list[int]:
        """Approve what waits until the run ends; return the payments that waited."""
        outcome, asked = self.settle(self.resume()), list[int]()
        while isinstance(outcome, Suspended):
            for wait in outcome.waits:
                assert "approval" == wait.kind
                asked.append(wait.arguments["cents"])
                self.process().decide(wait.id, Approve(by="kim"))
            outcome = self.settle(self.resume())
        assert isinstance(outcome, Finished)
        return asked


class ApprovalWithAGrant(_Payments):
    """The grant is given with the approval or not at all."""

    more_than = 3

    def dies(self) -> None:
        self.grant()

    def then(self) -> None:
        """Without the grant, both payments are approved by hand."""
        given = len(self.process().grants(self.run_id))
        assert [] == self.effects()
        assert ([] if given else [5, 7]) == self.approve_all()
        assert ["pay 5", "pay 7"] == self.effects()


class CoveredCalls(_Payments):
    """Each covered call runs once, or a person decides its unknown outcome."""

    more_than = 9
    cents: ClassVar[tuple[int, ...]] = (5, 7, 500)

    def before(self) -> None:
        super().before()
        self.grant()

    def dies(self) -> None:
        self.process().resume(self.run_id)

    def then(self) -> None:
        """The payment that the grant does not cover is asked about."""
        assert [500] == self.approve_all()
        assert ["pay 5", "pay 7", "pay 500"] == self.effects()
        lines = self.process().audit(self.run_id)
        [by_rule] = [line for line in lines if line.door == "rule"]
        assert (by_rule.rule or "").startswith("grant ")


class RevocationAfterADeath(CoveredCalls):
    """A worker dies in a covered call; the next one asks about the calls after it."""

    step = 3
    cents = (5, 7, 9, 11)
    reaches = frozenset({"died between two payments"})

    def then(self) -> None:
        """Revoke the grant; no call begins by it any more."""
        for given in self.process().grants(self.run_id):
            self.process().revoke(self.run_id, given.id, by="lee")
        begun = self.effects()
        asked = self.approve_all()
        later = [f"pay {cents}" for cents in self.cents if f"pay {cents}" not in begun]
        # The first payment has the approval of a person, and the next one may have
        # begun without its effect.
        assert len(later) - len(asked) in (0, 1, 2)
        assert asked == list(self.cents[len(self.cents) - len(asked) :])
        assert [f"pay {cents}" for cents in self.cents] == self.effects()
        if len(asked) in (1, 2):
            self.reached.add("died between two payments")


class Revocation(_Payments):
    """A stored revocation counts; the same call again stores it once."""

    more_than = 3
    cents = (5, 500, 7)

    def before(self) -> None:
        super().before()
        self.grant()
        self.resume()

    def dies(self) -> None:
        [given] = self.process().grants(self.run_id)
        self.process().revoke(self.run_id, given.id, by="lee")

    def then(self) -> None:
        prefix = f"runs/{self.run_id}/in/g-"
        [given] = self.process().grants(self.run_id)
        assert bool(self.keys(prefix)) == given.revoked
        self.process().revoke(self.run_id, given.id, by="lee")
        assert 1 == len(self.keys(prefix))
        assert [500, 7] == self.approve_all()
        assert ["pay 5", "pay 500", "pay 7"] == self.effects()


def small_amounts(cents: int) -> bool | Approve | Deny:
    """Approve small amounts, deny large ones, and ask about the others."""
    if cents < 10:
        return Approve(reason="small")
    return Deny(reason="too large") if cents > 1000 else True


class Rules(_Payments):
    """Each call has one record of the rule; the denied one never runs."""

    more_than = 9
    cents = (5, 5000, 7)
    policy = ApprovalPolicy(when=small_amounts)

    def before(self) -> None:
        """Begin with nothing."""

    def dies(self) -> None:
        self.process().start("go", run_id=self.run_id)

    def then(self) -> None:
        self.clock.seconds += 120
        outcome = self.process().start("go", run_id=self.run_id)
        assert isinstance(self.settle(outcome), Finished)
        assert ["pay 5", "pay 7"] == self.effects()
        audit = self.process().audit(self.run_id)
        lines = [line for line in audit if line.door == "rule"]
        assert {("small_amounts", None)} == {(line.rule, line.by) for line in lines}
        verdicts = sorted(str(line.verdict) for line in lines)
        assert ["approve", "approve", "deny"] == verdicts


class Batch(_Payments):
    """The same batch again completes what is missing, and changes nothing else."""

    more_than = 8
    verdicts: dict[str, Any]

    def agents(self) -> Agent:
        script = {"go": [[call("pay", cents=n) for n in (1, 2, 3)], "end"]}
        return make_boss(script, make_pay())

    def before(self) -> None:
        outcome = expect(self.process().start("go", run_id=self.run_id), Suspended)
        verdicts = Approve(by="kim"), Deny(by="kim"), Approve(by="kim")
        ids = [wait.id for wait in outcome.waits]
        self.verdicts = dict(zip(ids, verdicts, strict=True))

    def dies(self) -> None:
        self.process().decide_all(self.verdicts)

    def recorded(self) -> list[tuple[Any, ...]]:
        """Return the decisions, with their times."""
        lines = self.process().audit(self.run_id)
        return [(line.wait, line.verdict, line.by, line.at) for line in lines]

    def then(self) -> None:
        recorded = self.recorded()
        assert [] == self.effects()
        assert set(self.verdicts) == set(self.process().decide_all(self.verdicts))
        assert set(recorded) <= set(self.recorded())
        assert 3 == len(self.recorded())
        assert [] == self.approve_all()
        assert ["pay 1", "pay 3"] == sorted(self.effects())


# Notices -----------------------------------------------------------------------------


class Notice(RunToItsEnd):
    """A wait is notified by the next process, and by no process after that."""

    more_than = 5
    step = 2

    def agents(self) -> Agent:
        return make_boss(payment_agent.ONE_PAY_SCRIPT, payment_agent.pay)

    def options(self) -> dict[str, Any]:
        return {"notify": tell}

    def dies(self) -> None:
        self.process().start("go", run_id=self.run_id)

    def then(self) -> None:
        self.clock.seconds += 120
        if not self.keys(f"runs/{self.run_id}/v/"):
            self.resume_to_end()  # the run does not exist yet
            return
        if self.recovery == "sweep":
            self.process().sweep()
        else:
            self.process().resume(self.run_id)

        [wait] = self.process().look(self.run_id).waits
        assert {f"told {wait.id}"} == set(self.effects())
        assert [wait.id] == [each.id for each in self.process().waiting()]
        count = len(self.effects())
        self.clock.seconds += 120
        self.process().sweep()
        self.process().resume(self.run_id)
        assert count == len(self.effects())
        self.resume_to_end()


class NoticeAfterADecision(Notice):
    """A store that tells its time needs no guard: the decision's marker serves."""

    more_than = 7

    def store_in_memory(self) -> Store:
        """Return a store that tells its time with listings, too."""
        return StoreWithListingTime(self.clock)

    def agents(self) -> Agent:
        script: Any = {"go": [[call("pay")], [call("pay")], "end"]}
        return make_boss(script, payment_agent.pay)

    def before(self) -> None:
        wait = self.start()
        self.process([]).decide(wait.id, Approve())
        self.environment.clear_logs()

    def dies(self) -> None:
        self.process().resume(self.run_id)

    def then(self) -> None:
        self.sweep()
        [wait] = self.process().look(self.run_id).waits
        assert f"told {wait.id}" in self.effects()
        self.resume_to_end()
