"""examples/three_deep.py: the demonstration, also if its processes are killed."""

from __future__ import annotations

import os
import random
import re
import signal
import subprocess
import time
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from continuations import Runner
from tests.examples.example_process import (
    command_line,
    environment,
    example_output,
    run_example,
)
from tests.sampling import sample

EXAMPLE = "three_deep.py"
OUTPUT = (
    "Finished Jane Doe's first day is prepared. Bonus: Transferred 500.00 EUR to Jane "
    "Doe. Access: DENIED: "
)


def test_example_prints_every_step(tmp_path: Path) -> None:
    printed = example_output(EXAMPLE, folder=tmp_path)

    titles = re.findall(r"^\d\. (\w+)", printed, re.MULTILINE)
    steps = ["Start", "Show", "Approve", "Resume", "Deny", "Resume", "What", "Effects"]
    assert steps == titles
    outcomes = re.findall(r"\| (Suspended|Finished)", printed)
    assert ["Suspended", "Suspended", "Finished"] == outcomes
    assert OUTPUT in unwrapped(printed)
    assert 4 == printed.count("Yes: ")
    pids = [int(pid) for pid in re.findall(r"process (\d+):", printed)]
    assert 7 == len(set(pids))
    assert not any(is_alive(pid) for pid in pids)
    lines = printed.replace(str(tmp_path), "").splitlines()
    assert max(map(len, lines)) <= 100
    assert ["Transferred 500.00 EUR to Jane Doe."] == effects(tmp_path)


@pytest.mark.parametrize("seed", sample([1, 2], 2))
def test_example_killed_at_random_has_the_same_end(seed: int, tmp_path: Path) -> None:
    rng = random.Random(seed)  # noqa: S311 - it chooses the moments of the kills
    killed: set[str] = set()
    printed = ""
    with subprocess.Popen(
        command_line(EXAMPLE, "--lease", "2"),
        cwd=tmp_path,
        env=environment(tmp_path),
        stdout=subprocess.PIPE,
        text=True,
    ) as demo:
        for line in demo.stdout or ():
            printed += line
            started = re.match(
                r" +process (\d+): (.*(start|show|approve|resume).*)", line
            )
            # Kill each command once; its repetition is not killed.
            if started is not None and started[2] not in killed:
                killed.add(started[2])
                time.sleep(rng.uniform(0.0, 0.6))
                with suppress(ProcessLookupError):  # it has exited
                    os.kill(int(started[1]), signal.SIGKILL)

    assert 0 == demo.returncode, printed
    assert OUTPUT in unwrapped(printed)
    assert "exited with code -9" in printed
    assert ["Transferred 500.00 EUR to Jane Doe."] == effects(tmp_path)


@pytest.mark.parametrize("happened", [True, False])
def test_transfer_of_a_killed_process_is_not_repeated(
    tmp_path: Path, *, happened: bool
) -> None:
    # Given a process that was killed during the transfer
    effects_file = tmp_path / "effects.txt"
    with process_in_transfer(tmp_path, tmp_path / "pipe") as process:
        process.kill()

    # When its command is repeated
    resume = ["resume", "onboard-jane", f"--effects={effects_file}", "--wait-if-busy"]
    printed = example_output(EXAMPLE, *resume, folder=tmp_path)

    # Then the outcome is unknown, and no call runs until a person decides
    assert "Suspended" in printed
    assert "(unknown)" in printed
    assert not effects_file.exists()

    unknown = waits(tmp_path)["transfer"]
    if happened:
        result = "Transferred 500.00 EUR to Jane Doe."
        example_output(EXAMPLE, "answer", unknown, result, folder=tmp_path)
    else:
        example_output(EXAMPLE, "approve", unknown, folder=tmp_path)
    example_output(EXAMPLE, "deny", waits(tmp_path)["grant_access"], folder=tmp_path)
    assert OUTPUT in unwrapped(example_output(EXAMPLE, *resume, folder=tmp_path))
    assert (not happened) == effects_file.exists()


def test_resume_of_a_claimed_run_raises_run_busy(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    with process_in_transfer(tmp_path, pipe) as holder:
        second = run_example(EXAMPLE, "resume", "onboard-jane", folder=tmp_path)

        assert 1 == second.returncode
        assert second.stderr.startswith("RunBusy: ")
        assert "Transferred 500.00 EUR" in pipe.read_text()
        assert 0 == holder.wait()


# Helpers ---------------------------------------------------------------------


def is_alive(pid: int) -> bool:
    with suppress(ProcessLookupError):
        os.kill(pid, 0)
        return True
    return False


def effects(folder: Path) -> list[str]:
    """Return the effects that the demonstration in a folder recorded."""
    (effects_file,) = folder.glob("three-deep-*/effects.txt")
    return [line.partition(" ")[2] for line in effects_file.read_text().splitlines()]


def unwrapped(printed: str) -> str:
    """Return the output on one line, without the demonstration's margin."""
    return " ".join(printed.replace("\n   | ", "\n").split())


def waits(folder: Path) -> dict[str, str]:
    """Return the ids of the open waits by tool, as `waiting` prints them."""
    lines = example_output(EXAMPLE, "waiting", folder=folder).splitlines()
    return {line.split(" > ")[-1].split()[0]: line.split()[0] for line in lines}


@contextmanager
def process_in_transfer(folder: Path, pipe: Path) -> Generator[subprocess.Popen[bytes]]:
    """Yield a process that blocks in the transfer; kill it at the end.

    The effects file is a pipe, and opening a pipe without a reader blocks.
    """
    os.mkfifo(pipe)
    example_output(EXAMPLE, "start", folder=folder)
    example_output(EXAMPLE, "approve", waits(folder)["transfer"], folder=folder)
    process = subprocess.Popen(
        [
            *command_line(EXAMPLE, "resume", "onboard-jane"),
            f"--effects={pipe}",
            "--lease=2",
        ],
        cwd=folder,
        env=environment(folder),
        stdout=subprocess.DEVNULL,
    )
    try:
        while transfer_state(folder) != "started":
            assert process.poll() is None
            time.sleep(0.05)
        yield process
    finally:
        process.kill()
        process.wait()


def transfer_state(folder: Path) -> str:
    runner = Runner([], store=f"sqlite:{folder}/.demo/runs.db")
    calls = list(runner.look("onboard-jane").root.calls)
    for call in calls:
        calls.extend(call.frame.calls if call.frame else ())
    return next(call.state for call in calls if call.tool == "transfer")
