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
from tests.torture import child_processes, violations
from tests.torture.agents import RUN
from tests.torture.crash_points import (
    LEASE_EXPIRED_SECONDS,
    ScenarioTrials,
    Tally,
    memory_folder,
    warm_up,
)
from tests.torture.process_actor import MAX_ROUNDS, ProcessActor
from tests.torture.scenarios import BY_NAME, Scenario
from tests.torture.start_gate import race_processes, reply_name
from tests.torture.workspace import SharedClock, Workspace

if TYPE_CHECKING:
    from collections.abc import Sequence
    from random import Random

    from continuations import Outcome
    from tests.torture.start_gate import RacerAction

ACCEPTED_REPLIES = {"Finished", "Suspended"}
RESUME_REPLIES = {"Finished", "Suspended", "Failed", "RunBusy", "StaleRun"}


@dataclass(frozen=True)
class Round:
    """One race: a place in which a story stands, and dice."""

    scenario: Scenario
    workspace: Workspace
    expected: Workspace
    rng: Random

    def race(
        self, acts: Sequence[RacerAction], opens: Callable[[], None] = lambda: None
    ) -> list[str]:
        """Have some processes act at once, in an order that the dice say."""
        order = list(range(len(acts)))
        self.rng.shuffle(order)
        told = race_processes(
            self.scenario, self.workspace, [acts[k] for k in order], opens
        )
        by_act = dict(zip(order, told, strict=True))
        return [by_act[k] for k in range(len(acts))]

    def run_in_child(self, work: Callable[[ProcessActor], None]) -> None:
        """Do something in one more process."""
        code = child_processes.run_in_child(
            lambda: work(
                ProcessActor(self.scenario, self.workspace, self.workspace.enter())
            )
        )
        if code:
            self.workspace.write_value("wrongs", [f"a process came to {code}"])

    def finish_and_check(self, story: Scenario) -> Iterator[str]:
        """Bring the run to its end and say what is not as it must be."""

        def work(actor: ProcessActor) -> None:
            actor.resume_to_end()
            actor.scenario = story
            self.workspace.write_value(
                "wrongs", list(violations.find_violations(actor, self.expected))
            )

        self.run_in_child(work)
        yield from self.workspace.read_value("wrongs")


# What a racer does ------------------------------------------------------------------


def resume_once(actor: ProcessActor) -> str:
    """Resume the run once."""
    return outcome_name(actor.start_or_resume("resume"))


def start_action(input_text: str) -> RacerAction:
    """Start a run with this id."""
    return lambda people: outcome_name(
        people.worker_runner().start(input_text, run_id=RUN)
    )


def sweep_once(actor: ProcessActor) -> str:
    """Sweep once."""
    swept = actor.worker_runner().sweep()
    return f"swept, failed: {sorted(map(repr, swept.errors.values()))}"


def cancel_run(actor: ProcessActor) -> str:
    """Cancel the run."""
    return actor.decider_runner().cancel(RUN, by="kim").status


def decide_action(
    wait_id: str, number: int, *, then_resume: bool = False
) -> RacerAction:
    """Decide a wait: even numbers say yes, odd ones no."""

    def act(actor: ProcessActor) -> str:
        verdict = (Deny if number % 2 else Approve)(by=f"kim{number}")
        found = actor.decider_runner().decide(wait_id, verdict)
        if then_resume:
            return resume_once(actor)
        return f"decided {found.kind} {found.by}"

    return act


def outcome_name(outcome: Outcome) -> str:
    """Return the kind of an outcome."""
    return type(outcome).__name__


def wait_ids(workspace: Workspace) -> list[str]:
    """Return the ids of the open waits of our run."""
    keys = workspace.run_files.keys("waits/")
    return [key.removeprefix("waits/") for key in keys if key.endswith(f"@{RUN}")]


def unexpected_replies(replies: Sequence[str], known: set[str]) -> Iterator[str]:
    """Say which racers were told nonsense."""
    yield from (f"a racer was told {each}" for each in replies if each not in known)


# The kinds of races --------------------------------------------------------------


def four_resumers(race_round: Round) -> Iterator[str]:
    """R-A12, X-05, PA-12: a decided run, resumed by four."""
    told = race_round.race([resume_once] * 4)
    yield from unexpected_replies(told, RESUME_REPLIES)
    yield from race_round.finish_and_check(race_round.scenario)


def sweep_against_resume(race_round: Round) -> Iterator[str]:
    """R-A12, X-14: sweepers and resumers find the same decision."""
    told = race_round.race([sweep_once, resume_once] * 3)
    yield from unexpected_replies(told, RESUME_REPLIES | {"swept, failed: []"})
    yield from race_round.finish_and_check(race_round.scenario)


def fifty_deciders(race_round: Round) -> Iterator[str]:
    """R-A1, R-A2, EF-20: one decision stands, 49 are told which."""
    [wait_id] = wait_ids(race_round.workspace)
    told = race_round.race([decide_action(wait_id, number) for number in range(50)])
    yield from check_one_decision(race_round, told)
    approved = any(each.startswith("decided approve") for each in told)
    effects = (
        race_round.scenario.effects if approved else race_round.scenario.effects[:1]
    )
    yield from race_round.finish_and_check(
        replace(race_round.scenario, effects=effects, conversation_varies=True)
    )


