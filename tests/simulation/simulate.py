"""Run schedules by their seeds, look for broken laws, and make a broken one small.

    python -m tests.simulation.simulate --seeds 0:5000 --jobs 2

`--resume FILE` goes on where the last such search ended, `--law NAME` minds that law
alone, `--faults a,b` allows only those kinds of faults.
"""

from __future__ import annotations

import argparse
import gc
import json
import logging
import random
import sys
import time
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.simulation import actors
from tests.simulation.actors import Actor
from tests.simulation.agents import TREES
from tests.simulation.evidence import Evidence
from tests.simulation.fault_schedule import FAULT_KINDS, LOST_REPLY_KINDS, FaultSchedule
from tests.simulation.laws import LAWS, broken_laws
from tests.simulation.sim_environment import SimEnvironment
from tests.simulation.virtual_loop import NO_PROCESS

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Generator

    Role = Callable[[Actor], Coroutine[Any, Any, None]]

HORIZON_SECONDS = 240.0


@dataclass(frozen=True)
class Report:
    """What came of a schedule: the laws that it broke, each with a sentence."""

    seed: int
    broken: dict[str, str]
    summary: str
    parts: tuple[str, ...]
    log: tuple[str, ...]
    environment: SimEnvironment
    fault_kinds: frozenset[str] | None


def run(
    seed: int,
    *,
    fault_kinds: frozenset[str] | None = None,
    excluded: frozenset[str] = frozenset(),
) -> Report:
    """Run one schedule.

    `faults` are the kinds of faults that may be (all of them if it is left out),
    `without` single faults and actors that are left out.
    """
    allowed = FAULT_KINDS if fault_kinds is None else fault_kinds
    world = SimEnvironment(seed, FaultSchedule(seed, allowed, excluded))
    with _garbage_collection_paused():
        cast = draw_actors(world, random.Random(f"{seed}/cast"))  # noqa: S311 - not for secrets
        world.loop.run_until_idle()
        sweep_until_idle(world)
        world.close()
    trees = ", ".join(world.tree_of_run.values())
    return Report(
        seed=seed,
        broken=broken_laws(Evidence(world)),
        summary=f"seed {seed}: {trees}; {', '.join(cast)}; {world.faults.occurred}",
        parts=(*cast[1:], *world.faults.occurred),
        log=tuple(" ".join(map(str, line)) for line in world.log),
        environment=world,
        fault_kinds=fault_kinds,
    )


@contextmanager
def _garbage_collection_paused() -> Generator[None]:
    # What dead processes leave is closed when it is collected, which must not fall
    # into the middle of a schedule by the mood of the interpreter. (It is faster, too.)
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def shrink(
    seed: int, fault_kinds: frozenset[str] | None = None, law: str | None = None
) -> Report:
    """Return the same broken schedule with as few faults and actors as can be.

    It breaks `law` still, or the first that was broken.
    """
    report = run(seed, fault_kinds=fault_kinds)
    if not report.broken:
        return report
    law = law or next(iter(report.broken))
    without: frozenset[str] = frozenset()
    tried: set[str] = set()
    while parts := [part for part in report.parts if part not in tried]:
        # From the end on: what comes late hangs on what came before.
        part = parts[-1]
        tried.add(part)
        smaller = run(seed, fault_kinds=fault_kinds, excluded=without | {part})
        if law in smaller.broken:
            without |= {part}
            report = smaller
    return report


def shrunk_text(report: Report, law: str | None = None) -> str:
    """Return the shrunk schedule of a broken one as text, "" if none is broken."""
    if not report.broken:
        return ""
    small = shrink(report.seed, report.fault_kinds, law)
    broken = "\n".join(f"{law}: {what}" for law, what in small.broken.items())
    return "\n".join([broken, small.summary, *small.log, broken, small.summary])


# The cast ---------------------------------------------------------------------------


