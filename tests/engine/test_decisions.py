"""The effect of decisions: denial, expiry, cancellation."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from continuations import (
    Agent,
    ApprovalPolicy,
    Approve,
    Deny,
    Failed,
    Finished,
    Runner,
    Suspended,
    tool,
)
from continuations.errors import AlreadyDecided, Cancelled, WaitExpired
from continuations_storage import MemoryStore
from tests import effect_log, scripts
from tests.clocks import ManualClock
from tests.engine.agent_builders import make_boss, root_tool_results
from tests.engine.payment_agent import (
    PAY_SCRIPT,
    make_pay_tool,
    make_payment_runner,
    single_wait,
    start_and_get_wait,
)
from tests.outcomes import expect
from tests.run_environment import RunEnvironment, wait_until
from tests.scripts import Script, call

# Denial -----------------------------------------------------------------------


def test_a_denial_is_a_message_and_the_agent_goes_on() -> None:
    """The model reads the reason, in a message that differs from an error."""
    runner = make_payment_runner()
    runner.decide(
        start_and_get_wait(runner).id, Deny(by="kim", reason="Too expensive.")
    )

    outcome = expect(runner.resume("r1"), Finished)

    expected = "DENIED: a person refused this call. It was not executed."
    assert [f"{expected} Reason: Too expensive."] == root_tool_results(outcome)
    assert [] == effect_log.effects()


@pytest.mark.parametrize("max_turns", [100, 1])
def test_a_denial_can_stop_the_run(environment: RunEnvironment, max_turns: int) -> None:
    """`on_denied="stop"` fails the run, also in the last turn.

    It keeps the transcript valid.
    """
    pay = make_pay_tool(ApprovalPolicy(on_denied="stop"))
    boss = make_boss(PAY_SCRIPT, pay, max_turns=max_turns)
    runner = Runner(boss, store=MemoryStore())
    runner.decide(start_and_get_wait(runner).id, Deny(reason="No."))

    outcome = expect(runner.resume("r1"), Failed)

    assert ("denied", True) == (outcome.error.code, "No." in outcome.error.message)
    assert 1 == len(root_tool_results(outcome))
    assert [] == environment.effects()
    assert ["go 0"] == environment.turns()


# Deadlines --------------------------------------------------------------------


def test_late_approval_is_rejected_and_the_run_continues(clock: ManualClock) -> None:
    """Expiry is a decision of its own, and the model reads it as such."""
    runner = make_payment_runner(ApprovalPolicy(expires_after=60), clock=clock)
    wait = start_and_get_wait(runner)
    assert clock.now() + timedelta(seconds=60) == wait.deadline

    # When a person approves a moment too late
    clock.seconds = 60.001
    with pytest.raises(WaitExpired):
        runner.decide(wait.id, Approve())
    outcome = runner.resume("r1")

    # Then the call did not run, and later deciders get the same error
    assert isinstance(outcome, Finished)
    assert root_tool_results(outcome)[0].startswith("EXPIRED:")
    assert [] == effect_log.effects()
    with pytest.raises(WaitExpired):
        runner.decide(wait.id, Approve())
    with pytest.raises(WaitExpired):
        runner.wait(wait.id)
    assert [] == list(runner.waiting())


def test_approval_before_the_deadline_runs_later(clock: ManualClock) -> None:
    """The deadline limits the decision, not the execution."""
    runner = make_payment_runner(ApprovalPolicy(expires_after=60), clock=clock)
    wait = start_and_get_wait(runner)
    clock.seconds = 60
    runner.decide(wait.id, Approve())

    clock.seconds = 86_400
    assert isinstance(runner.resume("r1"), Finished)

    assert ["pay 5 kim"] == effect_log.names()


@pytest.mark.parametrize("max_turns", [100, 1])
def test_expiry_can_stop_the_run(max_turns: int, clock: ManualClock) -> None:
    """`on_expired="stop"` fails the run, also in the last turn."""
    policy = ApprovalPolicy(expires_after=timedelta(minutes=1), on_expired="stop")
    boss = make_boss(PAY_SCRIPT, make_pay_tool(policy), max_turns=max_turns)
    runner = Runner(boss, store=MemoryStore(), clock=clock)
    start_and_get_wait(runner)

    clock.seconds = 61
    outcome = expect(runner.resume("r1"), Failed)

    assert "expired" == outcome.error.code


def test_without_a_deadline_a_wait_lasts(clock: ManualClock) -> None:
    """There is no hidden limit."""
    runner = make_payment_runner(clock=clock)
    wait = start_and_get_wait(runner)
    clock.seconds = 50 * 365 * 86_400
    runner.sweep()

    runner.decide(wait.id, Approve())
    assert isinstance(runner.resume("r1"), Finished)
    assert ["pay 5 kim"] == effect_log.names()


def test_approval_older_than_valid_for_opens_a_new_wait(clock: ManualClock) -> None:
    """The new wait has a new id, and its note gives the reason."""
    runner = make_payment_runner(ApprovalPolicy(valid_for=60), clock=clock)
    wait = start_and_get_wait(runner)
    runner.decide(wait.id, Approve())

    # When it is resumed too late
    clock.seconds = 61
    again = single_wait(runner.resume("r1"))

    # Then nothing ran, and only a new wait is open
    assert (wait.id, []) != (again.id, effect_log.effects())
    assert [] == effect_log.effects()
    assert "valid until 2026-01-01 00:01:00 UTC" in str(again.note)
    assert [again.id] == [summary.id for summary in runner.waiting()]
    with pytest.raises(AlreadyDecided):
        runner.decide(wait.id, Deny())

    # When the new one is approved in time
    runner.decide(again.id, Approve())
    assert isinstance(runner.resume("r1"), Finished)
    assert ["pay 5 kim"] == effect_log.names()


def test_decided_wait_is_not_shown_as_open() -> None:
    """It is not listed, and reading it raises the decision."""
    runner = make_payment_runner()
    wait = start_and_get_wait(runner)
    runner.decide(wait.id, Approve(by="kim"))

    assert [] == list(runner.waiting())
    with pytest.raises(AlreadyDecided) as raised:
        runner.wait(wait.id)
    recorded: Any = raised.value.decision
    assert ("approve", "kim") == (recorded.kind, recorded.by)


# Cancelling -------------------------------------------------------------------


def test_cancelling_closes_every_wait_in_the_tree(store: MemoryStore) -> None:
    """Cancelling is idempotent, keeps finished results and rejects late decisions."""
    pay = make_pay_tool()
    script: Script = {
        "go": [[call("a", input="A"), call("free"), call("b", input="B")], "end"],
        "A": [[call("pay", cents=1)], "A"],
        "B": [[call("pay", cents=2)], "B"],
    }

    @tool
    def free() -> str:
        """Run without an approval."""
        return "free"

    model = scripts.scripted_model(script)
    children = [Agent(name, tools=[pay], model=model) for name in "ab"]
    root = Agent("boss", tools=[children[0], free, children[1]], model=model)
    runner = Runner(root, store=store)
    outcome = expect(runner.start("go", run_id="r1"), Suspended)

    # Given one of two waits approved, when the run is cancelled twice without agents
    runner.decide(outcome.waits[0].id, Approve())
    blind = Runner([], store=store)
    for _ in range(2):
        assert "cancelled" == blind.cancel("r1", reason="Enough.", by="kim").status

    # Then nothing runs any more, and each late decider gets the recorded decision
    ended = expect(runner.resume("r1"), Failed)
    assert ("cancelled", "Enough.") == (ended.error.code, ended.error.message)
    assert [] == effect_log.effects()
    with pytest.raises(Cancelled):
        runner.decide(outcome.waits[1].id, Approve())
    with pytest.raises(AlreadyDecided):
        runner.decide(outcome.waits[0].id, Deny())
    assert [] == list(runner.waiting())

    # And finished results are kept, in a valid transcript
    results = root_tool_results(ended)
    assert ["CANCELLED", "free", "CANCELLED"] == [
        text.split()[0].strip(":") for text in results
    ]


def test_cancel_stops_a_run_of_another_process_at_its_next_commit(
    environment: RunEnvironment,
) -> None:
    """The worker finds the cancel request at its next commit and stops."""
    script: Script = {
        "go": [
            [call("act", what="1", then="until:runs/r1/in/o-0000000001")],
            [call("act", what="2")],
            "end",
        ]
    }
    holder = environment.spawn("start", "r1", "go", script=script)
    wait_until(environment.effect_names)

    result = environment.run("cancel", "r1", app="none")
    ended = holder.wait_for_result()

    assert "running" == result["status"]
    assert ("Failed", "cancelled") == (ended["kind"], ended["error"]["code"])
    assert ["act 1"] == environment.effect_names()
    assert ["acted 1"] == [
        m["content"] for m in ended["messages"] if m["role"] == "tool"
    ]


def test_cancel_of_an_ended_run_changes_nothing() -> None:
    """A finished run stays finished."""
    runner = make_payment_runner(policy=False)
    assert isinstance(runner.start("go", run_id="r1"), Finished)

    assert "finished" == runner.cancel("r1").status
    assert isinstance(runner.resume("r1"), Finished)
