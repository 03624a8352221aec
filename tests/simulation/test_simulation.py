"""Schedules of many processes, in which everything that can go wrong does.

The real engine, ledger and wire run against a simulated store, clock and network; what
must be true of every schedule stands in `laws.py` and `endings.py`. To look at a seed:

    python -m tests.simulation.simulate --seeds 976:977
"""

from __future__ import annotations

import os

import pytest

from tests.simulation.simulate import LAWS, minimal, run

SEEDS = int(os.environ.get("SIMULATE_SEEDS", "300"))
CHUNKS = 10


@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_no_schedule_breaks_a_law(chunk: int) -> None:
    """Promises 1 to 4: no seed is known that breaks one."""
    for seed in range(chunk, SEEDS, CHUNKS):
        report = run(seed)

        assert {} == report.broken, minimal(report)


@pytest.mark.parametrize("seed", [0, 7, 340, 976])
def test_a_seed_is_the_same_schedule_every_time(seed: int) -> None:
    """What a seed showed once, it shows again."""
    assert run(seed).log == run(seed).log


def test_the_laws_are_these() -> None:
    """A law that is lost would break nothing."""
    assert {
        "one_decision",
        "refused_never_runs",
        "executed_is_approved",
        "started_once",
        "finished_never_again",
        "same_key",
        "turn_asked_once",
        "transcripts_valid",
        "one_line",
        "nobody_stranded",
        "ended_is_clean",
        "frozen_starts_nothing",
        "told_after_kept",
        "listed_is_open",
        "same_end",
        "no_leak_of_errors",
        "expired_in_time",
        "letters_once",
        "fresh_enough",
    } == set(LAWS)
