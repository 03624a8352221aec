"""Test the tutorial's agent with continuations.testing."""

from pathlib import Path

import pytest
from refunds import support

from continuations.testing import AgentHarness, MakeHarness, every_crash

ORDER = "Order A-17 arrived broken."


@pytest.fixture
def bank(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)  # refund writes bank.txt to the current folder
    return tmp_path / "bank.txt"


def test_refund_waits_and_is_paid_once(make_harness: MakeHarness, bank: Path) -> None:
    harness = make_harness(support)
    harness.run_to_pause(ORDER)
    harness.assert_waits("refund")
    assert not bank.exists()

    harness.approve("refund")
    harness.restart()  # a new runner: only the store survives
    assert harness.run_to_end().output == "The refund is on its way."
    assert bank.read_text() == "1250 cents for A-17\n"


def test_model_reads_why_a_refund_is_denied(
    make_harness: MakeHarness, bank: Path
) -> None:
    harness = make_harness(support)
    harness.run_to_pause(ORDER)
    harness.deny("refund", reason="not broken")
    harness.run_to_end()

    harness.transcript().assert_called("refund", order="A-17", cents=1250)
    harness.transcript().assert_result("refund", "not broken")
    assert not bank.exists()


def test_refund_is_paid_once_after_any_crash(bank: Path) -> None:
    for crash in every_crash():
        bank.unlink(missing_ok=True)
        harness = AgentHarness(support)
        harness.run_to_pause(ORDER)
        harness.approve("refund")
        with crash.during(harness):
            harness.run_to_end()
        harness.recover()

        if harness.waits:  # it died in the refund: a person looks at the bank
            assert harness.wait("refund").kind == "unknown"
            if bank.exists():
                harness.answer("Refunded.", "refund")
            else:
                harness.approve("refund")
        harness.run_to_end()
        assert bank.read_text() == "1250 cents for A-17\n"
