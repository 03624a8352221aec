"""Waits for models, three agents deep, survive a crash at every storage operation.

By default every third operation is tried; with TORTURE=1 each of them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import pytest

from continuations import Finished, Runner, Suspended
from continuations.errors import RunBusy, RunNotFound
from continuations_storage import MemoryStore
from continuations_storage.faults import Crash, FaultyStore, at, crashed
from tests.clocks import ManualClock
from tests.crash_points import remaining_keys
from tests.engine import slow_models
from tests.sampling import sample

if TYPE_CHECKING:
    from continuations import Outcome
    from continuations_storage import Store
    from tests.run_environment import RunEnvironment


def run_to_end(store: Store, clock: ManualClock) -> Outcome:
    """Work with a new runner each time: by a start, by a wake or by time."""
    for count in range(60):
        runner = Runner(
            slow_models.agents(), store=store, clock=clock, model_retry_time=0
        )
        try:
            outcome = runner.resume("r1")
        except RunNotFound:
            outcome = runner.start("go", run_id="r1")
        except RunBusy:
            clock.seconds += 61
            continue
        if not isinstance(outcome, Suspended):
            return outcome
        if count % 2:
            runner.wake("r1")
        else:
            clock.seconds += 2 * 3600
    raise AssertionError


@pytest.mark.parametrize("moment", ["before", "after"])
def test_a_crash_at_every_storage_operation_of_model_waits(
    environment: RunEnvironment, moment: Literal["before", "after"]
) -> None:
    """No turn that was committed as pending is asked again; no key is left behind."""
    clock, memory = ManualClock(), MemoryStore()
    undisturbed = FaultyStore(memory)
    assert isinstance(run_to_end(undisturbed, clock), Finished)
    names = environment.effect_names()
    assert slow_models.EFFECTS == sorted(n for n in names if not n.startswith("poll"))
    numbers = sample(range(1, len(undisturbed.operations) + 1), 5, moment == "after")
    deaths = 0

    for number in numbers:
        (environment.folder / "effects").unlink(missing_ok=True)
        clock = ManualClock()
        inner = MemoryStore(clock.now)
        dying = FaultyStore(inner, at(number, crashed(moment)))
        try:
            run_to_end(dying, clock)
        except Crash:
            deaths += 1
        after = run_to_end(inner, clock)

        where = f"{moment} {number}: {dying.operations[-1]}"
        assert isinstance(after, Finished), where
        names = [n for n in environment.effect_names() if not n.startswith("poll")]
        assert set(slow_models.EFFECTS) == set(names), where
        # Only the turn whose reply was not committed when the process died.
        asked = [name for name in names if name.startswith("ask")]
        assert len(asked) <= len({*asked}) + 1, where
        for _ in range(3):
            clock.seconds += 3600
            Runner(slow_models.agents(), store=inner, clock=clock).sweep()
        assert [] == remaining_keys(inner), where

    assert deaths > len(numbers) * 0.8
