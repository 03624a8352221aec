"""Rewinds, forks and adoptions beside renames, threads, signals and requesters."""

# The kinds of markers are in private patterns.
# pyright: reportPrivateUsage=false

from __future__ import annotations

import dataclasses
import re
from pathlib import Path
from typing import Any

import pytest

from continuations import (
    Agent,
    Answer,
    ApprovalPolicy,
    Approve,
    Deny,
    Failed,
    Finished,
    Queued,
    Replied,
    Runner,
    Suspended,
    ask,
    resume,
    tool,
    wait_for,
)
from continuations.core.reading.past_rules import (
    ARRIVAL_RULES,
    FIELD_RULES,
    MARKER_RULES,
    WAIT_FIELD_RULES,
    Act,
)
from continuations.core.rows.run import RunRow
from continuations.core.rows.slots import SLOT_KINDS
from continuations.core.rows.waits import Wait
from continuations.errors import DecisionRefused, InvalidInput, RunErased
from continuations.ledger import event_keys, layout
from continuations.ledger.arrivals.arrivals import Arrivals
from continuations.models.scripted import ScriptedModel, ToolCall
from continuations_storage import MemoryStore
from tests.clocks import ManualClock
from tests.engine.agent_builders import text_tool, wait_tool
from tests.outcomes import expect

PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "fork-and-rewind.md"
sent: list[str] = []


@pytest.fixture(autouse=True)
def no_effects() -> None:
    sent.clear()


mail = text_tool("mail", "sent", {"to": str}, into=sent)


@tool(name="post_mail")
def renamed_mail(to: str) -> str:
    """Send mail, unasked."""
    sent.append(to)
    return "sent"


@tool(approval=ApprovalPolicy(not_requester=True))
def pay(cents: int) -> str:
    """Pay."""
    sent.append(f"paid {cents}")
    return "paid"


@tool(approval=ApprovalPolicy(not_requester=True, within=600), summary="Pay {cents}")
def settle(cents: int) -> str:
    """Pay; people decide within ten minutes."""
    return f"paid {cents}"


choose = wait_tool("choose", lambda: ask("Which?"), Any)
payment = wait_tool("payment", lambda: wait_for("paid", str, key="k"), Any)
receipt = wait_tool("receipt", lambda: wait_for("receipt", str), Any)


def runner_of(*replies: Any, store: Any, **options: Any) -> Runner:
    tools = [options.pop("mail", mail), pay, choose, receipt, payment]
    model = ScriptedModel([*replies])
    return Runner(Agent("clerk", tools=tools, model=model), store=store, **options)


@pytest.mark.parametrize("how", ["rewind", "fork"])
def test_renamed_tool_is_asked_about_after_a_rewind_and_in_a_fork(how: str) -> None:
    store = MemoryStore()
    old = runner_of(
        ToolCall("mail", {"to": "ann"}), ToolCall("choose", {}), store=store
    )
    old.start("go", run_id="r")
    again = [ToolCall("post_mail", {"to": "ann"}), "done"]
    new = runner_of(
        *again, store=store, mail=renamed_mail, renamed={"mail": "post_mail"}
    )

    run_id = "r"
    if how == "rewind":
        new.rewind("r", 1)
    else:
        run_id = new.fork("r", 1, run_id="f")
    outcome = expect(new.resume(run_id), Suspended)

    assert [("approval", "post_mail")] == [(w.kind, w.tool) for w in outcome.waits]
    assert ["ann"] == sent


def turn_of(runner: Runner, *, by: str) -> Suspended:
    """Let a sender's call wait for approval."""
    outcome = runner.thread(key="k").send(f"pay for {by}", by=by, id=by)
    assert isinstance(outcome, Suspended)
    return outcome


