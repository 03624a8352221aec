"""Kill, or freeze, a process at every point of a story, and see how the run ends.

`python -m tests.torture.crash_points NAME [--max-trials 8] [--seed 1] [--only POINT]` prints one
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
from tests.torture import child_processes, violations
from tests.torture.agents import RUN
from tests.torture.process_actor import ProcessActor, start_other_run
from tests.torture.scenarios import BY_NAME, SCENARIOS, Scenario
from tests.torture.workspace import CrashPoint, SharedClock, Workspace

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from random import Random

Recovery = Literal["hand", "sweeps", "twice", "frozen"]
RECOVERIES: tuple[Recovery, ...] = ("hand", "sweeps", "twice", "frozen")
LEASE_EXPIRED_SECONDS = 61


@dataclass(frozen=True, slots=True)
class Trial:
    """A process that dies at a point of a step, and who comes after it."""

    step: int
    point: CrashPoint
    recovery: Recovery

    def __str__(self) -> str:
        return f"{self.step}/{self.point}/{self.recovery}"

    @classmethod
    def parse(cls, text: str) -> Trial:
        """Return the trial of its text."""
        step, point, fate = text.split("/")
        known: dict[str, Recovery] = {each: each for each in RECOVERIES}
        return cls(int(step), CrashPoint.parse(point), known[fate])


@dataclass(slots=True)
class Tally:
    """What came of the trials of a story."""

    name: str
    points: int = 0
    trials: int = 0
    killed: int = 0
    not_killed: int = 0
    frozen: int = 0
    passed: int = 0
    unknown: int = 0
    duplicate_effects: int = 0
    seconds: float = 0
    violations: list[str] = field(default_factory=list[str])


@dataclass(frozen=True)
class ScenarioTrials:
    """One story in a folder; `golden` are the places before each step, and the end."""

    scenario: Scenario
    folder: Path
    clock: SharedClock
    snapshots: list[Workspace] = field(default_factory=list[Workspace])
    trials: list[Trial] = field(default_factory=list[Trial])

    # The story as it goes when nothing happens ----------------------------------

    def record_scenario(self) -> None:
        """Do every step once, in a process each, and number what it does."""
        place = Workspace(self.folder / "0", self.clock)
        place.folder.mkdir(parents=True)
        self._run_in_child(place, start_other_run)
        for name in ("effects", "turns"):
            (place.folder / name).unlink(missing_ok=True)
        self.snapshots.append(place)
        for number, step in enumerate(self.scenario.steps):
            after = place.copy_to(self.folder / str(number + 1))
            self.clock.offset_seconds += step.seconds_later
            after.write_value("ahead", self.clock.offset_seconds)
            before = after.line_count()
            code = child_processes.run_in_child(
                self._step_function(after, number, step.crash_point)
            )
            assert code == (child_processes.KILLED if step.crash_point else 0), (
                number,
                code,
            )
            if step.crash_point is None:
                count = after.read_value("operations")
                self._add_trials(number, count, after.line_count() - before)
            else:
                self._run_in_child(after, violations.record_crash_state)
            place = after
            self.snapshots.append(place)
        self._run_in_child(place.copy_to(self.folder / "end"), self._check)
        found = Workspace(self.folder / "end", self.clock).read_value("wrongs")
        assert [] == found, found

    def _add_trials(self, step: int, operations: int, lines: int) -> None:
        for fate in RECOVERIES:
            for kind, count in (("operation", operations), ("line", lines)):
                if kind == "line" and fate == "frozen":
                    continue
                if fate == "frozen" and self.scenario.parallel:
                    # A tool that had begun beside it goes on when it wakes up.
                    continue
                self.trials.extend(
                    Trial(step, CrashPoint.parse(f"{moment} {kind} {number}"), fate)
                    for number in range(1, count + 1)
                    for moment in ("before", "after")
                )

    # Lives ------------------------------------------------------------------

    def _run_in_child(
        self, workspace: Workspace, work: Callable[[ProcessActor], None]
    ) -> None:
        code = child_processes.run_in_child(
            lambda: work(ProcessActor(self.scenario, workspace, workspace.enter()))
        )
        if code:
            workspace.write_value("wrongs", [f"a process came to {code}"])

    def _step_function(
        self,
        workspace: Workspace,
        number: int,
        crash_point: CrashPoint | None,
        *,
        freeze: bool = False,
    ) -> Callable[[], None]:
        def live() -> None:
            store = workspace.enter(crash_point, freeze=freeze)
            people = ProcessActor(self.scenario, workspace, store)
            try:
                people.perform(self.scenario.steps[number])
            except ContinuationsError as error:
                workspace.write_value("raised", type(error).__name__)
                if not freeze:
                    raise
            if isinstance(store, FaultyStore):
                workspace.write_value("operations", len(store.operations))

        return live

    def _recovery_function(
        self,
        workspace: Workspace,
        recovery: Recovery,
        crash_point: CrashPoint | None = None,
    ) -> Callable[[], None]:
        def live() -> None:
            violations.record_crash_state(
                ProcessActor(self.scenario, workspace, workspace.enter())
            )
            people = ProcessActor(
                self.scenario, workspace, workspace.enter(crash_point)
            )
            (people.sweep_to_end if recovery == "sweeps" else people.resume_to_end)()
            workspace.write_value("unknown", len(people.unknown_waits))

        return live

    def _check(self, actor: ProcessActor) -> None:
        golden = self.snapshots[-1]
        actor.workspace.write_value(
            "wrongs", list(violations.find_violations(actor, golden))
        )

    # Trials -----------------------------------------------------------------

    def run_trials(
        self, trials: Sequence[Trial], rng: Random, seconds: float | None = None
    ) -> Tally:
        """Go through some trials, or until the time is over."""
        tally, began = Tally(self.scenario.name), time.monotonic()
        points: set[tuple[int, CrashPoint]] = set()
        for trial in trials:
            if seconds is not None and time.monotonic() - began > seconds:
                break
            points.add((trial.step, trial.point))
            tally.trials += 1
            place = self.snapshots[trial.step].copy_to(self.folder / "trial")
            self.clock.offset_seconds = self.snapshots[trial.step + 1].read_value(
                "ahead"
            )
            wrong = self._run_trial(trial, place, rng, tally)
            tally.passed += not wrong
            tally.unknown += place.read_value("unknown", 0)
            tally.duplicate_effects += sum("double" in each for each in wrong)
            tally.violations += [
                f"{self.scenario.name}: {trial}: {each}" for each in wrong
            ]
            shutil.rmtree(place.folder)
        tally.points = len(points)
        return tally

    def _run_trial(
        self, trial: Trial, workspace: Workspace, rng: Random, tally: Tally
    ) -> list[str]:
        if trial.recovery == "frozen":
            wrong = list(self._run_frozen_trial(trial, workspace, tally))
        else:
            wrong = list(self._run_killed_trial(trial, workspace, rng, tally))
        if not wrong:
            self._run_in_child(workspace, self._check)
            wrong = workspace.read_value("wrongs")
        return wrong

    def _run_killed_trial(
        self, trial: Trial, workspace: Workspace, rng: Random, tally: Tally
    ) -> Iterator[str]:
        code = child_processes.run_in_child(
            self._step_function(workspace, trial.step, trial.point)
        )
        if code not in (0, child_processes.KILLED):
            yield f"it came to {code}"
        tally.killed += code == child_processes.KILLED
        # The calls of frames that run in parallel differ in number by a few.
        tally.not_killed += code == 0
        self.clock.offset_seconds += LEASE_EXPIRED_SECONDS
        if trial.recovery == "twice":
            again = CrashPoint("operation", rng.randint(1, 60), rng.choice(MOMENTS))
            code = child_processes.run_in_child(
                self._recovery_function(workspace, "hand", again)
            )
            tally.killed += code == child_processes.KILLED
            self.clock.offset_seconds += LEASE_EXPIRED_SECONDS
        code = child_processes.run_in_child(
            self._recovery_function(workspace, trial.recovery)
        )
        if code:
            yield f"who came after came to {code}"

    def _run_frozen_trial(
        self, trial: Trial, workspace: Workspace, tally: Tally
    ) -> Iterator[str]:
        """R-A5: frozen for longer than its claim, replaced, and woken up."""
        child = child_processes.fork(
            self._step_function(workspace, trial.step, trial.point, freeze=True),
        )
        froze = child_processes.wait_for_exit(child, or_stopped=True)
        if froze != child_processes.FROZEN:
            yield f"it was to freeze and came to {froze}"
            return
        tally.frozen += 1
        self.clock.offset_seconds += LEASE_EXPIRED_SECONDS
        code = child_processes.run_in_child(self._recovery_function(workspace, "hand"))
        if code:
            yield f"who came after came to {code}"
            child_processes.kill_child(child)
            return
        before = violations.digests(workspace, f"runs/{RUN}/v/"), workspace.line_count()
        woken = child_processes.continue_child(child)
        after = violations.digests(workspace, f"runs/{RUN}/v/"), workspace.line_count()
        if woken:
            yield f"it woke up and came to {woken}"
        if before[0] != after[0]:
            yield "it woke up and wrote a version"
        if before[1] != after[1]:
            yield "it woke up and called a tool or a model"


MOMENTS: tuple[Literal["before", "after"], ...] = ("before", "after")


def warm_up() -> None:
    """Import and make everything once, also the sync face's thread."""
    logging.disable(logging.CRITICAL)  # tools that raise are part of a story
    place = Workspace(Path(tempfile.mkdtemp()), SharedClock())
    place.enter()
    people = ProcessActor(BY_NAME["one approval"], place, MemoryStore())
    for step in people.scenario.steps:
        people.perform(step)
    shutil.rmtree(place.folder)