def check_one_decision(race_round: Round, replies: Sequence[str]) -> Iterator[str]:
    """Say whether other than one decision is recorded, and told to everyone."""
    winners = [each for each in replies if each.startswith("decided")]
    stored = race_round.workspace.run_files.keys(f"runs/{RUN}/in/d-")
    if len(winners) > 1 or len(stored) != 1:
        yield f"{len(stored)} decisions stand, {winners} were told that theirs does"
    losers = {each for each in replies if each.startswith("AlreadyDecided")}
    stands = {f"AlreadyDecided {each.removeprefix('decided ')}" for each in winners}
    if not losers <= stands:
        yield f"losers were told {losers}, but {winners} won"


def five_webhooks(race_round: Round) -> Iterator[str]:
    """X-05, R-A3: five answers at once, each resumes, and none is slept on."""
    found = wait_ids(race_round.workspace)
    told = race_round.race([decide_action(wait, 0, then_resume=True) for wait in found])
    yield from unexpected_replies(told, RESUME_REPLIES)
    versions = len(race_round.workspace.run_files.keys(f"runs/{RUN}/v/"))
    yield from race_round.finish_and_check(
        replace(race_round.scenario, conversation_varies=True)
    )
    if versions != len(race_round.workspace.run_files.keys(f"runs/{RUN}/v/")):
        yield "an answer was slept on: a further resume had work to do"


def starts_with_two_inputs(race_round: Round) -> Iterator[str]:
    """EF-21, R-A12: one input stands, the others are told; sweepers are about."""
    told = race_round.race(
        [start_action("go")] * 4 + [start_action("A")] * 4 + [sweep_once] * 2
    )
    yield from unexpected_replies(
        told, RESUME_REPLIES | {"RunExists", "swept, failed: []"}
    )
    for mine, theirs in ((told[:4], told[4:8]), (told[4:8], told[:4])):
        if "RunExists" in mine and "RunExists" in theirs:
            yield f"both inputs were refused: {told}"
        if ACCEPTED_REPLIES & set(mine) and ACCEPTED_REPLIES & set(theirs):
            yield f"both inputs were taken: {told}"
    won = "go" if ACCEPTED_REPLIES & set(told[:4]) else "A"
    effects = race_round.scenario.effects if won == "go" else ("act 1",)
    story = replace(race_round.scenario, effects=effects)
    yield from finish_with_input(race_round, won, story)


def finish_with_input(race_round: Round, text: str, story: Scenario) -> Iterator[str]:
    """Bring a run with this input to its end."""

    def work(actor: ProcessActor) -> None:
        for _ in range(MAX_ROUNDS):
            outcome = actor.worker_runner().start(text, run_id=RUN)
            if outcome_name(outcome) != "Suspended":
                break
            actor.end_waits(list(outcome.continuation.waits))
        state = actor.decider_runner().look(RUN)
        done = sorted(actor.workspace.run_files.effect_names())
        fine = (state.status, done) == ("finished", sorted(story.effects))
        race_round.workspace.write_value(
            "wrongs", [] if fine else [f"{state.status}, {done}"]
        )

    race_round.run_in_child(work)
    yield from race_round.workspace.read_value("wrongs")


def cancel_decide_expiry(race_round: Round) -> Iterator[str]:
    """R-F4, R-F6, X-13: a deadline passes while people decide and cancel."""
    [wait_id] = wait_ids(race_round.workspace)
    acts: list[RacerAction] = [decide_action(wait_id, number) for number in range(4)]
    cancelling = race_round.rng.random() < 0.5
    acts += [cancel_run] if cancelling else []
    acts += [resume_once, sweep_once, resume_once]
    # The deadline is an hour after the wait was opened; the gate opens just before.
    early = race_round.rng.uniform(0.0, 0.03)
    deadline = parse_wait_id(wait_id).opened_ms / 1000 + 3600

    def opens() -> None:
        race_round.workspace.clock.offset_seconds = deadline - early - time.time()

    told = race_round.race(acts, opens)
    race_round.workspace.clock.offset_seconds += 1
    words = {*RESUME_REPLIES, "swept, failed: []", "WaitExpired", "Cancelled"}
    words |= {"running", "suspended", "finished", "failed", "cancelled"}
    sure = [each for each in told if not each.startswith(("decided", "AlreadyDecided"))]
    yield from unexpected_replies(sure, words)
    yield from check_end_matches_decision(race_round, told, cancelling=cancelling)


