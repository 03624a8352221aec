"""The people who may decide: several, those after a deadline, and no requester."""

from __future__ import annotations

import asyncio
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
    Deny,
    Finished,
    Grant,
    Identity,
    Replied,
    Runner,
    Suspended,
    Wait,
    ask,
    escalate,
    tool,
)
from continuations.errors import (
    AlreadyDecided,
    DecisionRefused,
    InvalidInput,
    WaitExpired,
)
from continuations.ledger import layout
from continuations.models.scripted import ScriptedModel, ToolCall
from continuations.present.wait_words import rule_text
from continuations.results import Decision, Vote
from continuations.tools import Tool, ToolWait
from continuations_storage import MemoryStore, faults
from continuations_storage.faults import ForwardingStore
from tests import effect_log
from tests.clocks import ManualClock, ShiftedClock
from tests.crash_points import remaining_keys
from tests.engine.agent_builders import make_boss, make_pay, root_tool_results
from tests.outcomes import expect, single_wait
from tests.scripts import call

PAY: Any = {"go": [[call("pay", cents=5)], "end"]}


def make_runner(*, groups: Any = None, **policy: Any) -> Runner:
    """Return a runner whose tool `pay` has this approval policy."""
    clock = ManualClock()
    agent = make_boss(PAY, make_pay(**policy))
    store = MemoryStore(clock.now)
    return Runner(agent, store=store, clock=clock, groups=groups)


def wait_of(runner: Runner, **options: Any) -> str:
    """Start a run and return the id of its wait."""
    wait = single_wait(runner.start("go", run_id="r", **options))
    return wait.id


def start(**options: Any) -> tuple[Runner, str]:
    """Start a run whose tool `pay` has a policy; return the id of its wait, too."""
    runner = make_runner(**options)
    return runner, wait_of(runner)


def test_call_runs_after_as_many_votes_as_it_needs() -> None:
    """One vote of two leaves the wait open; the second one makes the decision."""
    runner, wait = start(approvers=["kim", "lee", "max"], votes=2)

    first = runner.decide(wait, Approve(by="kim"))
    between = runner.resume("r")
    shown = runner.wait(wait)
    second = runner.decide(wait, Approve(by="max"))
    end = runner.resume("r")

    assert isinstance(first, Vote)
    assert ("kim", 2, 1) == (first.by, first.votes_needed, first.still_needed)
    assert isinstance(between, Suspended)
    assert ("kim",) == tuple(vote.by for vote in shown.votes)
    assert ("kim", "lee", "max") == shown.approvers
    assert isinstance(second, Decision)
    assert ("max", ("kim", "max")) == (second.by, second.voters)
    assert isinstance(end, Finished)
    assert ["paid 5"] == list(root_tool_results(end))
    assert ["pay 5"] == effect_log.names()


def test_one_denial_ends_the_wait() -> None:
    """A denial after a vote for the call is the decision."""
    runner, wait = start(votes=3)
    runner.decide(wait, Approve(by="kim"))

    denial = runner.decide(wait, Deny(by="lee", reason="no"))
    runner.resume("r")

    assert isinstance(denial, Decision)
    assert ("deny", "lee", ()) == (denial.kind, denial.by, denial.voters)
    assert [] == effect_log.names()
    with pytest.raises(AlreadyDecided, match="denied by lee"):
        runner.decide(wait, Approve(by="max"))


def test_first_vote_of_a_person_counts() -> None:
    """A repeat is the same vote; another approval of the same person is refused."""
    runner, wait = start(votes=2)
    first = runner.decide(wait, Approve(by="kim"))

    assert first == runner.decide(wait, Approve(by="kim"))
    with pytest.raises(DecisionRefused, match="first vote of a person counts"):
        runner.decide(wait, Approve(by="kim", arguments={"cents": 4}))
    assert 1 == len(runner.wait(wait).votes)


def test_approvers_who_disagree_about_an_edit_can_deny() -> None:
    """All have voted and no arguments have two votes: one of them ends the wait."""
    runner, wait = start(approvers=["kim", "lee"], votes=2)
    runner.decide(wait, Approve(by="kim"))
    runner.decide(wait, Approve(by="lee", arguments={"cents": 4}))

    denial = expect(runner.decide(wait, Deny(by="kim")), Decision)

    assert ("deny", "kim", ()) == (denial.kind, denial.by, denial.voters)
    assert isinstance(runner.resume("r"), Finished)
    assert [] == effect_log.names()