def sample_trials(
    trials: Sequence[Trial], max_trials: int | None, rng: Random
) -> list[Trial]:
    """Return all trials, or so many, of every fate."""
    if max_trials is None:
        return list(trials)
    by_fate = [[t for t in trials if t.recovery == fate] for fate in RECOVERIES]
    found: list[Trial] = []
    while len(found) < max_trials and any(by_fate):
        for each in by_fate:
            if each and len(found) < max_trials:
                found.append(each.pop(rng.randrange(len(each))))
    return found


def run_scenario_trials(name: str, options: argparse.Namespace) -> Tally:
    """Torture one story and return what came of it."""
    dice = random.Random(f"{options.seed} {name}")  # noqa: S311 - a seed is the point
    began = time.monotonic()
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        torture = ScenarioTrials(BY_NAME[name], Path(folder), SharedClock())
        torture.record_scenario()
        trials = sample_trials(torture.trials, options.max_trials, dice)
        if options.only:
            trials = [Trial.parse(options.only)]
        if options.seconds is not None:
            dice.shuffle(trials)
        tally = torture.run_trials(trials, dice, options.seconds)
    tally.seconds = time.monotonic() - began
    return tally


def main(arguments: Sequence[str] | None = None) -> None:
    """Torture the stories of the command line."""
    names = [story.name for story in SCENARIOS]
    parser = argparse.ArgumentParser(prog="python -m tests.torture.crash_points")
    parser.add_argument("names", nargs="*")
    parser.add_argument(
        "--max-trials", type=int, help="trials per scenario; default: all"
    )
    parser.add_argument("--seed", default="1")
    parser.add_argument("--seconds", type=float, help="the most for each story")
    parser.add_argument("--only", help="one trial: '1/after operation 7/hand'")
    parser.add_argument(
        "--folder", default=memory_folder(), help="where; default: in memory"
    )
    options = parser.parse_args(arguments)
    warm_up()
    for name in options.names or names:
        told: dict[str, Any] = asdict(run_scenario_trials(name, options))
        sys.stdout.write(json.dumps(told) + "\n")
        sys.stdout.flush()


def memory_folder() -> str | None:
    """Return a folder in memory: SIGKILL takes nothing from the page cache either."""
    return "/dev/shm" if Path("/dev/shm").is_dir() else None  # noqa: S108 - for tempfile


if __name__ == "__main__":
    main()
