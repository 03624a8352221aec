"""The main story, each command in a process of its own."""

from __future__ import annotations

import json
import signal
from typing import TYPE_CHECKING

import pytest

from tests.cli import payroll_app
from tests.cli.command_line import kill_process, wait_ids

if TYPE_CHECKING:
    from tests.cli.command_line import CommandLine

START_COMMAND = ("start", "pay jane", "--run-id", "j1", "--app", "payroll:runner")

# A tool that stays in its first call until its process is killed.
SLOW_APP_SOURCE = """
import time
from pathlib import Path
from continuations import Agent, Runner, tool
from continuations.models.scripted import ScriptedModel, ToolCall

@tool(read_only=True)
def ask() -> str:
    "Ask a slow oracle."
    if Path("quick").exists():
        return "42"
    print("asking", flush=True)
    time.sleep(60)
    return "never"

agent = Agent("seer", tools=[ask], model=ScriptedModel([ToolCall("ask"), "it is 42"]))
runner = Runner(agent, store="file:runs", lease=3)
"""
SLOW_START_COMMAND = ("start", "ask", "--run-id", "s1", "--app", "slow:runner")


def test_a_run_is_started_decided_and_resumed_by_processes_of_their_own(
    cli: CommandLine,
) -> None:
    # Given an application, and a run of it that has come to an approval
    cli.write_file("payroll.py", payroll_app.APP_SOURCE)
    started = cli.run_in_process(*START_COMMAND)
    assert (0, "Suspended", "run: j1") == (started.exit_code, *started.lines[:2])
    [wait] = wait_ids(started)
    assert "    path: boss > accounts > transfer" in started.lines
    assert '    arguments: {"cents":500,"source":"a","target":"b"}' in started.lines

    # When people look at it and approve it, without the application
    (cli.folder / "payroll.py").rename(cli.folder / "payroll.off")
    [row] = json.loads(cli.run_in_process("waiting", "--json").out)
    shown = cli.run_in_process("show", "j1")
    approved = cli.run_in_process("approve", wait)

    # Then they saw what waits, and the decision is recorded
    assert (wait, "j1", "approval") == (row["id"], row["run_id"], row["kind"])
    assert "j1: suspended, version" in shown.lines[0]
    assert [wait] == wait_ids(shown)
    assert (0, "") == (approved.exit_code, approved.err)
    assert approved.lines[0].startswith("approve by kim at ")
    assert [] == json.loads(cli.run_in_process("waiting", "--json").out)

    # When it is resumed, twice
    (cli.folder / "payroll.off").rename(cli.folder / "payroll.py")
    resumed = cli.run_in_process("resume", "j1", "--app", "payroll:runner")
    again = cli.run_in_process("resume", "j1", "--app", "payroll:runner")

    # Then it has run to its end, once
    assert (0, resumed.out) == (again.exit_code, again.out)
    assert ["Finished", "run: j1", "output:", "  all done"] == resumed.lines[:4]
    assert "a b 500\n" == (cli.folder / "moved").read_text()


def test_repeated_start_after_a_kill_finishes_the_run(cli: CommandLine) -> None:
    # Given a start that stands inside of a tool
    cli.write_file("slow.py", SLOW_APP_SOURCE)
    first = cli.start_process(*SLOW_START_COMMAND)
    assert first.stdout is not None
    assert "asking\n" == first.stdout.readline()
    cli.write_file("quick", "")

    # When the same command is given again, and then the first one is killed
    hasty = cli.run_in_process(*SLOW_START_COMMAND)
    bounded = cli.run_in_process(
        *SLOW_START_COMMAND, "--wait-if-busy", "--timeout", "0.1"
    )
    patient = cli.start_process(*SLOW_START_COMMAND, "--wait-if-busy")
    assert patient.stderr is not None
    waiting = patient.stderr.readline()
    kill_process(first)
    out, err = patient.communicate(timeout=60)

    # Then it is told that the run is held, or waits until it is not
    assert (4, "") == (hasty.exit_code, hasty.out)
    assert hasty.err.startswith("RunBusy: ")
    assert 4 == bounded.exit_code
    assert waiting.startswith("waiting: Run s1 ")
    assert (0, "Finished", "") == (patient.returncode, out.splitlines()[0], err)
    assert "  it is 42" in out.splitlines()


