"""Tutorial, step 5: test an agent that waits."""

from pathlib import Path

import pytest
from refunds import model, refund, support

from continuations import Approve, Deny, Finished, Runner, Suspended


@pytest.fixture
def runner(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Runner:
    monkeypatch.chdir(tmp_path)  # refund writes bank.txt to the current folder
    return Runner(support, store="memory:")


def test_refund_waits_for_an_approval(runner: Runner) -> None:
    outcome = runner.start("Order A-17 arrived broken.", run_id="r1")

    assert isinstance(outcome, Suspended)
    assert {"order": "A-17", "cents": 1250} == outcome.waits[0].arguments
    assert not Path("bank.txt").exists()


def test_approved_refund_is_paid_once(runner: Runner) -> None:
    outcome = runner.start("Order A-17 arrived broken.", run_id="r1")
    assert isinstance(outcome, Suspended)
    runner.decide(outcome.waits[0].id, Approve(by="kim"))

    assert isinstance(runner.resume("r1"), Finished)
    assert isinstance(runner.resume("r1"), Finished)  # a second resume changes nothing
    assert "1250 cents for A-17\n" == Path("bank.txt").read_text()


def test_denial_is_a_message_to_the_model(runner: Runner) -> None:
    outcome = runner.start("Order A-17 arrived broken.", run_id="r1")
    assert isinstance(outcome, Suspended)
    runner.decide(outcome.waits[0].id, Deny(by="kim", reason="not broken"))
    runner.resume("r1")

    last = model.requests[-1].messages[-1]
    assert "tool" == last.role
    assert "not broken" in last.content


def test_tool_is_an_ordinary_function(runner: Runner) -> None:
    assert runner
    assert "Refunded 5 cents for order B-2." == refund("B-2", 5)
