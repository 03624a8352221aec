"""Grants: one approval covers later calls of a run, until it ends or is revoked."""

from __future__ import annotations

from contextlib import suppress
from datetime import datetime, timedelta
from typing import Any

import pytest

from continuations import (
    Agent,
    Answer,
    ApprovalPolicy,
    Approve,
    AsyncRunner,
    Finished,
    Grant,
    Outcome,
    Runner,
    Suspended,
    resume,
    run,
    tool,
)
from continuations.errors import DecisionRefused, InvalidInput, RunNotFound
from continuations.present.requests import FieldsInvalid, parse_grant
from continuations.results import Decision, Door
from continuations.tools import Tool
from continuations_storage import MemoryStore, faults
from continuations_storage.faults import (
    FaultyStore,
    ForwardingStore,
    lost_reply,
    on,
    refused,
)
from tests import effect_log
from tests.clocks import ManualClock
from tests.engine.agent_builders import make_boss, text_tool
from tests.outcomes import expect, single_wait
from tests.scripts import call, scripted_model

SMALL = {"properties": {"cents": {"maximum": 100}}}


def make_pay(**options: Any) -> Tool[..., Any]:
    options.setdefault("approval", ApprovalPolicy())
    return text_tool("pay", "paid {cents}", {"cents": int}, logs=True, **options)


def turns(*cents: int) -> Any:
    """Return a script with one payment in each turn."""
    return {"go": [*([call("pay", cents=each)] for each in cents), "end"]}


def make_runner(
    script: Any, *tools: Tool[..., Any], clock: ManualClock, store: Any = None
) -> Runner:
    """Return a runner on a store whose time is that of the clock."""
    return Runner(
        make_boss(script, *(tools or (make_pay(),))),
        store=store or MemoryStore(clock.now),
        clock=clock,
    )


def approve_once(runner: Runner, grant: Grant | None, run_id: str = "r") -> Outcome:
    """Start a run, approve its first call with a grant, and resume it."""
    wait = single_wait(runner.start("go", run_id=run_id))
    runner.decide(wait.id, Approve(by="kim", remember=grant))
    return runner.resume(run_id)


def test_a_grant_covers_later_calls_that_match_its_schema() -> None:
    """A call outside of the schema waits for a person, as before."""
    runner = make_runner(turns(5, 7, 500, 9), clock=ManualClock())

    wait = single_wait(approve_once(runner, Grant("pay", SMALL)))

    assert {"cents": 500} == wait.arguments
    assert ["pay 5", "pay 7"] == effect_log.names()
    runner.decide(wait.id, Approve())
    assert isinstance(runner.resume("r"), Finished)
    assert ["pay 5", "pay 7", "pay 500", "pay 9"] == effect_log.names()


def test_a_grant_does_not_cover_a_call_that_already_waits() -> None:
    """A person saw each of them: calls of one turn, and one of a sub-agent beside."""
    pay = make_pay()
    script = {
        "go": [
            [call("pay", cents=1), call("pay", cents=2), call("clerk", input="C")],
            [call("pay", cents=4)],
            "end",
        ],
        "C": [[call("pay", cents=3)], "C done"],
    }
    model = scripted_model(script)
    clerk = Agent("clerk", tools=[pay], model=model)
    boss = Agent("boss", tools=[pay, clerk], model=model)
    runner = Runner(boss, store=MemoryStore())
    outcome = expect(runner.start("go", run_id="r"), Suspended)
    one, *others = sorted(outcome.waits, key=lambda wait: wait.arguments["cents"])

    runner.decide(one.id, Approve(by="kim", remember=Grant("pay")))
    outcome = expect(runner.resume("r"), Suspended)

    assert {wait.id for wait in others} == {wait.id for wait in outcome.waits}
    assert ["pay 1"] == effect_log.names()
    for wait in others:
        runner.decide(wait.id, Approve(by="kim"))
    # The call of the next turn is covered.
    assert isinstance(runner.resume("r"), Finished)
    assert ["pay 1", "pay 2", "pay 3"] == sorted(effect_log.names()[:3])
    assert ["pay 4"] == effect_log.names()[3:]


