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
from tests.simulation.laws import LAWS, broken_laws
from tests.simulation.loop import NOBODY
from tests.simulation.weather import KINDS, LOST, Weather
from tests.simulation.world import World

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Generator

    Story = Callable[[Actor], Coroutine[Any, Any, None]]

HORIZON = 240.0


@dataclass(frozen=True)
class Report:
    """What came of a schedule: the laws that it broke, each with a sentence."""

    seed: int
    broken: dict[str, str]
    summary: str
    parts: tuple[str, ...]
    log: tuple[str, ...]
    world: World
    faults: frozenset[str] | None


def run(
    seed: int,
    *,
    faults: frozenset[str] | None = None,
    without: frozenset[str] = frozenset(),
) -> Report:
    """Run one schedule.

    `faults` are the kinds of faults that may be (all of them if it is left out),
    `without` single faults and actors that are left out.
    """
    allowed = KINDS if faults is None else faults
    world = World(seed, Weather(seed, allowed, without))
    with _no_garbage_collected():
        cast = draw_cast(world, random.Random(f"{seed}/cast"))  # noqa: S311 - not for secrets
        world.loop.run_until_idle()
        settle(world)
        world.bury()
    trees = ", ".join(world.trees.values())
    return Report(
        seed=seed,
        broken=broken_laws(Evidence(world)),
        summary=f"seed {seed}: {trees}; {', '.join(cast)}; {world.weather.struck}",
        parts=(*cast[1:], *world.weather.struck),
        log=tuple(" ".join(map(str, line)) for line in world.log),
        world=world,
        faults=faults,
    )


@contextmanager
def _no_garbage_collected() -> Generator[None]:
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
    seed: int, faults: frozenset[str] | None = None, law: str | None = None
) -> Report:
    """Return the same broken schedule with as few faults and actors as can be.

    It breaks `law` still, or the first that was broken.
    """
    report = run(seed, faults=faults)
    if not report.broken:
        return report
    law = law or next(iter(report.broken))
    without: frozenset[str] = frozenset()
    tried: set[str] = set()
    while parts := [part for part in report.parts if part not in tried]:
        # From the end on: what comes late hangs on what came before.
        part = parts[-1]
        tried.add(part)
        smaller = run(seed, faults=faults, without=without | {part})
        if law in smaller.broken:
            without |= {part}
            report = smaller
    return report


def minimal(report: Report, law: str | None = None) -> str:
    """Return the shrunk schedule of a broken one as text, "" if none is broken."""
    if not report.broken:
        return ""
    small = shrink(report.seed, report.faults, law)
    broken = "\n".join(f"{law}: {what}" for law, what in small.broken.items())
    return "\n".join([broken, small.summary, *small.log, broken, small.summary])


# The cast ---------------------------------------------------------------------------


def draw_cast(world: World, dice: random.Random) -> list[str]:
    """Draw the trees and who comes, and let them begin; returns their names."""
    names = list(TREES)
    for number in range(1 + (dice.random() < 0.12)):
        world.trees[f"r{number}"] = names.pop(dice.randrange(len(names)))
    world.denials = dice.random() < 0.6
    world.settles = dice.random() < 0.7
    world.attempts = dice.choice((2, 5, 5))
    world.tells = dice.random() < 0.6
    world.hurry = dice.choice((0.1, 0.4, 1.0, 1.0))
    cast: list[tuple[str, Story]] = [("starter", actors.start)]
    cast += [(f"worker{n}", actors.resume) for n in range(dice.randint(1, 3))]
    cast += [(f"decider{n}", actors.decide) for n in range(dice.randint(1, 3))]
    cast += [(f"sweeper{n}", actors.sweep) for n in range(dice.randint(0, 2))]
    cast += [("canceller", actors.cancel)] * (dice.random() < 0.15)
    cast += [("sender", actors.send)] * (dice.random() < 0.2)
    came: list[str] = []
    for name, story in cast:
        fates = [dice.random() for _ in range(7)]
        if name in world.weather.without:
            continue
        came.append(name)
        actor = Actor(world, name)
        actor.process.live(story(actor))
        _doom(world, actor, fates)
    return came