def test_resume_waits_for_a_run_that_is_held(cli: CommandLine) -> None:
    # Given a run that another process works on
    cli.write_file("slow.py", SLOW_APP_SOURCE)
    first = cli.start_process(*SLOW_START_COMMAND)
    assert first.stdout is not None
    assert "asking\n" == first.stdout.readline()
    cli.write_file("quick", "")
    waiter = cli.start_process("resume", "s1", "--app", "slow:runner", "--wait-if-busy")

    # When that one dies
    kill_process(first)
    out, _ = waiter.communicate(timeout=60)

    # Then the other one ends the run
    assert (0, "Finished") == (waiter.returncode, out.splitlines()[0])


def test_claimed_run_is_shown_and_cancelled_at_its_next_commit(
    cli: CommandLine,
) -> None:
    # Given a run that another process works on
    cli.write_file("slow.py", SLOW_APP_SOURCE)
    first = cli.start_process(*SLOW_START_COMMAND)
    assert first.stdout is not None
    assert "asking\n" == first.stdout.readline()

    # When it is shown and cancelled meanwhile
    shown = cli("show", "s1")
    cancelled = cli("cancel", "s1")
    kill_process(first)

    # Then both tell that it is held, and whoever takes it over ends it
    assert any(line.startswith("held by ") for line in shown.lines)
    assert (0, True) == (
        cancelled.exit_code,
        "stops at its next commit" in cancelled.out,
    )
    last = cli.run_in_process("resume", "s1", "--app", "slow:runner", "--wait-if-busy")
    assert (1, "Failed") == (last.exit_code, last.lines[0])


def test_ctrl_c_exits_with_130_and_no_output(cli: CommandLine) -> None:
    cli.write_file("slow.py", SLOW_APP_SOURCE)
    process = cli.start_process(*SLOW_START_COMMAND)
    assert process.stdout is not None
    assert "asking\n" == process.stdout.readline()

    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)

    assert (130, "", "") == (process.returncode, out, err)


# Says which module asked for a heavy one, on the last line of stderr.
IMPORT_WATCHER_SOURCE = """
import importlib.abc, json, sys
asked = {}
class Watch(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name in {"openai", "boto3", "pydantic"}:
            frame = sys._getframe(1)
            while "importlib" in frame.f_code.co_filename:
                frame = frame.f_back
            asked[name] = frame.f_globals["__name__"].partition(".")[0]
sys.meta_path.insert(0, Watch())
from continuations.cli import main
code = main(sys.argv[1:])
rich = "rich" in sys.modules
print(json.dumps({"code": code, "asked": asked, "rich": rich}), file=sys.stderr)
"""


@pytest.mark.parametrize("command", ["approve", "deny"])
def test_deciding_does_not_import_openai_boto3_or_pydantic(
    cli: CommandLine, command: str
) -> None:
    # Given a wait
    cli.write_file("payroll.py", payroll_app.APP_SOURCE)
    [wait] = wait_ids(cli.run_in_process(*START_COMMAND))

    # When it is decided, and the process tells what it imported
    done = cli.run_in_process(command, wait, program=("-c", IMPORT_WATCHER_SOURCE))

    # Then nobody asked for anything heavy
    told = json.loads(done.err.splitlines()[-1])
    assert (0, False) == (told["code"], told["rich"])
    assert {} == told["asked"]


def test_missing_cli_extra_is_named(cli: CommandLine) -> None:
    program = (
        "import sys; sys.modules['typer'] = None\n"
        "from continuations.cli import main; sys.exit(main())"
    )

    done = cli.run_in_process("waiting", program=("-c", program))

    assert (2, "") == (done.exit_code, done.out)
    assert [
        "The command line needs its extra: pip install 'continuations[cli]'"
    ] == done.err.splitlines()


def test_ascii_terminal_gets_ascii_output(
    cli: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Given a terminal that knows ASCII alone
    monkeypatch.setenv("PYTHONIOENCODING", "ascii")
    cli.write_file(
        "payroll.py", payroll_app.APP_SOURCE.replace('"source": "a"', '"source": "Zoë"')
    )
    cli.run_in_process(*START_COMMAND)

    # When a run is shown
    shown = cli.run_in_process("show", "j1")

    # Then it is drawn without lines, and what cannot be written is an escape
    assert (0, "") == (shown.exit_code, shown.err)
    assert "`- accounts" in shown.out
    assert r"Zo\xeb" in shown.out
