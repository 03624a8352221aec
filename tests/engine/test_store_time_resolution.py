"""A store that tells its time in whole seconds, as S3 does, and short claims."""

from __future__ import annotations

from datetime import datetime, timedelta

import pytest

from continuations import Finished, Runner, tool
from continuations.errors import ClockOff, InvalidInput
from continuations_storage import MemoryStore
from continuations_storage.faults import FaultyStore
from continuations_storage.s3 import S3Store
from tests import effect_log
from tests.clocks import ManualClock
from tests.engine import agent_builders
from tests.outcomes import expect
from tests.scripts import Script, call
from tests.stores import OneByOneStore

SCRIPT: Script = {"go": [[call("act", what="x")], "end"]}


@tool
def act(what: str) -> str:
    """Act."""
    effect_log.append_effect("act", what)
    return "done"


class StoreOfWholeSeconds(OneByOneStore):
    """A store that rounds its time down to whole seconds."""

    time_resolution = timedelta(seconds=1)

    def __init__(self, clock: ManualClock) -> None:
        def now() -> datetime:
            return clock.now().replace(microsecond=0)

        super().__init__(now)


@pytest.mark.parametrize("fraction", [0.0, 0.3, 0.999])
@pytest.mark.parametrize("is_wrapped", [False, True])
def test_right_clock_works_with_the_shortest_claim(
    *, fraction: float, is_wrapped: bool
) -> None:
    """A claim of three seconds is enough, in whichever part of a second it begins."""
    clock = ManualClock(fraction)
    store = StoreOfWholeSeconds(clock)
    runner = agent_builders.make_runner(
        SCRIPT,
        act,
        store=FaultyStore(store) if is_wrapped else store,
        clock=clock,
        lease=3,
    )

    outcome = expect(runner.start("go", run_id="r1"), Finished)

    assert ["done"] == agent_builders.root_tool_results(outcome)
    assert ["act x"] == effect_log.names()


def test_wrong_clock_is_still_noticed() -> None:
    """The rounding excuses less than one second."""
    clock, true_clock = ManualClock(1.76), ManualClock(0.0)
    runner = agent_builders.make_runner(
        SCRIPT, act, store=StoreOfWholeSeconds(true_clock), clock=clock, lease=3
    )

    with pytest.raises(ClockOff):
        runner.start("go", run_id="r1")
    assert [] == effect_log.names()


@pytest.mark.parametrize("lease", [0.1, 1, 2.99])
def test_lease_that_a_store_cannot_carry_is_rejected_by_the_runner(
    lease: float,
) -> None:
    """The error names the shortest lease of the store."""
    with pytest.raises(InvalidInput, match=r"lease must be at least 3 seconds"):
        Runner([], store=S3Store("bucket"), lease=lease)
    Runner([], store=MemoryStore(), lease=lease)
