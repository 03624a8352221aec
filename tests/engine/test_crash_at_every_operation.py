"""A crash before or after each storage operation leads to the same end of the run.

By default every second operation is tried; with TORTURE=1 each of them.

This happens in one process: from one operation on, `crashed` makes every operation of
the store fail. A new runner on the inner store is the process that comes afterwards.
`test_sigkill.py` does the same to real processes, at fewer places.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

import pytest

from continuations import Answer, Approve, Finished, Runner, Suspended
from continuations.errors import AlreadyDecided, RunBusy, RunNotFound
from continuations_storage import MemoryStore
from continuations_storage.faults import Crash, FaultyStore, at, crashed
from tests import sample_app, scripts
from tests.clocks import ManualClock
from tests.sample_app import FULL_SCRIPT_EFFECTS
from tests.sampling import sample

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Literal

    from continuations import Agent, Outcome, Wait
    from continuations_storage import Store
    from tests.run_environment import RunEnvironment


def make_boss() -> Agent:
    """Return the sample application with the full script."""
    return sample_app.make_agents(scripts.scripted_model(sample_app.FULL_SCRIPT))[0]


def decide_truthfully(runner: Runner, wait: Wait, environment: RunEnvironment) -> None:
    """Approve; answer an unknown outcome as the effect log says."""
    verdict: Approve | Answer = Approve(by="kim")
    verb = {"act": "acted", "pay": "paid", "book": "booked"}[wait.tool]
    what = wait.arguments["what"]
    if wait.kind == "unknown" and f"{wait.tool} {what}" in environment.effect_names():
        verdict = Answer(f"{verb} {what}", by="kim")
    # The process that died may have recorded it already, in other words.
    with suppress(AlreadyDecided):
        runner.decide(wait.id, verdict)


def resume_to_end(
    runner: Runner, environment: RunEnvironment, clock: ManualClock
) -> Outcome:
    """Start or resume the run and decide its waits until it ends."""
    while True:
        try:
            outcome = runner.resume("r1")
        except RunNotFound:
            outcome = runner.start("go", run_id="r1")
        except RunBusy:
            clock.seconds += 31
            continue
        if not isinstance(outcome, Suspended):
            return outcome
        for wait in outcome.waits:
            decide_truthfully(runner, wait, environment)


def sweep_to_end(
    runner: Runner, environment: RunEnvironment, clock: ManualClock
) -> Outcome:
    """Only sweep, and decide the listed waits, until the run ends."""
    for _ in range(20):
        clock.seconds += 120
        swept = runner.sweep()
        assert {} == swept.errors
        for summary in list(runner.waiting()):
            decide_truthfully(runner, runner.wait(summary.id), environment)
        try:
            status = runner.look("r1").status
        except RunNotFound:
            return runner.start("go", run_id="r1")
        if status not in {"running", "suspended"}:
            return runner.resume("r1")
    raise AssertionError(list(runner.waiting()))


def run_to_end(
    environment: RunEnvironment, clock: ManualClock, store: Store
) -> Outcome:
    """Run the whole scenario once, as the process that will crash does."""
    return resume_to_end(
        Runner(make_boss(), store=store, clock=clock), environment, clock
    )


@pytest.mark.parametrize("recovery", [resume_to_end, sweep_to_end])
@pytest.mark.parametrize("moment", ["before", "after"])
def test_a_crash_at_every_storage_operation(
    environment: RunEnvironment,
    moment: Literal["before", "after"],
    recovery: Callable[[Runner, RunEnvironment, ManualClock], Outcome],
) -> None:
    """Same end, each effect once, no turn asked again, and no key left behind."""
    # Given the end of the run without a crash
    undisturbed = FaultyStore(MemoryStore())
    end = run_to_end(environment, ManualClock(), undisturbed)
    assert FULL_SCRIPT_EFFECTS == sorted(environment.effect_names())
    turn = (moment == "after") + 2 * (recovery is sweep_to_end)
    numbers = sample(range(1, len(undisturbed.operations) + 1), 8, turn)
    deaths = 0

    for number in numbers:
        (environment.folder / "effects").unlink()
        (environment.folder / "turns").unlink(missing_ok=True)
        clock = ManualClock()
        inner = MemoryStore(clock.now)

        # When the process dies at one operation
        dying = FaultyStore(inner, at(number, crashed(moment)))
        try:
            run_to_end(environment, clock, dying)
        except Crash:
            deaths += 1

        # And another process recovers the run
        runner = Runner(make_boss(), store=inner, clock=clock)
        after = recovery(runner, environment, clock)
        if isinstance(after, Suspended):
            after = resume_to_end(runner, environment, clock)

        # Then the run comes to the same end, and each effect happened once
        where = f"{moment} {number}: {dying.operations[-1]}"
        assert isinstance(after, Finished), where
        assert isinstance(end, Finished)
        mine, theirs = (each.continuation.root.messages for each in (after, end))
        assert theirs == mine, where
        repeatable = [
            each for each in environment.effect_names() if each[:4] in {"push", "read"}
        ]
        others = [each for each in environment.effect_names() if each not in repeatable]
        assert FULL_SCRIPT_EFFECTS == sorted({*environment.effect_names()}), where
        assert len(others) == len(set(others)), where
        assert len(repeatable) <= 3, where
        # And at most the turns in progress at the crash are asked again
        assert len(environment.turns()) - len(set(environment.turns())) <= 3, where
        # And sweeps leave no marker and no wait object
        for _ in range(3):
            clock.seconds += 3600
            runner.sweep()
        assert [] == remaining_keys(inner), where

    # Parallel frames share commits as they come, so counts differ by a few.
    assert deaths > len(numbers) * 0.8


def remaining_keys(store: MemoryStore) -> list[str]:
    """Return the markers and waits of a store."""
    return [key for key in store._bodies if key.startswith(("markers/", "waits/"))]  # pyright: ignore[reportPrivateUsage]
