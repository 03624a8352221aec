"""examples/approve_a_refund.py."""

from __future__ import annotations

from pathlib import Path

from continuations import Runner
from tests.examples.example_process import example_output

EXAMPLE = "approve_a_refund.py"


def test_example_refunds_once(tmp_path: Path) -> None:
    printed = example_output(EXAMPLE, folder=tmp_path)

    assert "Suspended" in printed
    assert "Finished" in printed
    assert printed.endswith("Refunds paid: 1250 cents for A-17\n")


def test_refund_is_paid_once_after_the_approval(tmp_path: Path) -> None:
    refunds = tmp_path / "refunds.txt"
    example_output(EXAMPLE, "start", folder=tmp_path)
    example_output(EXAMPLE, "approve", folder=tmp_path)
    assert not refunds.exists()

    first = example_output(EXAMPLE, "resume", folder=tmp_path)
    second = example_output(EXAMPLE, "resume", folder=tmp_path)

    assert "1250 cents for A-17\n" == refunds.read_text()
    assert first.splitlines()[1:] == second.splitlines()[1:]


def test_prompt_of_the_command_line_is_the_input(tmp_path: Path) -> None:
    example_output(EXAMPLE, "start", "The lamp", "is broken.", folder=tmp_path)

    run = Runner([], store=f"sqlite:{tmp_path / 'runs.db'}").look("order-a17")
    assert "The lamp is broken." == run.root.messages[1]["content"]
    assert "suspended" == run.status


def test_denied_refund_is_not_paid_and_the_reason_is_reported(tmp_path: Path) -> None:
    for step in ("start", "deny"):
        example_output(EXAMPLE, step, folder=tmp_path)

    printed = example_output(EXAMPLE, "resume", folder=tmp_path)

    assert "Finished" in printed
    assert "DENIED" in printed
    assert "It was used for a year." in printed
    assert not (tmp_path / "refunds.txt").exists()
