"""Pause, unpause and cancel of one call on the command line."""

from __future__ import annotations

import json

from continuations import Finished, WaitSummary
from continuations.cli import formatting
from continuations.core.ulid import encode_ulid
from tests.cli.command_line import CommandLine
from tests.cli.test_decision_commands import start_waiting_run


def test_paused_run_is_shown_with_its_reason_and_next_command(cli: CommandLine) -> None:
    """Each output names the next command, which works."""
    wait = start_waiting_run(cli.runner)

    paused = cli("pause", "j1", "--reason", "audit", "--by", "kim")
    assert 0 == paused.exit_code
    assert "j1: paused\nnext: continuations unpause j1" in paused.out
    cli("approve", wait, "--by", "kim")
    shown = cli("show", "j1").out
    assert "held by an operator: audit (Paused by kim.)" in shown
    assert "next: continuations unpause j1" in shown
    resumed = "\n".join(formatting.outcome_lines(cli.runner.resume("j1")))
    assert "reason: audit" in resumed
    assert "next: continuations unpause j1" in resumed
    assert "sweep" not in resumed
    assert ["audit"] == json.loads(cli("show", "j1", "--json").out)["reasons"]

    free = cli("unpause", "j1", "--by", "kim")
    assert "next: continuations resume j1" in free.out
    assert isinstance(cli.runner.resume("j1"), Finished)
    late = cli("pause", "j1")
    assert 0 != late.exit_code
    assert "run j1 was not paused: it is finished" in late.err


def test_wait_that_the_clock_ends_is_due_and_does_not_expire() -> None:
    """The deadline of a person expires; a timer is due, and the next sweep ends it."""
    ulid = encode_ulid(1_700_000_000_000, bytes(10))
    waits = [
        WaitSummary(id=f"{kind}-{ulid}@r", expired=True)
        for kind in ("approval", "event", "timer", "model")
    ]

    _, *rows = formatting.wait_table_lines(waits)

    assert ["expired", "expired", "due", "due"] == [row.split()[-1] for row in rows]


def test_call_is_cancelled_by_its_id_or_path(cli: CommandLine) -> None:
    """The wait is closed, and the run goes on."""
    wait = cli.runner.wait(start_waiting_run(cli.runner))

    wrong = cli("cancel", "j1", "--call", "c99")
    done = cli("cancel", "j1", "--call", "/".join(wait.path), "--reason", "too much")

    assert "is not an open call of run j1" in wrong.err
    assert wait.call_id in wrong.err.partition("Open calls: ")[2]
    assert (0, []) == (done.exit_code, list(cli.runner.waiting()))
    assert isinstance(cli.runner.resume("j1"), Finished)


def test_commands_print_the_run_as_json(cli: CommandLine) -> None:
    """The forms are those of `show`."""
    wait = cli.runner.wait(start_waiting_run(cli.runner))

    for arguments in (
        ("pause", "j1"),
        ("unpause", "j1"),
        ("cancel", "j1", "--call", wait.call_id),
    ):
        shown = json.loads(cli(*arguments, "--json").out)
        assert ("j1", "suspended") == (shown["run_id"], shown["status"])


def test_signals_are_listed_and_dropped(cli: CommandLine) -> None:
    """The list names the next command, and `--json` has the data."""
    start_waiting_run(cli.runner)
    assert "has no signal" in cli("signals", "j1").err
    cli.runner.signal("j1", "other", {"text": "x" * 300}, by="mail")
    cli.runner.signal("j1", "third")

    listed = cli("signals", "j1")
    assert "1  other\n  sent by mail at" in listed.out
    assert "x" * 201 not in listed.out
    assert "next: continuations drop-signals j1 --name NAME" in listed.out
    [first, _] = json.loads(cli("signals", "j1", "--json").out)
    assert ("other", {"text": "x" * 300}) == (first["name"], first["data"])

    dropped = cli("drop-signals", "j1", "--name", "other", "--by", "kim")
    assert "j1: 1 signal dropped" in dropped.out
    again = cli("drop-signals", "j1", "--name", "other", "--by", "kim")
    assert "has no such signal; nothing was changed" in again.out
    rest = cli("drop-signals", "j1", "--by", "kim", "--json")
    assert {"run_id": "j1", "dropped": 1} == json.loads(rest.out)
    assert [] == cli.runner.signals("j1")
