"""Forged slots: no person votes twice, or in place of an approver."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from continuations import (
    Agent,
    ApprovalPolicy,
    Approve,
    Runner,
    Suspended,
    Wait,
    escalate,
    tool,
)
from continuations.core.rows.decisions import Decision
from continuations.core.rows.slots import Slot
from continuations.engine.ports import SystemClock, SystemIdGenerator
from continuations.errors import Corrupt, FormatError
from continuations.ledger import layout
from continuations.ledger.objects import Objects
from continuations.ledger.repair.doctor import repair
from continuations.ledger.repair.integrity import check_integrity
from continuations.models.scripted import ScriptedModel, ToolCall
from continuations.wire.arrivals import SLOT
from continuations.wire.records import DECISION
from tests.hostile.editable_store import EditableStore
from tests.outcomes import single_wait

NOW = datetime(2030, 1, 1, tzinfo=UTC)
DAY = timedelta(days=1)


class Office:
    """A run whose payment two of three persons approve, and what ran."""

    def __init__(self, **policy: Any) -> None:
        self.ran: list[int] = []
        self.store = EditableStore()
        options: dict[str, Any] = {
            "approvers": ["kim", "lee", "max"],
            "votes": 2,
        } | policy

        @tool(approval=ApprovalPolicy(**options))
        def pay(cents: int) -> str:
            """Pay an amount."""
            self.ran.append(cents)
            return "paid"

        model = ScriptedModel([ToolCall("pay", {"cents": 5}), "end"])
        agent = Agent("boss", tools=[pay], model=model)
        self.runner = Runner(agent, store=self.store)
        wait = single_wait(self.runner.start("go", run_id="r1"))
        self.wait: Wait = wait

    def forge(self, **changes: Any) -> None:
        """Put a slot into the store, by default a vote of kim."""
        wait = self.wait
        number = changes.pop("number", 1)
        vote = Decision(
            id="01q3dcbe9yjqhrycjhgj6axyw7",
            wait_id=wait.id,
            kind="approve",
            at=NOW,
            digest=wait.digest,
            by="kim",
        )
        vote = replace(vote, **changes.pop("vote", {}))
        slot = Slot(
            id=f"01q3dcbe9yjqhrycjhgj6axyw{number}",
            wait_id=wait.id,
            number=number,
            kind="vote",
            at=NOW,
            digest=wait.digest,
            vote=vote,
        )
        key = layout.slot_key(wait.id, number)
        body = SLOT.encode(replace(slot, **changes), "r1")
        asyncio.run(self.store.create(key, body))


@pytest.mark.parametrize(
    "vote",
    [
        {"by": "eve"},
        {"by": None},
        {"by": "lee", "digest": "0" * 64},
        {"by": "lee", "wait_id": "approval-01q3dcbe9yjqhrycjhgj6axyw7@r1"},
        {"by": "lee", "kind": "expire"},
        {"by": "lee", "kind": "cancel"},
        {"by": "group:lee"},
        {"by": "kim"},
        {"by": "lee", "arguments": '{"cents":500}'},
    ],
)
def test_forged_vote_does_not_count(vote: dict[str, Any]) -> None:
    """A vote without a name, of a stranger, for another wait, or a second one."""
    office = Office()
    office.runner.decide(office.wait.id, Approve(by="kim"))

    office.forge(number=2, vote=vote)

    assert isinstance(office.runner.resume("r1"), Suspended)
    assert [] == office.ran
    office.runner.decide(office.wait.id, Approve(by="max"))
    office.runner.resume("r1")
    assert [5] == office.ran


@pytest.mark.parametrize(
    "changes",
    [
        {"kind": "expire"},
        {"kind": "escalate", "deadline": NOW + DAY},
        {"kind": "extend", "deadline": NOW + DAY},
        {"vote": {}, "kind": "expire", "at": datetime(2020, 1, 1, tzinfo=UTC)},
    ],
)
def test_slot_of_a_deadline_that_has_not_passed_is_void(
    changes: dict[str, Any],
) -> None:
    """Neither a wait without a deadline nor one whose deadline is later ends by it."""
    for policy in (
        {},
        {
            "within": timedelta(days=3650),
            "on_deadline": escalate(to=["eve"], within=60),
        },
    ):
        office = Office(**policy)
        office.forge(**changes)

        assert isinstance(office.runner.resume("r1"), Suspended)
        now = office.runner.wait(office.wait.id)
        assert (office.wait.deadline, ("kim", "lee", "max")) == (
            now.deadline,
            now.approvers,
        )


@pytest.mark.parametrize(
    "changes",
    [{"digest": "0" * 64}, {"wait_id": "approval-01q3dcbe9yjqhrycjhgj6axyw7@r1"}],
)
def test_slot_of_another_wait_is_corrupt(changes: dict[str, Any]) -> None:
    """Every reader says so; nothing runs, and the object stays as it is."""
    office = Office()
    office.forge(**changes)
    bodies = office.store.bodies

    with pytest.raises(Corrupt, match="damaged"):
        office.runner.wait(office.wait.id)
    with pytest.raises(Corrupt, match="damaged"):
        office.runner.decide(office.wait.id, Approve(by="kim"))
    with pytest.raises(Corrupt, match="damaged"):
        office.runner.resume("r1")

    assert [] == office.ran
    assert bodies == office.store.bodies


def test_missing_slot_is_corrupt() -> None:
    """Votes are not renumbered: without the first one, the second does not count."""
    office = Office()
    office.forge(number=2, vote={"by": "lee"})

    with pytest.raises(Corrupt, match="is missing"):
        office.runner.decide(office.wait.id, Approve(by="kim"))
    with pytest.raises(Corrupt, match="is missing"):
        office.runner.resume("r1")
    assert [] == office.ran


def test_changed_bytes_of_a_slot_are_refused() -> None:
    """Each changed byte is noticed by the digest of the object."""
    office = Office()
    office.runner.decide(office.wait.id, Approve(by="kim"))
    key = layout.slot_key(office.wait.id, 1)
    body = office.store.bodies[key]

    for position in range(0, len(body), 7):
        changed = bytearray(body)
        changed[position] ^= 1
        office.store.replace_body(key, bytes(changed))
        with pytest.raises(FormatError):
            office.runner.decide(office.wait.id, Approve(by="lee"))
        with pytest.raises(FormatError):
            office.runner.resume("r1")
    assert [] == office.ran


def test_decision_with_too_few_voters_is_corrupt() -> None:
    """A process that writes a decision without votes runs nothing."""
    office = Office()
    forged = Decision(
        id="01q3dcbe9yjqhrycjhgj6axyw7",
        wait_id=office.wait.id,
        kind="approve",
        at=NOW,
        digest=office.wait.digest,
        by="kim",
        voters=("kim", "kim"),
    )
    body = DECISION.encode(forged, "r1")
    asyncio.run(office.store.create(layout.decision_key(office.wait.id), body))

    with pytest.raises(Corrupt, match="fewer persons made it"):
        office.runner.resume("r1")
    assert [] == office.ran


@pytest.mark.parametrize("harm", ["damage", "remove"])
def test_doctor_names_a_bad_slot_and_opens_the_wait_again(harm: str) -> None:
    """After the repair the votes are cast again, under a new wait id."""
    office = Office(votes=3)
    for name in ("kim", "lee"):
        office.runner.decide(office.wait.id, Approve(by=name))
    key = layout.slot_key(office.wait.id, 1)
    if harm == "damage":
        office.store.replace_body(key, office.store.bodies[key][:-1])
    else:
        asyncio.run(office.store.delete(key))

    objects = Objects(office.store)
    report = asyncio.run(check_integrity(objects, "r1"))
    assert [key] == [finding.key for finding in report.findings]
    ids = SystemIdGenerator()
    now = SystemClock().now()
    asyncio.run(repair(objects, "r1", now=now, new_ulid=lambda: ids.new_ulid(now)))

    wait = single_wait(office.runner.resume("r1"))
    assert office.wait.id != wait.id
    for name in ("kim", "lee", "max"):
        office.runner.decide(wait.id, Approve(by=name))
    office.runner.resume("r1")
    assert [5] == office.ran
