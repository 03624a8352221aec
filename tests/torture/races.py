"""Races of real processes on files.

    python -m tests.torture.races [NAME ...] --rounds 20 [--seed 1]

prints a line of JSON for each kind of race. The machine decides which process wins; the
checks hold for every winner.
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
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from continuations.ledger.layout import parse_wait_id
from tests.run_recovery import MAX_ROUNDS
from tests.torture import child_processes, violations
from tests.torture.agents import RUN
from tests.torture.crash_points import (
    LEASE_EXPIRED_SECONDS,
    ScenarioTrials,
    Tally,
    memory_folder,
    warm_up,
)
from tests.torture.process_actor import ProcessActor
from tests.torture.race_actions import (
    cancel_run,
    decide_action,
    outcome_name,
    resume_once,
    start_action,
    sweep_once,
    wait_ids,
)
from tests.torture.race_round import RESUME_REPLIES, Round, unexpected_replies
from tests.torture.races_of_the_past import RACES_OF_THE_PAST
from tests.torture.races_of_waits import RACES_OF_WAITS
from tests.torture.scenarios import BY_NAME
from tests.torture.start_gate import reply_name
from tests.torture.workspace import SharedClock

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tests.torture.start_gate import RacerAction

ACCEPTED_REPLIES = {"Finished", "Suspended"}


# The kinds of races --------------------------------------------------------------


def four_resumers(race_round: Round) -> Iterator[str]:
    """Four processes resume a decided run: one advances it, the others get errors."""
    replies = race_round.race([resume_once] * 4)
    yield from unexpected_replies(replies, RESUME_REPLIES)
    yield from race_round.finish_and_check(race_round.scenario)


def sweep_against_resume(race_round: Round) -> Iterator[str]:
    """Sweeps and resumes race for the same decision."""
    replies = race_round.race([sweep_once, resume_once] * 3)
    yield from unexpected_replies(replies, RESUME_REPLIES | {"swept, failed: []"})
    yield from race_round.finish_and_check(race_round.scenario)


def fifty_deciders(race_round: Round) -> Iterator[str]:
    """One of 50 deciders succeeds; the 49 others get the recorded decision."""
    [wait_id] = wait_ids(race_round.workspace)
    replies = race_round.race([decide_action(wait_id, number) for number in range(50)])
    yield from check_one_decision(race_round, replies)
    approved = any(each.startswith("decided approve") for each in replies)
    effects = (
        race_round.scenario.effects if approved else race_round.scenario.effects[:1]
    )
    yield from race_round.finish_and_check(
        replace(race_round.scenario, effects=effects, conversation_varies=True)
    )


def check_one_decision(race_round: Round, replies: Sequence[str]) -> Iterator[str]:
    """Yield a violation unless one decision is recorded and every loser gets it."""
    winners = [each for each in replies if each.startswith("decided")]
    stored = race_round.workspace.run_files.keys(f"runs/{RUN}/in/d-")
    if len(winners) > 1 or len(stored) != 1:
        yield f"{len(stored)} decisions are recorded, and {winners} succeeded"
    losers = {each for each in replies if each.startswith("AlreadyDecided")}
    expected = {f"AlreadyDecided {each.removeprefix('decided ')}" for each in winners}
    if not losers <= expected:
        yield f"losers got {losers}, but {winners} won"


def five_deciders_resume(race_round: Round) -> Iterator[str]:
    """Five deciders of five waits also resume: no decision is left unapplied."""
    ids = wait_ids(race_round.workspace)
    replies = race_round.race(
        [decide_action(wait, 0, then_resume=True) for wait in ids]
    )
    yield from unexpected_replies(replies, RESUME_REPLIES)
    versions = len(race_round.workspace.run_files.keys(f"runs/{RUN}/v/"))
    yield from race_round.finish_and_check(
        replace(race_round.scenario, conversation_varies=True)
    )
    if versions != len(race_round.workspace.run_files.keys(f"runs/{RUN}/v/")):
        yield "a decision was not applied: one more resume had work to do"


def starts_with_two_inputs(race_round: Round) -> Iterator[str]:
    """Eight processes start one run id with two inputs: one input wins."""
    replies = race_round.race(
        [start_action("go")] * 4 + [start_action("A")] * 4 + [sweep_once] * 2
    )
    yield from unexpected_replies(
        replies, RESUME_REPLIES | {"RunExists", "swept, failed: []"}
    )
    for first, second in ((replies[:4], replies[4:8]), (replies[4:8], replies[:4])):
        if "RunExists" in first and "RunExists" in second:
            yield f"both inputs were refused: {replies}"
        if ACCEPTED_REPLIES & set(first) and ACCEPTED_REPLIES & set(second):
            yield f"both inputs were accepted: {replies}"
    winner = "go" if ACCEPTED_REPLIES & set(replies[:4]) else "A"
    effects = race_round.scenario.effects if winner == "go" else ("act 1",)
    yield from finish_with_input(race_round, winner, effects)


def finish_with_input(
    race_round: Round, input_text: str, effects: tuple[str, ...]
) -> Iterator[str]:
    """Advance a run with an input to its end and check its effects."""

    def work(actor: ProcessActor) -> None:
        for _ in range(MAX_ROUNDS):
            outcome = actor.worker_runner().start(input_text, run_id=RUN)
            if outcome_name(outcome) != "Suspended":
                break
            actor.end_waits(list(outcome.continuation.waits))
        state = actor.decider_runner().look(RUN)
        names = sorted(actor.workspace.run_files.effect_names())
        is_right = (state.status, names) == ("finished", sorted(effects))
        race_round.workspace.store_violations(
            [] if is_right else [f"{state.status}, with the effects {names}"]
        )

    race_round.run_in_child(work)
    yield from race_round.workspace.violations()


def cancel_decide_expiry(race_round: Round) -> Iterator[str]:
    """A deadline passes while people decide and cancel: one of the three wins."""
    [wait_id] = wait_ids(race_round.workspace)
    actions: list[RacerAction] = [decide_action(wait_id, number) for number in range(4)]
    cancelling = race_round.rng.random() < 0.5
    actions += [cancel_run] if cancelling else []
    actions += [resume_once, sweep_once, resume_once]
    # The deadline is an hour after the wait was opened; the race starts just before.
    early = race_round.rng.uniform(0.0, 0.03)
    deadline = parse_wait_id(wait_id).opened_ms / 1000 + 3600

    def set_clock() -> None:
        race_round.workspace.clock.offset_seconds = deadline - early - time.time()

    replies = race_round.race(actions, set_clock)
    race_round.workspace.clock.offset_seconds += 1
    known = {*RESUME_REPLIES, "swept, failed: []", "WaitExpired", "Cancelled"}
    known |= {"running", "suspended", "finished", "failed", "cancelled"}
    others = [r for r in replies if not r.startswith(("decided", "AlreadyDecided"))]
    yield from unexpected_replies(others, known)
    yield from check_end_matches_decision(race_round, replies, cancelling=cancelling)


def check_end_matches_decision(
    race_round: Round, replies: Sequence[str], *, cancelling: bool
) -> Iterator[str]:
    """Yield a violation if the run did not end as its recorded decision says."""

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
        yield f"the call ran without an approval: {replies}"
    if status == "finished" and approved and not rushed:
        yield f"the call was approved and did not run: {replies}"
    if status == "cancelled" and not cancelling:
        yield "the run was cancelled without a request"
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
    """Freeze a process at a random time, for longer than its claim, and wake it.

    One case is not promised: a process that froze between its last clock check and the
    first byte of a call sends that call. Its fence is older than that of its successor.
    """

    def resume() -> None:
        actor = ProcessActor(
            race_round.scenario, race_round.workspace, race_round.workspace.enter()
        )
        race_round.workspace.write_value("reply", reply_name(resume_once, actor))

    def recover(actor: ProcessActor) -> None:
        violations.record_crash_state(actor)
        actor.resume_to_end()

    child = child_processes.fork(resume)
    time.sleep(race_round.rng.uniform(0.0, 0.04))
    os.kill(child, signal.SIGSTOP)
    if child_processes.wait_for_exit(child, or_stopped=True) != child_processes.FROZEN:
        yield from race_round.finish_and_check(race_round.scenario)
        return
    race_round.workspace.clock.offset_seconds += LEASE_EXPIRED_SECONDS
    race_round.run_in_child(recover)
    versions, lines = (
        violations.digests(race_round.workspace, f"runs/{RUN}/v/"),
        race_round.workspace.line_count(),
    )
    child_processes.continue_child(child)
    if versions != violations.digests(race_round.workspace, f"runs/{RUN}/v/"):
        yield "the process woke and wrote a version"
    if race_round.workspace.line_count() > lines + 1:
        yield "the process woke and began a call"
    if race_round.workspace.line_count() == lines:
        yield from race_round.finish_and_check(race_round.scenario)


RaceKind: TypeAlias = Callable[[Round], Iterator[str]]
# Each race with its scenario, and the number of steps that precede the race.
RACES: dict[str, tuple[RaceKind, str, int]] = {
    "4 resumers": (four_resumers, "one approval", 2),
    "sweep against resume": (sweep_against_resume, "two turns", 2),
    "50 deciders": (fifty_deciders, "one approval", 1),
    "5 webhooks": (five_deciders_resume, "five waits", 1),
    "start against start": (starts_with_two_inputs, "two inputs", 0),
    "cancel, decide, expiry": (cancel_decide_expiry, "expiry", 1),
    "frozen at any time": (frozen_at_any_time, "two turns", 2),
    **RACES_OF_WAITS,
    **RACES_OF_THE_PAST,
}
TWO_INPUTS = replace(
    BY_NAME["one approval"],
    name="two inputs",
    script={**BY_NAME["one approval"].script, "A": [[["act", {"what": "1"}]], "A end"]},
)


def run_rounds(
    name: str, rounds: int, seed: str, seconds: float | None = None
) -> Tally:
    """Run some rounds of one kind of race, for at most some seconds."""
    race, scenario_name, steps = RACES[name]
    scenario = {**BY_NAME, TWO_INPUTS.name: TWO_INPUTS}[scenario_name]
    rng = random.Random(f"{seed} {name}")  # noqa: S311 - not for secrets
    tally, began = Tally(f"race: {name}"), time.monotonic()
    with tempfile.TemporaryDirectory(dir=memory_folder()) as folder:
        trials = ScenarioTrials(scenario, Path(folder), SharedClock())
        trials.record_scenario()
        for number in range(rounds):
            if seconds is not None and time.monotonic() - began > seconds:
                break
            workspace = trials.snapshots[steps].copy_to(Path(folder) / "round")
            offset = workspace.read_value("clock offset", 0.0)
            trials.clock.offset_seconds = offset
            race_round = Round(scenario, workspace, trials.snapshots[-1], rng)
            race_round.run_in_child(violations.record_crash_state)
            problems = list(race(race_round))
            tally.trials += 1
            tally.passed += not problems
            tally.duplicate_effects += sum("duplicate" in each for each in problems)
            tally.violations += [
                f"{tally.name}, round {number}: {each}" for each in problems
            ]
            shutil.rmtree(workspace.folder)
    tally.points, tally.seconds = tally.trials, time.monotonic() - began
    return tally


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the races that the command line names."""
    parser = argparse.ArgumentParser(prog="python -m tests.torture.races")
    parser.add_argument("names", nargs="*")
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--seed", default="1")
    parser.add_argument("--seconds", type=float, help="time limit per kind of race")
    options = parser.parse_args(arguments)
    warm_up()
    for name in options.names or RACES:
        tally = asdict(run_rounds(name, options.rounds, options.seed, options.seconds))
        sys.stdout.write(json.dumps(tally) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
