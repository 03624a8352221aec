"""Forged grants, revocations and decisions of rules never cause a call to run."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from continuations import (
    Agent,
    ApprovalPolicy,
    Approve,
    Grant,
    Runner,
    Wait,
    tool,
)
from continuations.core.rows.decisions import Decision
from continuations.errors import Corrupt, FormatError
from continuations.ledger import layout
from continuations.models.scripted import ScriptedModel, ToolCall
from continuations.wire.arrivals import REVOCATION, Revocation
from continuations.wire.records import DECISION
from tests.hostile.editable_store import EditableStore
from tests.outcomes import single_wait

NOW = datetime(2030, 1, 1, tzinfo=UTC)
ULID = "01q3dcbe9yjqhrycjhgj6axyw7"
SMALL = {"properties": {"cents": {"maximum": 100}}}


class Office:
    """A run with four payments, and what was paid."""

    def __init__(self, **policy: Any) -> None:
        self.paid: list[int] = []
        self.store = EditableStore()

        @tool(approval=ApprovalPolicy(**policy))
        def pay(cents: int) -> str:
            """Pay an amount."""
            self.paid.append(cents)
            return "paid"

        calls = [ToolCall("pay", {"cents": each}) for each in (5, 500, 6, 7)]
        agent = Agent("boss", tools=[pay], model=ScriptedModel([*calls, "end"]))
        self.runner = Runner(agent, store=self.store)
        wait = single_wait(self.runner.start("go", run_id="r1"))
        self.wait: Wait = wait

    def put(self, key: str, body: bytes) -> None:
        """Create an object, as another program with access to the store does."""
        asyncio.run(self.store.create(key, body))

    def resume(self) -> Wait:
        """Resume the run; return its one wait."""
        return single_wait(self.runner.resume("r1"))

    def forge_decision(self, grant_json: str) -> None:
        """Record an approval of the first payment that gives a grant."""
        forged = Decision(
            id=ULID,
            wait_id=self.wait.id,
            kind="approve",
            at=NOW,
            digest=self.wait.digest,
            grant_json=grant_json,
        )
        self.put(layout.decision_key(self.wait.id), DECISION.encode(forged, "r1"))


def revocation(**changes: Any) -> bytes:
    """Return the bytes of a revocation of some grant of the run `r1`."""
    run_id = changes.pop("run_id", "r1")
    plain = Revocation(id=ULID, number=1, at=NOW, grant=ULID)
    return REVOCATION.encode(replace(plain, **changes), run_id)


def revocation_key(number: int) -> str:
    """Return the key of a revocation of the run `r1`."""
    return layout.numbered_key(layout.REVOCATION, "r1", number)


UNREADABLE = [
    "7",
    "{",
    "[]",
    "{}",
    '{"tool":7}',
    '{"tool":""}',
    '{"tool":"pay","more":1}',
    '{"tool":"pay","until":"never"}',
    '{"tool":"pay","until":1e400}',
    '{"tool":"pay","until":99999999999999999}',
    '{"tool":"pay","arguments":[]}',
    '{"tool":"pay","arguments":' + "[" * 5000 + "]" * 5000 + "}",
]


@pytest.mark.parametrize("grant_json", UNREADABLE, ids=lambda text: text[:30])
def test_unreadable_grant_of_a_decision_is_a_typed_error(grant_json: str) -> None:
    """Also the approval itself does not count: its bytes are damaged."""
    office = Office()

    office.forge_decision(grant_json)

    for read in (office.runner.resume, office.runner.grants, office.runner.audit):
        with pytest.raises((FormatError, Corrupt)):
            read("r1")
    assert [] == office.paid


UNFIT = {
    "another tool": '{"tool":"refund"}',
    "a schema that is none": '{"arguments":{"type":7},"tool":"pay"}',
    "a reference": '{"arguments":{"$ref":"http://127.0.0.1:9/x"},"tool":"pay"}',
    "a file": '{"arguments":{"$ref":"file:///etc/passwd"},"tool":"pay"}',
    "a long schema": '{"arguments":{"title":"' + "x" * 3000 + '"},"tool":"pay"}',
    "an endless schema": '{"arguments":{"$ref":"#"},"tool":"pay","until":0}',
}


@pytest.mark.parametrize("name", UNFIT)
def test_grant_that_does_not_fit_its_wait_is_not_kept(name: str) -> None:
    """`decide` refuses such grants; a worker does not trust that it was asked."""
    office = Office()
    office.forge_decision(UNFIT[name])
    assert [] == office.runner.grants("r1")

    wait = office.resume()

    assert {"cents": 500} == wait.arguments
    assert [5] == office.paid
    assert [] == office.runner.grants("r1")
    office.runner.decide(wait.id, Approve())
    assert {"cents": 6} == office.resume().arguments


def test_grant_of_one_of_several_voters_is_not_kept() -> None:
    """Neither in the decision of several persons nor in a decision of one."""
    office = Office(votes=2)
    office.forge_decision('{"tool":"pay"}')

    with pytest.raises(Corrupt, match="fewer persons made it"):
        office.runner.resume("r1")
    assert [] == office.runner.grants("r1")
    assert [] == office.paid


def granted() -> tuple[Office, Wait, str]:
    """Return a run with a grant, its wait, and the id of the grant."""
    office = Office()
    given = Approve(by="kim", remember=Grant("pay", SMALL))
    grant = office.runner.decide(office.wait.id, given)
    return office, office.resume(), grant.id


BAD_REVOCATIONS = {
    "of another run": (1, revocation(run_id="r2")),
    "with another number": (1, revocation(number=2)),
    "with a number that is none": (1, revocation(number=-1)),
    "no object": (1, b"revocation"),
    "empty": (1, b""),
    "after a missing one": (2, revocation(number=2)),
    "a decision": (
        1,
        DECISION.encode(
            Decision(
                id=ULID,
                wait_id=f"approval-{ULID}@r1",
                kind="deny",
                at=NOW,
                digest="0" * 64,
            ),
            "r1",
        ),
    ),
}


@pytest.mark.parametrize("name", BAD_REVOCATIONS)
def test_bad_revocation_stops_every_reader(name: str) -> None:
    """It may have ended the grant. So no call runs until the store is repaired."""
    office, wait, grant = granted()
    number, body = BAD_REVOCATIONS[name]
    office.put(revocation_key(number), body)
    office.runner.decide(wait.id, Approve())

    with pytest.raises((FormatError, Corrupt)):
        office.runner.resume("r1")
    with pytest.raises((FormatError, Corrupt)):
        office.runner.grants("r1")
    with pytest.raises((FormatError, Corrupt)):
        office.runner.revoke("r1", grant)
    assert [5] == office.paid


def test_each_changed_byte_of_a_revocation_is_refused() -> None:
    """A damaged revocation does not leave the grant in force."""
    office, wait, grant = granted()
    office.runner.revoke("r1", grant, by="lee", reason="enough")
    office.runner.decide(wait.id, Approve())
    key = revocation_key(1)
    body = office.store.bodies[key]

    for position in range(0, len(body), 5):
        changed = bytearray(body)
        changed[position] ^= 1
        office.store.replace_body(key, bytes(changed))
        with pytest.raises(FormatError):
            office.runner.resume("r1")
    assert [5] == office.paid
    office.store.replace_body(key, body)
    assert {"cents": 6} == office.resume().arguments


def test_forged_revocations_end_grants_and_give_none() -> None:
    """A revocation of a grant that does not exist changes nothing."""
    office, wait, grant = granted()
    office.put(revocation_key(1), revocation(grant="x" * 10_000))
    office.put(revocation_key(2), revocation(number=2, grant=grant))
    office.runner.decide(wait.id, Approve())

    assert {"cents": 6} == office.resume().arguments
    assert [5, 500] == office.paid
    assert [] == office.runner.grants("r1")


@pytest.mark.parametrize("rule", ["grant x", "small_amounts", f"grant {ULID}"])
def test_forged_decision_of_a_rule_approves_nothing(rule: str) -> None:
    """Such a record is for the audit; no worker reads it before a call."""
    office = Office()
    forged = Decision(
        id=ULID,
        wait_id=layout.build_wait_id("approval", ULID, "r1"),
        kind="approve",
        at=NOW,
        digest=office.wait.digest,
        door="rule",
        rule=rule,
    )
    office.put(layout.decision_key(forged.wait_id), DECISION.encode(forged, "r1"))

    assert {"cents": 5} == office.resume().arguments
    assert [] == office.paid
    assert [rule] == [line.rule for line in office.runner.audit("r1")]
