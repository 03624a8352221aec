"""`adopt` continues the run of another store, or of no store, under its own id."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from continuations import (
    Agent,
    Answer,
    ApprovalPolicy,
    Approve,
    AsyncRunner,
    Continuation,
    Deny,
    Finished,
    Identity,
    Runner,
    Suspended,
    ask,
    external,
    run,
    tool,
)
from continuations.core.rows.calls import Ready, Started
from continuations.core.rows.run import Claim
from continuations.errors import DecisionRefused, InvalidId, InvalidInput, RunExists
from continuations.models.scripted import ScriptedModel, ToolCall
from continuations_storage import MemoryStore
from tests import effect_log
from tests.clocks import ManualClock
from tests.crash_points import every_crash
from tests.engine.agent_builders import tool_results
from tests.outcomes import expect, single_wait


@tool(approval=ApprovalPolicy(expires_after=timedelta(days=2)))
def pay(what: str) -> str:
    """Pay."""
    effect_log.append_effect("pay", what)
    return f"paid {what}"


@tool(approval=ApprovalPolicy(strict=True))
def grant(what: str) -> str:
    """Grant access."""
    effect_log.append_effect("grant", what)
    return f"granted {what}"


@tool
def choose(what: str) -> Any:
    """Ask which one."""
    effect_log.append_effect("choose", what)
    return ask("Which one?")


@tool
def job(what: str) -> Any:
    """Start a job of another system."""
    effect_log.append_effect("job", what)
    return external(what)


def make_boss(*tools: Any) -> Agent:
    """Return an agent whose sub-agent calls each tool once, at the same time."""
    calls = [ToolCall(each.name, {"what": "x"}) for each in tools]
    clerk = Agent("clerk", tools=tools, model=ScriptedModel([calls, "paid"]))
    model = ScriptedModel([ToolCall("clerk", {"input": "pay"}), "done"])
    return Agent("boss", tools=[clerk], model=model)


def started(agent: Agent) -> Continuation:
    """Return the continuation of a run without a store."""
    return run(agent, "go").continuation


def clerk_results(runner: Runner) -> list[str]:
    """Return the results that the clerk read, from the version before it ended."""
    for version in range(runner.look("jane-1").version, 0, -1):
        root = runner.look("jane-1", version=version).root
        frames = [call.frame for call in root.calls if call.frame is not None]
        if frames and (results := tool_results(frames[0].messages)):
            return results
    return []


def test_storeless_run_waits_in_the_store_and_goes_on() -> None:
    """Each kind of wait gets an id and an object of the new run, and keeps its rule."""
    # Given a run without a store that waits for four things in a sub-agent
    agent = make_boss(pay, grant, choose, job)
    source = started(agent)
    runner = Runner(agent, store="memory:")

    # When its bytes are adopted
    outcome = runner.adopt(source.to_bytes(), run_id="jane-1")

    # Then its waits are new, listed and equal apart from their ids and digests
    assert isinstance(outcome, Suspended)
    assert not outcome.paused
    waits = {wait.tool: wait for wait in outcome.waits}
    before = {wait.tool: wait for wait in source.waits}
    assert {"pay", "grant", "choose", "job"} == set(waits)
    for name, wait in waits.items():
        assert wait == runner.wait(wait.id)
        assert wait.id.endswith("@jane-1")
        assert wait.digest != before[name].digest
        assert wait.deadline == before[name].deadline
    # And each decision has its effect, once
    runner.decide(waits["pay"].id, Approve(by="kim"))
    runner.decide(waits["grant"].id, Approve(by="kim"))
    runner.decide(waits["choose"].id, Answer("blue"))
    runner.decide(waits["job"].id, Answer("job done"))
    assert isinstance(runner.resume("jane-1"), Finished)
    assert ["paid x", "granted x", "blue", "job done"] == clerk_results(runner)
    effects = sorted(effect_log.names())
    assert ["choose x", "grant x", "job x", "pay x"] == effects


def test_repeat_returns_the_same_run_and_another_continuation_is_refused() -> None:
    agent = make_boss(pay)
    source, other = started(agent), started(agent)
    runner = Runner(agent, store="memory:")
    first = runner.adopt(source)

    again = runner.adopt(Continuation.from_bytes(source.to_bytes()))

    assert first == again
    assert source.run_id == first.run_id
    with pytest.raises(RunExists, match="does not continue this continuation"):
        runner.adopt(other, run_id=first.run_id)
    with pytest.raises(RunExists):
        Runner(agent, store=runner.store).adopt(runner.look(first.run_id))
    # And a repeat after the end returns the end
    runner.decide(first.continuation.waits[0].id, Deny())
    assert isinstance(runner.resume(first.run_id), Finished)
    assert isinstance(runner.adopt(source), Finished)


def test_ended_run_is_refused_because_nothing_is_paused_in_it() -> None:
    end = run(Agent("boss", model=ScriptedModel(["done"])), "go").continuation
    runner = Runner([], store="memory:")

    with pytest.raises(InvalidInput, match="nothing is paused in that run"):
        runner.adopt(end)
    with pytest.raises(InvalidInput, match="got str"):
        runner.adopt("jane-1")  # type: ignore[arg-type]
    with pytest.raises(InvalidId):
        runner.adopt(started(make_boss(pay)), run_id="")


def test_approved_call_that_was_not_started_waits_again() -> None:
    """An approval is valid in one run only."""
    agent = make_boss(pay)
    runner = Runner(agent, store="memory:")

    wait = single_wait(runner.adopt(approved(started(agent)), run_id="jane-1"))

    assert wait.note is not None
    assert "valid in one run only" in wait.note
    assert isinstance(runner.resume("jane-1"), Suspended)
    assert [] == effect_log.names()
    runner.decide(wait.id, Approve())
    assert isinstance(runner.resume("jane-1"), Finished)
    assert ["pay x"] == effect_log.names()


def approved(source: Continuation) -> Continuation:
    """Return the state after the approval of its only wait, before the call began."""
    state = source.run_state
    (wait,) = state.waits.values()
    call = replace(
        state.calls[wait.call_id], state=Ready(), approved_digest=wait.digest
    )
    return Continuation(replace(state, waits={}, calls={**state.calls, call.id: call}))


@pytest.mark.parametrize("kind", ["plain", "idempotent", "verified", "read_only"])
def test_started_call_is_unknown_unless_it_only_reads(kind: str) -> None:
    """An idempotent call has another key in another run: it may happen twice."""

    def act(what: str) -> str:
        """Act."""
        effect_log.append_effect("act", what)
        return f"acted on {what}"

    made: Any = tool(
        act, idempotent=kind == "idempotent", read_only=kind == "read_only"
    )
    if kind == "verified":
        made = tool(act, verify=did_not_happen)
    agent = make_boss(made)
    old = Runner(agent, store="memory:")
    old.start("go", run_id="old")
    source = version_in_which_a_call_is_started(old)
    runner = Runner(agent, store="memory:")

    outcome = runner.adopt(source, run_id="jane-1")
    end = runner.resume("jane-1")

    if kind == "read_only":
        assert isinstance(end, Finished)
        assert ["act x", "act x"] == effect_log.names()
        return
    assert isinstance(outcome, Suspended)
    assert isinstance(end, Suspended)
    (wait,) = end.waits
    assert "unknown" == wait.kind
    assert wait.approve_after == source_claim(source).until
    assert ["act x"] == effect_log.names()


def did_not_happen(what: str) -> Approve:
    """Say that the call may run."""
    del what
    return Approve()


def version_in_which_a_call_is_started(runner: Runner) -> Continuation:
    """Return the first version of run `old` that has a started call."""
    for number in range(1, runner.look("old").version + 1):
        found = runner.look("old", version=number)
        if any(isinstance(c.state, Started) for c in found.run_state.calls.values()):
            return found
    pytest.fail("no version has a started call")


def source_claim(source: Continuation) -> Claim:
    """Return the claim of a version that a worker made."""
    claim = source.run_state.run.claim
    assert claim is not None
    return claim


def test_deadline_is_kept_and_its_marker_is_due(clock: ManualClock) -> None:
    agent = make_boss(pay)
    old = Runner(agent, store=MemoryStore(), clock=clock)
    old.start("go", run_id="old")
    runner = Runner(agent, store=MemoryStore(), clock=clock)
    runner.adopt(old.look("old"), run_id="jane-1")

    clock.seconds = timedelta(days=3).total_seconds()
    (end,) = runner.sweep().resumed

    assert isinstance(end, Finished)
    assert clerk_results(runner)[0].startswith("EXPIRED")


def test_run_that_can_go_on_is_paused_and_a_sweep_continues_it() -> None:
    agent = make_boss(pay)
    paused = Runner(agent, store="memory:")
    paused.start("go", run_id="old", work=False)
    runner = Runner(agent, store="memory:")

    outcome = expect(runner.adopt(paused.look("old"), run_id="jane-1"), Suspended)

    assert outcome.paused
    (resumed,) = runner.sweep().resumed
    assert isinstance(resumed, Suspended)
    assert "pay" == resumed.waits[0].tool


def test_process_without_agents_adopts_too(store: MemoryStore) -> None:
    agent = make_boss(pay)
    outcome = Runner([], store=store).adopt(started(agent), run_id="jane-1")

    assert isinstance(outcome, Suspended)
    runner = Runner(agent, store=store)
    runner.decide(outcome.waits[0].id, Approve())
    assert isinstance(runner.resume("jane-1"), Finished)


def test_approval_of_a_contract_that_is_not_known_opens_the_wait_again() -> None:
    """Without the agents, the description that a strict wait shows is not known."""
    agent = make_boss(grant)
    store = MemoryStore()
    outcome = Runner([], store=store).adopt(started(agent), run_id="jane-1")
    assert isinstance(outcome, Suspended)
    runner = Runner(agent, store=store)
    runner.decide(outcome.waits[0].id, Approve())

    runner.decide(single_wait(runner.resume("jane-1")).id, Approve())
    assert isinstance(runner.resume("jane-1"), Finished)


def test_async_runner_adopts() -> None:
    agent = make_boss(pay)
    runner = AsyncRunner(agent, store="memory:")

    outcome = asyncio.run(runner.adopt(started(agent), run_id="jane-1"))

    assert "jane-1" == outcome.run_id
    assert agent is runner.root_agent()


def test_crash_at_each_operation_of_an_adoption_loses_nothing() -> None:
    """A repeat gives one run with one wait that is listed; no wait has two ids."""
    agent = make_boss(pay)
    source = started(agent)
    for point in every_crash("before", "after", more_than=3):
        store = MemoryStore()
        with point.process(store) as dying:
            Runner(agent, store=dying).adopt(source, run_id="jane-1")
        runner = Runner(agent, store=store)
        runner.sweep()

        outcome = expect(runner.adopt(source, run_id="jane-1"), Suspended)

        assert [wait.id for wait in outcome.waits] == [w.id for w in runner.waiting()]
        runner.decide(outcome.waits[0].id, Approve())
        assert isinstance(runner.resume("jane-1"), Finished)


@tool(approval=ApprovalPolicy(votes=2, not_requester=True))
def wire(what: str) -> str:
    """Send money, which the requester does not approve."""
    effect_log.append_effect("wire", what)
    return f"sent {what}"


@pytest.mark.parametrize("source_requester", [None, "jane"])
def test_requester_of_an_adopted_run_is_the_one_of_adopt(
    source_requester: str | None,
) -> None:
    """The requester of the source has not requested this run, and may decide it."""
    # Given bytes of a run without a store, with or without a requester
    agent = make_boss(wire)
    data = run(agent, "go", by=source_requester).continuation.to_bytes()
    runner = Runner(agent, store="memory:")

    # When ann adopts them
    outcome = runner.adopt(data, run_id="adopted", by=Identity("ann"))

    # Then ann may not decide, and two others may
    assert isinstance(outcome, Suspended)
    [wait] = outcome.waits
    [row] = runner.runs()
    assert ("ann", "ann") == (wait.requester, row.requester)
    with pytest.raises(DecisionRefused, match="ann requested the run"):
        runner.decide(wait.id, Approve(by="ann"))
    runner.decide(wait.id, Approve(by="jane"))
    runner.decide(wait.id, Approve(by="lee"))
    assert isinstance(runner.resume("adopted"), Finished)
    assert ["wire x"] == effect_log.names()


def test_without_a_requester_the_adopted_wait_cannot_be_approved() -> None:
    """The requester of another store is not taken over, so none is known."""
    agent = make_boss(wire)
    other = Runner(agent, store="memory:")
    other.start("go", run_id="old", by="jane")
    runner = Runner(agent, store="memory:")
    source = other.look("old")

    outcome = expect(runner.adopt(source, run_id="adopted"), Suspended)

    [wait] = outcome.waits
    assert wait.requester is None
    with pytest.raises(DecisionRefused, match="start the next one with by=NAME"):
        runner.decide(wait.id, Approve(by="lee"))
    # And the advice of the error works, while a repeat changes no requester
    again = runner.adopt(source, run_id="adopted", by="ann")
    assert outcome == again
    runner.cancel("adopted")
    named = expect(runner.adopt(source, run_id="adopted-2", by="ann"), Suspended)
    assert "lee" == runner.decide(named.waits[0].id, Approve(by="lee")).by


def test_unknown_outcome_of_an_adopted_run_has_its_requester() -> None:
    """The rule of a started call moves with the call, and names the new requester."""
    agent = make_boss(wire)
    old = Runner(agent, store="memory:")
    started_run = expect(old.start("go", run_id="old", by="jane"), Suspended)
    for name in ("kim", "lee"):
        old.decide(started_run.waits[0].id, Approve(by=name))
    old.resume("old")
    source = version_in_which_a_call_is_started(old)
    runner = AsyncRunner(agent, store="memory:")

    wait = single_wait(asyncio.run(runner.adopt(source, run_id="adopted", by="ann")))

    assert "unknown" == wait.kind
    deciding = Runner(agent, store=runner.store)
    with pytest.raises(DecisionRefused, match="ann requested the run"):
        deciding.decide(wait.id, Answer("sent", by="ann"))
    deciding.decide(wait.id, Answer("sent", by="jane"))
    deciding.decide(wait.id, Answer("sent", by="kim"))
    assert isinstance(deciding.resume("adopted"), Finished)
    assert ["wire x"] == effect_log.names()


@pytest.mark.parametrize("by", ["", "two\nlines", 7])
def test_invalid_requester_of_an_adopted_run_stores_nothing(by: Any) -> None:
    runner = Runner(make_boss(pay), store="memory:")

    with pytest.raises(InvalidInput, match="by must be one line"):
        runner.adopt(started(make_boss(pay)), by=by)

    assert [] == list(runner.runs())
