"""examples/three_deep.py: the demonstration, and what a SIGKILL does to it."""

from __future__ import annotations

import os
import random
import re
import signal
import subprocess
import time
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

import pytest

from continuations import Runner
from tests.examples.example_process import (
    command_line,
    environment,
    example_output,
    run_example,
)

if TYPE_CHECKING:
    from collections.abc import Generator
    from pathlib import Path

EXAMPLE = "three_deep.py"
OUTPUT = (
    "Finished: Jane Doe's first day is prepared. Bonus: Transferred 500.00 EUR to Jane "
    "Doe. Access: DENIED: a person refused this call."
)


def test_example_prints_every_step(tmp_path: Path) -> None:
    printed = example_output(EXAMPLE, folder=tmp_path)

    titles = re.findall(r"^\d\. (\w+)", printed, re.MULTILINE)
    order = ["Start", "The", "Approve", "Resume", "Deny", "Resume", "What", "The"]
    assert order == titles
    outcomes = re.findall(r"\| (Suspended|Finished)", printed)
    assert ["Suspended", "Suspended", "Finished"] == outcomes
    assert OUTPUT in printed
    assert 4 == printed.count("Yes: ")
    pids = [int(pid) for pid in re.findall(r"process (\d+):", printed)]
    assert 7 == len(set(pids))
    assert not any(is_alive(pid) for pid in pids)
    assert ["Transferred 500.00 EUR to Jane Doe."] == effects(tmp_path)


@pytest.mark.parametrize("seed", [1, 2])
def test_example_killed_at_random_has_the_same_end(seed: int, tmp_path: Path) -> None:
    dice = random.Random(seed)  # noqa: S311 - it picks the moments
    killed: set[str] = set()
    printed = ""
    with subprocess.Popen(
        command_line(EXAMPLE, "--lease", "2"),
        cwd=tmp_path,
        env=environment(tmp_path),
        stdout=subprocess.PIPE,
        text=True,
    ) as director:
        for line in director.stdout or ():
            printed += line
            begun = re.match(
                r" +process (\d+): (.*(start|show|approve|resume).*)", line
            )
            # Each command once: its repetition is let through.
            if begun is not None and begun[2] not in killed:
                killed.add(begun[2])
                time.sleep(dice.uniform(0.0, 0.6))
                with suppress(ProcessLookupError):  # it was quicker
                    os.kill(int(begun[1]), signal.SIGKILL)

    assert 0 == director.returncode, printed
    assert OUTPUT in printed
    assert "ended with -9" in printed
    assert ["Transferred 500.00 EUR to Jane Doe."] == effects(tmp_path)


@pytest.mark.parametrize("happened", [True, False])
def test_transfer_of_a_killed_process_is_not_repeated(
    tmp_path: Path, *, happened: bool
) -> None:
    # Given: a process that was killed in the middle of the transfer.
    ledger = tmp_path / "ledger.txt"
    with process_in_transfer(tmp_path, tmp_path / "pipe") as process:
        process.kill()

    # When: its command is repeated.
    resume = ["resume", "onboard-jane", f"--ledger={ledger}", "--wait-if-busy"]
    printed = example_output(EXAMPLE, *resume, folder=tmp_path)

    # Then: it says that it does not know, and runs nothing until somebody tells.
    assert "Suspended" in printed
    assert "(unknown)" in printed
    assert not ledger.exists()

    unknown = waits(tmp_path)["transfer"]
    if happened:
        result = "Transferred 500.00 EUR to Jane Doe."
        example_output(EXAMPLE, "answer", unknown, result, folder=tmp_path)
    else:
        example_output(EXAMPLE, "approve", unknown, folder=tmp_path)
    example_output(EXAMPLE, "deny", waits(tmp_path)["grant_access"], folder=tmp_path)
    assert OUTPUT in example_output(EXAMPLE, *resume, folder=tmp_path)
    assert (not happened) == ledger.exists()


def test_resume_of_a_claimed_run_raises_run_busy(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    with process_in_transfer(tmp_path, pipe) as holder:
        second = run_example(EXAMPLE, "resume", "onboard-jane", folder=tmp_path)

        assert 1 == second.returncode
        assert second.stderr.startswith("RunBusy: ")
        assert "Transferred 500.00 EUR" in pipe.read_text()
        assert 0 == holder.wait()


# Its helpers ---------------------------------------------------------------------


def is_alive(pid: int) -> bool:
    with suppress(ProcessLookupError):
        os.kill(pid, 0)
        return True
    return False


def effects(folder: Path) -> list[str]:
    """Return what the ledger of the demonstration in a folder says."""
    (ledger,) = folder.glob("three-deep-*/ledger.txt")
    return [line.partition(" ")[2] for line in ledger.read_text().splitlines()]


def waits(folder: Path) -> dict[str, str]:
    """Return the ids of the open waits by tool, as `waiting` prints them."""
    lines = example_output(EXAMPLE, "waiting", folder=folder).splitlines()
    return {line.split(" > ")[-1].split()[0]: line.split()[0] for line in lines}


@contextmanager
def process_in_transfer(folder: Path, pipe: Path) -> Generator[subprocess.Popen[bytes]]:
    """Have a process resume; it is killed at the end, if it is still there.

    A pipe that nobody reads holds it where the tool opens its ledger.
    """
    os.mkfifo(pipe)
    example_output(EXAMPLE, "start", folder=folder)
    example_output(EXAMPLE, "approve", waits(folder)["transfer"], folder=folder)
    process = subprocess.Popen(
        [
            *command_line(EXAMPLE, "resume", "onboard-jane"),
            f"--ledger={pipe}",
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
    desk = Runner([], store=f"file:{folder}/.demo/runs")
    calls = list(desk.look("onboard-jane").root.calls)
    for call in calls:
        calls.extend(call.frame.calls if call.frame else ())
    return next(call.state for call in calls if call.tool == "transfer")