def test_decisions_by_a_grant_are_recorded_and_readable_after_the_end() -> None:
    runner = make_runner(turns(5, 7), clock=ManualClock())
    assert isinstance(approve_once(runner, Grant("pay", SMALL)), Finished)

    given, by_grant = sorted(runner.audit("r"), key=lambda line: line.door or "")

    assert ("approve", "kim", "python") == (given.verdict, given.by, given.door)
    assert ("approve", None, "rule") == (by_grant.verdict, by_grant.by, by_grant.door)
    assert given.rule == by_grant.rule
    assert (given.rule or "").startswith("grant ")
    assert [] == runner.grants("r")


def test_a_grant_ends_at_its_time(clock: ManualClock) -> None:
    """Also for a call that the grant approved before, and that begins later."""
    runner = make_runner(turns(5, 7, 8), clock=clock)
    until = clock.now() + timedelta(seconds=50)
    wait = single_wait(runner.start("go", run_id="r"))
    runner.decide(wait.id, Approve(remember=Grant("pay", until=until)))
    assert [until] == [grant.until for grant in runner.grants("r")]
    clock.seconds += 60

    waits_again = single_wait(runner.resume("r"))

    assert {"cents": 7} == waits_again.arguments
    assert ["pay 5"] == effect_log.names()
    assert [] == runner.grants("r")


@pytest.mark.parametrize(
    "until", ["9999-12-31T23:59:59-23:59", "0001-01-01T00:00:00+23:59", "2027-01-01"]
)
def test_a_grant_until_a_time_that_no_clock_reaches_is_refused(until: str) -> None:
    """Its decision could not be read again, and the run would be stuck."""
    with pytest.raises(InvalidInput, match="until must be a datetime with a time zone"):
        Grant("pay", until=datetime.fromisoformat(until))
    with pytest.raises(FieldsInvalid, match="in the years 1 to 9999 of UTC"):
        parse_grant({"tool": "pay", "until": until})


def test_a_revoked_grant_covers_nothing_after_the_next_claim() -> None:
    clock = ManualClock()
    runner = make_runner(turns(5, 500, 7), clock=clock)
    wait = single_wait(approve_once(runner, Grant("pay", SMALL)))
    [grant] = runner.grants("r")
    assert (SMALL, "pay", False) == (grant.arguments, grant.tool, grant.revoked)
    assert ("boss", "pay") == grant.path

    runner.revoke("r", grant.id, by="lee", reason="enough", door=Door("console"))
    runner.revoke("r", grant.id)
    assert [True] == [each.revoked for each in runner.grants("r")]
    runner.decide(wait.id, Approve())

    assert {"cents": 7} == single_wait(runner.resume("r")).arguments
    assert ["pay 5", "pay 500"] == effect_log.names()
    assert [] == runner.grants("r")
    [line] = [line for line in runner.audit("r") if line.verdict == "revoke"]
    assert ("lee", "enough", "console") == (line.by, line.reason, line.door)
    assert f"grant {grant.id}" == line.rule


def test_a_grant_that_is_revoked_before_it_is_applied_covers_nothing() -> None:
    runner = make_runner(turns(5, 7), clock=ManualClock())
    wait = single_wait(runner.start("go", run_id="r"))
    decision = runner.decide(wait.id, Approve(remember=Grant("pay")))
    [grant] = runner.grants("r")
    assert (decision.id, None) == (grant.id, grant.contract)

    runner.revoke("r", grant.id)

    assert {"cents": 7} == single_wait(runner.resume("r")).arguments
    assert ["pay 5"] == effect_log.names()


def test_an_approved_call_that_lost_its_grant_waits_for_a_person() -> None:
    """The grant approved the call, the worker stopped, and the grant was revoked."""
    clock = ManualClock()
    store = MemoryStore(clock.now)
    runner = make_runner(turns(5, 7), clock=clock, store=store)
    wait = single_wait(runner.start("go", run_id="r"))
    runner.decide(wait.id, Approve(remember=Grant("pay")))
    looks = iter([False, False, False, False, False, True])
    paused = runner.resume("r", should_pause=lambda: next(looks, True))
    assert isinstance(paused, Suspended)
    [ready] = list(paused.continuation.run_state.calls.values())
    [grant] = runner.grants("r")
    assert grant.id == ready.grant

    runner.revoke("r", grant.id)
    held = single_wait(runner.resume("r"))

    assert "revoked" in (held.note or "")
    assert ["pay 5"] == effect_log.names()


