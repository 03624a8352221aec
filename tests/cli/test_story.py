"""The main story, each command in a process of its own."""

from __future__ import annotations

import json
import signal
from typing import TYPE_CHECKING

import pytest

from tests.cli import office
from tests.cli.command import kill, waits_of

if TYPE_CHECKING:
    from tests.cli.command import Commands

START = ("start", "pay jane", "--run-id", "j1", "--app", "payroll:runner")

# A tool that stays in its first call until its process is killed.
SLOW = """
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
ASK = ("start", "ask", "--run-id", "s1", "--app", "slow:runner")


def test_a_run_is_started_decided_and_resumed_by_processes_of_their_own(
    cli: Commands,
) -> None:
    # Given an application, and a run of it that has come to an approval
    cli.write("payroll.py", office.APP)
    started = cli.apart(*START)
    assert (0, "Suspended", "run: j1") == (started.code, *started.lines[:2])
    [wait] = waits_of(started)
    assert "    path: boss > accounts > transfer" in started.lines
    assert '    arguments: {"cents":500,"source":"a","target":"b"}' in started.lines

    # When people look at it and approve it, without the application
    (cli.folder / "payroll.py").rename(cli.folder / "payroll.off")
    [row] = json.loads(cli.apart("waiting", "--json").out)
    shown = cli.apart("show", "j1")
    approved = cli.apart("approve", wait)

    # Then they saw what waits, and the decision is recorded
    assert (wait, "j1", "approval") == (row["id"], row["run_id"], row["kind"])
    assert "j1: suspended, version" in shown.lines[0]
    assert [wait] == waits_of(shown)
    assert (0, "") == (approved.code, approved.err)
    assert approved.lines[0].startswith("approve by kim at ")
    assert [] == json.loads(cli.apart("waiting", "--json").out)

    # When it is resumed, twice
    (cli.folder / "payroll.off").rename(cli.folder / "payroll.py")
    resumed = cli.apart("resume", "j1", "--app", "payroll:runner")
    again = cli.apart("resume", "j1", "--app", "payroll:runner")

    # Then it has run to its end, once
    assert (0, resumed.out) == (again.code, again.out)
    assert ["Finished", "run: j1", "output:", "  all done"] == resumed.lines[:4]
    assert "a b 500\n" == (cli.folder / "moved").read_text()


def test_a_killed_start_ends_the_same_when_it_is_repeated(cli: Commands) -> None:
    # Given a start that stands inside of a tool
    cli.write("slow.py", SLOW)
    first = cli.running(*ASK)
    assert first.stdout is not None
    assert "asking\n" == first.stdout.readline()
    cli.write("quick", "")

    # When the same command is given again, and then the first one is killed
    hasty = cli.apart(*ASK)
    bounded = cli.apart(*ASK, "--wait", "--timeout", "0.1")
    patient = cli.running(*ASK, "--wait")
    assert patient.stderr is not None
    waiting = patient.stderr.readline()
    kill(first)
    out, err = patient.communicate(timeout=60)

    # Then it is told that the run is held, or waits until it is not
    assert (4, "") == (hasty.code, hasty.out)
    assert hasty.err.startswith("RunBusy: ")
    assert 4 == bounded.code
    assert waiting.startswith("waiting: Run s1 ")
    assert (0, "Finished", "") == (patient.returncode, out.splitlines()[0], err)
    assert "  it is 42" in out.splitlines()


def test_resume_waits_for_a_run_that_is_held(cli: Commands) -> None:
    # Given a run that another process works on
    cli.write("slow.py", SLOW)
    first = cli.running(*ASK)
    assert first.stdout is not None
    assert "asking\n" == first.stdout.readline()
    cli.write("quick", "")
    waiter = cli.running("resume", "s1", "--app", "slow:runner", "--wait")

    # When that one dies
    kill(first)
    out, _ = waiter.communicate(timeout=60)

    # Then the other one ends the run
    assert (0, "Finished") == (waiter.returncode, out.splitlines()[0])


def test_a_run_that_is_held_is_shown_and_cancelled_later(cli: Commands) -> None:
    # Given a run that another process works on
    cli.write("slow.py", SLOW)
    first = cli.running(*ASK)
    assert first.stdout is not None
    assert "asking\n" == first.stdout.readline()

    # When it is shown and cancelled meanwhile
    shown = cli("show", "s1")
    cancelled = cli("cancel", "s1")
    kill(first)

    # Then both tell that it is held, and whoever takes it over ends it
    assert any(line.startswith("held by ") for line in shown.lines)
    assert (0, True) == (cancelled.code, "stops at its next commit" in cancelled.out)
    last = cli.apart("resume", "s1", "--app", "slow:runner", "--wait")
    assert (1, "Failed") == (last.code, last.lines[0])


def test_ctrl_c_is_quiet(cli: Commands) -> None:
    cli.write("slow.py", SLOW)
    process = cli.running(*ASK)
    assert process.stdout is not None
    assert "asking\n" == process.stdout.readline()

    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)

    assert (130, "", "") == (process.returncode, out, err)


# Says which module asked for a heavy one, on the last line of stderr.
WATCH = """
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
def test_deciding_loads_no_model_no_cloud_and_no_schemas(
    cli: Commands, command: str
) -> None:
    # Given a wait
    cli.write("payroll.py", office.APP)
    [wait] = waits_of(cli.apart(*START))

    # When it is decided, and the process tells what it imported
    done = cli.apart(command, wait, program=("-c", WATCH))

    # Then nobody asked for anything heavy
    told = json.loads(done.err.splitlines()[-1])
    assert (0, False) == (told["code"], told["rich"])
    assert {} == told["asked"]


def test_without_its_extra_the_command_says_so(cli: Commands) -> None:
    program = (
        "import sys; sys.modules['typer'] = None\n"
        "from continuations.cli import main; sys.exit(main())"
    )

    done = cli.apart("waiting", program=("-c", program))

    assert (2, "") == (done.code, done.out)
    assert [
        "The command line needs its extra: pip install 'continuations[cli]'"
    ] == done.err.splitlines()


def test_output_fits_any_terminal(
    cli: Commands, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Given a terminal that knows ASCII alone
    monkeypatch.setenv("PYTHONIOENCODING", "ascii")
    cli.write("payroll.py", office.APP.replace('"source": "a"', '"source": "Zoë"'))
    cli.apart(*START)

    # When a run is shown
    shown = cli.apart("show", "j1")

    # Then it is drawn without lines, and what cannot be written is an escape
    assert (0, "") == (shown.code, shown.err)
    assert "`- accounts" in shown.out
    assert r"Zo\xeb" in shown.out
