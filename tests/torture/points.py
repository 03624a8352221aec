"""Kill, or freeze, a process at every point of a story, and see how the run ends.

`python -m tests.torture.points NAME [--share 8] [--seed 1] [--only POINT]` prints one
line of JSON for each story. Every life is a forked child on a copy of the store as it
stood before its step; who comes after is another child, which knows nothing of it.
"""

from __future__ import annotations

import argparse
import json
import logging
import random
import shutil
import sys
import tempfile
import time
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from continuations import ContinuationsError
from continuations_storage import MemoryStore
from continuations_storage.faults import FaultyStore
from tests.torture import forks, proofs
from tests.torture.people import People, bystander
from tests.torture.places import Place, Point, SharedClock
from tests.torture.stories import BY_NAME, STORIES, Story
from tests.torture.tree import RUN

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from random import Random

Fate = Literal["hand", "sweeps", "twice", "frozen"]
FATES: tuple[Fate, ...] = ("hand", "sweeps", "twice", "frozen")
LEASE_IS_OVER = 61


@dataclass(frozen=True, slots=True)
class Trial:
    """A process that dies at a point of a step, and who comes after it."""

    step: int
    point: Point
    fate: Fate

    def __str__(self) -> str:
        return f"{self.step}/{self.point}/{self.fate}"

    @classmethod
    def of(cls, text: str) -> Trial:
        """Return the trial of its text."""
        step, point, fate = text.split("/")
        known: dict[str, Fate] = {each: each for each in FATES}
        return cls(int(step), Point.of(point), known[fate])


@dataclass(slots=True)
class Tally:
    """What came of the trials of a story."""

    name: str
    points: int = 0
    trials: int = 0
    killed: int = 0
    missed: int = 0
    frozen: int = 0
    ended: int = 0
    unknown: int = 0
    doubles: int = 0
    seconds: float = 0
    wrong: list[str] = field(default_factory=list[str])


@dataclass(frozen=True)
class Torture:
    """One story in a folder; `golden` are the places before each step, and the end."""

    story: Story
    folder: Path
    clock: SharedClock
    golden: list[Place] = field(default_factory=list[Place])
    trials: list[Trial] = field(default_factory=list[Trial])

    # The story as it goes when nothing happens ----------------------------------

    def tell(self) -> None:
        """Do every step once, in a process each, and number what it does."""
        place = Place(self.folder / "0", self.clock)
        place.folder.mkdir(parents=True)
        self._alone(place, bystander)
        for name in ("effects", "turns"):
            (place.folder / name).unlink(missing_ok=True)
        self.golden.append(place)
        for number, step in enumerate(self.story.steps):
            after = place.copied(self.folder / str(number + 1))
            self.clock.ahead += step.later
            after.keep("ahead", self.clock.ahead)
            before = after.lines()
            code = forks.done(self._step(after, number, step.dies))
            assert code == (forks.KILLED if step.dies else 0), (number, code)
            if step.dies is None:
                count = after.kept("operations")
                self._numbered(number, count, after.lines() - before)
            else:
                self._alone(after, proofs.remember)
            place = after
            self.golden.append(place)
        self._alone(place.copied(self.folder / "end"), self._proof)
        found = Place(self.folder / "end", self.clock).kept("wrongs")
        assert [] == found, found

    def _numbered(self, step: int, operations: int, lines: int) -> None:
        for fate in FATES:
            for kind, count in (("operation", operations), ("line", lines)):
                if kind == "line" and fate == "frozen":
                    continue
                if fate == "frozen" and self.story.parallel:
                    # A tool that had begun beside it goes on when it wakes up.
                    continue
                self.trials.extend(
                    Trial(step, Point.of(f"{moment} {kind} {number}"), fate)
                    for number in range(1, count + 1)
                    for moment in ("before", "after")
                )

    # Lives ------------------------------------------------------------------

    def _alone(self, place: Place, work: Callable[[People], None]) -> None:
        code = forks.done(lambda: work(People(self.story, place, place.entered())))
        if code:
            place.keep("wrongs", [f"a process came to {code}"])

    def _step(
        self, place: Place, number: int, dies: Point | None, *, freezes: bool = False
    ) -> Callable[[], None]:
        def live() -> None:
            store = place.entered(dies, freezes=freezes)
            people = People(self.story, place, store)
            try:
                people.do(self.story.steps[number])
            except ContinuationsError as error:
                place.keep("raised", type(error).__name__)
                if not freezes:
                    raise
            if isinstance(store, FaultyStore):
                place.keep("operations", len(store.operations))

        return live

    def _after(
        self, place: Place, fate: Fate, dies: Point | None = None
    ) -> Callable[[], None]:
        def live() -> None:
            proofs.remember(People(self.story, place, place.entered()))
            people = People(self.story, place, place.entered(dies))
            (people.by_sweeps if fate == "sweeps" else people.by_hand)()
            place.keep("unknown", len(people.unknown))

        return live

    def _proof(self, people: People) -> None:
        golden = self.golden[-1]
        people.place.keep("wrongs", list(proofs.wrongs(people, golden)))

    # Trials -----------------------------------------------------------------

    def run(
        self, trials: Sequence[Trial], dice: Random, seconds: float | None = None
    ) -> Tally:
        """Go through some trials, or until the time is over."""
        tally, began = Tally(self.story.name), time.monotonic()
        points: set[tuple[int, Point]] = set()
        for trial in trials:
            if seconds is not None and time.monotonic() - began > seconds:
                break
            points.add((trial.step, trial.point))
            tally.trials += 1
            place = self.golden[trial.step].copied(self.folder / "trial")
            self.clock.ahead = self.golden[trial.step + 1].kept("ahead")
            wrong = self._tried(trial, place, dice, tally)
            tally.ended += not wrong
            tally.unknown += place.kept("unknown", 0)
            tally.doubles += sum("double" in each for each in wrong)
            tally.wrong += [f"{self.story.name}: {trial}: {each}" for each in wrong]
            shutil.rmtree(place.folder)
        tally.points = len(points)
        return tally

    def _tried(
        self, trial: Trial, place: Place, dice: Random, tally: Tally
    ) -> list[str]:
        if trial.fate == "frozen":
            wrong = list(self._frozen(trial, place, tally))
        else:
            wrong = list(self._killed(trial, place, dice, tally))
        if not wrong:
            self._alone(place, self._proof)
            wrong = place.kept("wrongs")
        return wrong

    def _killed(
        self, trial: Trial, place: Place, dice: Random, tally: Tally
    ) -> Iterator[str]:
        code = forks.done(self._step(place, trial.step, trial.point))
        if code not in (0, forks.KILLED):
            yield f"it came to {code}"
        tally.killed += code == forks.KILLED
        # The calls of frames that run in parallel differ in number by a few.
        tally.missed += code == 0
        self.clock.ahead += LEASE_IS_OVER
        if trial.fate == "twice":
            again = Point("operation", dice.randint(1, 60), dice.choice(MOMENTS))
            code = forks.done(self._after(place, "hand", again))
            tally.killed += code == forks.KILLED
            self.clock.ahead += LEASE_IS_OVER
        code = forks.done(self._after(place, trial.fate))
        if code:
            yield f"who came after came to {code}"

    def _frozen(self, trial: Trial, place: Place, tally: Tally) -> Iterator[str]:
        """R-A5: frozen for longer than its claim, replaced, and woken up."""
        child = forks.fork(
            self._step(place, trial.step, trial.point, freezes=True),
        )
        froze = forks.came_to(child, or_froze=True)
        if froze != forks.FROZEN:
            yield f"it was to freeze and came to {froze}"
            return
        tally.frozen += 1
        self.clock.ahead += LEASE_IS_OVER
        code = forks.done(self._after(place, "hand"))
        if code:
            yield f"who came after came to {code}"
            forks.end(child)
            return
        before = proofs.digests(place, f"runs/{RUN}/v/"), place.lines()
        woken = forks.wake(child)
        after = proofs.digests(place, f"runs/{RUN}/v/"), place.lines()
        if woken:
            yield f"it woke up and came to {woken}"
        if before[0] != after[0]:
            yield "it woke up and wrote a version"
        if before[1] != after[1]:
            yield "it woke up and called a tool or a model"