def test_a_voter_who_repeats_after_the_end_gets_the_decision() -> None:
    """Each of the voters may repeat the vote; another verdict is an error."""
    runner, wait = start(votes=2)
    runner.decide(wait, Approve(by="kim"))
    decision = runner.decide(wait, Approve(by="lee"))

    assert decision == runner.decide(wait, Approve(by="kim"))
    assert decision == runner.decide(wait, Approve(by="lee"))
    with pytest.raises(AlreadyDecided, match="approved by kim, lee"):
        runner.decide(wait, Deny(by="kim"))


def test_votes_for_different_edits_do_not_add_up() -> None:
    """Two persons must agree on the arguments, and the original ones are an edit."""
    runner, wait = start(votes=2)

    runner.decide(wait, Approve(by="kim"))
    other = runner.decide(wait, Approve(by="lee", arguments={"cents": 4}))
    same = runner.decide(wait, Approve(by="max", arguments={"cents": 5}))
    runner.resume("r")

    assert isinstance(other, Vote)
    assert 1 == other.still_needed
    assert isinstance(same, Decision)
    assert ("kim", "max") == same.voters
    assert ["pay 5"] == effect_log.names()


def test_answers_are_votes_for_their_value() -> None:
    """Two equal answers respond in place of the call."""
    runner, wait = start(votes=2)
    runner.decide(wait, Answer("done", by="kim"))
    assert isinstance(runner.decide(wait, Answer("later", by="lee")), Vote)

    runner.decide(wait, Answer("done", by="max"))
    end = runner.resume("r")

    [result] = root_tool_results(end)
    assert result.endswith("done")


def test_only_approvers_decide() -> None:
    """A stranger, and a verdict without a name, are refused; nothing is recorded."""
    runner, wait = start(approvers=["kim"])

    for by, why in (
        ("eve", "eve is not one of its approvers"),
        (None, "needs the name"),
    ):
        with pytest.raises(DecisionRefused, match=why):
            runner.decide(wait, Approve(by=by))
        with pytest.raises(DecisionRefused, match=why):
            runner.decide(wait, Deny(by=by))

    assert isinstance(runner.decide(wait, Approve(by="kim")), Decision)


def test_groups_are_resolved_when_a_vote_is_cast() -> None:
    """The application's function says who belongs to a group, and it is recorded."""
    members = {"kim": ["finance", "all"], "eve": ["all"]}
    asked: list[str] = []

    async def groups(name: str) -> list[str]:
        asked.append(name)
        return members.get(name, [])

    runner, wait = start(approvers=["group:finance", "max"], groups=groups)

    with pytest.raises(DecisionRefused, match="eve is not one of its approvers"):
        runner.decide(wait, Approve(by="eve"))
    decision = runner.decide(wait, Approve(by="kim"))

    assert ("all", "finance") == decision.groups
    assert ["eve", "kim"] == asked


def test_a_person_who_is_named_needs_no_group() -> None:
    """A runner without a groups function decides for approvers by name."""
    runner, wait = start(approvers=["group:finance", "max"])

    with pytest.raises(DecisionRefused, match=r"Runner\(groups="):
        runner.decide(wait, Approve(by="kim"))
    assert isinstance(runner.decide(wait, Approve(by="max")), Decision)


def test_the_groups_of_an_identity_count() -> None:
    """A door that verified the groups passes them with the name."""
    runner, wait = start(approvers=["group:finance"])

    decision = runner.decide(wait, Approve(by=Identity("kim", groups=["finance"])))

    assert ("finance",) == decision.groups


@pytest.mark.parametrize("requester", ["jane", None])
def test_the_requester_does_not_decide(requester: str | None) -> None:
    """If the requester is not known, each person might be the requester."""
    runner = make_runner(not_requester=True)
    wait = wait_of(runner, by=requester)

    why = "jane requested the run" if requester else "the requester is not known"
    with pytest.raises(DecisionRefused, match=why):
        runner.decide(wait, Approve(by="jane"))
    if requester:
        assert isinstance(runner.decide(wait, Approve(by="kim")), Decision)