def _doom(world: World, actor: Actor, fates: list[float]) -> None:
    """Kill or freeze a process at some moment, whatever it does then."""
    weather, process = world.weather, actor.process
    when = fates[1] * HORIZON / 2 * world.hurry
    if fates[0] < weather.has("strike") and weather.strikes(f"{actor.name}/at strike"):
        world.loop.call_later(when, process.crash, context=NOBODY)
    when = fates[3] * HORIZON / 2 * world.hurry
    if fates[2] < weather.has("stall") and weather.strikes(f"{actor.name}/at stall"):
        pause = 5 + fates[1] * 100
        world.loop.call_later(when, process.freeze, pause, context=NOBODY)
    when = fates[5] * HORIZON / 2 * world.hurry
    if fates[4] < weather.has("jump") and weather.strikes(f"{actor.name}/at jump"):
        world.loop.call_later(when, process.set_clock, fates[6], context=NOBODY)


def uninterrupted(tree: str) -> Evidence:
    """Let a tree's run happen with no faults, everybody saying yes."""
    world = World(0, Weather(0, frozenset(), frozenset()))
    world.trees["r0"] = tree
    world.denials, world.settles = False, True
    world.weather.quiet = True
    actor = Actor(world, "starter")
    actor.process.live(actors.start(actor))
    world.loop.run_until_idle()
    settle(world, patience=1.0)
    world.bury()
    return Evidence(world)


# The end ----------------------------------------------------------------------------

ROUNDS = 24
LONGEST = 200.0


def settle(world: World, patience: float = 61.0) -> None:
    """Let faults stop, and sweep until nothing is due."""
    world.weather.quiet = True
    still = 0
    for number in range(ROUNDS):
        before = dict(world.store.bodies)
        due = _seconds_to_next(world)
        _let_pass(world, patience if number < 2 or due is None else due)
        actor = Actor(world, f"last{number}")
        actor.process.live(_last(actor))
        world.loop.run_until_idle()
        still = still + 1 if due is None and before == world.store.bodies else 0
        if still == 1:
            # A clock that was off may have left a claim that lasts for longer.
            _let_pass(world, LONGEST)
        elif still > 1:
            return


async def _last(actor: Actor) -> None:
    await actor.do("sweep", actor.runner.sweep)
    if actor.world.settles:
        listed = [summary.id async for summary in actor.runner.waiting()]
        for wait_id in listed:
            await actors.decide_one(actor, wait_id, actors.verdict_of(actor, wait_id))
        if listed:
            await actor.do("sweep", actor.runner.sweep)


def _let_pass(world: World, seconds: float) -> None:
    world.loop.call_later(seconds, lambda: None, context=NOBODY)
    world.loop.run_until_idle()


def _seconds_to_next(world: World) -> float | None:
    """Return how long until the next marker is due that is not yet due."""
    now = int((world.loop.time()) * 1000) + EPOCH_MS
    dues = [int(key[8:21]) for key in world.store.keys("markers/")]
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
    chunks = [range(n, min(n + CHUNK, last)) for n in range(first, last, CHUNK)]
    look = partial(_look, law=options.law, faults=options.faults)
    with ProcessPoolExecutor(options.jobs) as pool:
        for chunk, (bad, happened) in zip(chunks, pool.map(look, chunks), strict=True):
            if bad is not None:
                pool.shutdown(cancel_futures=True)
                _print(f"seed {bad} breaks a law; made small:")
                _print(minimal(run(bad, faults=options.faults), options.law))
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


def _look(
    seeds: range, law: str | None, faults: frozenset[str] | None
) -> tuple[int | None, Counter[str]]:
    """Return the first of some seeds that breaks a law, and what there was in all."""
    logging.disable()
    happened: Counter[str] = Counter()
    for seed in seeds:
        report = run(seed, faults=faults)
        if report.broken and (law is None or law in report.broken):
            return seed, happened
        happened.update(_happened(report.world))
    return None, happened


def _happened(world: World) -> Counter[str]:
    """Count what a search is worth by: without faults it would show little."""
    kinds = Counter(name.rpartition(" ")[2] for name in world.weather.struck)
    return Counter(
        {
            "schedules": 1,
            "effects": len(world.effects),
            "crashes": sum(process.dead for process in world.processes),
            "freezes": sum("freezes" in line for line in world.log),
            "lost replies": sum(kinds[kind] for kind in LOST),
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


CHUNK = 250

if __name__ == "__main__":
    sys.exit(main())
