"""Ctrl-C and SIGTERM while `start` or `resume` works on a run."""

from __future__ import annotations

import json
import signal
from typing import TYPE_CHECKING

import pytest

from tests.cli.command_line import RUNNERS

if TYPE_CHECKING:
    import subprocess

    from tests.cli.command_line import CommandLine

SIGNALS = pytest.mark.parametrize(
    ("number", "exit_code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)]
)
# A shell that starts the tests in the background makes them, and every child, ignore
# SIGINT. This program restores Python's own handling.
INTERRUPTIBLE_PROGRAM = """
import signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)
from continuations.cli import main
sys.exit(main())
"""


def start_run(cli: CommandLine, name: str, line: str) -> subprocess.Popen[str]:
    """Start run `s1` of a runner; return once it has printed a line."""
    process = cli.start_process(
        *("start", "go", "--run-id", "s1", "--app", f"{RUNNERS}:{name}"),
        program=("-c", INTERRUPTIBLE_PROGRAM),
    )
    assert process.stdout is not None
    assert f"{line}\n" == process.stdout.readline()
    return process


@SIGNALS
def test_signal_completes_the_call_and_suspends_the_run(
    cli: CommandLine, number: signal.Signals, exit_code: int
) -> None:
    # Given a command whose tool, which may not be repeated, works for a second
    process = start_run(cli, "acting_for_a_second", "acting")

    # When it gets one signal
    process.send_signal(number)
    out, err = process.communicate(timeout=60)

    # Then it says what it does, the call has its result, and the exit code is the
    # signal's
    assert exit_code == process.returncode
    assert ["Suspended", "run: s1"] == out.splitlines()[:2]
    first, last = err.splitlines()
    assert first.startswith("stopping: ")
    assert "stopped: run s1 is not claimed; any process can resume it at once" == last
    assert "once\n" == (cli.folder / "acted").read_text()

    # And any process continues at once, without an unknown outcome
    resumed = cli.run_in_process(
        "resume", "s1", "--app", f"{RUNNERS}:acting_for_a_second"
    )
    assert (0, "Finished") == (resumed.exit_code, resumed.lines[0])
    assert "once\n" == (cli.folder / "acted").read_text()


@SIGNALS
def test_signal_gives_up_a_model_call_and_its_claim(
    cli: CommandLine, number: signal.Signals, exit_code: int
) -> None:
    """A model that does not reply does not hold the command up."""
    process = start_run(cli, "thinking", "thinking")

    process.send_signal(number)
    out, err = process.communicate(timeout=60)

    assert (exit_code, "") == (process.returncode, out)
    assert "stopped: run s1 is not claimed" in err
    run = json.loads(cli.run_in_process("show", "s1", "--json").out)
    assert ("suspended", []) == (run["status"], run["waits"])


def test_second_signal_stops_at_once_and_names_the_claim(cli: CommandLine) -> None:
    process = start_run(cli, "acting_without_end", "acting")
    assert process.stderr is not None

    process.send_signal(signal.SIGINT)
    assert process.stderr.readline().startswith("stopping: ")
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)

    assert (130, "") == (process.returncode, out)
    [line] = err.splitlines()
    assert line.startswith("stopped: run s1 is claimed until ")
    assert "its outcome may be unknown" in line


def test_signal_ends_the_wait_for_a_busy_run(cli: CommandLine) -> None:
    first = start_run(cli, "acting_without_end", "acting")
    waiter = cli.start_process(
        *("resume", "s1", "--app", f"{RUNNERS}:acting_without_end", "--wait-if-busy"),
        program=("-c", INTERRUPTIBLE_PROGRAM),
    )
    assert waiter.stderr is not None
    assert waiter.stderr.readline().startswith("waiting: ")

    waiter.send_signal(signal.SIGTERM)
    out, err = waiter.communicate(timeout=60)
    first.kill()
    first.communicate(timeout=60)

    assert (143, "") == (waiter.returncode, out)
    assert "stopped: run s1 is claimed until " in err
