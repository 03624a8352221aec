"""Processes forked from one interpreter that all do the same thing at the same time.

`python -m tests.engine.process_race COUNT COMMAND...` imports everything first and then
forks. That is faster than an interpreter for each, and the processes run closely enough
together to race.
"""

from __future__ import annotations

import json
import os
import sys
from typing import Any

from continuations import Approve, ContinuationsError, Deny, Runner
from continuations.errors import AlreadyDecided
from tests.engine import run_command
from tests.run_environment import RunEnvironment


def run_race(
    environment: RunEnvironment, command: str, count: int, **settings: Any
) -> list[str]:
    """Run a command in many processes at once; return what each one got."""
    process = environment.spawn("race", str(count), *command.split(), **settings)
    results: list[str] = process.wait_for_result()["results"]
    return results


def run_racer(number: int, command: list[str], runner: Runner) -> str:
    """Run the command once and return its result in short."""
    try:
        match command:
            case ["resume"]:
                return type(runner.resume("r1")).__name__
            case ["start"]:
                return type(runner.start("go", run_id="r1")).__name__
            case ["same", wait_id]:
                decision = runner.decide(wait_id, Approve(by="kim"))
            case ["decide", wait_id]:
                verdict = (Approve if number % 2 else Deny)(by=f"kim{number}")
                decision = runner.decide(wait_id, verdict)
            case _:
                return f"cannot {command}"
    except AlreadyDecided as error:
        recorded: Any = error.decision
        return f"AlreadyDecided {recorded.kind} {recorded.by}"
    except ContinuationsError as error:
        return type(error).__name__
    return f"decided {decision.kind} {decision.by}"


def start_or_publish(number: int, command: list[str], runner: Runner) -> str:
    """Let every other process publish a price, and the others start a run."""
    [_, article] = command
    if number % 2:
        runner.publish("price", number, key=article)
        return "published"
    return type(runner.start("go", run_id=f"{article}-{number}")).__name__


def fork_racers(count: int, command: list[str]) -> list[str]:
    """Fork the racers, open the gate, and collect their results."""
    runner = run_command.make_runner()
    gate, ready, output = os.pipe(), os.pipe(), os.pipe()
    children = [
        _fork_racer(number, command, runner, gate[0], ready[1], output[1])
        for number in range(count)
    ]
    os.close(output[1])
    arrived = 0
    while arrived < count:
        arrived += len(os.read(ready[0], count))
    os.write(gate[1], b"." * count)
    with os.fdopen(output[0]) as lines:
        results = [json.loads(line) for line in lines]
    codes = [os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) for pid in children]
    assert [0] * count == codes
    return results


def _fork_racer(
    number: int, what: list[str], runner: Runner, gate: int, ready: int, output: int
) -> int:
    child = os.fork()
    if child:
        return child
    act = start_or_publish if what[0] == "price" else run_racer
    try:
        os.write(ready, b".")
        os.read(gate, 1)
        os.write(output, json.dumps(act(number, what, runner)).encode() + b"\n")
    except BaseException as error:  # noqa: BLE001 - the child must not go on as the parent
        sys.stderr.write(f"racer {number}: {error!r}\n")
        os._exit(1)
    os._exit(0)