def check_end_matches_decision(
    race_round: Round, replies: Sequence[str], *, cancelling: bool
) -> Iterator[str]:
    """Say whether the run ended in another way than the decision that stands."""

    def look(actor: ProcessActor) -> None:
        actor.resume_to_end()
        state = actor.decider_runner().look(RUN)
        race_round.workspace.write_value("status", state.status)

    race_round.run_in_child(look)
    yield from check_one_decision(race_round, replies)
    status = race_round.workspace.read_value("status")
    approved = any("decided approve" in each.lower() for each in replies)
    rushed = "rush 1" in race_round.workspace.run_files.effect_names()
    if rushed and not approved:
        yield f"it ran without an approval: {replies}"
    if status == "finished" and approved and not rushed:
        yield f"it was approved and did not run: {replies}"
    if status == "cancelled" and not cancelling:
        yield "it was cancelled by nobody"
    effects: tuple[str, ...] = ("rush 1", "act 2") if rushed else ("act 2",)
    if status == "failed":
        effects = ()
    yield from race_round.finish_and_check(
        replace(
            race_round.scenario,
            final_status=status,
            effects=effects,
            conversation_varies=True,
        )
    )


def frozen_at_any_time(race_round: Round) -> Iterator[str]:
    """R-A5, X-14: frozen for longer than its claim, wherever it was, and woken up.

    Not promised: it may have been between its last look at the clock and a call.
    That call has an older fence than the one that came after, and is refused by it.
    """

    def live() -> None:
        people = ProcessActor(
            race_round.scenario, race_round.workspace, race_round.workspace.enter()
        )
        race_round.workspace.write_value("told", reply_name(resume_once, people))

    def after(actor: ProcessActor) -> None:
        violations.record_crash_state(actor)
        actor.resume_to_end()

    child = child_processes.fork(live)
    time.sleep(race_round.rng.uniform(0.0, 0.04))
    os.kill(child, signal.SIGSTOP)
    if child_processes.wait_for_exit(child, or_stopped=True) != child_processes.FROZEN:
        yield from race_round.finish_and_check(race_round.scenario)
        return
    race_round.workspace.clock.offset_seconds += LEASE_EXPIRED_SECONDS
    race_round.run_in_child(after)
    versions, lines = (
        violations.digests(race_round.workspace, f"runs/{RUN}/v/"),
        race_round.workspace.line_count(),
    )
    child_processes.continue_child(child)
    if versions != violations.digests(race_round.workspace, f"runs/{RUN}/v/"):
        yield "it woke up and wrote a version"
    if race_round.workspace.line_count() > lines + 1:
        yield "it woke up and began a call"
    if race_round.workspace.line_count() == lines:
        yield from race_round.finish_and_check(race_round.scenario)


RaceKind: TypeAlias = Callable[[Round], Iterator[str]]
# Each with the story that it is played in, and how many steps of it were done before.
RACES: dict[str, tuple[RaceKind, str, int]] = {
    "4 resumers": (four_resumers, "one approval", 2),
    "sweep against resume": (sweep_against_resume, "two turns", 2),
    "50 deciders": (fifty_deciders, "one approval", 1),
    "5 webhooks": (five_webhooks, "five waits", 1),
    "start against start": (starts_with_two_inputs, "two inputs", 0),
    "cancel, decide, expiry": (cancel_decide_expiry, "expiry", 1),
    "frozen at any time": (frozen_at_any_time, "two turns", 2),
}
TWO_INPUTS = replace(
    BY_NAME["one approval"],
    name="two inputs",
    script={**BY_NAME["one approval"].script, "A": [[["act", {"what": "1"}]], "A end"]},
)


def run_rounds(
    name: str, rounds: int, seed: str, seconds: float | None = None
) -> Tally:
    """Go through some rounds of one kind, or until the time is over."""
    kind, story_name, steps = RACES[name]
    story = TWO_INPUTS if story_name == TWO_INPUTS.name else BY_NAME[story_name]
    dice = random.Random(f"{seed} {name}")  # noqa: S311 - a seed is the point
    tally, began = Tally(f"race: {name}"), time.monotonic()
    with tempfile.TemporaryDirectory(dir=memory_folder()) as folder:
        torture = ScenarioTrials(story, Path(folder), SharedClock())
        torture.record_scenario()
        for number in range(rounds):
            if seconds is not None and time.monotonic() - began > seconds:
                break
            place = torture.snapshots[steps].copy_to(Path(folder) / "round")
            torture.clock.offset_seconds = place.read_value("ahead", 0.0)
            here = Round(story, place, torture.snapshots[-1], dice)
            here.run_in_child(violations.record_crash_state)
            wrong = list(kind(here))
            tally.trials += 1
            tally.passed += not wrong
            tally.duplicate_effects += sum("double" in each for each in wrong)
            tally.violations += [
                f"{tally.name}, round {number}: {each}" for each in wrong
            ]
            shutil.rmtree(place.folder)
    tally.points, tally.seconds = tally.trials, time.monotonic() - began
    return tally


def main(arguments: Sequence[str] | None = None) -> None:
    """Race as the command line says."""
    parser = argparse.ArgumentParser(prog="python -m tests.torture.races")
    parser.add_argument("names", nargs="*")
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--seed", default="1")
    parser.add_argument("--seconds", type=float, help="the most for each kind")
    options = parser.parse_args(arguments)
    warm_up()
    for name in options.names or RACES:
        told = asdict(run_rounds(name, options.rounds, options.seed, options.seconds))
        sys.stdout.write(json.dumps(told) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