MOMENTS: tuple[Literal["before", "after"], ...] = ("before", "after")


def warmed() -> None:
    """Import and make everything once, also the sync face's thread."""
    logging.disable(logging.CRITICAL)  # tools that raise are part of a story
    place = Place(Path(tempfile.mkdtemp()), SharedClock())
    place.entered()
    people = People(BY_NAME["one approval"], place, MemoryStore())
    for step in people.story.steps:
        people.do(step)
    shutil.rmtree(place.folder)


def chosen(trials: Sequence[Trial], share: int | None, dice: Random) -> list[Trial]:
    """Return all trials, or so many, of every fate."""
    if share is None:
        return list(trials)
    by_fate = [[t for t in trials if t.fate == fate] for fate in FATES]
    found: list[Trial] = []
    while len(found) < share and any(by_fate):
        for each in by_fate:
            if each and len(found) < share:
                found.append(each.pop(dice.randrange(len(each))))
    return found


def tortured(name: str, options: argparse.Namespace) -> Tally:
    """Torture one story and return what came of it."""
    dice = random.Random(f"{options.seed} {name}")  # noqa: S311 - a seed is the point
    began = time.monotonic()
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        torture = Torture(BY_NAME[name], Path(folder), SharedClock())
        torture.tell()
        trials = chosen(torture.trials, options.share, dice)
        if options.only:
            trials = [Trial.of(options.only)]
        if options.seconds is not None:
            dice.shuffle(trials)
        tally = torture.run(trials, dice, options.seconds)
    tally.seconds = time.monotonic() - began
    return tally


def main(words: Sequence[str] | None = None) -> None:
    """Torture the stories of the command line."""
    names = [story.name for story in STORIES]
    parser = argparse.ArgumentParser(prog="python -m tests.torture.points")
    parser.add_argument("names", nargs="*")
    parser.add_argument("--share", type=int, help="so many trials, not all")
    parser.add_argument("--seed", default="1")
    parser.add_argument("--seconds", type=float, help="the most for each story")
    parser.add_argument("--only", help="one trial: '1/after operation 7/hand'")
    parser.add_argument("--folder", default=memory(), help="where; default: in memory")
    options = parser.parse_args(words)
    warmed()
    for name in options.names or names:
        told: dict[str, Any] = asdict(tortured(name, options))
        sys.stdout.write(json.dumps(told) + "\n")
        sys.stdout.flush()


def memory() -> str | None:
    """Return a folder in memory: SIGKILL takes nothing from the page cache either."""
    return "/dev/shm" if Path("/dev/shm").is_dir() else None  # noqa: S108 - for tempfile


if __name__ == "__main__":
    main()
