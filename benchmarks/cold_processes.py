"""Decide and resume a run in cold processes."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from benchmarks import model_api
from benchmarks.approval_agent import start_suspended_runs
from benchmarks.child_process import time_to_stamp_ms, wall_time_ms
from benchmarks.imports import CLIENT_IMPORT
from benchmarks.result_row import Row
from benchmarks.rounds import interleaved_medians
from continuations import Approve, Runner

if TYPE_CHECKING:
    from collections.abc import Iterator

    from continuations import Suspended

_ROUNDS = 9
_DECIDE = """
import sys
from continuations import Approve, Runner
Runner([], store=sys.argv[1]).decide(sys.argv[2], Approve(by="kim"))
"""
RESUME = """
import sys
from benchmarks import approval_agent
approval_agent.resume_until_stamp(sys.argv[1], sys.argv[2])
"""
_BASELINE = """
import sys
from benchmarks import baseline, stamp
baseline.resume(sys.argv[1], lambda number: stamp.write_time_and_exit() or "")
"""


def decide_rows() -> Iterator[Row]:
    """Measure a cold process that decides."""
    with TemporaryDirectory() as folder:
        url = f"file:{folder}"
        runs = iter(asyncio.run(start_suspended_runs(url, _ROUNDS + 1)))
        ours, client = interleaved_medians(
            _ROUNDS,
            lambda: wall_time_ms(_DECIDE, url, next(runs).waits[0].id),
            lambda: wall_time_ms(CLIENT_IMPORT),
        )
    yield Row(
        what="cold process that decides, on files",
        ours=ours,
        compared_with=CLIENT_IMPORT,
        theirs=client,
        unit="ms",
        max_ratio=0.25,
    )


def resume_rows() -> Iterator[Row]:
    """Measure a cold process that resumes, until the approved tool runs."""
    with TemporaryDirectory() as folder:
        url = f"file:{folder}/runs"
        saved = f"{folder}/baseline.json"
        Path(saved).write_text(json.dumps(_baseline_messages()))
        runs = iter(
            approve_runs(url, asyncio.run(start_suspended_runs(url, _ROUNDS + 1)))
        )
        ours, baseline = interleaved_medians(
            _ROUNDS,
            lambda: time_to_stamp_ms(RESUME, url, next(runs)),
            lambda: time_to_stamp_ms(_BASELINE, saved),
        )
    yield Row(
        what="cold process that resumes, until the approved tool runs",
        ours=ours,
        compared_with="a plain loop, one file",
        theirs=baseline,
        unit="ms",
        max_ratio=0.4,
    )


def approve_runs(url: str, runs: list[Suspended]) -> list[str]:
    runner = Runner([], store=url)
    for run in runs:
        runner.decide(run.waits[0].id, Approve(by="kim"))
    return [run.run_id for run in runs]


def _baseline_messages() -> list[object]:
    """Return the conversation that the baseline has saved at the same moment."""
    return [
        {"role": "system", "content": "You save notes."},
        {"role": "user", "content": "Save the note 7."},
        model_api.tool_call_message(1),
    ]
