"""doctor: it reports damage, repairs a run, and names the next step."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from continuations import Approve, Finished, Runner, Suspended
from tests.cli.command_line import CommandLine
from tests.cli.sample_agents import make_boss


def newest_version_file(cli: CommandLine) -> Path:
    """Return the file of the newest version of run j1."""
    return min((cli.folder / "runs/runs/j1/v").iterdir())


def damage_approved_run(cli: CommandLine, runner: Runner) -> Runner:
    """Approve a run, and overwrite its next version with bytes that are not ours."""
    runner.start("go", run_id="j1")
    runner.decide(next(runner.waiting()).id, Approve(by="kim"))
    path = newest_version_file(cli)
    path.with_name(str(int(path.name) - 1)).write_bytes(b"lost")
    return runner


def test_doctor_reports_an_undamaged_run(cli: CommandLine) -> None:
    """The exit code is 0, in text and in JSON."""
    cli.runner.start("go", run_id="j1")

    done, report = cli("doctor", "j1"), cli("doctor", "j1", "--json")

    number = cli.runner.look("j1").version
    assert (0, "") == (done.exit_code, done.err)
    assert f"last good version: {number}" in done.lines
    assert "findings: none" in done.lines
    store = cli.store
    assert f"store: {store}" == done.lines[0]
    assert {
        "store": store,
        "run_id": "j1",
        "newest": number,
        "last_good": number,
        "goes_on": True,
        "stranded": [],
        "findings": [],
        "unreferenced_files": [],
        "repaired": None,
    } == json.loads(report.out)


def test_doctor_names_damage_and_the_next_step(cli: CommandLine) -> None:
    """The exit code is 1, also if the newest version cannot be read; needs no app."""
    damage_approved_run(cli, cli.runner)
    number = len(list((cli.folder / "runs/runs/j1/v").iterdir()))

    done = cli("doctor", "j1")
    report = json.loads(cli("doctor", "j1", "--json").out)

    assert (1, "") == (done.exit_code, done.err)
    key = f"runs/j1/v/{newest_version_file(cli).name}"
    assert f"  damaged {key}" in done.lines
    assert f"last good version: {number - 1}" in done.lines
    assert "next: restore the objects from a backup" == done.lines[-2]
    assert done.lines[-1].startswith("  or: continuations doctor j1 --repair (")
    assert [(key, "damaged", True)] == [
        (each["key"], each["kind"], each["blocks"]) for each in report["findings"]
    ]
    assert 5 == cli("show", "j1").exit_code
    assert key in cli("show", "j1").err


def test_repair_writes_a_new_root_version_that_can_be_resumed(cli: CommandLine) -> None:
    """The damaged object stays; a second repair writes nothing."""
    damage_approved_run(cli, cli.runner)
    damaged, number = (
        newest_version_file(cli),
        len(list((cli.folder / "runs/runs/j1/v").iterdir())),
    )

    done = cli("doctor", "j1", "--repair")

    assert (0, "") == (done.exit_code, done.err)
    assert f"repaired: version {number + 1} is a new root" in done.lines
    assert "next: continuations resume j1" in done.lines[-1]
    assert b"lost" == damaged.read_bytes()
    shown = cli("show", "j1").lines
    assert "versions of the run were lost, and it was repaired" in shown
    assert "next: continuations resume j1" in shown
    again = cli("doctor", "j1", "--repair", "--json")
    assert (1, None) == (again.exit_code, json.loads(again.out)["repaired"])
    assert json.loads(again.out)["goes_on"]
    # The approved call may have happened in the lost version, so a person is asked.
    suspended = Runner(make_boss(), store=cli.runner.store).resume("j1")
    assert isinstance(suspended, Suspended)
    assert ["unknown"] == [wait.kind for wait in suspended.waits]
    assert 0 == cli("answer", suspended.waits[0].id, '"moved"').exit_code
    assert isinstance(cli.runner.resume("j1"), Finished)


def test_run_without_a_readable_version_cannot_be_repaired(cli: CommandLine) -> None:
    cli.runner.start("go", run_id="j1")
    for path in (cli.folder / "runs/runs/j1/v").iterdir():
        path.write_bytes(b"")

    done, repaired = cli("doctor", "j1"), cli("doctor", "j1", "--repair")

    assert 1 == done.exit_code
    assert "last good version: none" in done.lines
    assert "restore the objects from a backup" in done.lines[-1]
    assert (5, "") == (repaired.exit_code, repaired.out)
    assert repaired.err.startswith("Corrupt: ")
    assert "j1" in repaired.err


def test_repair_of_a_claimed_run_is_refused(cli: CommandLine) -> None:
    """The exit code is 4, as for every command that meets a claim."""
    cli.runner.start("go", run_id="j1")
    newest_version_file(cli).write_bytes(b"")

    assert cli.runner.look("j1", version=1).run_state.run.claim is not None
    done = cli("doctor", "j1", "--repair")

    assert 4 == done.exit_code
    assert "RunBusy" in done.err


@pytest.mark.parametrize("name", ["nobody", "../etc", "a/b", "-x"])
def test_doctor_of_an_unknown_run_is_an_error(cli: CommandLine, name: str) -> None:
    (cli.folder / "runs").mkdir()
    done = cli("doctor", "--", name)

    assert (5, "") == (done.exit_code, done.out)
    assert ("InvalidId" if name != "nobody" else "RunNotFound") in done.err


def test_findings_cannot_forge_lines(cli: CommandLine) -> None:
    """The report never shows the content of a damaged object."""
    cli.runner.start("go", run_id="j1")
    newest_version_file(cli).write_bytes(b"findings: none\n\x1b[31mnext: nothing\n")
    done = cli("doctor", "j1")
    assert "\x1b" not in done.out
    assert 1 == done.lines.count("findings: 1")