@pytest.mark.parametrize(
    "changed",
    [
        {"version": "2"},
        {"approval": ApprovalPolicy(strict=True)},
    ],
)
def test_a_grant_does_not_cover_another_contract(changed: dict[str, Any]) -> None:
    """The grant is bound to the contract that the approver saw."""
    clock = ManualClock()
    store = MemoryStore(clock.now)
    script = turns(5, 500, 7)
    first = make_runner(script, make_pay(), clock=clock, store=store)
    wait = single_wait(approve_once(first, Grant("pay", SMALL)))
    first.decide(wait.id, Approve())

    second = make_runner(script, make_pay(**changed), clock=clock, store=store)
    held = single_wait(second.resume("r"))

    # The approval of 500 was for the old contract as well.
    assert {"cents": 500} == held.arguments
    second.decide(held.id, Approve())
    assert {"cents": 7} == single_wait(second.resume("r")).arguments
    assert ["pay 5", "pay 500"] == effect_log.names()


def test_a_grant_covers_no_call_of_another_run_agent_or_tool() -> None:
    """The approver saw one place in one run."""
    clock = ManualClock()
    pay = make_pay()
    script: Any = {
        "go": [[call("pay", cents=1)], [call("deputy", input="sub")], "end"],
        "sub": [[call("pay", cents=2)], "done"],
    }
    deputy = Agent("deputy", tools=[pay], model=scripted_model(script))
    boss = make_boss(script, pay, deputy)
    runner = Runner(boss, store=MemoryStore(clock.now), clock=clock)

    other = single_wait(approve_once(runner, Grant("pay")))
    assert ("boss", "deputy", "pay") == other.path
    another_run = single_wait(runner.start("go", run_id="r2"))
    assert {"cents": 1} == another_run.arguments
    assert isinstance(runner.adopt(runner.look("r"), run_id="r3"), Suspended)
    assert [] == runner.grants("r3")
    assert ["pay 1"] == effect_log.names()


def test_a_worker_that_holds_the_claim_may_use_a_revoked_grant() -> None:
    """The documented limit: revocations are read before the claim, and not after it."""
    clock = ManualClock()
    store = MemoryStore(clock.now)
    script = turns(5, 6, 500, 7)
    clerk = Runner([], store=store, clock=clock)

    @tool(approval=True)
    def pay(cents: int) -> str:
        """Pay; the grant is revoked while the first payment is made."""
        effect_log.append_effect("pay", str(cents))
        if cents == 5:
            [grant] = clerk.grants("r")
            clerk.revoke("r", grant.id, by="lee")
        return f"paid {cents}"

    runner = make_runner(script, pay, clock=clock, store=store)
    wait = single_wait(approve_once(runner, Grant("pay", SMALL)))

    assert {"cents": 500} == wait.arguments
    assert ["pay 5", "pay 6"] == effect_log.names()
    runner.decide(wait.id, Approve())
    # The next worker reads the revocation.
    assert {"cents": 7} == single_wait(runner.resume("r")).arguments


class _RevokedAtTheClaim(ForwardingStore):
    """A store in which a grant is revoked right before a worker takes its claim."""

    def __init__(self, store: MemoryStore, clerk: AsyncRunner) -> None:
        super().__init__(store)
        self._clerk = clerk

    async def create(self, key: str, body: bytes) -> datetime | None:
        """Create a key; before the first version, the grant is revoked."""
        grants = await self._clerk.grants("r") if "/v/" in key else []
        for grant in grants:
            if not grant.revoked:
                await self._clerk.revoke("r", grant.id)
        return await super().create(key, body)


def test_a_revocation_after_the_read_of_a_worker_counts_for_the_next_one() -> None:
    """The documented limit: a worker reads a run, and then takes its claim."""
    clock = ManualClock()
    store = MemoryStore(clock.now)
    script = turns(5, 6, 500, 7)
    runner = make_runner(script, clock=clock, store=store)
    wait = single_wait(runner.start("go", run_id="r"))
    runner.decide(wait.id, Approve(remember=Grant("pay", SMALL)))
    clerk = AsyncRunner([], store=store, clock=clock)
    late = make_runner(script, clock=clock, store=_RevokedAtTheClaim(store, clerk))

    wait = single_wait(late.resume("r"))

    assert {"cents": 500} == wait.arguments
    assert ["pay 5", "pay 6"] == effect_log.names()
    runner.decide(wait.id, Approve())
    assert {"cents": 7} == single_wait(runner.resume("r")).arguments


