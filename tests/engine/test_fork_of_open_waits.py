"""A fork of a version with open waits has the same waits, under ids of its own."""

from __future__ import annotations

from typing import Any

import pytest

from continuations import Agent, ApprovalPolicy, Approve, Runner, Suspended, Wait, tool
from continuations.core.rows.wait_rules import WAIT_KINDS
from continuations.models.scripted import ScriptedModel, ToolCall
from continuations_storage import MemoryStore
from tests.clocks import ManualClock
from tests.crash_points import every_crash
from tests.run_environment import RunEnvironment

APP = "tests.engine.waits_of_all_kinds:agents"


def described(wait: Wait) -> dict[str, Any]:
    """Return what a wait asks, without its id, run and time."""
    return {
        "kind": wait.kind,
        "path": wait.path,
        "call": wait.call_id,
        "frame": wait.frame_id,
        "tool": wait.tool,
        "arguments": wait.arguments,
    }


def by_subject(waits: tuple[Wait, ...]) -> list[dict[str, Any]]:
    """Return the descriptions of waits in a fixed order."""
    return sorted(map(described, waits), key=str)


def test_fork_has_an_open_wait_of_each_kind_that_its_source_has(
    environment: RunEnvironment,
) -> None:
    """A call that is not approved or answered by a person waits in the fork too."""
    environment.start({}, app=APP, ahead="0", limited="429")
    runner = Runner([], store=environment.store)
    source = runner.look("r1")
    before = environment.objects()

    runner.fork("r1", source.version, run_id="fork")
    fork = runner.look("fork")

    kinds = {wait.kind for wait in fork.waits}
    assert WAIT_KINDS - {"input", "output"} == kinds
    assert len(source.waits) == len(fork.waits)
    assert {wait.id for wait in source.waits}.isdisjoint(w.id for w in fork.waits)
    assert by_subject(source.waits) == by_subject(fork.waits)
    # The frames, the calls and every message are those of the source
    ours, theirs = fork.run_state, source.run_state
    assert ours.frames.keys() == theirs.frames.keys()
    assert ours.calls.keys() == theirs.calls.keys()
    for frame_id, log in theirs.logs.items():
        texts = [message.text for message in ours.logs[frame_id].messages]
        assert [message.text for message in log.messages] == texts
    # Nothing of the source changed
    after = environment.objects()
    assert before == {key: after[key] for key in before}


@tool(approval=ApprovalPolicy(approvers=["kim", "lee"], votes=2))
def spend(what: str) -> str:
    """Spend; two persons must approve."""
    return f"spent {what}"


def voting_runner(store: Any, clock: ManualClock) -> Runner:
    """Return a runner whose agent spends once."""
    model = ScriptedModel([ToolCall("spend", {"what": "x"}), "done"])
    return Runner(Agent("boss", tools=[spend], model=model), store=store, clock=clock)


def half_approved() -> tuple[MemoryStore, ManualClock, Runner]:
    """Return a run whose wait has one vote of two."""
    clock = ManualClock()
    store = MemoryStore(clock.now)
    runner = voting_runner(store, clock)
    runner.start("go", run_id="r1")
    (wait,) = runner.look("r1").waits
    runner.decide(wait.id, Approve(by="kim"))
    return store, clock, runner


def test_vote_does_not_move_to_a_fork() -> None:
    """Both persons vote again: a vote is for one digest in one run."""
    _, _, runner = half_approved()
    runner.fork("r1", run_id="fork")
    (wait,) = runner.look("fork").waits

    runner.decide(wait.id, Approve(by="lee"))

    assert isinstance(runner.resume("fork"), Suspended)
    (again,) = runner.look("fork").waits
    assert ("approval", "fork") == (again.kind, again.run_id)
    assert [] == [x for x in runner.audit("fork", past=False) if x.by == "kim"]


@pytest.mark.parametrize("moment", ["before", "after"])
def test_erase_of_a_source_that_dies_at_any_operation_leaves_its_fork_whole(
    moment: Any,
) -> None:
    """A repeat completes the erasure, and the fork comes to its end."""
    for point in every_crash(moment, more_than=8):
        store, clock, runner = half_approved()
        runner.fork("r1", run_id="fork")
        before = runner.look("fork").run_state
        with point.process(store) as dying:
            Runner([], store=dying, clock=clock).erase("r1")
        clock.seconds += 120
        runner.erase("r1")

        assert before == runner.look("fork").run_state, point
        (wait,) = runner.look("fork").waits
        assert [wait.id] == [each.id for each in runner.waiting()], point
        for person in ("kim", "lee"):
            runner.decide(wait.id, Approve(by=person))
        runner.resume("fork")
        assert "done" == runner.look("fork").output, point
