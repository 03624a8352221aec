"""A run that is decided, and then resumed, by processes that were not there before."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from benchmarks import model_api
from benchmarks.clerk import suspended
from benchmarks.imports import CLIENT
from benchmarks.process import until_stamp, wall
from benchmarks.rounds import medians
from benchmarks.row import Row
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
_RESUME = """
import sys
from benchmarks import clerk
clerk.resume(sys.argv[1], sys.argv[2])
"""
_FLOOR = """
import sys
from benchmarks import floor, stamp
floor.resume(sys.argv[1], lambda number: stamp.stamp_and_exit() or "")
"""


def decide_rows() -> Iterator[Row]:
    """Decide in a cold process."""
    with TemporaryDirectory() as folder:
        url = f"file:{folder}"
        runs = iter(asyncio.run(suspended(url, _ROUNDS + 1)))
        ours, client = medians(
            _ROUNDS,
            lambda: wall(_DECIDE, url, next(runs).waits[0].id),
            lambda: wall(CLIENT),
        )
    yield Row(
        what="cold process that decides on files",
        ours=ours,
        against=CLIENT,
        theirs=client,
        unit="ms",
        most=1 / 3,
    )


def resume_rows() -> Iterator[Row]:
    """Resume in a cold process until the approved tool runs."""
    with TemporaryDirectory() as folder:
        url = f"file:{folder}/runs"
        saved = f"{folder}/floor.json"
        Path(saved).write_text(json.dumps(_approved()))
        runs = iter(_decided(url, asyncio.run(suspended(url, _ROUNDS + 1))))
        ours, floor = medians(
            _ROUNDS,
            lambda: until_stamp(_RESUME, url, next(runs)),
            lambda: until_stamp(_FLOOR, saved),
        )
    yield Row(
        what="cold resume until the approved tool runs",
        ours=ours,
        against="the floor",
        theirs=floor,
        unit="ms",
        most=1 / 2,
    )


def _decided(url: str, runs: list[Suspended]) -> list[str]:
    runner = Runner([], store=url)
    for run in runs:
        runner.decide(run.waits[0].id, Approve(by="kim"))
    return [run.run_id for run in runs]


def _approved() -> list[object]:
    """Return what the floor has saved at the same moment of the same run."""
    return [
        {"role": "system", "content": "You keep the notes."},
        {"role": "user", "content": "Note the seven."},
        model_api.message(1),
    ]
