"""Races in the open: real processes on files, at one moment, with dice.

`python -m tests.torture.races [NAME] --rounds 20 [--seed 1]` prints a line of JSON for
each kind. Which of the racers wins is left to the machine; what may come of it is not.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from continuations import Approve, Deny
from continuations.ledger.layout import parse_wait_id
from tests.torture import forks, proofs
from tests.torture.gate import race, told_of
from tests.torture.people import MOST, People
from tests.torture.places import Place, SharedClock
from tests.torture.points import LEASE_IS_OVER, Tally, Torture, memory, warmed
from tests.torture.stories import BY_NAME, Story
from tests.torture.tree import RUN

if TYPE_CHECKING:
    from collections.abc import Sequence
    from random import Random

    from continuations import Outcome
    from tests.torture.gate import Act

TAKEN = {"Finished", "Suspended"}
MOVED = {"Finished", "Suspended", "Failed", "RunBusy", "StaleRun"}


@dataclass(frozen=True)
class Round:
    """One race: a place in which a story stands, and dice."""

    story: Story
    place: Place
    golden: Place
    dice: Random

    def race(
        self, acts: Sequence[Act], opens: Callable[[], None] = lambda: None
    ) -> list[str]:
        """Have some processes act at once, in an order that the dice say."""
        order = list(range(len(acts)))
        self.dice.shuffle(order)
        told = race(self.story, self.place, [acts[k] for k in order], opens)
        by_act = dict(zip(order, told, strict=True))
        return [by_act[k] for k in range(len(acts))]

    def alone(self, work: Callable[[People], None]) -> None:
        """Do something in one more process."""
        code = forks.done(
            lambda: work(People(self.story, self.place, self.place.entered()))
        )
        if code:
            self.place.keep("wrongs", [f"a process came to {code}"])

    def proved(self, story: Story) -> Iterator[str]:
        """Bring the run to its end and say what is not as it must be."""

        def work(people: People) -> None:
            people.by_hand()
            people.story = story
            self.place.keep("wrongs", list(proofs.wrongs(people, self.golden)))

        self.alone(work)
        yield from self.place.kept("wrongs")


# What a racer does ------------------------------------------------------------------


def resumes(people: People) -> str:
    """Resume the run once."""
    return kind_of(people.move("resume"))


def starts(text: str) -> Act:
    """Start a run with this id."""
    return lambda people: kind_of(people.worker().start(text, run_id=RUN))


def sweeps(people: People) -> str:
    """Sweep once."""
    swept = people.worker().sweep()
    return f"swept, failed: {sorted(map(repr, swept.failed.values()))}"


def cancels(people: People) -> str:
    """Cancel the run."""
    return people.person().cancel(RUN, by="kim").status


def decides(wait_id: str, number: int, *, then_resume: bool = False) -> Act:
    """Decide a wait: even numbers say yes, odd ones no."""

    def act(people: People) -> str:
        verdict = (Deny if number % 2 else Approve)(by=f"kim{number}")
        found = people.person().decide(wait_id, verdict)
        if then_resume:
            return resumes(people)
        return f"decided {found.kind} {found.by}"

    return act


def kind_of(outcome: Outcome) -> str:
    """Return the kind of an outcome."""
    return type(outcome).__name__


def wait_ids(place: Place) -> list[str]:
    """Return the ids of the open waits of our run."""
    keys = place.world.keys("waits/")
    return [key.removeprefix("waits/") for key in keys if key.endswith(f"@{RUN}")]


def unknown_words(told: Sequence[str], known: set[str]) -> Iterator[str]:
    """Say which racers were told nonsense."""
    yield from (f"a racer was told {each}" for each in told if each not in known)


# The kinds of races --------------------------------------------------------------


def four_resumers(here: Round) -> Iterator[str]:
    """R-A12, X-05, PA-12: a decided run, resumed by four."""
    told = here.race([resumes] * 4)
    yield from unknown_words(told, MOVED)
    yield from here.proved(here.story)


def sweep_against_resume(here: Round) -> Iterator[str]:
    """R-A12, X-14: sweepers and resumers find the same decision."""
    told = here.race([sweeps, resumes] * 3)
    yield from unknown_words(told, MOVED | {"swept, failed: []"})
    yield from here.proved(here.story)


def fifty_deciders(here: Round) -> Iterator[str]:
    """R-A1, R-A2, EF-20: one decision stands, 49 are told which."""
    [wait_id] = wait_ids(here.place)
    told = here.race([decides(wait_id, number) for number in range(50)])
    yield from one_decision(here, told)
    approved = any(each.startswith("decided approve") for each in told)
    effects = here.story.effects if approved else here.story.effects[:1]
    yield from here.proved(replace(here.story, effects=effects, varies=True))


def one_decision(here: Round, told: Sequence[str]) -> Iterator[str]:
    """Say whether other than one decision is recorded, and told to everyone."""
    winners = [each for each in told if each.startswith("decided")]
    stored = here.place.world.keys(f"runs/{RUN}/in/d-")
    if len(winners) > 1 or len(stored) != 1:
        yield f"{len(stored)} decisions stand, {winners} were told that theirs does"
    losers = {each for each in told if each.startswith("AlreadyDecided")}
    stands = {f"AlreadyDecided {each.removeprefix('decided ')}" for each in winners}
    if not losers <= stands:
        yield f"losers were told {losers}, but {winners} won"


def webhooks(here: Round) -> Iterator[str]:
    """X-05, R-A3: five answers at once, each resumes, and none is slept on."""
    found = wait_ids(here.place)
    told = here.race([decides(wait, 0, then_resume=True) for wait in found])
    yield from unknown_words(told, MOVED)
    versions = len(here.place.world.keys(f"runs/{RUN}/v/"))
    yield from here.proved(replace(here.story, varies=True))
    if versions != len(here.place.world.keys(f"runs/{RUN}/v/")):
        yield "an answer was slept on: a further resume had work to do"


def starts_with_two_inputs(here: Round) -> Iterator[str]:
    """EF-21, R-A12: one input stands, the others are told; sweepers are about."""
    told = here.race([starts("go")] * 4 + [starts("A")] * 4 + [sweeps] * 2)
    yield from unknown_words(told, MOVED | {"RunExists", "swept, failed: []"})
    for mine, theirs in ((told[:4], told[4:8]), (told[4:8], told[:4])):
        if "RunExists" in mine and "RunExists" in theirs:
            yield f"both inputs were refused: {told}"
        if TAKEN & set(mine) and TAKEN & set(theirs):
            yield f"both inputs were taken: {told}"
    won = "go" if TAKEN & set(told[:4]) else "A"
    effects = here.story.effects if won == "go" else ("act 1",)
    story = replace(here.story, effects=effects)
    yield from ended(here, won, story)


def ended(here: Round, text: str, story: Story) -> Iterator[str]:
    """Bring a run with this input to its end."""

    def work(people: People) -> None:
        for _ in range(MOST):
            outcome = people.worker().start(text, run_id=RUN)
            if kind_of(outcome) != "Suspended":
                break
            people.settle(list(outcome.continuation.waits))
        state = people.person().look(RUN)
        done = sorted(people.place.world.done())
        fine = (state.status, done) == ("finished", sorted(story.effects))
        here.place.keep("wrongs", [] if fine else [f"{state.status}, {done}"])

    here.alone(work)
    yield from here.place.kept("wrongs")


def cancel_decide_expiry(here: Round) -> Iterator[str]:
    """R-F4, R-F6, X-13: a deadline passes while people decide and cancel."""
    [wait_id] = wait_ids(here.place)
    acts: list[Act] = [decides(wait_id, number) for number in range(4)]
    cancelling = here.dice.random() < 0.5
    acts += [cancels] if cancelling else []
    acts += [resumes, sweeps, resumes]
    # The deadline is an hour after the wait was opened; the gate opens just before.
    early = here.dice.uniform(0.0, 0.03)
    deadline = parse_wait_id(wait_id).opened / 1000 + 3600

    def opens() -> None:
        here.place.clock.ahead = deadline - early - time.time()

    told = here.race(acts, opens)
    here.place.clock.ahead += 1
    words = {*MOVED, "swept, failed: []", "WaitExpired", "Cancelled"}
    words |= {"running", "suspended", "finished", "failed", "cancelled"}
    sure = [each for each in told if not each.startswith(("decided", "AlreadyDecided"))]
    yield from unknown_words(sure, words)
    yield from ends_as_decided(here, told, cancelling=cancelling)


def ends_as_decided(
    here: Round, told: Sequence[str], *, cancelling: bool
) -> Iterator[str]:
    """Say whether the run ended in another way than the decision that stands."""

    def look(people: People) -> None:
        people.by_hand()
        state = people.person().look(RUN)
        here.place.keep("status", state.status)

    here.alone(look)
    yield from one_decision(here, told)
    status = here.place.kept("status")
    approved = any("decided approve" in each.lower() for each in told)
    rushed = "rush 1" in here.place.world.done()
    if rushed and not approved:
        yield f"it ran without an approval: {told}"
    if status == "finished" and approved and not rushed:
        yield f"it was approved and did not run: {told}"
    if status == "cancelled" and not cancelling:
        yield "it was cancelled by nobody"
    effects: tuple[str, ...] = ("rush 1", "act 2") if rushed else ("act 2",)
    if status == "failed":
        effects = ()
    yield from here.proved(
        replace(here.story, ends=status, effects=effects, varies=True)
    )


def frozen_at_any_time(here: Round) -> Iterator[str]:
    """R-A5, X-14: frozen for longer than its claim, wherever it was, and woken up.

    Not promised: it may have been between its last look at the clock and a call.
    That call has an older fence than the one that came after, and is refused by it.
    """

    def live() -> None:
        people = People(here.story, here.place, here.place.entered())
        here.place.keep("told", told_of(resumes, people))

    def after(people: People) -> None:
        proofs.remember(people)
        people.by_hand()

    child = forks.fork(live)
    time.sleep(here.dice.uniform(0.0, 0.04))
    os.kill(child, signal.SIGSTOP)
    if forks.came_to(child, or_froze=True) != forks.FROZEN:
        yield from here.proved(here.story)
        return
    here.place.clock.ahead += LEASE_IS_OVER
    here.alone(after)
    versions, lines = proofs.digests(here.place, f"runs/{RUN}/v/"), here.place.lines()
    forks.wake(child)
    if versions != proofs.digests(here.place, f"runs/{RUN}/v/"):
        yield "it woke up and wrote a version"
    if here.place.lines() > lines + 1:
        yield "it woke up and began a call"
    if here.place.lines() == lines:
        yield from here.proved(here.story)


Kind: TypeAlias = Callable[[Round], Iterator[str]]
# Each with the story that it is played in, and how many steps of it were done before.
RACES: dict[str, tuple[Kind, str, int]] = {
    "4 resumers": (four_resumers, "one approval", 2),
    "sweep against resume": (sweep_against_resume, "two turns", 2),
    "50 deciders": (fifty_deciders, "one approval", 1),
    "5 webhooks": (webhooks, "five waits", 1),
    "start against start": (starts_with_two_inputs, "two inputs", 0),
    "cancel, decide, expiry": (cancel_decide_expiry, "expiry", 1),
    "frozen at any time": (frozen_at_any_time, "two turns", 2),
}
TWO_INPUTS = replace(
    BY_NAME["one approval"],
    name="two inputs",
    script={**BY_NAME["one approval"].script, "A": [[["act", {"what": "1"}]], "A end"]},
)


def raced(name: str, rounds: int, seed: str, seconds: float | None = None) -> Tally:
    """Go through some rounds of one kind, or until the time is over."""
    kind, story_name, steps = RACES[name]
    story = TWO_INPUTS if story_name == TWO_INPUTS.name else BY_NAME[story_name]
    dice = random.Random(f"{seed} {name}")  # noqa: S311 - a seed is the point
    tally, began = Tally(f"race: {name}"), time.monotonic()
    with tempfile.TemporaryDirectory(dir=memory()) as folder:
        torture = Torture(story, Path(folder), SharedClock())
        torture.tell()
        for number in range(rounds):
            if seconds is not None and time.monotonic() - began > seconds:
                break
            place = torture.golden[steps].copied(Path(folder) / "round")
            torture.clock.ahead = place.kept("ahead", 0.0)
            here = Round(story, place, torture.golden[-1], dice)
            here.alone(proofs.remember)
            wrong = list(kind(here))
            tally.trials += 1
            tally.ended += not wrong
            tally.doubles += sum("double" in each for each in wrong)
            tally.wrong += [f"{tally.name}, round {number}: {each}" for each in wrong]
            shutil.rmtree(place.folder)
    tally.points, tally.seconds = tally.trials, time.monotonic() - began
    return tally


def main(words: Sequence[str] | None = None) -> None:
    """Race as the command line says."""
    parser = argparse.ArgumentParser(prog="python -m tests.torture.races")
    parser.add_argument("names", nargs="*")
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--seed", default="1")
    parser.add_argument("--seconds", type=float, help="the most for each kind")
    options = parser.parse_args(words)
    warmed()
    for name in options.names or RACES:
        told = asdict(raced(name, options.rounds, options.seed, options.seconds))
        sys.stdout.write(json.dumps(told) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