def test_unknown_outcome_is_decided_by_the_same_persons(clock: ManualClock) -> None:
    """A wait about a call that several persons approved takes their votes, too.

    The rule is that of the call: it holds although the tool has another policy now.
    """
    store = MemoryStore(clock.now)
    agent = make_boss(PAY, make_pay(approvers=["kim", "lee"], votes=2))
    runner = Runner(agent, store=store, clock=clock)
    wait = wait_of(runner)
    for name in ("kim", "lee"):
        runner.decide(wait, Approve(by=name))
    dies = faults.on("create", faults.crashed("before"), prefix="runs/r/v/", skip=1)
    with suppress(faults.Crash):
        Runner(agent, store=faults.FaultyStore(store, dies), clock=clock).resume("r")
    assert ["pay 5"] == effect_log.names()
    clock.seconds += 60
    changed = Runner(make_boss(PAY, make_pay()), store=store, clock=clock)

    unknown = single_wait(changed.resume("r"))

    assert ("unknown", ("kim", "lee"), 2) == (
        unknown.kind,
        unknown.approvers,
        unknown.votes_needed,
    )
    with pytest.raises(DecisionRefused, match="eve is not one of its approvers"):
        changed.decide(unknown.id, Answer("paid 5", by="eve"))
    assert isinstance(changed.decide(unknown.id, Answer("paid 5", by="kim")), Vote)
    assert isinstance(changed.decide(unknown.id, Answer("paid 5", by="lee")), Decision)
    end = expect(changed.resume("r"), Finished)
    assert ["paid 5"] == list(root_tool_results(end))
    assert ["pay 5"] == effect_log.names()


# Deadlines with a consequence, and reminders ----------------------------------


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
        return single_wait(self.runner.start("go", run_id="r"))

    def pass_time(self, period: timedelta) -> None:
        self.clock.seconds += period.total_seconds() + 1
        result = self.runner.sweep()
        assert {} == result.errors

    def marker_keys(self) -> list[str]:
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


# Requesters -------------------------------------------------------------------


def make_agent(model: ScriptedModel | None = None, **policy: Any) -> Agent[Any]:
    """Return an agent that pays twice; its policy excludes the requester."""

    @tool(approval=ApprovalPolicy(not_requester=True, **policy))
    def pay(cents: int) -> str:
        """Pay an amount."""
        effect_log.append_effect("pay", cents)
        return f"paid {cents}"

    calls = [ToolCall("pay", {"cents": number}) for number in (1, 2)]
    model = model or ScriptedModel([*calls, "Done."])
    return Agent("accounts", tools=[pay], model=model)


# Plain runs -------------------------------------------------------------------


def run_with_message_of(sender: str | None) -> tuple[Runner, Wait]:
    """Return a run of ann whose second call follows from a message."""
    runner = Runner(make_agent(), store=MemoryStore())
    first = single_wait(runner.start("Pay", run_id="r1", by="ann"))
    runner.decide(first.id, Approve(by="kim"))
    runner.send("r1", "Pay more", by=sender)
    return runner, single_wait(runner.resume("r1"))


@pytest.mark.parametrize("name", ["ann", "bob"])
def test_sender_of_a_message_may_not_approve_the_call_that_follows(name: str) -> None:
    """The starter of a run and the sender of its message asked for the call."""
    runner, wait = run_with_message_of("bob")

    with pytest.raises(DecisionRefused, match=f"{name} requested"):
        runner.decide(wait.id, Approve(by=name))

    assert [] == [each.id for each in runner.waiting(approver=name)]
    assert isinstance(runner.decide(wait.id, Approve(by="kim")), Decision)


def test_message_of_an_unknown_sender_excludes_everybody() -> None:
    """Each person might have sent the message."""
    runner, wait = run_with_message_of(None)

    with pytest.raises(DecisionRefused, match="the requester is not known"):
        runner.decide(wait.id, Approve(by="kim"))


def test_page_names_everybody_who_may_not_decide() -> None:
    asked_by_two = run_with_message_of("bob")[1]
    assert "The requester (ann, bob) may not decide." in rule_text(asked_by_two)
    runner = Runner(make_agent(), store=MemoryStore())
    unknown = single_wait(runner.start("Pay", run_id="r2"))

    assert "The requester (unknown) may not decide." in rule_text(unknown)
    assert unknown.quorum is not None
    assert () == unknown.quorum.requesters


def test_message_of_the_starter_adds_no_requester() -> None:
    """One person who starts a run and sends to it is one requester."""
    runner, wait = run_with_message_of("ann")

    assert isinstance(runner.decide(wait.id, Approve(by="bob")), Decision)
    assert () == runner.look("r1").run_state.run.requesters


# Grants -----------------------------------------------------------------------


def give_grant(runner: Runner, wait: Wait, giver: str) -> None:
    """Approve a wait and all later calls of its tool."""
    runner.decide(wait.id, Approve(by=giver, remember=Grant("pay")))


