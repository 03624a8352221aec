"""Kill or freeze a process at every point of a scenario, and check how the run ends.

    python -m tests.torture.crash_points [NAME ...] [--max-trials 8] [--only TRIAL]

prints a line of JSON for each scenario. Every process is a forked child. It works on a
copy of the store as it was before its step, and a new child recovers the run.
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
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from random import Random
from typing import Any, Literal

from continuations import ContinuationsError
from continuations_storage import MemoryStore
from continuations_storage.faults import FaultyStore
from tests.torture import child_processes, violations
from tests.torture.agents import RUN
from tests.torture.process_actor import ProcessActor, start_other_run
from tests.torture.scenarios import BY_NAME, SCENARIOS, Scenario
from tests.torture.workspace import CrashPoint, SharedClock, Workspace

# The recovery after a crash.
# With `resume` another process resumes the run; with `sweeps` only sweeps run.
# With `crash-again` the recovering process crashes too, and a third one resumes.
# With `frozen` the first process only freezes, and wakes after another one resumed.
Recovery = Literal["resume", "sweeps", "crash-again", "frozen"]
RECOVERIES: tuple[Recovery, ...] = ("resume", "sweeps", "crash-again", "frozen")
LEASE_EXPIRED_SECONDS = 61


@dataclass(frozen=True, slots=True)
class Trial:
    """A process that dies at a point of a step, and the recovery after it."""

    step: int
    point: CrashPoint
    recovery: Recovery

    def __str__(self) -> str:
        return f"{self.step}/{self.point}/{self.recovery}"

    @classmethod
    def parse(cls, text: str) -> Trial:
        """Return the trial that a text names, as `1/after operation 7/resume` does."""
        step, point, recovery = text.split("/")
        known: dict[str, Recovery] = {each: each for each in RECOVERIES}
        return cls(int(step), CrashPoint.parse(point), known[recovery])


@dataclass(slots=True)
class Tally:
    """The results of the trials of a scenario.

    Attributes:
        points: How many crash points were tried.
        trials: How many trials ran.
        killed: How many processes were killed.
        not_killed: How many ended before their crash point.
        frozen: How many were frozen.
        passed: How many trials had no violation.
        unknown: How many unknown outcomes were decided.
        duplicate_effects: How many effects happened twice.
        violations: The violations of all trials.
    """

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
    """A scenario in a folder, its snapshots before each step and at the end."""

    scenario: Scenario
    folder: Path
    clock: SharedClock
    snapshots: list[Workspace] = field(default_factory=list[Workspace])
    trials: list[Trial] = field(default_factory=list[Trial])

    # The scenario without a crash -------------------------------------------------

    def record_scenario(self) -> None:
        """Run every step once, each in a process, and number its crash points."""
        workspace = Workspace(self.folder / "0", self.clock)
        workspace.folder.mkdir(parents=True)
        self._run_in_child(workspace, start_other_run)
        for name in ("effects", "turns"):
            (workspace.folder / name).unlink(missing_ok=True)
        self.snapshots.append(workspace)
        for number, step in enumerate(self.scenario.steps):
            after = workspace.copy_to(self.folder / str(number + 1))
            self.clock.offset_seconds += step.seconds_later
            after.write_value("clock offset", self.clock.offset_seconds)
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
            workspace = after
            self.snapshots.append(workspace)
        self._run_in_child(workspace.copy_to(self.folder / "end"), self._check)
        violations_found = Workspace(self.folder / "end", self.clock).violations()
        assert [] == violations_found, violations_found

    def _add_trials(self, step: int, operations: int, lines: int) -> None:
        for recovery in RECOVERIES:
            for kind, count in (("operation", operations), ("line", lines)):
                if kind == "line" and recovery == "frozen":
                    continue
                if recovery == "frozen" and self.scenario.parallel:
                    # A parallel tool that had begun continues when the process wakes.
                    continue
                self.trials.extend(
                    Trial(step, CrashPoint.parse(f"{moment} {kind} {number}"), recovery)
                    for number in range(1, count + 1)
                    for moment in ("before", "after")
                )

    # Processes ----------------------------------------------------------------

    def _run_in_child(
        self, workspace: Workspace, work: Callable[[ProcessActor], None]
    ) -> None:
        code = child_processes.run_in_child(
            lambda: work(ProcessActor(self.scenario, workspace, workspace.enter()))
        )
        if code:
            workspace.store_violations([f"a process exited with {code}"])

    def _step_function(
        self,
        workspace: Workspace,
        number: int,
        crash_point: CrashPoint | None,
        *,
        freeze: bool = False,
    ) -> Callable[[], None]:
        def run_step() -> None:
            store = workspace.enter(crash_point, freeze=freeze)
            actor = ProcessActor(self.scenario, workspace, store)
            try:
                actor.perform(self.scenario.steps[number])
            except ContinuationsError as error:
                workspace.write_value("raised", type(error).__name__)
                if not freeze:
                    raise
            if isinstance(store, FaultyStore):
                workspace.write_value("operations", len(store.operations))

        return run_step

    def _recovery_function(
        self,
        workspace: Workspace,
        recovery: Recovery,
        crash_point: CrashPoint | None = None,
    ) -> Callable[[], None]:
        def recover() -> None:
            violations.record_crash_state(
                ProcessActor(self.scenario, workspace, workspace.enter())
            )
            actor = ProcessActor(self.scenario, workspace, workspace.enter(crash_point))
            (actor.sweep_to_end if recovery == "sweeps" else actor.resume_to_end)()
            workspace.write_value("unknown", len(actor.unknown_waits))

        return recover

    def _check(self, actor: ProcessActor) -> None:
        end = self.snapshots[-1]
        actor.workspace.store_violations(violations.find_violations(actor, end))

    # Trials -----------------------------------------------------------------

    def run_trials(
        self, trials: Sequence[Trial], rng: Random, seconds: float | None = None
    ) -> Tally:
        """Run some trials, for at most some seconds."""
        tally, began = Tally(self.scenario.name), time.monotonic()
        points: set[tuple[int, CrashPoint]] = set()
        for trial in trials:
            if seconds is not None and time.monotonic() - began > seconds:
                break
            points.add((trial.step, trial.point))
            tally.trials += 1
            workspace = self.snapshots[trial.step].copy_to(self.folder / "trial")
            self.clock.offset_seconds = self.snapshots[trial.step + 1].read_value(
                "clock offset"
            )
            problems = self._run_trial(trial, workspace, rng, tally)
            tally.passed += not problems
            tally.unknown += workspace.read_value("unknown", 0)
            tally.duplicate_effects += sum("duplicate" in each for each in problems)
            tally.violations += [
                f"{self.scenario.name}: {trial}: {each}" for each in problems
            ]
            shutil.rmtree(workspace.folder)
        tally.points = len(points)
        return tally

    def _run_trial(
        self, trial: Trial, workspace: Workspace, rng: Random, tally: Tally
    ) -> list[str]:
        if trial.recovery == "frozen":
            problems = list(self._run_frozen_trial(trial, workspace, tally))
        else:
            problems = list(self._run_killed_trial(trial, workspace, rng, tally))
        if not problems:
            self._run_in_child(workspace, self._check)
            problems = workspace.violations()
        return problems

    def _run_killed_trial(
        self, trial: Trial, workspace: Workspace, rng: Random, tally: Tally
    ) -> Iterator[str]:
        code = child_processes.run_in_child(
            self._step_function(workspace, trial.step, trial.point)
        )
        if code not in (0, child_processes.KILLED):
            yield f"the process exited with {code}"
        tally.killed += code == child_processes.KILLED
        # Parallel frames differ in the number of their calls from run to run.
        tally.not_killed += code == 0
        self.clock.offset_seconds += LEASE_EXPIRED_SECONDS
        if trial.recovery == "crash-again":
            again = CrashPoint("operation", rng.randint(1, 60), rng.choice(MOMENTS))
            code = child_processes.run_in_child(
                self._recovery_function(workspace, "resume", again)
            )
            tally.killed += code == child_processes.KILLED
            self.clock.offset_seconds += LEASE_EXPIRED_SECONDS
        code = child_processes.run_in_child(
            self._recovery_function(workspace, trial.recovery)
        )
        if code:
            yield f"the recovering process exited with {code}"

    def _run_frozen_trial(
        self, trial: Trial, workspace: Workspace, tally: Tally
    ) -> Iterator[str]:
        """Freeze a process for longer than its claim, replace it, and wake it."""
        child = child_processes.fork(
            self._step_function(workspace, trial.step, trial.point, freeze=True),
        )
        state = child_processes.wait_for_exit(child, or_stopped=True)
        if state != child_processes.FROZEN:
            yield f"the process exited with {state} instead of freezing"
            return
        tally.frozen += 1
        self.clock.offset_seconds += LEASE_EXPIRED_SECONDS
        code = child_processes.run_in_child(
            self._recovery_function(workspace, "resume")
        )
        if code:
            yield f"the recovering process exited with {code}"
            child_processes.kill_child(child)
            return
        before = violations.digests(workspace, f"runs/{RUN}/v/"), workspace.line_count()
        code = child_processes.continue_child(child)
        after = violations.digests(workspace, f"runs/{RUN}/v/"), workspace.line_count()
        if code:
            yield f"the process woke and exited with {code}"
        if before[0] != after[0]:
            yield "the process woke and wrote a version"
        if before[1] != after[1]:
            yield "the process woke and called a tool or a model"


MOMENTS: tuple[Literal["before", "after"], ...] = ("before", "after")


def warm_up() -> None:
    """Import everything and start the thread of the synchronous runner."""
    logging.disable(logging.CRITICAL)  # tools that raise are part of a scenario
    workspace = Workspace(Path(tempfile.mkdtemp()), SharedClock())
    workspace.enter()
    actor = ProcessActor(BY_NAME["one approval"], workspace, MemoryStore())
    for step in actor.scenario.steps:
        actor.perform(step)
    shutil.rmtree(workspace.folder)


def sample_trials(
    trials: Sequence[Trial], max_trials: int | None, rng: Random
) -> list[Trial]:
    """Return all trials, or a sample with equally many of each recovery."""
    if max_trials is None:
        return list(trials)
    groups = [[t for t in trials if t.recovery == each] for each in RECOVERIES]
    # A small sample has not all recoveries. Each scenario begins with another one.
    rng.shuffle(groups)
    sample: list[Trial] = []
    while len(sample) < max_trials and any(groups):
        for group in groups:
            if group and len(sample) < max_trials:
                sample.append(group.pop(rng.randrange(len(group))))
    return sample


def run_scenario_trials(name: str, options: argparse.Namespace) -> Tally:
    rng = random.Random(f"{options.seed} {name}")  # noqa: S311 - not for secrets
    began = time.monotonic()
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        scenario_trials = ScenarioTrials(BY_NAME[name], Path(folder), SharedClock())
        scenario_trials.record_scenario()
        trials = sample_trials(scenario_trials.trials, options.max_trials, rng)
        if options.only:
            trials = [Trial.parse(options.only)]
        if options.seconds is not None:
            rng.shuffle(trials)
        tally = scenario_trials.run_trials(trials, rng, options.seconds)
    tally.seconds = time.monotonic() - began
    return tally


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the trials of the scenarios that the command line names."""
    names = [scenario.name for scenario in SCENARIOS]
    parser = argparse.ArgumentParser(prog="python -m tests.torture.crash_points")
    parser.add_argument("names", nargs="*")
    parser.add_argument(
        "--max-trials", type=int, help="trials per scenario; default: all"
    )
    parser.add_argument("--seed", default="1")
    parser.add_argument("--seconds", type=float, help="time limit per scenario")
    parser.add_argument(
        "--only", help="one trial, for example '1/after operation 7/resume'"
    )
    parser.add_argument(
        "--folder", default=memory_folder(), help="default: a folder in memory"
    )
    options = parser.parse_args(arguments)
    warm_up()
    for name in options.names or names:
        tally: dict[str, Any] = asdict(run_scenario_trials(name, options))
        sys.stdout.write(json.dumps(tally) + "\n")
        sys.stdout.flush()


def memory_folder() -> str | None:
    """Return a folder in memory; SIGKILL does not touch the page cache either."""
    return "/dev/shm" if Path("/dev/shm").is_dir() else None  # noqa: S108 - for tempfile


if __name__ == "__main__":
    main()
