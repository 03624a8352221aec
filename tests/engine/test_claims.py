"""Claims: renewed while the worker is alive, lost when it is not."""

from __future__ import annotations

import signal
import time
from typing import Any

import pytest

from continuations import Finished, Runner, tool
from continuations.engine.ports import SystemClock
from continuations.errors import RunBusy, StoreUnavailable
from continuations_storage import MemoryStore
from continuations_storage.faults import FaultyStore, on, refused
from tests import effect_log
from tests.clocks import ManualClock
from tests.engine import agent_builders
from tests.run_environment import RunEnvironment, wait_until
from tests.scripts import Script, call


def test_claim_is_renewed_while_a_long_tool_runs(environment: RunEnvironment) -> None:
    """The claim is renewed in the background for as long as the tool runs."""
    script: Script = {
        "go": [[call("left", input="A")], "end"],
        "A": [[call("act", what="x", then="sleep:6")], "A done"],
    }
    # Given a tool that takes three claims
    holder = environment.spawn("start", "r1", "go", script=script, lease="2.0")
    wait_until(environment.effect_names)
    began = time.monotonic()

    # When others try to resume and to sweep it all the time
    busy_count = 0
    while time.monotonic() - began < 2.5:
        assert "RunBusy" == environment.resume(script)["raised"]
        busy_count += 1
    swept = environment.run("sweep", script=script)

    # Then no other worker gets the claim
    assert (([], {}), True) == ((swept["resumed"], swept["failed"]), busy_count > 0)
    assert "Finished" == holder.wait_for_result()["kind"]
    assert ["act x"] == environment.effect_names()
    assert ["go 0", "A 0", "A 1", "go 1"] == environment.turns()


def test_a_frozen_worker_that_was_replaced_writes_nothing(
    environment: RunEnvironment,
) -> None:
    """It wakes up, finds that its claim is over, and stops."""
    script: Script = {
        "go": [[call("left", input="A")], [call("act", what="3")], "end"],
        "A": [
            [call("pay", what="1", then="sleep:0.5")],
            [call("act", what="2")],
            "A done",
        ],
    }
    # Given a worker that is frozen in a tool for longer than its claim
    environment.approve(environment.start(script)["waits"][0])
    frozen = environment.spawn("resume", "r1", script=script, lease="1.0")
    wait_until(environment.effect_names)
    frozen.send(signal.SIGSTOP)
    time.sleep(1.1)

    # When another worker takes over and the unknown outcome is settled
    result = environment.resume(script, lease="5")
    [wait] = result["waits"]
    assert "unknown" == wait["kind"]
    environment.decide(wait, {"answer": {"value": "paid 1"}})
    assert "Finished" == environment.resume(script, lease="5")["kind"]
    stored, turns = environment.objects(), environment.turns()

    # And the frozen worker wakes up
    frozen.send(signal.SIGCONT)
    woken = frozen.wait_for_result()

    # Then it gets StaleRun, and has written and called nothing
    assert "StaleRun" == woken["raised"]
    after = environment.objects()
    assert {key: stored[key] for key in stored if key in after} == stored
    assert [] == [key for key in after if key not in stored]
    assert turns == environment.turns()
    assert ["pay 1", "act 2", "act 3"] == environment.effect_names()
    fences = [line["fence"] for line in environment.effects()]
    assert sorted(set(fences)) == fences


def test_a_frozen_worker_that_nobody_replaced_goes_on(
    environment: RunEnvironment,
) -> None:
    """Its claim is over, but no other worker took the run, so it claims it again."""
    script: Script = {
        "go": [
            [call("act", what="1", then="sleep:0.4")],
            [call("act", what="2")],
            "end",
        ]
    }
    frozen = environment.spawn("start", "r1", "go", script=script, lease="0.8")
    wait_until(environment.effect_names)
    frozen.send(signal.SIGSTOP)
    time.sleep(1.2)
    frozen.send(signal.SIGCONT)

    assert "Finished" == frozen.wait_for_result()["kind"]
    assert ["act 1", "act 2"] == environment.effect_names()


def test_a_failed_renewal_stops_the_work(environment: RunEnvironment) -> None:
    """Committed work is kept, and another worker continues from it."""
    script: Script = {"go": [[call("nap")], "end"]}

    @tool(read_only=True)
    async def nap() -> str:
        """Sleep over a renewal."""
        import asyncio  # noqa: PLC0415 - only here

        effect_log.append_effect("nap")
        await asyncio.sleep(0.6)
        return "slept"

    inner = MemoryStore()
    failing = FaultyStore(
        inner, on("create", refused(), prefix="runs/", skip=2, times=9)
    )
    with pytest.raises(StoreUnavailable):
        Runner(agent_builders.make_boss(script, nap), store=failing, lease=0.6).start(
            "go", run_id="r"
        )
    assert ["go 0"] == environment.turns()

    runner = Runner(agent_builders.make_boss(script, nap), store=inner, lease=5)
    wait_until(lambda: is_claim_over(runner))
    assert isinstance(runner.resume("r"), Finished)
    assert (["nap ", "nap "], ["go 0", "go 1"]) == (
        environment.effect_names(),
        environment.turns(),
    )


def is_claim_over(runner: Runner) -> bool:
    """Tell whether the claim on the run is over."""
    claim = runner.look("r").run_state.run.claim
    return claim is None or claim.until < SystemClock().now()


def test_claim_works_without_a_store_time() -> None:
    """The worker's clock decides, and the end of the claim is exact."""
    clock = ManualClock()
    script: Script = {"go": [[call("peek")], "end"]}
    store = MemoryStore()
    busy: list[Any] = []

    @tool
    def peek() -> str:
        """Try to resume the run that this is."""
        other = Runner(agent_builders.make_boss(script, peek), store=store, clock=clock)
        with pytest.raises(RunBusy) as raised:
            other.resume("r")
        busy.append(raised.value)
        return "busy"

    Runner(agent_builders.make_boss(script, peek), store=store, clock=clock).start(
        "go", run_id="r"
    )

    [error] = busy
    assert ("r", 30) == (error.run_id, (error.until - clock.now()).total_seconds())
    assert [] == effect_log.effects()


def test_claim_is_renewed_before_a_call_begins_late() -> None:
    """If too little of the claim is left for a call, it is renewed first."""
    clock = ManualClock()
    script: Script = {"go": [*([call("late", n=n)] for n in range(3)), "end"]}
    store = MemoryStore()

    @tool
    def late(n: int) -> str:
        """Use up nearly all of a claim."""
        claim: Any = Runner([], store=store).look("r").run_state.run.claim
        left = (claim.until - clock.now()).total_seconds()
        effect_log.append_effect("late", str(left > 3))
        clock.seconds += 29.5
        return str(n)

    outcome = Runner(
        agent_builders.make_boss(script, late), store=store, clock=clock
    ).start("go", run_id="r")

    assert isinstance(outcome, Finished)
    assert ["late True"] * 3 == effect_log.names()