def test_thread_is_not_rewound_into_the_turn_of_an_earlier_sender() -> None:
    pays = ToolCall("pay", {"cents": 1})
    runner = runner_of(pays, "Paid.", pays, "Paid again.", store=MemoryStore())
    thread = runner.thread(key="k")
    first = turn_of(runner, by="ann")
    runner.decide(only_wait(runner), Approve(by="kim"))
    assert isinstance(thread.send("pay for ann", by="ann", id="ann"), Replied)
    turn_of(runner, by="bob")

    with pytest.raises(InvalidInput, match="was in a turn that has ended"):
        runner.rewind(first.run_id, first.continuation.version)

    with pytest.raises(DecisionRefused, match="bob requested"):
        runner.decide(only_wait(runner), Approve(by="bob"))
    runner.decide(only_wait(runner), Approve(by="ann"))
    reply = thread.send("pay for bob", by="bob", id="bob")
    assert ("Paid again.", ["paid 1", "paid 1"]) == (reply.output, sent)


def test_thread_is_not_rewound_before_a_message_that_interrupted_a_turn() -> None:
    pays = ToolCall("pay", {"cents": 1})
    runner = runner_of(pays, pays, "Paid.", store=MemoryStore())
    thread = runner.thread(key="k")
    first = turn_of(runner, by="ann")
    ticket = thread.post("pay again", by="ann", when_busy="interrupt")
    runner.resume(first.run_id)

    with pytest.raises(InvalidInput, match="has read message 2, which has no reply"):
        runner.rewind(first.run_id, first.continuation.version)

    runner.decide(only_wait(runner), Approve(by="kim"))
    assert isinstance(ticket.reply(), Replied)
    assert ["paid 1"] == sent


def only_wait(runner: Runner) -> str:
    """Return the id of the only open wait."""
    [summary] = runner.waiting()
    return summary.id


def swept(runner: Runner) -> None:
    """Sweep until nothing is due."""
    for _ in range(5):
        if not runner.sweep().runs_checked:
            return
    pytest.fail("the sweeps find work without end")


def test_unread_message_is_answered_after_a_rewind_into_rest() -> None:
    pays = ToolCall("pay", {"cents": 1})
    runner = runner_of("Hello.", pays, store=MemoryStore())
    thread = runner.thread(key="k")
    rests = expect(thread.send("hi", by="ann"), Replied)
    cut_off = thread.post("pay", by="bob")
    unread = thread.post("are you there?", by="cem")
    runner.resume(rests.run_id)

    runner.rewind(rests.run_id, rests.continuation.version)
    swept(runner)

    now = expect(unread.look(), Suspended)
    assert ["cem"] == [wait.requester for wait in now.waits]
    failed = expect(cut_off.look(), Failed)
    assert "stopped" == failed.error.code


def test_run_that_only_waits_after_a_rewind_has_no_marker() -> None:
    asks = ToolCall("choose", {})
    runner = runner_of(asks, asks, store=MemoryStore())
    first = runner.start("go", run_id="r")
    runner.decide(first.waits[0].id, Answer("this", by="kim"))
    runner.resume("r")

    runner.rewind("r", first.continuation.version)

    assert 0 == runner.sweep().runs_checked


def test_kept_signal_is_taken_by_a_wait_that_a_rewind_opens_again() -> None:
    waits = ToolCall("receipt", {})
    runner = runner_of(waits, ToolCall("choose", {}), "Got both.", store=MemoryStore())
    runner.start("go", run_id="r")
    first = runner.look("r").version
    runner.signal("r", "receipt", "one")
    swept(runner)
    runner.signal("r", "receipt", "two")
    swept(runner)

    runner.rewind("r", first)
    swept(runner)

    look = runner.look("r")
    assert "two" in str(look.root.messages)
    # The question was asked before, so a person is asked whether to ask it again.
    assert [("approval", "choose")] == [(w.kind, w.tool) for w in look.waits]


def test_bytes_that_are_older_than_their_run_in_this_store_are_not_adopted() -> None:
    store = MemoryStore()
    mails = ToolCall("mail", {"to": "ann"})
    runner = runner_of(mails, ToolCall("choose", {}), mails, store=store)
    runner.start("go", run_id="r", work=False)
    data = runner.look("r").to_bytes()
    runner.resume("r")

    with pytest.raises(InvalidInput, match=r"in another state\. .* fork one"):
        runner.adopt(data, run_id="again")

    forked = expect(runner.resume(runner.fork("r", 1, run_id="f")), Suspended)
    assert ["approval"] == [wait.kind for wait in forked.waits]
    assert ["ann"] == sent
    newest = runner.adopt(runner.look("r").to_bytes(), run_id="newest")
    assert isinstance(newest, Suspended)


