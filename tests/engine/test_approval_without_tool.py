"""An approved call whose tool or agent was removed before the call began.

The approval policy is in the code that is missing, and nothing stored tells it.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from datetime import datetime
from typing import Any, cast

import pytest

from continuations import (
    Agent,
    Answer,
    ApprovalPolicy,
    Approve,
    AsyncRunner,
    Deny,
    Finished,
    Runner,
    Suspended,
    Wait,
    resume,
    run,
)
from continuations.errors import AgentChanged
from continuations_storage import MemoryStore, Store, Unavailable
from continuations_storage.faults import ForwardingStore
from tests import effect_log, scripts
from tests.crash_points import every_crash, remaining_keys
from tests.engine.agent_builders import should_pause_after
from tests.engine.payment_agent import make_pay_tool
from tests.ledger.damage import all_objects
from tests.outcomes import expect, single_wait
from tests.scripts import call

STOPPING = ApprovalPolicy(
    strict=True, on_denied="stop", valid_for=60, expires_after=60, on_expired="stop"
)
UNKNOWN_POLICY = (
    "The tool's approval policy is not known here: a denial does not stop the run, and "
    "this wait has no deadline."
)


class Office:
    """A clerk below the boss, whose approved call lost its tool or its agent."""

    def __init__(self, *, agent_is_removed: bool) -> None:
        self.store = MemoryStore()
        pay = make_pay_tool(STOPPING)
        self.complete = self.runner([pay])
        self.reduced = self.runner(None if agent_is_removed else [])

    def runner(self, clerk_tools: list[Any] | None) -> Runner:
        """Return a process whose clerk has these tools; `None`: it has no clerk."""
        payments = [call("pay", cents=5), call("pay", cents=7)]
        script: Any = {
            "go": [[call("clerk", input="A")], "end"],
            "A": [payments, "A done"],
        }
        model = scripts.scripted_model(script)
        below = (
            []
            if clerk_tools is None
            else [Agent("clerk", model=model, tools=clerk_tools)]
        )
        return Runner(Agent("boss", tools=below, model=model), store=self.store)

    def decide_both(self) -> None:
        """Approve one call, which has not begun, and answer the other."""
        outcome = expect(self.complete.start("go", run_id="r1"), Suspended)
        first, second = outcome.waits
        self.complete.decide(first.id, Approve(by="kim"))
        self.complete.resume("r1", should_pause=should_pause_after(1))
        self.complete.decide(second.id, Answer("paid by hand"))

    def objects(self) -> dict[str, bytes]:
        """Return everything in the store."""
        return asyncio.run(all_objects(self.store))

    def wait_again(self) -> Wait:
        """Let an operator ask again about the approved call; return its new wait."""
        self.decide_both()
        wait = single_wait(self.reduced.resume("r1", reopen=True))
        assert str(wait.note).endswith(UNKNOWN_POLICY)
        assert (False, False, None) == (
            wait.denial_stops,
            wait.expiry_stops,
            wait.deadline,
        )
        return wait


@pytest.mark.parametrize("agent_is_removed", [False, True])
def test_worker_without_the_tool_or_agent_changes_nothing_and_keeps_the_approval(
    *, agent_is_removed: bool
) -> None:
    """It names both, and another worker with the tool runs the call once."""
    office = Office(agent_is_removed=agent_is_removed)
    office.decide_both()
    before = office.objects()

    with pytest.raises(AgentChanged) as refused:
        office.reduced.resume("r1")
    swept = office.reduced.sweep()

    assert "run r1 was not resumed: " in str(refused.value)
    missing = (
        "the agent clerk was" if agent_is_removed else "agent clerk has no tool pay"
    )
    assert missing in str(refused.value)
    assert ("boss", "clerk", "pay") == refused.value.path
    assert {"r1": AgentChanged} == {k: type(e) for k, e in swept.errors.items()}
    after = office.objects()
    [note] = after.keys() - before.keys()
    assert note.startswith("runs/r1/y/")
    assert missing.encode() in after.pop(note)
    assert before == after
    [row] = office.complete.drift()
    assert ("accept", str(refused.value)) == (row.verdict, row.worker_lacked)
    assert isinstance(office.complete.resume("r1"), Finished)
    assert ["pay 5 kim"] == effect_log.names()
    office.complete.erase("r1")
    assert not [key for key in office.objects() if "/y/" in key]


class NotesStore(ForwardingStore):
    """A store in which notes of missing code fail, or the run is erased after one."""

    def __init__(self, store: Store, failing: str, *, erases: bool) -> None:
        super().__init__(store)
        self.failing, self.erases = failing, erases
        self.runner = AsyncRunner([], store=store)

    async def create(self, key: str, body: bytes) -> datetime | None:
        """Create an object, or fail."""
        if "/y/" not in key:
            return await super().create(key, body)
        if self.failing == "create":
            raise Unavailable(key, "no network")
        created = await super().create(key, body)
        if self.erases:
            await self.runner.erase("r1")
        return created

    async def delete(self, key: str) -> None:
        """Delete an object, or fail."""
        if "/y/" in key and self.failing == "delete":
            raise Unavailable(key, "no network")
        await super().delete(key)


@pytest.mark.parametrize(
    ("failing", "erases", "notes"),
    [("", False, 1), ("create", False, 0), ("", True, 0), ("delete", True, 0)],
)
def test_note_of_missing_code_hides_no_error_and_outlives_no_erasure(
    failing: str, *, erases: bool, notes: int
) -> None:
    """The worker raises its own error."""
    office = Office(agent_is_removed=False)
    office.decide_both()
    plain: Any = office.store
    office.store = cast("MemoryStore", NotesStore(plain, failing, erases=erases))
    reduced = office.runner([])

    with pytest.raises(AgentChanged, match="agent clerk has no tool pay"):
        reduced.resume("r1")

    assert notes == sum("/y/" in key for key in asyncio.run(plain.keys("", limit=999)))


def test_worker_without_the_tool_dies_at_each_storage_operation() -> None:
    """A worker with the tool runs the call once afterwards."""
    for point in every_crash("before", "after", more_than=5, step=1):
        before = len(effect_log.names())
        office = Office(agent_is_removed=False)
        office.decide_both()
        plain = office.store
        with point.process(plain) as dying, suppress(AgentChanged):
            office.store = cast("MemoryStore", dying)
            office.runner([]).resume("r1")

        assert isinstance(office.complete.resume("r1"), Finished)

        assert ["pay 5 kim"] == effect_log.names()[before:]
        assert [] == remaining_keys(plain)


@pytest.mark.parametrize("agent_is_removed", [False, True])
def test_operator_ends_an_approved_call_whose_tool_or_agent_is_gone(
    *, agent_is_removed: bool
) -> None:
    """The error names the call; after the request, the old worker goes on."""
    office = Office(agent_is_removed=agent_is_removed)
    office.decide_both()
    with pytest.raises(AgentChanged) as refused:
        office.reduced.resume("r1")
    state = office.reduced.look("r1").run_state
    [call_id] = [key for key in state.calls if f"call={key!r}" in str(refused.value)]

    office.reduced.cancel("r1", call=call_id, reason="The tool is gone.", by="kim")

    assert isinstance(office.reduced.resume("r1"), Finished)
    assert [] == effect_log.names()


def test_storeless_resume_without_the_tool_of_an_approved_call_raises() -> None:
    """The continuation and the approval can be used with the right code."""
    model = scripts.scripted_model({"go": [[call("pay", cents=5)], "end"]})
    complete = Agent("boss", tools=[make_pay_tool()], model=model)
    asked = run(complete, "go")
    answers = {single_wait(asked).id: Approve(by="kim")}

    with pytest.raises(AgentChanged, match="agent boss has no tool pay"):
        resume(asked.continuation, Agent("boss", model=model), answers=answers)

    assert isinstance(resume(asked.continuation, complete, answers=answers), Finished)
    assert ["pay 5 kim"] == effect_log.names()


@pytest.mark.parametrize("agent_is_removed", [False, True])
def test_denial_without_the_tool_does_not_stop_the_run_and_the_wait_says_so(
    *, agent_is_removed: bool
) -> None:
    """A person who reads the note can cancel the run instead."""
    office = Office(agent_is_removed=agent_is_removed)

    office.reduced.decide(office.wait_again().id, Deny(reason="No."))

    assert isinstance(office.reduced.resume("r1"), Finished)
    assert [] == effect_log.names()


@pytest.mark.parametrize("agent_is_removed", [False, True])
def test_restored_strict_tool_is_approved_once_more_and_runs_once(
    *, agent_is_removed: bool
) -> None:
    """The first approval was given without its description; the note says that."""
    office = Office(agent_is_removed=agent_is_removed)
    office.reduced.decide(office.wait_again().id, Approve(by="kim"))

    wait = single_wait(office.complete.resume("r1"))

    assert "The tool's policy is strict, and the approval was not." == wait.note
    assert wait.denial_stops
    assert wait.deadline
    office.complete.decide(wait.id, Approve(by="kim"))
    assert isinstance(office.complete.resume("r1"), Finished)
    assert ["pay 5 kim"] == effect_log.names()