def draw_actors(environment: SimEnvironment, rng: random.Random) -> list[str]:
    """Draw the trees and who comes, and let them begin; returns their names."""
    names = list(TREES)
    for number in range(1 + (rng.random() < 0.12)):
        environment.tree_of_run[f"r{number}"] = names.pop(rng.randrange(len(names)))
    environment.allow_denials = rng.random() < 0.6
    environment.decide_at_end = rng.random() < 0.7
    environment.max_attempts = rng.choice((2, 5, 5))
    environment.listings_tell_time = rng.random() < 0.6
    environment.time_scale = rng.choice((0.1, 0.4, 1.0, 1.0))
    cast: list[tuple[str, Role]] = [("starter", actors.act_as_starter)]
    cast += [(f"worker{n}", actors.act_as_worker) for n in range(rng.randint(1, 3))]
    cast += [(f"decider{n}", actors.act_as_decider) for n in range(rng.randint(1, 3))]
    cast += [(f"sweeper{n}", actors.act_as_sweeper) for n in range(rng.randint(0, 2))]
    cast += [("canceller", actors.act_as_canceller)] * (rng.random() < 0.15)
    cast += [("sender", actors.act_as_sender)] * (rng.random() < 0.2)
    came: list[str] = []
    for name, story in cast:
        fates = [rng.random() for _ in range(7)]
        if name in environment.faults.excluded:
            continue
        came.append(name)
        actor = Actor(environment, name)
        actor.process.run(story(actor))
        _plan_process_faults(environment, actor, fates)
    return came


def _plan_process_faults(
    environment: SimEnvironment, actor: Actor, draws: list[float]
) -> None:
    """Kill or freeze a process at some moment, whatever it does then."""
    weather, process = environment.faults, actor.process
    when = draws[1] * HORIZON_SECONDS / 2 * environment.time_scale
    if draws[0] < weather.rate_of("strike") and weather.record(
        f"{actor.name}/at strike"
    ):
        environment.loop.call_later(when, process.crash, context=NO_PROCESS)
    when = draws[3] * HORIZON_SECONDS / 2 * environment.time_scale
    if draws[2] < weather.rate_of("stall") and weather.record(f"{actor.name}/at stall"):
        pause = 5 + draws[1] * 100
        environment.loop.call_later(when, process.freeze, pause, context=NO_PROCESS)
    when = draws[5] * HORIZON_SECONDS / 2 * environment.time_scale
    if draws[4] < weather.rate_of("jump") and weather.record(f"{actor.name}/at jump"):
        environment.loop.call_later(
            when, process.set_clock, draws[6], context=NO_PROCESS
        )


def run_uninterrupted(tree: str) -> Evidence:
    """Let a tree's run happen with no faults, everybody saying yes."""
    world = SimEnvironment(0, FaultSchedule(0, frozenset(), frozenset()))
    world.tree_of_run["r0"] = tree
    world.allow_denials, world.decide_at_end = False, True
    world.faults.stopped = True
    actor = Actor(world, "starter")
    actor.process.run(actors.act_as_starter(actor))
    world.loop.run_until_idle()
    sweep_until_idle(world, first_wait_seconds=1.0)
    world.close()
    return Evidence(world)


# The end ----------------------------------------------------------------------------

MAX_SWEEP_ROUNDS = 24
LONGEST_CLAIM_SECONDS = 200.0


def sweep_until_idle(
    environment: SimEnvironment, first_wait_seconds: float = 61.0
) -> None:
    """Let faults stop, and sweep until nothing is due."""
    environment.faults.stopped = True
    still = 0
    for number in range(MAX_SWEEP_ROUNDS):
        before = dict(environment.store.bodies)
        due = _seconds_to_next_marker(environment)
        _advance_time(
            environment, first_wait_seconds if number < 2 or due is None else due
        )
        actor = Actor(environment, f"last{number}")
        actor.process.run(_sweep_and_decide(actor))
        environment.loop.run_until_idle()
        still = still + 1 if due is None and before == environment.store.bodies else 0
        if still == 1:
            # A clock that was off may have left a claim that lasts for longer.
            _advance_time(environment, LONGEST_CLAIM_SECONDS)
        elif still > 1:
            return


