"""Many processes that create the same keys of one store, for the conformance suite.

`run_race` starts one interpreter, which forks the racers; that is faster than one
interpreter for each. Before each round all racers wait at a barrier, so that they
create at the same moment.
"""

from __future__ import annotations

import asyncio
import json
import os
import pickle
import signal
import subprocess
import sys
import traceback
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

from continuations_storage.errors import AlreadyExists

if TYPE_CHECKING:
    from collections.abc import Callable

    from continuations_storage.contract import Store

__all__ = ["Race", "RacerReport", "run_race", "try_create"]

_SECONDS = 120
_READY = b"."
_FAILED = b"!"


@dataclass(frozen=True, slots=True, kw_only=True)
class Race:
    """The number of racers and rounds; each round has a key of its own."""

    opener: Callable[[], Store]
    racers: int
    rounds: int
    prefix: str = "race/"


@dataclass(frozen=True, slots=True, kw_only=True)
class RacerReport:
    """The result of one racer in one round; `winner_seen` is the body that it read."""

    round: int
    racer: int
    won: bool
    winner_seen: int
    error: str = ""


def run_race(race: Race) -> list[RacerReport]:
    """Run a race in other processes; return a report for each racer and round."""
    # sys.path is passed on, because the store's module may be anywhere.
    script = (
        "import pickle, sys; sys.path[:] = pickle.load(sys.stdin.buffer); "
        "from continuations_storage.create_race import run_racers; run_racers()"
    )
    done = subprocess.run(  # noqa: S603 -- our interpreter and script
        [sys.executable, "-c", script],
        input=pickle.dumps(sys.path) + pickle.dumps(race),
        stdout=subprocess.PIPE,
        timeout=_SECONDS,
        check=True,
    )
    return [RacerReport(**json.loads(line)) for line in done.stdout.splitlines()]


def run_racers() -> None:
    """Read a race from stdin, fork its racers, and print their reports."""
    race: Race = pickle.load(sys.stdin.buffer)  # noqa: S301 -- from our parent process
    # Two barriers in turn: at a single one, a fast racer could return and pass again
    # in place of a slow one.
    gates, ready, reports = (os.pipe(), os.pipe()), os.pipe(), os.pipe()
    entries = [gate[0] for gate in gates]
    racers = [
        _fork(race, racer, entries, ready[1], reports[1])
        for racer in range(race.racers)
    ]
    for end in (*entries, ready[1], reports[1]):
        os.close(end)
    try:
        for number in range(race.rounds):
            _await_all(ready[0], race.racers)
            os.write(gates[number % 2][1], _READY * race.racers)
        with os.fdopen(reports[0], "rb") as lines:
            sys.stdout.buffer.write(lines.read())
    except BaseException:
        for racer in racers:
            os.kill(racer, signal.SIGKILL)
        raise
    finally:
        for racer in racers:
            os.waitpid(racer, 0)


def _await_all(ready: int, racers: int) -> None:
    arrived = 0
    while arrived < racers:
        news = os.read(ready, racers - arrived)
        if _FAILED in news:
            raise RuntimeError("a racer failed, so the race has no result; see above")
        arrived += len(news)


def _fork(race: Race, racer: int, barriers: list[int], ready: int, reports: int) -> int:
    child = os.fork()
    if child:
        return child
    try:
        asyncio.run(_run_racer(race, racer, barriers, ready, reports))
    except BaseException:  # noqa: BLE001 -- a child must never return
        traceback.print_exc()
        os.write(ready, _FAILED)
        os._exit(1)
    os._exit(0)


async def _run_racer(
    race: Race, racer: int, barriers: list[int], ready: int, reports: int
) -> None:
    store = race.opener()
    seen: list[RacerReport] = []
    for number in range(race.rounds):
        os.write(ready, _READY)
        os.read(barriers[number % 2], 1)
        seen.append(await _run_round(store, f"{race.prefix}{number}", number, racer))
    with os.fdopen(reports, "wb") as out:
        # Each line is written at once: lines of several racers may alternate.
        for report in seen:
            out.write(json.dumps(asdict(report)).encode() + b"\n")
            out.flush()


async def _run_round(store: Store, key: str, number: int, racer: int) -> RacerReport:
    try:
        won = await try_create(store, key, str(racer).encode())
        seen = int(await store.read(key))
    except Exception as error:  # noqa: BLE001 -- the parent reports it
        return RacerReport(
            round=number, racer=racer, won=False, winner_seen=-1, error=repr(error)
        )
    return RacerReport(round=number, racer=racer, won=won, winner_seen=seen)


async def try_create(store: Store, key: str, body: bytes) -> bool:
    """Return whether this create succeeded, or lost to another one."""
    try:
        await store.create(key, body)
    except AlreadyExists:
        return False
    return True