@pytest.mark.parametrize("giver", ["bob", "kim"])
def test_grant_does_not_approve_a_call_that_its_giver_asked_for(giver: str) -> None:
    """Bob grants, and then bob asks: another person decides."""
    runner = Runner(make_agent(), store=MemoryStore())
    first = single_wait(runner.start("Pay", run_id="r1", by="ann"))
    give_grant(runner, first, giver)
    runner.send("r1", "Pay more", by="bob")

    outcome = runner.resume("r1")

    is_covered = giver == "kim"
    assert is_covered == isinstance(outcome, Finished)
    names = ["pay 1", "pay 2"] if is_covered else ["pay 1"]
    assert names == effect_log.names()


@pytest.mark.parametrize("asker", ["bob", "\uff42ob", "eve", None])
def test_grant_in_a_thread_compares_the_asker_of_each_call(asker: str | None) -> None:
    """Ann asks first, bob grants; the sender of the next message counts."""
    model = ScriptedModel(
        [
            ToolCall("pay", {"cents": 1}),
            "Done.",
            ToolCall("pay", {"cents": 2}),
            "Done again.",
        ]
    )
    runner = Runner(make_agent(model=model), store=MemoryStore())
    thread = runner.thread("accounts", key="1")
    wait = single_wait(thread.send("Pay", by="ann"))
    give_grant(runner, wait, "bob")
    assert isinstance(runner.resume(wait.run_id), Replied)

    outcome = thread.send("Pay more", by=asker)

    is_covered = asker == "eve"
    assert is_covered == isinstance(outcome, Replied)
    names = ["pay 1", "pay 2"] if is_covered else ["pay 1"]
    assert names == effect_log.names()


# Names ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("asker", "decider"),
    [
        ("jos\u00e9", "jose\u0301"),
        ("\uff42ob", "bob"),
        ("bob smith", "bob  smith"),
        ("o\ufb03ce", "office"),
    ],
)
def test_names_that_look_the_same_are_one_requester(asker: str, decider: str) -> None:
    """Unicode has several forms of one text."""
    runner = Runner(make_agent(), store=MemoryStore())
    wait = single_wait(runner.start("Pay", run_id="r1", by=asker))

    with pytest.raises(DecisionRefused, match="requested the run"):
        runner.decide(wait.id, Approve(by=decider))

    assert [] == list(runner.waiting(approver=decider))


def test_names_that_look_the_same_have_one_vote() -> None:
    runner = Runner(make_agent(votes=2), store=MemoryStore())
    wait = single_wait(runner.start("Pay", run_id="r1", by="ann"))
    first = runner.decide(wait.id, Approve(by="jos\u00e9"))

    assert first == runner.decide(wait.id, Approve(by="jose\u0301"))
    with pytest.raises(DecisionRefused, match="has voted already"):
        runner.decide(wait.id, Approve(by="jose\u0301", arguments={"cents": 9}))
    assert [] == list(runner.waiting(approver="jose\u0301"))


def test_upper_and_lower_case_are_two_persons() -> None:
    runner = Runner(make_agent(approvers=["Kim"]), store=MemoryStore())
    wait = single_wait(runner.start("Pay", run_id="r1", by="ann"))

    with pytest.raises(DecisionRefused, match="not one of its approvers"):
        runner.decide(wait.id, Approve(by="kim"))
    assert isinstance(runner.decide(wait.id, Approve(by="\uff2bim")), Decision)


def test_approver_that_is_named_in_two_forms_has_one_place() -> None:
    assert ("kim",) == ApprovalPolicy(approvers=["kim", "\uff4bim"]).approvers


HIDDEN = ["bob\u200b", "b\u00adob", "\u202ebob", " bob", "bob\n", "bob\ufe0f", "\u3164"]


@pytest.mark.parametrize("name", HIDDEN)
def test_every_door_refuses_a_name_with_hidden_characters(name: str) -> None:
    """A name that looks like another one reaches no record."""
    runner = Runner(make_agent(), store=MemoryStore())
    with pytest.raises(InvalidInput):
        runner.start("Pay", run_id="r1", by=name)
    wait = single_wait(runner.start("Pay", run_id="r1", by="ann"))

    with pytest.raises(DecisionRefused, match="by is not a name"):
        runner.decide(wait.id, Approve(by=name))
    for act in (
        lambda: runner.send("r1", "Hi", by=name),
        lambda: runner.signal("r1", "receipt", by=name),
        lambda: runner.pause("r1", by=name),
        lambda: runner.unpause("r1", by=name),
        lambda: runner.cancel("r1", by=name),
        lambda: runner.thread("accounts", key="1").send("Hi", by=name),
        lambda: runner.fork("r1", 1, run_id="f", by=name),
        lambda: Identity(name),
        lambda: Identity("kim", groups=[name]),
        lambda: ApprovalPolicy(approvers=[name]),
        lambda: escalate(to=[name], within=60),
    ):
        with pytest.raises(InvalidInput):
            act()
    assert "suspended" == runner.look("r1").run_state.run.status


