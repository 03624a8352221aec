"""A run is erased while other processes act on it, or are frozen.

Each process is an interpreter of its own that shares only a folder.
"""

from __future__ import annotations

import json
import signal
from typing import Any

import pytest

from continuations import Runner, open_store
from continuations.errors import RunErased
from tests.clocks import OffsetClock
from tests.run_environment import CommandProcess, RunEnvironment
from tests.sampling import sample
from tests.scripts import Script, call
from tests.stores import StoreWithoutTime

# boss > hr > clerk; the clerk's tools wait for an answer, a price and a job.
SCRIPT: Script = {
    "go": [[call("hr", input="A")], "all"],
    "A": [[call("clerk", input="B")], "A done"],
    "B": [
        [call("laptop", person="Jane"), call("price", article="tea")],
        [call("scan", document="x")],
        "B done",
    ],
}
OPTIONS: dict[str, Any] = {
    "script": SCRIPT,
    "app": "tests.engine.waiting_tools:agents",
    "lease": "2",
}
ANSWER = {"answer": {"value": {"name": "x"}}}
A_DAY = 90_000


def start(environment: RunEnvironment) -> str:
    """Start the run; return the id of its question."""
    waits = environment.run("start", "r1", "go", **OPTIONS)["waits"]
    [question] = [str(wait["id"]) for wait in waits if wait["kind"] == "question"]
    return question


def keys_of_run(environment: RunEnvironment) -> list[str]:
    """Return all keys but those of the probe, of events and of their markers."""
    return [
        key
        for key in environment.keys("")
        if not key.startswith(("probe/", ".tmp"))
        and not (key.startswith("events/") and "/w-" not in key)
        and not (key.startswith("markers/") and "@" not in key)
    ]


def assert_only_a_tombstone_and_markers_are_left(environment: RunEnvironment) -> None:
    """Check the whole store right after the receipt."""
    left = [key for key in keys_of_run(environment) if not key.startswith("markers/")]
    assert 1 == len(left), left
    assert left[0].startswith("runs/r1/v/")


def assert_sweeps_leave_a_tombstone(environment: RunEnvironment) -> None:
    """Check the whole store after sweeps of the following days."""
    store = StoreWithoutTime(open_store(environment.store))
    for days in (1, 2, 3):
        runner = Runner([], store=store, clock=OffsetClock(days * A_DAY))
        assert {} == runner.sweep().errors
    [tombstone] = keys_of_run(environment)
    assert tombstone.startswith("runs/r1/v/")
    for act in (runner.look, runner.resume, runner.pause, runner.cancel):
        with pytest.raises(RunErased):
            act("r1")
    assert [tombstone] == keys_of_run(environment)


# A frozen process wakes after the erasure -----------------------------------------

# Each command has at least as many operations.
ZOMBIES = [
    *(("resume", number) for number in sample((2, 4, 6, 8, 10), 4)),
    *(("sweep", number) for number in sample((2, 3, 5, 8, 10), 4, 2)),
    *(("decide", number) for number in sample((1, 2, 3), 3, 1)),
    *(("publish", number) for number in sample((2, 3, 4, 5), 4, 3)),
    *(("pause", number) for number in sample((2, 4, 5), 3, 1)),
    *(("signal", number) for number in sample((2, 3), 2)),
]


def freeze(
    environment: RunEnvironment, command: str, number: int, question: str
) -> CommandProcess:
    """Start a process that freezes before one of its storage operations."""
    arguments = {
        "resume": ["r1"],
        "sweep": [],
        "decide": [question, json.dumps(ANSWER)],
        "publish": ["price", "tea", "7", "own-1"],
        "pause": ["r1"],
        "signal": ["r1", "price"],
    }[command]
    if command in ("resume", "sweep"):
        environment.decide(question, ANSWER)
    process = environment.spawn(
        command, *arguments, **OPTIONS, fault=f"{number} freeze"
    )
    process.wait_until_frozen()
    return process


@pytest.mark.parametrize(("command", "number"), ZOMBIES)
def test_frozen_process_that_wakes_after_the_receipt_brings_nothing_back(
    environment: RunEnvironment, command: str, number: int
) -> None:
    """It gets a typed error, begins no call, and leaves nothing that stays."""
    question = start(environment)
    zombie = freeze(environment, command, number, question)

    receipt = environment.run("erase", "r1", **OPTIONS)
    assert_only_a_tombstone_and_markers_are_left(environment)
    effects = environment.effect_names()
    zombie.send(signal.SIGCONT)
    zombie.wait_for_result()

    assert receipt["versions"] >= 2
    assert effects == environment.effect_names()
    assert_sweeps_leave_a_tombstone(environment)


# Everything at the same time ------------------------------------------------------


@pytest.mark.parametrize("round_number", sample(range(12), 7))
def test_erase_at_the_same_time_as_everything_else(
    environment: RunEnvironment, round_number: int
) -> None:
    """Each process gets a result or a typed error, in every order."""
    question = start(environment)
    if round_number % 2:
        environment.decide(question, ANSWER)
    commands = [
        ("resume", "r1"),
        ("decide", question, json.dumps(ANSWER)),
        ("publish", "price", "tea", "7", "own-1"),
        ("sweep",),
        ("pause", "r1"),
    ]
    first = round_number % len(commands)
    racers = [
        environment.spawn(*command, **OPTIONS)
        for command in (*commands[first:], ("erase", "r1"), *commands[:first])
    ]
    results = [racer.wait_for_result() for racer in racers]
    [receipt] = [result for result in results if "versions" in result]
    effects = environment.effect_names()

    assert receipt["versions"] >= 2
    assert len(effects) == len(set(effects))
    assert_sweeps_leave_a_tombstone(environment)
    assert effects == environment.effect_names()
