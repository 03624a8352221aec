"""What a decision does: denial, expiry, cancellation."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

import pytest

from continuations import (
    Agent,
    AlreadyDecided,
    ApprovalPolicy,
    Approve,
    Cancelled,
    Deny,
    Failed,
    Finished,
    Runner,
    Suspended,
    WaitExpired,
    tool,
)
from continuations_storage import MemoryStore
from tests.engine import scripts
from tests.engine.offices import Clock, results
from tests.engine.payers import office, only, payer, waiting
from tests.engine.world import until

if TYPE_CHECKING:
    from tests.engine.scripts import Script
    from tests.engine.world import World

# Denial -----------------------------------------------------------------------


def test_a_denial_is_a_message_and_the_agent_goes_on(world: World) -> None:
    """R-C11, X-02, SL-L3: with the reason, in words of its own."""
    runner = office()
    runner.decide(waiting(runner).id, Deny(by="kim", reason="Too dear."))

    outcome = runner.resume("r1")

    assert isinstance(outcome, Finished)
    expected = "DENIED: a person refused this call. It was not executed."
    assert [f"{expected} Reason: Too dear."] == results(outcome)
    assert [] == world.effects()


def test_a_denial_can_stop_the_run(world: World) -> None:
    """X-02: stopping is a policy of its own; the transcript stays whole."""
    runner = office(ApprovalPolicy(on_denied="stop"))
    runner.decide(waiting(runner).id, Deny(reason="No."))

    outcome = runner.resume("r1")

    assert isinstance(outcome, Failed)
    assert ("denied", True) == (outcome.error.code, "No." in outcome.error.message)
    assert 1 == len(results(outcome))
    assert [] == world.effects()
    assert ["go 0"] == world.turns()


# Deadlines --------------------------------------------------------------------


def test_after_the_deadline_a_yes_is_refused_and_the_run_goes_on(world: World) -> None:
    """R-F4, X-16: expiry is an end of its own, told to the model as such."""
    clock = Clock()
    runner = office(ApprovalPolicy(expires_after=60), clock=clock)
    wait = waiting(runner)
    assert clock.now() + timedelta(seconds=60) == wait.deadline

    # When somebody says yes a moment too late
    clock.seconds = 60.001
    with pytest.raises(WaitExpired):
        runner.decide(wait.id, Approve())
    outcome = runner.resume("r1")

    # Then it did not run, and later ones are told so too
    assert isinstance(outcome, Finished)
    assert results(outcome)[0].startswith("EXPIRED:")
    assert [] == world.effects()
    with pytest.raises(WaitExpired):
        runner.decide(wait.id, Approve())
    with pytest.raises(WaitExpired):
        runner.wait(wait.id)
    assert [] == list(runner.waiting())


def test_a_yes_in_time_runs_after_the_deadline(world: World) -> None:
    """R-F4 as decided: a deadline bounds the decision, not the execution."""
    clock = Clock()
    runner = office(ApprovalPolicy(expires_after=60), clock=clock)
    wait = waiting(runner)
    clock.seconds = 60
    runner.decide(wait.id, Approve())

    clock.seconds = 86_400
    outcome = runner.resume("r1")

    assert isinstance(outcome, Finished)
    assert ["pay 5 kim"] == world.done()


def test_expiry_can_stop_the_run() -> None:
    """R-F4: by policy."""
    clock = Clock()
    policy = ApprovalPolicy(expires_after=timedelta(minutes=1), on_expired="stop")
    runner = office(policy, clock=clock)
    waiting(runner)

    clock.seconds = 61
    outcome = runner.resume("r1")

    assert isinstance(outcome, Failed)
    assert "expired" == outcome.error.code


def test_without_a_deadline_a_wait_lasts(world: World) -> None:
    """R-F5: no hidden limit."""
    clock = Clock()
    runner = office(clock=clock)
    wait = waiting(runner)
    clock.seconds = 50 * 365 * 86_400
    runner.sweep()

    runner.decide(wait.id, Approve())
    assert isinstance(runner.resume("r1"), Finished)
    assert ["pay 5 kim"] == world.done()


def test_an_approval_that_has_lapsed_asks_again(world: World) -> None:
    """`valid_for`: the wait is reopened under a new id, and says why."""
    clock = Clock()
    runner = office(ApprovalPolicy(valid_for=60), clock=clock)
    wait = waiting(runner)
    runner.decide(wait.id, Approve())

    # When it is resumed too late
    clock.seconds = 61
    again = only(runner.resume("r1"))

    # Then nothing ran and a new wait stands there, and only it
    assert (wait.id, []) != (again.id, world.effects())
    assert [] == world.effects()
    assert "older than its 60 s" in str(again.note)
    assert [again.id] == [summary.id for summary in runner.waiting()]
    with pytest.raises(AlreadyDecided):
        runner.decide(wait.id, Deny())

    # When the new one is approved in time
    runner.decide(again.id, Approve())
    assert isinstance(runner.resume("r1"), Finished)
    assert ["pay 5 kim"] == world.done()


# Cancelling -------------------------------------------------------------------


def test_cancelling_closes_every_wait_in_the_tree(world: World) -> None:
    """R-F6: idempotent; finished results stay; late answers are told."""
    pay = payer()
    script: Script = {
        "go": [[["a", {"input": "A"}], ["free", {}], ["b", {"input": "B"}]], "end"],
        "A": [[["pay", {"cents": 1}]], "A"],
        "B": [[["pay", {"cents": 2}]], "B"],
    }

    @tool
    def free() -> str:
        """Do what needs nobody."""
        return "free"

    model = scripts.model(script)
    children = [Agent(name, tools=[pay], model=model) for name in "ab"]
    root = Agent("boss", tools=[children[0], free, children[1]], model=model)
    store = MemoryStore()
    runner = Runner(root, store=store)
    outcome = runner.start("go", run_id="r1")
    assert isinstance(outcome, Suspended)

    # Given one of the two waits approved, when the run is cancelled, twice, unseen
    runner.decide(outcome.waits[0].id, Approve())
    blind = Runner([], store=store)
    for _ in range(2):
        assert "cancelled" == blind.cancel("r1", reason="Enough.", by="kim").status

    # Then nothing runs any more, and each late word is told what stands
    ended = runner.resume("r1")
    assert isinstance(ended, Failed)
    assert ("cancelled", "Enough.") == (ended.error.code, ended.error.message)
    assert [] == world.effects()
    with pytest.raises(Cancelled):
        runner.decide(outcome.waits[1].id, Approve())
    with pytest.raises(AlreadyDecided):
        runner.decide(outcome.waits[0].id, Deny())
    assert [] == list(runner.waiting())

    # And what had finished is kept, in a transcript that is whole
    said = results(ended)
    assert ["CANCELLED", "free", "CANCELLED"] == [
        text.split()[0].strip(":") for text in said
    ]


def test_cancelling_what_another_process_runs(world: World) -> None:
    """R-F6, R-A5: its holder sees it at the next commit and stops."""
    script: Script = {
        "go": [
            [["act", {"what": "1", "then": "sleep:1"}]],
            [["act", {"what": "2"}]],
            "end",
        ]
    }
    holder = world.spawn("start", "r1", "go", script=script)
    until(world.done)

    told = world.do("cancel", "r1", app="none")
    ended = holder.told()

    assert "running" == told["status"]
    assert ("Failed", "cancelled") == (ended["kind"], ended["error"]["code"])
    assert ["act 1"] == world.done()
    assert ["acted 1"] == [
        m["content"] for m in ended["messages"] if m["role"] == "tool"
    ]


def test_cancelling_what_has_ended_changes_nothing() -> None:
    """R-F6."""
    runner = office(policy=False)
    assert isinstance(runner.start("go", run_id="r1"), Finished)

    assert "finished" == runner.cancel("r1").status
    assert isinstance(runner.resume("r1"), Finished)