SIZES = ["", "x" * 256, "\u6f22" * 100, "x" * 100_000, "bo\ud800b"]


@pytest.mark.parametrize("name", SIZES, ids=["empty", "256", "300", "100k", "lone"])
@pytest.mark.parametrize("kind", ["sync", "async"])
def test_every_door_limits_the_bytes_of_a_name(name: str, kind: str) -> None:
    """Names are in each version, each wait and each line of the audit."""
    runner = Runner(make_agent(), store=MemoryStore())
    wait = single_wait(runner.start("Pay", run_id="r1", by="ann"))
    runner.thread("accounts", key="1").post("Hi", by="ann")
    before = asyncio.run(runner.store.keys(""))
    own: Any = runner if kind == "sync" else runner.async_runner

    def act(method: str, *arguments: Any, **options: Any) -> None:
        result = getattr(own, method)(*arguments, **options)
        if kind == "async":
            asyncio.run(result)

    grant = "01ARZ3NDEKTSV4RRFFQ69G5FAV"
    acts: dict[str, tuple[Any, ...]] = {
        "start": ("Pay",),
        "send": ("r1", "Hi"),
        "signal": ("r1", "receipt"),
        "publish": ("receipt",),
        "wake": ("r1",),
        "pause": ("r1",),
        "unpause": ("r1",),
        "cancel": ("r1",),
        "revoke": ("r1", grant),
        "rewind": ("r1", 1),
        "fork": ("r1", 1),
        "adopt": (runner.look("r1"),),
        "heartbeat": (wait.id,),
    }
    for method, arguments in acts.items():
        given: dict[str, Any] = {"by": name}
        if method in ("fork", "adopt", "start"):
            given["run_id"] = "new"
        if method == "heartbeat":
            given["extend"] = 60
        with pytest.raises(InvalidInput, match="by must "):
            act(method, *arguments, **given)
    with pytest.raises(DecisionRefused, match="by must have 1 to 255 bytes in UTF-8"):
        act("decide", wait.id, Approve(by=name))
    thread = runner.thread("accounts", key="1")
    for use in (
        lambda: thread.send("Hi", by=name),
        lambda: thread.post("Hi", by=name),
        lambda: list(thread.stream("Hi", by=name)),
        lambda: thread.stop_turn(by=name),
        lambda: thread.close(by=name),
        lambda: Identity(name),
    ):
        with pytest.raises(InvalidInput, match="must "):
            use()
    assert before == asyncio.run(runner.store.keys(""))


def test_requesters_of_a_run_are_bounded_and_then_unknown() -> None:
    """Each version and each wait has the names. Beyond 100 no person may decide."""
    runner = Runner(make_agent(), store=MemoryStore())
    wait = single_wait(runner.start("Pay", run_id="r1", by="ann"))
    for number in range(100):
        runner.send("r1", "Hi", by=f"person {number}")
    runner.decide(wait.id, Approve(by="kim"))
    wait = single_wait(runner.resume("r1"))
    assert wait.quorum is not None
    assert 100 == len(wait.quorum.requesters)
    assert "unknown" not in rule_text(wait)

    version = runner.look("r1").version
    runner.send("r1", "Hi", by="one more")
    runner.decide(wait.id, Deny(by="kim"))
    runner.resume("r1")

    row = runner.look("r1").run_state.run
    assert ("",) == row.requesters
    fork = runner.fork("r1", version, run_id="f", by="kim")
    assert ("",) == runner.look(fork).run_state.run.requesters


@pytest.mark.parametrize("extra", [0, 1])
def test_call_of_a_run_with_too_many_requesters_is_decided_by_nobody(
    extra: int,
) -> None:
    runner = Runner(make_agent(), store=MemoryStore())
    wait = single_wait(runner.start("Pay", run_id="r1", by="ann"))
    for number in range(100 + extra):
        runner.send("r1", "Hi", by=f"person {number}")
    runner.decide(wait.id, Approve(by="kim"))
    wait = single_wait(runner.resume("r1"))

    if extra:
        with pytest.raises(DecisionRefused, match="the requester is not known"):
            runner.decide(wait.id, Approve(by="kim"))
    else:
        assert isinstance(runner.decide(wait.id, Approve(by="kim")), Decision)
