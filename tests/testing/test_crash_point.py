"""Crashes in a test of an application: at one storage operation, or at each."""

from __future__ import annotations

from functools import partial

import pytest

from continuations.errors import RunBusy
from continuations.testing import AgentHarness, CrashPoint, Effects, every_crash
from tests.testing.sample_agents import make_boss, make_clerk


def test_approved_call_runs_once_or_is_unknown_after_any_crash() -> None:
    endings: set[str] = set()
    for crash in every_crash():
        effects = Effects()
        harness = AgentHarness(partial(make_boss, effects))
        harness.run_to_pause("Pay Jane")
        harness.approve("pay")
        with crash.during(harness):
            harness.run_to_end()
        harness.recover()

        happened = len(effects.of("pay"))
        if harness.waits:
            assert "unknown" == harness.wait("pay").kind
            harness.answer("paid 500 cents") if happened else harness.approve()
            endings.add(f"unknown after {happened}")
        assert "Done." == harness.run_to_end().output
        effects.assert_once("pay")

    assert {"unknown after 0", "unknown after 1"} <= endings


def test_run_that_was_not_stored_is_started_again() -> None:
    found: list[bool] = []
    for crash in every_crash(both_moments=False):
        effects = Effects()
        harness = AgentHarness(make_clerk(effects))
        with crash.during(harness):
            harness.start("Pay Jane")
        harness.recover()
        harness.run_to_pause("Pay Jane")

        harness.assert_waits("pay")
        found.append(crash.happened is True)
    assert found == [True] * (len(found) - 1) + [False]
    assert 4 < len(found)


def test_crash_ends_the_block_and_the_next_runner_works() -> None:
    harness = AgentHarness(make_clerk(Effects()))
    reached: list[str] = []
    with harness.crash_at(3, "after"):
        harness.start("Pay Jane")
        reached.append("after the crash")

    assert [] == reached
    with pytest.raises(RunBusy):  # the dead worker's claim has not ended
        harness.resume()
    harness.recover()
    harness.run_to_pause()


def test_error_in_the_block_is_raised() -> None:
    harness = AgentHarness(make_clerk(Effects()))

    with pytest.raises(LookupError), harness.crash_at(1):
        raise LookupError


def test_crash_that_does_not_happen_is_told() -> None:
    harness = AgentHarness(make_clerk(Effects()))
    point = CrashPoint(1000)
    with point.during(harness):
        harness.run_to_pause("Pay Jane")

    assert point.happened is False


def test_forgotten_crash_point_fails() -> None:
    with pytest.raises(AssertionError, match="was not used"):
        list(every_crash())


def test_block_without_storage_fails() -> None:
    def use_no_store() -> None:
        for crash in every_crash():
            with crash.during(AgentHarness(make_clerk(Effects()))):
                pass

    with pytest.raises(AssertionError, match="no storage operation"):
        use_no_store()
