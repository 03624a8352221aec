"""The store in a table of Postgres: cycles, a listing, bytes and round trips.

The server runs on this machine, with its default settings for flushes. So a round trip
takes a tenth of a millisecond; over a network it takes longer.
"""

from __future__ import annotations

import asyncio
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from benchmarks.approval_agent import start_suspended_runs
from benchmarks.on_files import RUN_CYCLES, milliseconds, per_second, run_cycles
from benchmarks.result_row import Row
from benchmarks.rounds import interleaved_medians
from continuations import Runner
from tests.postgres_server import PostgresServer, missing, run_server
from tests.storage.cutting_proxy import run_proxy

if TYPE_CHECKING:
    from collections.abc import Iterator

_WAITS = 1_000
_CYCLES = 10


def rows() -> Iterator[Row]:
    """Measure with a server of this machine, if it has one."""
    if "Postgres" in missing():
        return
    with run_server(durable=True) as server:
        for processes in (1, 2):
            with TemporaryDirectory() as folder:
                yield _cycles_row(server, Path(folder), processes)
        yield _round_trips_row(server)
        url = server.new_url()
        with TemporaryDirectory() as folder:
            for each in (url, f"file:{folder}/runs"):
                asyncio.run(start_suspended_runs(each, _WAITS))
            yield _arguments_row(url, f"file:{folder}/runs")
        yield _disk_row(server, url)


def _cycles_row(server: PostgresServer, root: Path, processes: int) -> Row:
    ours, theirs = interleaved_medians(
        3,
        partial(per_second, server.new_url(), RUN_CYCLES, processes),
        partial(per_second, f"file:{root}/runs", RUN_CYCLES, processes),
    )
    return Row(
        what=f"cycles of start, approval and resume a second, {processes} process"
        f"{'es' if processes > 1 else ''} on Postgres",
        ours=ours,
        compared_with="the same on files",
        theirs=theirs,
        unit="",
    )


def _round_trips_row(server: PostgresServer) -> Row:
    with run_proxy(server.port) as proxy:
        url = server.new_url(port=proxy.port)
        asyncio.run(run_cycles(url, "first", 1))
        before = proxy.statements
        asyncio.run(run_cycles(url, "more", _CYCLES))
    return Row(
        what="statements of a cycle on Postgres",
        ours=(proxy.statements - before) / _CYCLES,
        compared_with="the goal",
        theirs=12,
        unit="",
        max_ratio=1,
    )


def _arguments_row(url: str, files_url: str) -> Row:
    ours, theirs = (Runner([], store=each) for each in (url, files_url))
    measured = interleaved_medians(
        5,
        partial(milliseconds, lambda: list(ours.open_waits())),
        partial(milliseconds, lambda: list(theirs.open_waits())),
    )
    return Row(
        what=f"{_WAITS:,} open waits with arguments, on Postgres",
        ours=measured[0],
        compared_with="the same on files",
        theirs=measured[1],
        unit="ms",
    )


def _disk_row(server: PostgresServer, url: str) -> Row:
    schema = url.rpartition("=")[2]
    query = f"SELECT pg_total_relation_size('{schema}.objects')"
    [(size,)] = server.rows(query)
    return Row(
        what="waiting run on Postgres, with its keys in the index",
        ours=size / _WAITS / 1000,
        compared_with="the goal on SQLite",
        theirs=4,
        unit="kB",
    )
