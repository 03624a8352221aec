"""Schedules in which models repeat calls that most people deny."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import pytest

from tests.sampling import RUNS_ALL_CASES
from tests.simulation.evidence import Evidence
from tests.simulation.mutants.conditions import models_repeat_denied_calls
from tests.simulation.mutants.mutant import applied_patches
from tests.simulation.schedule import Report, run, shrunk_text

CHUNKS, SEEDS = 5, 100 if RUNS_ALL_CASES else 50


def run_with_denials(seed: int) -> Report:
    """Run a schedule whose model repeats a denied call."""
    with applied_patches(models_repeat_denied_calls()):
        return run(seed)


@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_no_call_is_repeated_after_three_denials(chunk: int) -> None:
    for seed in range(chunk, SEEDS, CHUNKS):
        assert not shrunk_text(run_with_denials(seed))


def test_schedules_contain_agents_that_end_after_denials() -> None:
    """Runs and sub-agents end by the bound in enough schedules."""
    ends: Counter[str] = Counter()
    for seed in range(SEEDS):
        ends.update(bounded_ends(run_with_denials(seed)))
        if ends["run"] > 5 and ends["sub-agent"] > 5:
            return
    pytest.fail(f"{ends} in {SEEDS} schedules")


def bounded_ends(report: Report) -> Iterator[str]:
    """Return what the bound ended in the runs of a schedule."""
    for history in Evidence(report.environment).runs.values():
        if not history.versions:
            continue
        state = history.newest_state
        failure = state.run.failure
        if failure is not None and failure.code == "max_denials":
            yield "run"
        texts = [message.content for message in state.logs["f1"].messages]
        if any("the agent clerk failed: sign was denied" in text for text in texts):
            yield "sub-agent"
