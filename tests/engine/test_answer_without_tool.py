"""A call that got its answer, in a worker whose code lacks the tool of the call.

The function that gets the answer is in the code that is missing. So the worker changes
nothing, whatever ends the wait, and leaves the run to another one.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from continuations import (
    Agent,
    Answer,
    Approve,
    Deny,
    Finished,
    Runner,
    Suspended,
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
from tests import effect_log, scripts
from tests.clocks import ManualClock
from tests.engine.agent_builders import make_boss
from tests.engine.payment_agent import make_pay_tool
from tests.hostile.editable_store import EditableStore
from tests.ledger.damage import all_objects
from tests.outcomes import expect
from tests.scripts import call

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


class Office:
    """A run whose call waits, and two processes: one of them lacks its tool."""

    def __init__(self, kind: str) -> None:
        self.store, self.clock, self.kind = EditableStore(), ManualClock(), kind
        self.complete = self.runner(make_receipt(MAKE_WAIT[kind]))
        self.reduced = self.runner()

    def runner(self, *tools: Any) -> Runner:
        """Return a process with these tools."""
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
        """Return everything in the store."""
        return asyncio.run(all_objects(self.store))


@pytest.mark.parametrize("kind", MAKE_WAIT)
def test_worker_without_the_tool_changes_nothing_and_keeps_the_answer(
    kind: str,
) -> None:
    """It names the tool, and another worker runs the function once."""
    office = Office(kind)
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
    office = Office(kind)
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
    office = Office(kind)
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
