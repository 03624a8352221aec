"""Several decisions in one call: each has a result of its own."""

from __future__ import annotations

from typing import Any

import pytest

from continuations import (
    ApprovalPolicy,
    Approve,
    Deny,
    Finished,
    Runner,
    Suspended,
    errors,
    tool,
)
from continuations.results import Decision
from continuations_storage import MemoryStore
from continuations_storage.faults import FaultyStore, on, refused
from tests import effect_log
from tests.clocks import ManualClock
from tests.engine.agent_builders import make_boss
from tests.engine.test_grants import make_pay, make_runner
from tests.outcomes import expect
from tests.scripts import call

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
