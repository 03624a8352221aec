"""Every command in its own process: start, decide, resume, kill, interrupt."""

from __future__ import annotations

import json
import subprocess

import pytest

from continuations import Runner
from tests import effect_log
from tests.cli.command_line import RUNNERS, CommandLine, kill_process, wait_ids
from tests.cli.sample_agents import make_boss, pay

APP = f"{RUNNERS}:boss"
START_COMMAND = ("start", "go", "--run-id", "j1", "--app", APP)
SLOW_APP = f"{RUNNERS}:slow"
SLOW_START_COMMAND = ("start", "ask", "--run-id", "s1", "--app", SLOW_APP)


def start_slow_run(cli: CommandLine) -> subprocess.Popen[str]:
    """Return a process that blocks in the first call of a tool."""
    process = cli.start_process(*SLOW_START_COMMAND)
    assert process.stdout is not None
    assert "asking\n" == process.stdout.readline()
    return process


def test_run_is_started_decided_and_resumed_by_separate_processes(
    cli: CommandLine,
) -> None:
    # Given a run that waits for an approval
    started = cli.run_in_process(*START_COMMAND)
    assert (0, "Suspended", "run: j1") == (started.exit_code, *started.lines[:2])
    [wait] = wait_ids(started)
    assert "    path: boss > left > pay" in started.lines
    assert '    arguments: {"then":"","what":"500"}' in started.lines

    # When people look at the run and approve the call, without the application
    [row] = json.loads(cli.run_in_process("waiting", "--json").out)
    shown = cli.run_in_process("show", "j1")
    approved = cli.run_in_process("approve", wait)

    # Then they see the wait, and the decision is recorded
    assert (wait, "j1", "approval") == (row["id"], row["run_id"], row["kind"])
    assert "j1: suspended, version" in shown.lines[0]
    assert [wait] == wait_ids(shown)
    assert (0, "") == (approved.exit_code, approved.err)
    assert approved.lines[0].startswith("approved by kim at ")
    assert [] == json.loads(cli.run_in_process("waiting", "--json").out)

    # When it is resumed twice
    resumed = cli.run_in_process("resume", "j1", "--app", APP)
    again = cli.run_in_process("resume", "j1", "--app", APP)

    # Then it is finished, and the approved call ran once
    assert (0, resumed.out) == (again.exit_code, again.out)
    assert ["Finished", "run: j1", "output:", "  all done"] == resumed.lines[:4]
    [effect] = effect_log.read_lines(cli.folder / "effects")
    assert ("pay", "500") == (effect["tool"], effect["what"])


def test_repeated_start_after_a_kill_finishes_the_run(cli: CommandLine) -> None:
    # Given a process that blocks in a tool
    first = start_slow_run(cli)
    cli.write_file("quick", "")

    # When the same command is repeated, and then the first process is killed
    rejected = cli.run_in_process(*SLOW_START_COMMAND)
    timed_out = cli.run_in_process(
        *SLOW_START_COMMAND, "--wait-if-busy", "--timeout", "0.1"
    )
    waiter = cli.start_process(*SLOW_START_COMMAND, "--wait-if-busy")
    assert waiter.stderr is not None
    note = waiter.stderr.readline()
    kill_process(first)
    out, err = waiter.communicate(timeout=60)

    # Then it reports that the run is busy, or waits until the claim ends
    assert (4, "") == (rejected.exit_code, rejected.out)
    assert rejected.err.startswith("RunBusy: ")
    assert 4 == timed_out.exit_code
    assert note.startswith("waiting: ")
    assert "s1" in note
    assert (0, "Finished", "") == (waiter.returncode, out.splitlines()[0], err)
    assert "  is 42" in out.splitlines()


def test_resume_waits_for_a_claimed_run(cli: CommandLine) -> None:
    # Given a run that another process has claimed
    first = start_slow_run(cli)
    cli.write_file("quick", "")
    waiter = cli.start_process("resume", "s1", "--app", SLOW_APP, "--wait-if-busy")

    # When that process dies
    kill_process(first)
    out, _ = waiter.communicate(timeout=60)

    # Then the waiting process finishes the run
    assert (0, "Finished") == (waiter.returncode, out.splitlines()[0])


def test_claimed_run_is_shown_and_cancelled_at_its_next_commit(
    cli: CommandLine,
) -> None:
    # Given a run that another process has claimed
    first = start_slow_run(cli)

    # When it is shown and cancelled meanwhile
    shown = cli("show", "s1")
    cancelled = cli("cancel", "s1")
    kill_process(first)

    # Then both report the claim, and the next process ends the run
    assert any(line.startswith("claimed by ") for line in shown.lines)
    assert (0, True) == (
        cancelled.exit_code,
        "cancel request recorded" in cancelled.out,
    )
    last = cli.run_in_process("resume", "s1", "--app", SLOW_APP, "--wait-if-busy")
    assert (1, "Failed") == (last.exit_code, last.lines[0])


# Runs a command, then prints which package imported a heavy module first.
IMPORT_WATCHER_SOURCE = """
import importlib.abc, json, sys
importers = {}
class Watch(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name in {"openai", "boto3", "pydantic"}:
            frame = sys._getframe(1)
            while "importlib" in frame.f_code.co_filename:
                frame = frame.f_back
            importers[name] = frame.f_globals["__name__"].partition(".")[0]
sys.meta_path.insert(0, Watch())
from continuations.cli import main
code = main(sys.argv[1:])
rich = "rich" in sys.modules
print(json.dumps({"code": code, "importers": importers, "rich": rich}), file=sys.stderr)
"""


@pytest.mark.parametrize("command", ["approve", "deny"])
def test_deciding_does_not_import_openai_boto3_or_pydantic(
    cli: CommandLine, command: str
) -> None:
    [wait] = wait_ids(cli.run_in_process(*START_COMMAND))

    done = cli.run_in_process(command, wait, program=("-c", IMPORT_WATCHER_SOURCE))

    report = json.loads(done.err.splitlines()[-1])
    assert {"code": 0, "importers": {}, "rich": False} == report


def test_missing_cli_extra_is_named(cli: CommandLine) -> None:
    program = (
        "import sys; sys.modules['typer'] = None\n"
        "from continuations.cli import main; sys.exit(main())"
    )

    done = cli.run_in_process("waiting", program=("-c", program))

    assert (2, "") == (done.exit_code, done.out)
    assert 1 == len(done.err.splitlines())
    assert "needs the package typer" in done.err
    assert "pip install 'typer<0.29' rich" in done.err


def test_ascii_terminal_gets_ascii_output(
    cli: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Given a terminal that has only ASCII, and a run whose input has another character
    monkeypatch.setenv("PYTHONIOENCODING", "ascii")
    runner_with_umlaut = Runner(make_boss(pay("Zoë")), store=cli.runner.store)
    runner_with_umlaut.start("go", run_id="j1")

    # When the run is shown
    shown = cli.run_in_process("show", "j1")

    # Then branches are ASCII characters, and the other character is an escape
    assert (0, "") == (shown.exit_code, shown.err)
    assert "`- left" in shown.out
    assert r"Zo\xeb" in shown.out