async def _sweep_and_decide(actor: Actor) -> None:
    await actor.perform("sweep", actor.runner.sweep)
    if actor.environment.decide_at_end:
        listed = [summary.id async for summary in actor.runner.waiting()]
        for wait_id in listed:
            await actors.decide_wait(
                actor, wait_id, actors.draw_decision(actor, wait_id)
            )
        if listed:
            await actor.perform("sweep", actor.runner.sweep)


def _advance_time(environment: SimEnvironment, seconds: float) -> None:
    environment.loop.call_later(seconds, lambda: None, context=NO_PROCESS)
    environment.loop.run_until_idle()


def _seconds_to_next_marker(environment: SimEnvironment) -> float | None:
    """Return how long until the next marker is due that is not yet due."""
    now = int((environment.loop.time()) * 1000) + EPOCH_MS
    dues = [int(key[8:21]) for key in environment.store.keys("markers/")]
    later = [due for due in dues if due > now]
    return (min(later) - now) / 1000 + 1 if later else None


EPOCH_MS = 1_893_456_000_000


# From the command line --------------------------------------------------------------


def main() -> int:
    """Run many schedules; returns 1 if one of them breaks a law."""
    options = _options()
    logging.disable()
    first, last = options.seeds
    tally: Counter[str] = Counter()
    if options.resume is not None and options.resume.exists():
        tally.update(json.loads(options.resume.read_text()))
        first = max(first, tally["next"])
    began = time.monotonic()
    chunks = [
        range(n, min(n + SEEDS_PER_JOB, last))
        for n in range(first, last, SEEDS_PER_JOB)
    ]
    look = partial(_check_seeds, law=options.law, fault_kinds=options.faults)
    with ProcessPoolExecutor(options.jobs) as pool:
        for chunk, (bad, happened) in zip(chunks, pool.map(look, chunks), strict=True):
            if bad is not None:
                pool.shutdown(cancel_futures=True)
                _print(f"seed {bad} breaks a law; made small:")
                _print(shrunk_text(run(bad, fault_kinds=options.faults), options.law))
                return 1
            tally.update(happened)
            tally["next"] = chunk.stop
            speed = (chunk.stop - first) / (time.monotonic() - began)
            _print(f"up to {chunk.stop} clean, {speed:.0f} schedules a second")
            if options.resume is not None:
                options.resume.write_text(json.dumps(tally))
    del tally["next"]
    counts = ", ".join(f"{what} {count:,}" for what, count in tally.items())
    _print(f"broken laws 0, {counts}")
    return 0


def _print(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def _check_seeds(
    seeds: range, law: str | None, fault_kinds: frozenset[str] | None
) -> tuple[int | None, Counter[str]]:
    """Return the first of some seeds that breaks a law, and what there was in all."""
    logging.disable()
    happened: Counter[str] = Counter()
    for seed in seeds:
        report = run(seed, fault_kinds=fault_kinds)
        if report.broken and (law is None or law in report.broken):
            return seed, happened
        happened.update(_count_events(report.environment))
    return None, happened


def _count_events(environment: SimEnvironment) -> Counter[str]:
    """Count what a search is worth by: without faults it would show little."""
    kinds = Counter(name.rpartition(" ")[2] for name in environment.faults.occurred)
    return Counter(
        {
            "schedules": 1,
            "effects": len(environment.effects),
            "crashes": sum(process.dead for process in environment.processes),
            "freezes": sum("freezes" in line for line in environment.log),
            "lost replies": sum(kinds[kind] for kind in LOST_REPLY_KINDS),
        }
    )


def _options() -> Any:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=_range, default=(0, 1000))
    parser.add_argument("--resume", type=Path)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--law", choices=sorted(LAWS))
    parser.add_argument("--faults", type=lambda text: frozenset(text.split(",")))
    return parser.parse_args()


def _range(text: str) -> tuple[int, int]:
    first, _, last = text.partition(":")
    return int(first), int(last or int(first) + 1)


SEEDS_PER_JOB = 250

if __name__ == "__main__":
    sys.exit(main())