def test_a_grant_works_without_a_store() -> None:
    agent = make_boss(turns(5, 7), make_pay())
    first = run(agent, "go")
    wait = single_wait(first)

    answers = {wait.id: Approve(remember=Grant("pay", SMALL))}
    last = resume(first.continuation.to_bytes(), agent, answers=answers)

    assert isinstance(last, Finished)
    assert ["pay 5", "pay 7"] == effect_log.names()


def test_a_decision_that_cannot_be_recorded_goes_to_a_person() -> None:
    """A call by a grant without a record would be missing in the audit."""
    clock = ManualClock()
    good = MemoryStore(clock.now)
    runner = make_runner(turns(5, 7), clock=clock, store=good)
    wait = single_wait(runner.start("go", run_id="r"))
    runner.decide(wait.id, Approve(remember=Grant("pay")))
    faulty = FaultyStore(good, on("create", refused(), prefix="runs/r/in/d-"))

    held = single_wait(make_runner(turns(5, 7), clock=clock, store=faulty).resume("r"))

    assert "not recorded" in (held.note or "")
    assert ["pay 5"] == effect_log.names()


def test_a_lost_reply_records_one_decision_by_a_grant(clock: ManualClock) -> None:
    good = MemoryStore(clock.now)
    runner = make_runner(turns(5, 7), clock=clock, store=good)
    wait = single_wait(runner.start("go", run_id="r"))
    runner.decide(wait.id, Approve(remember=Grant("pay")))
    faulty = FaultyStore(good, on("create", lost_reply(), prefix="runs/r/in/d-"))
    outcome = make_runner(turns(5, 7), clock=clock, store=faulty).resume("r")
    if isinstance(outcome, Suspended):
        runner.decide(single_wait(outcome).id, Approve())
        outcome = runner.resume("r")

    assert isinstance(outcome, Finished)
    assert ["pay 5", "pay 7"] == effect_log.names()


