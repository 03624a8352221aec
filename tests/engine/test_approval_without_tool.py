"""Calls whose tool or agent was removed, after an approval or an answer."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
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
    ask,
    external,
    resume,
    run,
    sleep,
    tool,
    wait_for,
)
from continuations.errors import AgentChanged
from continuations.tools import ToolWait
from continuations_storage import MemoryStore, Store, Unavailable
from continuations_storage.faults import ForwardingStore
from tests import effect_log, scripts
from tests.clocks import ManualClock
from tests.crash_points import every_crash, remaining_keys
from tests.engine.agent_builders import make_boss, should_pause_after
from tests.engine.payment_agent import make_pay_tool
from tests.hostile.editable_store import EditableStore
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


# Answers ----------------------------------------------------------------------


LATER = Answer("late")
MAKE_WAIT: dict[str, Callable[[], ToolWait[Any]]] = {
    "answer": lambda: ask("Which?"),
    "deadline of a question": lambda: ask("Which?", within=60, on_deadline=LATER),
    "job": lambda: external("scan"),
    "deadline of a job": lambda: external("scan", within=60, on_deadline=LATER),
    "signal": lambda: wait_for("paid", str),
    "event": lambda: wait_for("paid", str, key="7"),
    "deadline of an event": lambda: wait_for("paid", within=60, on_deadline=LATER),
    "timer": lambda: sleep(60),
}


def make_receipt(wait: Callable[[], ToolWait[Any]]) -> Any:
    """Return a tool that waits, with a function that gets the answer."""

    @tool
    def receipt() -> ToolWait[Any]:
        """Get a receipt."""
        return wait()

    @receipt.on_answer
    def received(answer: Any) -> str:
        effect_log.append_effect("received", str(answer))
        return f"got {answer}"

    return receipt


class AnsweringOffice:
    """A run whose call waits, and two processes: one of them lacks its tool."""

    def __init__(self, kind: str) -> None:
        self.store, self.clock, self.kind = EditableStore(), ManualClock(), kind
        self.complete = self.runner(make_receipt(MAKE_WAIT[kind]))
        self.reduced = self.runner()

    def runner(self, *tools: Any) -> Runner:
        script: Any = {"go": [[call("receipt")], "end"]}
        boss = make_boss(script, *tools)
        return Runner(boss, store=self.store, clock=self.clock)

    def end_wait(self) -> None:
        """Start the run, and let its wait end."""
        outcome = expect(self.complete.start("go", run_id="r1"), Suspended)
        if self.kind in ("answer", "job"):
            self.complete.decide(outcome.waits[0].id, Answer("yes", by="kim"))
        elif self.kind == "signal":
            self.complete.signal("r1", "paid", "yes")
        elif self.kind == "event":
            self.complete.publish("paid", "yes", key="7")
        self.clock.seconds += 600

    def objects(self) -> dict[str, bytes]:
        return asyncio.run(all_objects(self.store))


@pytest.mark.parametrize("kind", MAKE_WAIT)
def test_worker_without_the_tool_changes_nothing_and_keeps_the_answer(
    kind: str,
) -> None:
    """It names the tool, and another worker runs the function once."""
    office = AnsweringOffice(kind)
    office.end_wait()
    before = office.objects()

    with pytest.raises(AgentChanged) as refused:
        office.reduced.resume("r1")
    swept = office.reduced.sweep()

    assert "agent boss has no tool receipt" in str(refused.value)
    assert "The run was not changed" in str(refused.value)
    assert refused.value.wait_id
    assert {"r1": AgentChanged} == {k: type(e) for k, e in swept.errors.items()}
    after = office.objects()
    [note] = after.keys() - before.keys()
    assert note.startswith("runs/r1/y/")
    assert before == {key: after[key] for key in before}
    assert isinstance(office.complete.resume("r1"), Finished)
    answer = "late" if kind.startswith("deadline") else "yes"
    answer = "The time has come." if kind == "timer" else answer
    assert [f"received {answer}"] == effect_log.names()


@pytest.mark.parametrize("kind", ["answer", "timer"])
def test_error_of_an_answered_call_names_only_what_an_operator_can_do(
    kind: str,
) -> None:
    office = AnsweringOffice(kind)
    office.end_wait()
    with pytest.raises(AgentChanged) as refused:
        office.reduced.resume("r1", reopen=True)
    assert "reopen" not in str(refused.value)
    [call_id] = office.reduced.look("r1").run_state.calls
    assert f"cancel('r1', call={call_id!r})" in str(refused.value)

    office.reduced.cancel("r1", call=call_id, by="kim")

    assert isinstance(office.reduced.resume("r1"), Finished)
    assert [] == effect_log.names()


@pytest.mark.parametrize("kind", MAKE_WAIT)
def test_drift_names_the_wait_of_a_call_without_its_tool(kind: str) -> None:
    office = AnsweringOffice(kind)
    office.end_wait()
    [wait_id] = office.reduced.look("r1").run_state.waits

    [row] = office.reduced.drift()

    assert [("refuse", "removed", wait_id)] == [
        (why.verdict, why.change, why.wait_id) for why in row.why
    ]


def test_storeless_resume_without_the_tool_of_an_answered_call_raises() -> None:
    """Its text names what a caller without a store can do."""
    model = scripts.scripted_model({"go": [[call("receipt")], "end"]})
    complete = Agent("boss", tools=[make_receipt(MAKE_WAIT["answer"])], model=model)
    reduced = Agent("boss", model=model)
    asked = run(complete, "go")
    [wait] = asked.waits

    with pytest.raises(AgentChanged, match="Nothing ran") as refused:
        resume(asked.continuation, reduced, answers={wait.id: Answer("yes")})

    assert "or pass Deny() for its wait in answers." in str(refused.value)
    assert "cancel(" not in str(refused.value)
    assert "reopen" not in str(refused.value)
    denied = resume(asked.continuation, reduced, answers={wait.id: Deny(by="kim")})
    assert isinstance(denied, Finished)
    assert [] == effect_log.names()


def test_worker_that_ran_a_call_leaves_the_next_one_to_another_process(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """No error says that nothing was written, since a call ran and is stored."""
    store = EditableStore()

    @tool(approval=True)
    def slow() -> str:
        """Take time; meanwhile a person approves the other call."""
        effect_log.append_effect("slow", "call")
        desk = Runner([], store=store)
        [payment] = list(desk.waiting())
        desk.decide(payment.id, Approve(by="kim"))
        return "done"

    script: Any = {"go": [[call("pay", cents=5), call("slow")], "end"]}
    complete = Runner(make_boss(script, make_pay_tool(), slow), store=store)
    reduced = Runner(make_boss(script, slow), store=store)
    first = complete.start("go", run_id="r1")
    [wait] = [wait for wait in first.waits if wait.tool == "slow"]
    complete.decide(wait.id, Approve(by="kim"))

    outcome = expect(reduced.resume("r1"), Suspended)

    assert first.continuation.version < outcome.continuation.version
    assert "run r1 is left to other processes" in caplog.text
    assert "agent boss has no tool pay" in caplog.text
    with pytest.raises(AgentChanged, match="The run was not changed"):
        reduced.resume("r1")
    assert isinstance(complete.resume("r1"), Finished)
    assert ["slow call", "pay 5 kim"] == effect_log.names()
