"""Forged answers of jobs, and forged consequences of deadlines, are refused."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import UTC, datetime

import pytest

from continuations import (
    Agent,
    Approve,
    Runner,
    Suspended,
    ToolContext,
    ask,
    external,
    tool,
)
from continuations.core.rows.decisions import Decision, DecisionKind
from continuations.errors import Corrupt, FormatError
from continuations.ledger import layout
from continuations.models.scripted import ScriptedModel, ToolCall
from continuations.tools import ToolWait
from continuations.wire.records import DECISION, WAIT
from continuations_storage.faults import Crash, FaultyStore
from tests.clocks import ManualClock
from tests.hostile.editable_store import EditableStore
from tests.outcomes import single_wait


def scripted_model() -> ScriptedModel:
    """Return a model that calls the tool, and ends."""
    return ScriptedModel([ToolCall("scan", {"document": "a"}), "end"])


def forge(store: EditableStore, wait_id: str, kind: DecisionKind) -> None:
    """Record a decision whose digest is neither that of the call nor of the wait."""
    run_id = layout.parse_wait_id(wait_id).run_id
    forged = Decision(
        id="01q3dcbe9yjqhrycjhgj6axyw7",
        wait_id=wait_id,
        kind=kind,
        at=datetime(2030, 1, 1, tzinfo=UTC),
        digest="0" * 64,
        value='"forged"' if kind in ("answer", "fail") else None,
    )
    body = DECISION.encode(forged, run_id)
    asyncio.run(store.create(layout.decision_key(wait_id), body))


@pytest.mark.parametrize("kind", ["answer", "fail", "approve", "deny", "cancel"])
@pytest.mark.parametrize("is_early", [True, False])
def test_forged_answer_of_a_job_is_refused_and_runs_nothing(
    kind: DecisionKind, is_early: bool
) -> None:
    """Its digest is neither that of the call nor that of the wait."""
    ran: list[str] = []
    store = EditableStore()

    @tool
    def scan(document: str, ctx: ToolContext) -> ToolWait[str]:
        """Scan."""
        ran.append(f"scan {document}")
        if is_early:
            forge(store, ctx.wait_id, kind)
        return external("scan", str)

    @scan.on_answer
    def scanned(answer: str) -> str:
        ran.append(answer)
        return answer

    agent = Agent("boss", tools=[scan], model=scripted_model())
    runner = Runner(agent, store=store)
    if not is_early:
        outcome = runner.start("go", run_id="r1")
        assert isinstance(outcome, Suspended)
        forge(store, outcome.waits[0].id, kind)

    with pytest.raises(Corrupt, match="it was made for another call"):
        runner.start("go", run_id="r1")
    with pytest.raises(Corrupt, match="it was made for another call"):
        runner.resume("r1")

    assert ["scan a"] == ran


@pytest.mark.parametrize("kind", ["answer", "fail", "approve", "deny", "cancel"])
def test_forged_answer_does_not_tell_the_outcome_of_a_call(kind: DecisionKind) -> None:
    """The worker died in the tool: a person is asked, as without the answer."""
    ran: list[str] = []
    store, clock = EditableStore(), ManualClock()
    dying = FaultyStore(store)

    @tool
    def scan(document: str, ctx: ToolContext) -> ToolWait[str]:
        """Scan."""
        ran.append(f"scan {document}")
        if not dying.has_crashed:
            forge(store, ctx.wait_id, kind)
            dying.has_crashed = True
        return external("scan", str)

    @scan.on_answer
    def scanned(answer: str) -> str:
        ran.append(answer)
        return answer

    agent = Agent("boss", tools=[scan], model=scripted_model())
    with pytest.raises(Crash):
        Runner(agent, store=dying, clock=clock).start("go", run_id="r1")
    clock.seconds += 61
    runner = Runner(agent, store=store, clock=clock)

    asked = runner.resume("r1")
    assert isinstance(asked, Suspended)
    assert ["unknown"] == [wait.kind for wait in asked.waits]
    assert ["scan a"] == ran

    # The tool runs again, and its wait has the forged decision
    runner.decide(asked.waits[0].id, Approve())
    with pytest.raises(Corrupt, match="it was made for another call"):
        runner.resume("r1")
    assert ["scan a", "scan a"] == ran


@pytest.mark.parametrize(
    "forged",
    [
        "7",
        "{",
        '{"kind":"approve"}',
        '{"kind":"answer"}',
        '{"kind":"fail","error":7}',
        '{"kind":"deny","reason":[]}',
    ],
)
def test_forged_consequence_of_a_deadline_is_refused_when_it_is_read(
    forged: str,
) -> None:
    @tool
    def scan(document: str) -> ToolWait[str]:
        """Scan."""
        return ask(f"{document}?")

    agent = Agent("boss", tools=[scan], model=scripted_model())
    wait = single_wait(Runner(agent, store=EditableStore()).start("go", run_id="r1"))
    body = WAIT.encode(replace(wait, on_deadline_json=forged))

    with pytest.raises(FormatError):
        WAIT.decode(body, wait.id, "r1")
