"""Everybody who asked for a call is its requester, and may not decide it."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from continuations import (
    Agent,
    ApprovalPolicy,
    Approve,
    Deny,
    Finished,
    Grant,
    Identity,
    Replied,
    Runner,
    Wait,
    escalate,
    tool,
)
from continuations.errors import DecisionRefused, InvalidInput
from continuations.models.scripted import ScriptedModel, ToolCall
from continuations.present.wait_words import rule_text
from continuations.results import Decision
from continuations_storage import MemoryStore
from tests import effect_log
from tests.outcomes import single_wait

pytestmark = pytest.mark.usefixtures("environment")


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
