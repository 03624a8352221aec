"""Decisions: their effect, the wait that the person saw, and several in one call."""

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
    errors,
    tool,
)
from continuations.errors import AlreadyDecided, Cancelled, DecisionRefused, WaitExpired
from continuations.models.scripted import ScriptedModel, ToolCall
from continuations.results import Decision
from continuations_storage import MemoryStore
from continuations_storage.faults import FaultyStore, on, refused
from tests import effect_log, scripts
from tests.clocks import ManualClock
from tests.engine.agent_builders import make_boss, root_tool_results, text_tool
from tests.engine.payment_agent import (
    PAY_SCRIPT,
    make_pay_tool,
    make_payment_runner,
    start_and_get_wait,
)
from tests.engine.test_grants import make_pay, make_runner
from tests.outcomes import expect, single_wait
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
    free = text_tool("free", "free")
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
    runner = make_payment_runner(policy=False)
    assert isinstance(runner.start("go", run_id="r1"), Finished)

    assert "finished" == runner.cancel("r1").status
    assert isinstance(runner.resume("r1"), Finished)


# `decide(shown=...)` ----------------------------------------------------------


pay = text_tool("pay", "paid {cents}", {"cents": int}, approval=True)


def runner_with_two_waits() -> tuple[Runner, list[str]]:
    """Return a runner with two open approvals, and their ids."""
    calls = [ToolCall("pay", {"cents": 5}), ToolCall("pay", {"cents": 900})]
    model = ScriptedModel([calls, "done"])
    runner = Runner(Agent("clerk", tools=[pay], model=model), store=MemoryStore())
    runner.start("Pay Jane", run_id="jane-1")
    return runner, [wait.id for wait in runner.waiting()]


def test_decision_with_the_digest_of_its_wait_records_it() -> None:
    runner, [wait_id, _] = runner_with_two_waits()
    digest = runner.wait(wait_id).digest

    decision = runner.decide(wait_id, Approve(by="kim"), shown=digest)
    again = runner.decide(wait_id, Approve(by="kim"))

    assert digest == decision.shown == again.shown == decision.digest


def test_decision_with_the_digest_of_another_wait_is_refused() -> None:
    """A page that shows one call cannot decide the other one."""
    runner, [small, large] = runner_with_two_waits()
    seen = runner.wait(small).digest

    with pytest.raises(DecisionRefused, match="you saw something else"):
        runner.decide(large, Approve(by="kim"), shown=seen)

    assert 2 == len(list(runner.waiting()))
    runner.decide(large, Deny(by="kim"), shown=runner.wait(large).digest)


def test_repeat_with_another_digest_is_refused_too() -> None:
    runner, [wait_id, other] = runner_with_two_waits()
    runner.decide(wait_id, Approve(by="kim"))

    with pytest.raises(DecisionRefused):
        runner.decide(wait_id, Approve(by="kim"), shown=runner.wait(other).digest)


@pytest.mark.parametrize("shown", ["", "0" * 64, 5, b"digest", True])
def test_shown_of_another_value_is_refused(shown: Any) -> None:
    runner, [wait_id, _] = runner_with_two_waits()

    with pytest.raises(DecisionRefused):
        runner.decide(wait_id, Approve(by="kim"), shown=shown)


# `decide_all` -----------------------------------------------------------------


SCRIPT: Any = {"go": [[call("pay", cents=n) for n in (1, 2, 3)], "end"]}


def start(store: Any = None) -> tuple[Runner, list[str]]:
    """Return a runner, and the ids of the three waits of its run `r`."""
    clock = ManualClock()
    good = MemoryStore(clock.now)
    runner = make_runner(SCRIPT, make_pay(), clock=clock, store=good)
    outcome = expect(runner.start("go", run_id="r"), Suspended)
    ids = [wait.id for wait in outcome.waits]
    if store is not None:
        runner = make_runner(SCRIPT, make_pay(), clock=clock, store=store(good))
    return runner, ids


def _refusing_a_decision(good: MemoryStore) -> FaultyStore:
    return FaultyStore(good, on("create", refused(), prefix="runs/r/in/"))