def test_bytes_from_before_a_rewind_to_their_version_are_not_adopted() -> None:
    """Their calls and messages are those of the run, which has sent mail since."""
    mails = ToolCall("mail", {"to": "ann"})
    runner = runner_of(mails, ToolCall("choose", {}), mails, store=MemoryStore())
    runner.start("go", run_id="r")
    old = runner.look("r", version=1)
    runner.rewind("r", 1)

    with pytest.raises(InvalidInput, match=r"runner\.fork\('r', version\)"):
        runner.adopt(old.to_bytes(), run_id="old")

    runner.adopt(runner.look("r").to_bytes(), run_id="new")
    outcome = expect(runner.resume("new"), Suspended)
    assert ["mail"] == [wait.tool for wait in outcome.waits]
    assert ["ann"] == sent


@pytest.mark.parametrize("copy", ["fork", "adopt"])
def test_requester_of_the_original_may_not_approve_in_a_copy(copy: str) -> None:
    runner = runner_of(ToolCall("pay", {"cents": 1}), "Paid.", store=MemoryStore())
    runner.start("go", run_id="r", by="ann")
    if copy == "fork":
        runner.fork("r", run_id="c", by="bob")
    else:
        runner.adopt(runner.look("r").to_bytes(), run_id="c", by="bob")
    [wait] = [each for each in runner.waiting() if each.run_id == "c"]

    for name in ("ann", "bob"):
        with pytest.raises(DecisionRefused, match=f"{name} requested"):
            runner.decide(wait.id, Approve(by=name))
    runner.decide(wait.id, Approve(by="kim"))

    assert isinstance(runner.resume("c"), Finished)
    assert ["paid 1"] == sent


def test_sender_of_a_thread_may_not_approve_in_a_fork_of_it() -> None:
    runner = runner_of(ToolCall("pay", {"cents": 1}), "Paid.", store=MemoryStore())
    original = turn_of(runner, by="ann")
    runner.fork(original.run_id, run_id="f", by="bob")
    [wait] = [each for each in runner.waiting() if each.run_id == "f"]

    for name in ("ann", "bob"):
        with pytest.raises(DecisionRefused, match=f"{name} requested"):
            runner.decide(wait.id, Approve(by=name))

    assert [] == sent


def test_published_event_is_taken_once_by_a_run_that_is_rewound() -> None:
    asks, clock = ToolCall("choose", {}), ManualClock()
    replies = (ToolCall("payment", {}), asks, asks)
    runner = runner_of(*replies, store="memory:", clock=clock)
    runner.start("go", run_id="r")
    first = runner.look("r").version
    runner.publish("paid", "one", key="k")
    swept(runner)
    clock.seconds += 1  # events of one millisecond are in either order
    runner.publish("paid", "two", key="k")

    runner.rewind("r", first)
    fork = runner.fork("r", first, run_id="f")
    swept(runner)

    assert ["two"] == results(runner, "r")
    # A fork is another run, and takes the events of its own time.
    assert ["one"] == results(runner, fork)


def results(runner: Runner, run_id: str) -> list[Any]:
    messages = runner.look(run_id).root.messages
    return [each["content"] for each in messages if each["role"] == "tool"]


@pytest.mark.parametrize(
    ("when_busy", "denials"), [("interrupt", 0), ("merge", 1), ("queue", 2)]
)
def test_unread_message_keeps_its_place_after_a_rewind_within_its_turn(
    when_busy: Any, denials: int
) -> None:
    """It is read after as many denials of a call as without the rewind.

    An interruption that was taken in before the rewind interrupts the turn again.
    """
    pays = ToolCall("pay", {"cents": 1})
    runner = runner_of(pays, pays, "Paid.", "Paid.", store=MemoryStore())
    thread = runner.thread(key="k")
    first = turn_of(runner, by="ann")
    runner.decide(only_wait(runner), Answer("no", by="kim"))
    runner.resume(first.run_id)
    ticket = thread.post("pay again", by="ann", when_busy=when_busy)

    runner.rewind(first.run_id, first.continuation.version)
    runner.sweep()

    for _ in range(denials):
        assert "pay again" not in str(runner.look(first.run_id).root.messages)
        runner.decide(only_wait(runner), Deny(by="kim"))
        runner.sweep()
    assert "pay again" in str(runner.look(first.run_id).root.messages)
    swept(runner)
    assert not isinstance(ticket.look(), Queued)
    assert [] == sent


