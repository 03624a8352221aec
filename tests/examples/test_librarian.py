"""examples/librarian.py: it survives Ctrl-C and a kill at every line that it prints."""

from __future__ import annotations

import doctest
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from continuations import Runner
from continuations.events import Compacted, MessageAdded
from tests.examples.example_process import command_line, environment, example_output
from tests.sampling import sample

EXAMPLE = "librarian.py"
ORDER = ["words", "lines", "initials", "vowels"]


def stop_at_line(number: int, with_signal: signal.Signals, folder: Path) -> int:
    """Run the example, and send a signal once it printed so many lines."""
    with subprocess.Popen(
        command_line(EXAMPLE),
        cwd=folder,
        env=environment(folder),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as process:
        assert process.stdout is not None
        for _ in range(number):
            process.stdout.readline()
        process.send_signal(with_signal)
        process.communicate(timeout=60)
    return process.returncode


def check_library(folder: Path) -> None:
    """Check the modules, and that each request stands once in the conversation."""
    library = folder / "library"
    assert sorted(ORDER) == sorted(path.stem for path in library.glob("*.py"))
    for name in ORDER:
        command = [sys.executable, "-m", doctest.__name__, str(library / f"{name}.py")]
        assert 0 == subprocess.run(command, check=False, timeout=60).returncode
    runner = Runner([], store=f"file:{folder / '.librarian'}")
    [thread] = runner.runs(status="resting")
    events = list(runner.events(thread.run_id))
    requests = [
        str(each.message["content"]).split()[3]
        for each in events
        if isinstance(each, MessageAdded)
        and each.path == ("architect",)
        and str(each.message["content"]).startswith("Write the module")
    ]
    assert [f"{name}:" for name in ORDER] == requests
    assert any(isinstance(each, Compacted) for each in events)
    texts = [
        str(message["content"]) for message in runner.look(thread.run_id).root.messages
    ]
    assert 1 == sum(text.startswith("Summary") for text in texts)


def test_reviewer_sends_a_module_back(tmp_path: Path) -> None:
    printed = example_output(EXAMPLE, folder=tmp_path)

    assert "reviewer: tests lines: fails\n" in printed
    assert printed.endswith("The library has 4 modules.\n")
    check_library(tmp_path)


def test_second_start_repeats_nothing(tmp_path: Path) -> None:
    example_output(EXAMPLE, folder=tmp_path)

    printed = example_output(EXAMPLE, folder=tmp_path)

    assert "saves" not in printed
    assert printed.endswith("The library has 4 modules.\n")


@pytest.mark.parametrize("with_signal", [signal.SIGINT, signal.SIGKILL])
def test_library_is_built_with_a_stop_at_every_line(
    with_signal: signal.Signals, tmp_path: Path
) -> None:
    """Each start goes on where the one before was stopped, some lines further."""
    lines = sample(range(1, 9), 2, with_signal == signal.SIGKILL)
    codes = [stop_at_line(number, with_signal, tmp_path) for number in lines]

    expected = 1 if with_signal == signal.SIGINT else -with_signal
    assert {expected} == set(codes)
    printed = example_output(EXAMPLE, folder=tmp_path)
    assert printed.endswith("The library has 4 modules.\n")
    check_library(tmp_path)
