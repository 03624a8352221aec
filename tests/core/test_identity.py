"""`Identity`: a bounded name with groups, recorded with the decision."""

from __future__ import annotations

from typing import Any

import pytest

from continuations import (
    Agent,
    Answer,
    ApprovalPolicy,
    Approve,
    Deny,
    Identity,
    Runner,
    tool,
)
from continuations.core.identity import is_same_person, person_key
from continuations.core.rows.quorum import Quorum
from continuations.errors import AlreadyDecided, DecisionRefused, InvalidInput
from continuations.models.scripted import ScriptedModel, ToolCall
from continuations.results import Decision
from continuations.wire.report import to_json
from continuations_storage import MemoryStore


@tool(approval=True)
def pay(cents: int) -> str:
    """Pay a person."""
    return f"paid {cents}"


def waiting_runner() -> tuple[Runner, str]:
    """Return a runner with one open approval."""
    model = ScriptedModel([ToolCall("pay", {"cents": 5}), "done"])
    runner = Runner(Agent("clerk", tools=[pay], model=model), store=MemoryStore())
    runner.start("Pay Jane", run_id="jane-1")
    (wait,) = runner.waiting()
    return runner, wait.id


def test_identity_sorts_groups_and_removes_repeats() -> None:
    identity = Identity("kim", groups=["legal", "finance", "legal"])

    assert "kim" == identity.name
    assert ("finance", "legal") == identity.groups
    assert Identity("kim", ("finance", "legal")) == identity


def test_identity_cannot_be_changed() -> None:
    identity = Identity("kim")

    with pytest.raises(AttributeError):
        identity.name = "lee"  # type: ignore[misc]


@pytest.mark.parametrize("name", ["", "k" * 256, "é" * 128, "\ud800", None, 5, b"kim"])
def test_identity_name_is_bounded_text(name: Any) -> None:
    with pytest.raises(InvalidInput):
        Identity(name)
    with pytest.raises(InvalidInput):
        Identity("kim", groups=[name])


@pytest.mark.parametrize("groups", ["finance", 5, [f"g{n}" for n in range(101)]])
def test_identity_groups_are_a_bounded_list(groups: Any) -> None:
    """A string would be a list of its letters."""
    with pytest.raises(InvalidInput):
        Identity("kim", groups=groups)


def test_decision_records_name_and_groups_of_an_identity() -> None:
    runner, wait_id = waiting_runner()
    kim = Identity("kim", groups=["finance"])

    runner.decide(wait_id, Approve(by=kim))
    repeated = runner.decide(wait_id, Approve(by="kim"))

    assert isinstance(repeated, Decision)
    assert ("kim", ("finance",)) == (repeated.by, repeated.groups)
    assert ["finance"] == to_json(repeated)["groups"]


def test_decision_by_a_name_has_no_groups() -> None:
    runner, wait_id = waiting_runner()

    decision = runner.decide(wait_id, Deny(by="kim"))

    assert isinstance(decision, Decision)
    assert ("kim", ()) == (decision.by, decision.groups)
    assert "groups" not in to_json(decision)


@pytest.mark.parametrize("by", [5, ["kim"], {"name": "kim"}, Identity])
def test_by_of_another_type_is_refused(by: Any) -> None:
    """Only the exact type counts, not a similar object."""
    runner, wait_id = waiting_runner()

    with pytest.raises(DecisionRefused, match="by must be a str, an Identity or None"):
        runner.decide(wait_id, Answer("paid", by=by))

    runner.decide(wait_id, Answer("paid"))
    with pytest.raises(AlreadyDecided):
        runner.decide(wait_id, Answer("paid", by=by))


@pytest.mark.parametrize(
    ("stored", "plain"),
    [
        ("bob\u200b", "bob"),
        (" bob ", "bob"),
        ("\u202ebob", "bob"),
        ("bob\tsmith", "bob smith"),
        ("bob\u00a0smith", "bob smith"),
        ("\uff42ob", "bob"),
        ("e\u200d\u0301", "\u00e9"),
        ("\u200b", ""),
    ],
)
def test_stored_names_are_compared_in_one_form(stored: str, plain: str) -> None:
    """Earlier releases stored names as they were given."""
    assert plain == person_key(stored) == person_key(person_key(stored))
    assert is_same_person(stored, plain)
    assert not is_same_person(stored, plain.upper() + "X")
    assert not is_same_person(None, None)


@pytest.mark.parametrize("code", [0xFFF0, 0xFFF5, 0xFFF8, 0x1D159])
def test_character_that_shows_nothing_is_refused(code: int) -> None:
    """Unicode does not assign some of them, and programs show none of them."""
    with pytest.raises(InvalidInput, match=f"U\\+{code:04X}.* Pass the name without "):
        Identity(f"kim{chr(code)}")
    assert is_same_person("kim", f"kim{chr(code)}")


@pytest.mark.parametrize("name", ["group: finance", "group:\u2003finance"])
def test_group_with_a_blank_at_its_beginning_is_refused(name: str) -> None:
    """No group has such a name, so no person could decide."""
    with pytest.raises(InvalidInput, match="approvers must be"):
        ApprovalPolicy(approvers=[name])


def test_requesters_are_named_once_in_each_form() -> None:
    quorum = Quorum(not_requester=True, requester="Jose\u0301", requesters=("José",))

    assert "Jose\u0301" == quorum.excluded_text


@pytest.mark.parametrize("own", ["José", "Jose\u0301"])
def test_sender_in_another_form_repeats_a_message(own: str) -> None:
    """A repeat with the same id and text is the same message."""
    runner, _ = waiting_runner()
    runner.send("jane-1", "More", by="José", id="m1")

    repeated = runner.send("jane-1", "More", by=own, id="m1")

    assert repeated == runner.send("jane-1", "More", by="José", id="m1")
    with pytest.raises(InvalidInput, match="another text or sender"):
        runner.send("jane-1", "More", by="Joseph", id="m1")


@pytest.mark.parametrize(
    ("by", "reply"), [("Jose\u0301", "one"), ("Joseph", "two")], ids=["same", "other"]
)
def test_message_of_one_person_in_two_forms_is_merged(by: str, reply: str) -> None:
    """Both messages have one reply; a message of another person has its own."""
    model = ScriptedModel([ToolCall("pay", {"cents": 5}), "one", "two"])
    runner = Runner(Agent("clerk", tools=[pay], model=model), store=MemoryStore())
    thread = runner.thread("clerk", key="k")
    thread.send("Pay", by="José")
    ticket = thread.post("More", by=by, when_busy="merge")
    [wait] = runner.waiting()
    runner.decide(wait.id, Approve(by="kim"))
    runner.sweep()

    assert reply == ticket.reply().output


@pytest.mark.parametrize(
    ("by", "waits"), [("Jose\u0301", 0), ("Joseph", 1)], ids=["same", "other"]
)
def test_message_of_one_person_in_two_forms_interrupts(by: str, waits: int) -> None:
    """A message of another person ends no turn."""
    model = ScriptedModel([ToolCall("pay", {"cents": 5}), "one", "two"])
    runner = Runner(Agent("clerk", tools=[pay], model=model), store=MemoryStore())
    thread = runner.thread("clerk", key="k")
    thread.send("Pay", by="José")
    thread.post("Stop", by=by, when_busy="interrupt")
    runner.sweep()

    assert waits == len(list(runner.waiting()))