def test_bytes_that_went_on_without_the_store_are_not_adopted_beside_their_run(
    store: MemoryStore,
) -> None:
    """Numbers of versions do not tell which of two states is older."""
    asks = [ToolCall("choose", {}) for _ in range(4)]

    def reply(request: Any) -> Any:
        last = request.messages[-1].data
        if last["role"] == "user":
            return asks
        return "done" if "sent" in last["content"] else ToolCall("mail", {"to": "ann"})

    agent = Agent("clerk", tools=[mail, choose], model=ScriptedModel(reply))
    runner = Runner(agent, store=store)
    started = expect(runner.start("go", run_id="r"), Suspended)
    beside = started
    for wait in started.waits[:3]:
        data = beside.continuation.to_bytes()
        going_on = resume(data, agent, answers={wait.id: Answer("this", by="kim")})
        assert isinstance(going_on, Suspended)
        beside = going_on
    for wait in started.waits:
        runner.decide(wait.id, Answer("this", by="kim"))
    assert isinstance(runner.resume("r"), Finished)

    with pytest.raises(InvalidInput, match="in another state"):
        runner.adopt(beside.continuation, run_id="again")

    assert ["ann"] == sent


def test_repeat_of_adopt_returns_its_run_after_the_source_went_on() -> None:
    runner = runner_of(ToolCall("pay", {"cents": 1}), "Paid.", store=MemoryStore())
    started = expect(runner.start("go", run_id="r", by="ann"), Suspended)
    first = runner.adopt(started.continuation, run_id="c", by="bob")
    runner.decide(started.waits[0].id, Approve(by="kim"))
    runner.resume("r")

    again = runner.adopt(started.continuation, run_id="c", by="bob")

    assert isinstance(first, Suspended)
    assert isinstance(again, Suspended)
    assert [w.id for w in first.waits] == [w.id for w in again.waits]
    runner.erase("r")
    assert isinstance(runner.adopt(started.continuation, run_id="c"), Suspended)
    with pytest.raises(RunErased, match=r"was erased from this store\. Adopt the"):
        runner.adopt(started.continuation, run_id="d")


def test_forker_alone_asked_for_a_fork_of_a_thread_without_messages() -> None:
    pays = ToolCall("pay", {"cents": 1})
    runner = runner_of(pays, "Paid.", store=MemoryStore())
    original = turn_of(runner, by="ann")
    runner.decide(only_wait(runner), Deny(by="kim"))
    swept(runner)

    runner.fork(original.run_id, 1, run_id="f", messages={"f1": "pay"}, by="bob")
    runner.resume("f")

    with pytest.raises(DecisionRefused, match="bob requested"):
        runner.decide(only_wait(runner), Approve(by="bob"))
    runner.decide(only_wait(runner), Approve(by="kim"))

    assert isinstance(runner.resume("f"), Finished)


def test_runs_of_a_renamed_agent_are_listed_under_its_new_name() -> None:
    store = MemoryStore()
    old = Runner(Agent("clerk", model=ScriptedModel(["Hi."])), store=store)
    old.start("go", run_id="r")
    new = Runner(
        Agent("desk", model=ScriptedModel([])), store=store, renamed={"clerk": "desk"}
    )

    assert ["r"] == [row.run_id for row in new.runs(agent="desk")]
    assert ["r"] == [row.run_id for row in new.runs(agent="clerk")]
    assert [] == [row.run_id for row in old.runs(agent="desk")]


# The tables ------------------------------------------------------------------------


def test_each_field_of_a_runs_row_has_a_rule() -> None:
    fields: Any = RunRow
    assert [each.name for each in dataclasses.fields(fields)] == list(FIELD_RULES)


