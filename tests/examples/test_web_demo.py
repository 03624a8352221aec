"""examples/web_demo: the runs that wait, and an end by Ctrl-C."""

from __future__ import annotations

from pathlib import Path

from continuations import Runner
from tests.browser.web_demo import run_web_demo


def test_runs_wait_for_all_kinds_of_things_and_survive_ctrl_c(tmp_path: Path) -> None:
    """A second start finds the same runs, and starts none."""
    with run_web_demo(tmp_path) as demo:
        runner = Runner([], store=demo.store)
        waits = {row.wait.tool: row.wait for row in runner.worklist().waits}
        code, out = demo.interrupt()

    assert {
        "transfer": "approval",
        "choose_laptop": "question",
        "refund": "approval",
        "book": "unknown",
    } == {name: wait.kind for name, wait in waits.items()}
    transfer = runner.wait(waits["transfer"].id)
    assert (["jo"], 2) == ([vote.by for vote in transfer.votes], transfer.votes_needed)
    assert ["back-office", "payables", "banking", "transfer"] == [*transfer.path]
    assert (0, "Stopped. The runs are kept.") == (code, out.splitlines()[-1])

    before = [row.run_id for row in runner.runs()]
    with run_web_demo(tmp_path) as again:
        assert before == [row.run_id for row in runner.runs()]
        assert (0, True) == (again.interrupt()[0], len(before) == 5)