def test_each_decision_counts_on_its_own() -> None:
    runner, (one, two, three) = start()

    results = runner.decide_all(
        {one: Approve(by="kim"), two: Deny(by="kim"), three: Approve(by="kim")}
    )

    assert [one, two, three] == list(results)
    kinds = [each.kind for each in results.values() if isinstance(each, Decision)]
    assert ["approve", "deny", "approve"] == kinds
    assert isinstance(runner.resume("r"), Finished)
    assert ["pay 1", "pay 3"] == sorted(effect_log.names())


def test_a_failure_is_the_result_of_its_wait_alone() -> None:
    """The others are recorded, and a repetition completes what failed."""
    runner, (one, two, three) = start()
    runner.decide(one, Deny(by="lee"))
    verdicts: dict[str, Any] = {
        one: Approve(by="kim"),
        two: Approve(by="kim", arguments={"cents": "many"}),
        three: Approve(by="kim"),
        "approval-01kdvdna00k4kmjvb6728mf10z@r": Approve(),
        "no wait": Approve(),
    }

    results = list(runner.decide_all(verdicts).values())

    assert isinstance(results[0], errors.AlreadyDecided)
    assert isinstance(results[1], errors.DecisionRefused)
    assert isinstance(results[2], Decision)
    assert isinstance(results[3], errors.WaitNotFound)
    assert isinstance(results[4], errors.WaitNotFound)
    again = runner.decide_all({two: Approve(by="kim"), three: Approve(by="kim")})
    assert all(isinstance(each, Decision) for each in again.values())


def test_a_failing_store_fails_single_decisions() -> None:
    runner, ids = start(_refusing_a_decision)

    first = runner.decide_all(dict.fromkeys(ids, Approve(by="kim")))
    second = runner.decide_all(dict.fromkeys(ids, Approve(by="kim")))

    assert 1 == sum(isinstance(each, errors.StoreError) for each in first.values())
    assert all(isinstance(each, Decision) for each in second.values())


@pytest.mark.parametrize("fails_for", [["lee"], ["lee", "mia"]])
def test_a_failing_lookup_of_groups_fails_single_decisions(
    fails_for: list[str],
) -> None:
    """The function of the application raised an error of its own."""
    names = ("kim", "lee", "mia")

    def groups(name: str) -> list[str]:
        if name in fails_for:
            msg = "the directory is down"
            raise ConnectionError(msg)
        return ["finance"]

    @tool(approval=ApprovalPolicy(approvers=["group:finance"]))
    def pay(cents: int) -> str:
        """Pay."""
        return f"paid {cents}"

    agent = make_boss(SCRIPT, pay)
    runner = Runner(agent, store=MemoryStore(), groups=groups)
    outcome = expect(runner.start("go", run_id="r"), Suspended)
    ids = [wait.id for wait in outcome.waits]

    results = runner.decide_all(
        {wait_id: Approve(by=by) for wait_id, by in zip(ids, names, strict=True)}
    )

    failed = [isinstance(each, ConnectionError) for each in results.values()]
    assert [name in fails_for for name in names] == failed
    decided = sorted(str(line.by) for line in runner.audit("r"))
    assert [name for name in names if name not in fails_for] == decided


def test_a_digest_that_was_not_shown_is_refused_alone() -> None:
    runner, (one, two, _) = start()

    results = runner.decide_all(
        {one: Approve(), two: Approve()},
        shown={one: "other", two: runner.wait(two).digest},
    )

    assert isinstance(results[one], errors.DecisionRefused)
    assert isinstance(results[two], Decision)


def test_verdicts_must_be_a_mapping_of_limited_size(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("continuations.engine.requests.decision_batch.MAX_DECISIONS", 2)
    runner, ids = start()
    wrong: Any = [Approve()]

    with pytest.raises(errors.InvalidInput, match="mapping"):
        runner.decide_all(wrong)
    with pytest.raises(errors.InvalidInput, match="maximum is 2"):
        runner.decide_all(dict.fromkeys(ids, Approve()))

    assert {} == runner.decide_all({})
    assert [] == runner.audit("r")
