"""Decide in a cold process with the runs on S3, through each driver."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from benchmarks.approval_agent import start_suspended_runs
from benchmarks.child_process import wall_time_ms
from benchmarks.imports import CLIENT_IMPORT
from benchmarks.result_row import Row
from benchmarks.rounds import interleaved_medians
from continuations import open_store
from tests.storage import ministack

if TYPE_CHECKING:
    from collections.abc import Iterator

_ROUNDS = 9
_DECIDE = """
import sys
from continuations import Approve, Runner, open_store
store = open_store("s3://bench/runs", driver=sys.argv[1])
Runner([], store=store).decide(sys.argv[2], Approve(by="kim"))
"""
# boto3 has no limit: its own import takes longer than the limit for obstore.
_MAX_RATIO = {"obstore": 1 / 2, "boto3": None}


def rows() -> Iterator[Row]:
    """Measure a cold process that decides, on a local S3."""
    with TemporaryDirectory() as folder, ministack.run_server(Path(folder)) as url:
        ministack.make_bucket(url, "bench")
        os.environ.update(ministack.ENVIRONMENT, AWS_ENDPOINT_URL_S3=url)
        store = open_store("s3://bench/runs")
        for driver, max_ratio in _MAX_RATIO.items():
            runs = iter(asyncio.run(start_suspended_runs(store, _ROUNDS + 1)))
            ours, client = interleaved_medians(
                _ROUNDS,
                lambda: wall_time_ms(_DECIDE, driver, next(runs).waits[0].id),  # noqa: B023
                lambda: wall_time_ms(CLIENT_IMPORT),
            )
            yield Row(
                what=f"cold process that decides, on S3 through {driver}",
                ours=ours,
                compared_with=CLIENT_IMPORT,
                theirs=client,
                unit="ms",
                max_ratio=max_ratio,
            )
