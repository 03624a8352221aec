"""Schedules in which every approval is valid for a short time only."""

from __future__ import annotations

from collections import Counter

import pytest

from tests.simulation.mutants.conditions import approvals_are_short
from tests.simulation.mutants.mutant import applied_patches
from tests.simulation.schedule import Report, run, shrunk_text

CHUNKS, SEEDS = 5, 100


def run_with_short_approvals(seed: int) -> Report:
    """Run a schedule whose sub-agents and idempotent tools need a fresh approval."""
    with applied_patches(approvals_are_short()):
        return run(seed)


@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_no_sub_agent_is_entered_and_no_call_repeated_with_an_old_approval(
    chunk: int,
) -> None:
    for seed in range(chunk, SEEDS, CHUNKS):
        assert not shrunk_text(run_with_short_approvals(seed))


def test_schedules_contain_old_approvals() -> None:
    """Calls wait again, and repeats become unknown outcomes, in enough schedules."""
    kinds: Counter[str] = Counter()
    for seed in range(SEEDS):
        waits = run_with_short_approvals(seed).environment.known_waits.values()
        kinds.update(each.kind for each in waits if "valid until" in str(each.note))
        if kinds["approval"] > 5 and kinds["unknown"]:
            return
    pytest.fail(f"{kinds} in {SEEDS} schedules")