# The word of the table for each kind of stored arrival.
SLOTS = {
    "vote": "vote",
    "extend": "extension",
    "escalate": "escalation",
    "expire": "expiry",
}
ARRIVAL_FIELDS = {
    "decisions": {"decision", "job answer", "event taken"},
    "followed": set(SLOTS.values()),
    "signals": {"signal"},
    "revocations": {"revocation", "grant"},
    "inbox_messages": {"message"},
    "unread_numbers": {"message"},
    "operator_requests": {"operator's request"},
    "cancel_request": {"cancel request"},
}


def test_each_arrival_and_marker_follows_from_a_field_that_the_code_makes() -> None:
    fields = {f"run.{name}" for name in FIELD_RULES}
    fields |= {f"wait.{name}" for name in WAIT_FIELD_RULES}

    rules = (*ARRIVAL_RULES.values(), *MARKER_RULES.values())

    assert set() == {rule.follows for rule in rules} - fields


@pytest.mark.parametrize("act", ["rewind", "fork", "adopt"])
def test_an_open_wait_differs_only_in_the_fields_that_have_a_rule(act: Act) -> None:
    """A wait with a deadline, a quorum and words for people, requested by a person."""
    clock, store = ManualClock(), MemoryStore()
    model = ScriptedModel([ToolCall("settle", {"cents": 5}), ToolCall("choose", {})])
    agent = Agent("clerk", tools=[settle, choose], model=model)
    runner = Runner(agent, store=store, clock=clock)
    first = expect(runner.start("go", run_id="r", by="ann"), Suspended)
    before = runner.wait(first.waits[0].id)

    # The call is made, and then the act goes back to the version before it.
    clock.seconds = 60
    if act == "adopt":
        other = Runner(agent, store=MemoryStore(), clock=clock)
        other.adopt(first.continuation, run_id="new", by="bob")
        [after] = other.look("new").waits
    else:
        runner.decide(before.id, Approve(by="kim"))
        runner.resume("r")
        if act == "rewind":
            runner.rewind("r", first.continuation.version)
        else:
            runner.fork("r", first.continuation.version, run_id="new", by="bob")
        [after] = runner.look("r" if act == "rewind" else "new").waits

    fields: Any = Wait
    differ = {
        each.name
        for each in dataclasses.fields(fields)
        if getattr(before, each.name) != getattr(after, each.name)
    }
    by_rule = {
        name
        for name, rule in WAIT_FIELD_RULES.items()
        if getattr(rule, act) != "copied"
    }
    # The run took no event. In the same run, the digest of an equal call is equal.
    same = {"events_taken", "digest"} if act == "rewind" else {"events_taken"}
    assert by_rule - same == differ


def test_each_kind_of_arrival_has_a_rule() -> None:
    arrivals: Any = Arrivals

    assert SLOT_KINDS == SLOTS.keys()
    assert {each.name for each in dataclasses.fields(arrivals)} == ARRIVAL_FIELDS.keys()
    named = {each for kinds in ARRIVAL_FIELDS.values() for each in kinds}
    # A reminder is a marker only.
    assert named | {"reminder"} == ARRIVAL_RULES.keys()


def test_each_reason_of_a_marker_has_a_rule() -> None:
    letters = re.findall(r"\[([a-z]+)\]", layout._MARKER.pattern)
    of_events = re.findall(r"\[([a-z]+)\]", event_keys._MARKER.pattern)

    assert ["po", {"p", "o of an event"}] == [
        of_events[0],
        MARKER_RULES.keys() - {*"".join(letters)},
    ]
    assert {*"".join(letters[:2])} <= MARKER_RULES.keys()


def test_page_shows_each_rule() -> None:
    lines = PAGE.read_text().splitlines()
    rows: list[tuple[str, ...]] = []
    for name, fields in (*FIELD_RULES.items(), *WAIT_FIELD_RULES.items()):
        rows.append((f"`{name}`", *fields))
    markers = {f"`{name[0]}`{name[1:]}": rule for name, rule in MARKER_RULES.items()}
    for name, rule in (*ARRIVAL_RULES.items(), *markers.items()):
        rows.append((name, f"`{rule.follows}`", *rule[1:]))
    shown = [f"| {' | '.join(row)} |" for row in rows]

    assert [] == [row for row in shown if row not in lines]
