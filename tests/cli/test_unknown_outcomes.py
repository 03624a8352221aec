"""answer and approve --run-again: a person settles a call with an unknown outcome."""

from __future__ import annotations

import json

from tests import effect_log
from tests.cli.command_line import RUNNERS, CommandLine

DYING_APP = f"{RUNNERS}:dying"


def test_answer_settles_a_call_with_unknown_outcome(cli: CommandLine) -> None:
    # Given a call whose process died after the effect
    died = cli.run_in_process("start", "go", "--run-id", "u1", "--app", DYING_APP)
    assert -9 == died.exit_code

    # When the run is resumed and a person answers
    resumed = cli.run_in_process("resume", "u1", "--app", DYING_APP, "--wait-if-busy")
    [row] = json.loads(cli("waiting", "--json").out)
    answered = cli("answer", row["id"], '"acted 1"')

    # Then the answer is the result of the call, and the call ran once
    assert (0, "Suspended") == (resumed.exit_code, resumed.lines[0])
    options = "(or deny, or approve --run-again)"
    next_step = f"next: continuations answer {row['id']} VALUE {options}"
    assert next_step == resumed.lines[-1]
    assert ("unknown", "u1") == (row["kind"], row["run_id"])
    assert (0, 'value: "acted 1"') == (answered.exit_code, answered.lines[2])
    ended = cli.run_in_process("resume", "u1", "--app", DYING_APP)
    assert (0, "Finished") == (ended.exit_code, ended.lines[0])
    assert 1 == len(effect_log.read_lines(cli.folder / "effects"))


def test_approve_of_an_unknown_outcome_needs_run_again(cli: CommandLine) -> None:
    """Otherwise an ordinary approval could repeat an effect that has happened."""
    cli.run_in_process("start", "go", "--run-id", "u1", "--app", DYING_APP)
    cli.run_in_process("resume", "u1", "--app", DYING_APP, "--wait-if-busy")
    wait = cli.single_wait_id()

    shown = cli("show", "u1")
    rejected = cli("approve", wait)
    approved = cli("approve", wait, "--run-again")

    assert "waits for a decision about its unknown outcome since" in shown.out
    assert (2, "") == (rejected.exit_code, rejected.out)
    assert "pass --run-again" in rejected.err
    assert (0, True) == (approved.exit_code, approved.out.startswith("approved by kim"))