REFUSED: dict[str, tuple[Any, str]] = {
    "another tool": (Grant("refund"), "another tool"),
    "no grant": ({"tool": "pay"}, "must be a Grant"),
    "no schema": (Grant("pay", {"type": 7}), "JSON Schema"),
    "a long schema": (Grant("pay", {"title": "x" * 3000}), "maximum"),
    "not JSON": (Grant("pay", {"const": {1}}), "cannot be stored"),
    "a reference": (
        Grant("pay", {"$ref": "http://127.0.0.1:9/schema.json"}),
        "JSON Schema",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_a_grant_that_does_not_fit_is_refused_when_it_is_given(name: str) -> None:
    grant, why = REFUSED[name]
    runner = make_runner(turns(5), clock=ManualClock())
    wait = single_wait(runner.start("go", run_id="r"))

    with pytest.raises(DecisionRefused, match=why):
        runner.decide(wait.id, Approve(remember=grant))

    assert [] == runner.audit("r")


def test_one_of_several_approvers_cannot_give_a_grant() -> None:
    pay = make_pay(approval=ApprovalPolicy(votes=2))
    runner = make_runner(turns(5), pay, clock=ManualClock())
    wait = single_wait(runner.start("go", run_id="r"))

    for person in ("kim", "lee"):
        with pytest.raises(DecisionRefused, match="several persons"):
            runner.decide(wait.id, Approve(by=person, remember=Grant("pay")))
        runner.decide(wait.id, Approve(by=person))


@pytest.mark.parametrize(
    "options",
    [
        {"tool": ""},
        {"tool": 7},
        {"arguments": "cents < 100"},
        {"until": datetime(2027, 1, 1)},  # noqa: DTZ001 - that is the mistake
        {"until": 60},
    ],
)
def test_an_invalid_grant_cannot_be_made(options: dict[str, Any]) -> None:
    make: Any = Grant

    with pytest.raises(InvalidInput):
        make(**{"tool": "pay", **options})


def test_revoke_names_the_grants_of_the_run() -> None:
    runner = make_runner(turns(5, 500), clock=ManualClock())
    approve_once(runner, Grant("pay", SMALL))
    [grant] = runner.grants("r")

    with pytest.raises(InvalidInput, match=grant.id):
        runner.revoke("r", "other")
    with pytest.raises(RunNotFound):
        runner.revoke("r9", grant.id)
    with pytest.raises(RunNotFound):
        runner.grants("r9")


def test_only_the_newest_grants_are_kept(clock: ManualClock) -> None:
    """The row of the run stands in every version, so its size has a limit."""
    runner = make_runner(turns(*range(200, 225)), clock=clock)
    outcome = runner.start("go", run_id="r")
    given: list[str] = []
    kept: list[str] = []
    while isinstance(outcome, Suspended):
        clock.seconds += 1
        approve = Approve(remember=Grant("pay", SMALL))
        given.append(runner.decide(single_wait(outcome).id, approve).id)
        kept = [grant.id for grant in runner.grants("r")]
        outcome = runner.resume("r")

    assert given[-21:] == kept


def test_runs_without_grants_make_no_request_more() -> None:
    """A revocation is read with the other arrivals, and a grant with the run."""
    requests: list[list[str]] = []
    for grant in (None, Grant("pay", {"properties": {"cents": {"const": 1}}})):
        clock = ManualClock()
        store = MemoryStore(clock.now)
        seen: list[str] = []
        runner = make_runner(turns(5), clock=clock, store=_CountingStore(store, seen))
        assert isinstance(approve_once(runner, grant), Finished)
        requests.append(seen)

    assert requests[0] == requests[1]


class _CountingStore:
    """A store that notes the names of its operations."""

    def __init__(self, store: MemoryStore, seen: list[str]) -> None:
        self._store, self._seen = store, seen

    def __getattr__(self, name: str) -> Any:
        if name in ("create", "read", "keys", "delete"):
            self._seen.append(name)
        return getattr(self._store, name)


# Policies that say who may approve --------------------------------------------


TWICE: Any = {"go": [[call("pay", cents=5)], [call("pay", cents=7)], "end"]}
BY_KIM = Approve(by="kim", remember=Grant("pay"))


def make_agent(**policy: Any) -> Agent:
    @tool(approval=ApprovalPolicy(**policy))
    def pay(cents: int) -> str:
        """Pay an amount."""
        effect_log.append_effect("pay", cents)
        return f"paid {cents}"

    return make_boss(TWICE, pay)


def test_a_grant_of_an_approver_covers_later_calls() -> None:
    agent = make_agent(approvers=["kim"], not_requester=True)
    runner = Runner(agent, store="memory:")
    wait = single_wait(runner.start("go", run_id="r", by="jane"))
    runner.decide(wait.id, BY_KIM)

    assert isinstance(runner.resume("r"), Finished)
    assert ["pay 5", "pay 7"] == effect_log.names()


@pytest.mark.parametrize(
    "policy", [{"votes": 2}, {"not_requester": True}, {"approvers": ["lee"]}]
)
def test_a_grant_ends_when_the_policy_asks_other_persons(
    policy: dict[str, Any], store: MemoryStore
) -> None:
    """One person gave it under a policy that any person could decide."""
    first = Runner(make_agent(), store=store)
    first.decide(single_wait(first.start("go", run_id="r")).id, BY_KIM)

    held = single_wait(Runner(make_agent(**policy), store=store).resume("r"))

    assert {"cents": 7} == held.arguments
    assert ["pay 5"] == effect_log.names()


def test_unknown_outcome_of_a_granted_call_is_decided_by_the_approvers() -> None:
    """A grant started the call, so no wait of the call had the approvers before."""
    agent = make_agent(approvers=["kim"])
    runner, skip = Runner(agent, store="memory:"), 0
    # The worker dies at the first version after the second payment.
    while effect_log.names()[-1:] != ["pay 7"]:
        clock = ManualClock()
        store = MemoryStore(clock.now)
        runner = Runner(agent, store=store, clock=clock)
        runner.decide(single_wait(runner.start("go", run_id="r")).id, BY_KIM)
        crash = faults.crashed("before")
        dies = faults.on("create", crash, prefix="runs/r/v/", skip=skip)
        dying = Runner(agent, store=faults.FaultyStore(store, dies), clock=clock)
        with suppress(faults.Crash):
            dying.resume("r")
        clock.seconds += 60
        skip += 1

    unknown = single_wait(runner.resume("r"))

    assert ("unknown", {"cents": 7}) == (unknown.kind, unknown.arguments)
    assert ("kim",) == unknown.approvers
    with pytest.raises(DecisionRefused, match="eve is not one of its approvers"):
        runner.decide(unknown.id, Answer("paid 7", by="eve"))
    assert isinstance(runner.decide(unknown.id, Answer("paid 7", by="kim")), Decision)
