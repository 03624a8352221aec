"""The stores side by side, and the stores of other libraries.

The servers are started for the measurement, on loopback: Postgres with its usual
settings, which flush each commit, and a local S3, which flushes nothing.
"""

from __future__ import annotations

import asyncio
import os
import sqlite3
from contextlib import ExitStack, closing, contextmanager
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, NamedTuple

from benchmarks import model_api, peers, turn
from benchmarks.approval_agent import start_suspended_runs
from benchmarks.child_process import captured_output, time_to_stamp_ms
from benchmarks.cold_processes import RESUME, approve_runs
from benchmarks.on_files import (
    RUN_CYCLES,
    disk_bytes,
    milliseconds,
    per_second,
    run_cycles,
)
from benchmarks.result_row import Row
from benchmarks.rounds import interleaved_medians
from continuations import Runner
from tests import postgres_server
from tests.storage import ministack
from tests.storage.cutting_proxy import run_proxy

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator

    from tests.postgres_server import PostgresServer

_WAITS = 1_000
_ROUNDS = 5
_COUNTED_CYCLES = 10
_MAX_OF_DBOS = 1 / 2


class Place(NamedTuple):
    """A store and its name in the table."""

    name: str
    url: str


class Bench:
    """The stores, each with an empty place for each measurement."""

    def __init__(self, folder: Path, server: PostgresServer) -> None:
        self.folder = folder
        self.server = server
        self._count = 0

    def places(self) -> list[Place]:
        """Return a new empty place on each store."""
        self._count += 1
        name = f"m{self._count}"
        return [
            Place("files", f"file:{self.folder}/{name}"),
            Place("SQLite", f"sqlite:{self.folder}/{name}.db"),
            Place("Postgres", self.server.new_url()),
            Place("a local S3", f"s3://bench/{name}"),
        ]

    def compared(
        self,
        what: str,
        unit: str,
        measure: Callable[[str], Callable[[], float]],
        rounds: int = _ROUNDS,
    ) -> Iterator[Row]:
        """Yield a row for each store beside files."""
        places = self.places()
        files, *others = interleaved_medians(
            rounds, *(measure(place.url) for place in places)
        )
        for place, result in zip(places[1:], others, strict=True):
            yield Row(
                what=f"{what}, on {place.name}",
                ours=result,
                compared_with="the same on files",
                theirs=files,
                unit=unit,
            )


def rows() -> Iterator[Row]:
    """Measure on the disk of the temporary folder."""
    if "Postgres" in postgres_server.missing():
        return
    with _bench() as bench:
        yield _round_trips_row(bench.server)
        yield from _turn_rows(bench)
        yield from bench.compared(
            "cycle of start, approval and resume, 1 process", "ms", _cycle
        )
        for count in (1, 2):
            yield from bench.compared(
                f"cycles a second, {count} process{'es' if count > 1 else ''}",
                "",
                partial(_cycles, count),
            )
        yield from bench.compared(
            "cold process that resumes, until the approved tool runs", "ms", _resume
        )
        yield from bench.compared(
            f"{_WAITS:,} open waits with arguments", "ms", _listing
        )
        yield from _disk_rows(bench)
        yield from _peer_rows(bench)


@contextmanager
def _bench() -> Generator[Bench]:
    with ExitStack() as stack:
        folder = Path(stack.enter_context(TemporaryDirectory()))
        server = stack.enter_context(postgres_server.run_server(durable=True))
        (folder / "s3").mkdir()
        url = stack.enter_context(ministack.run_server(folder / "s3"))
        ministack.make_bucket(url, "bench")
        os.environ.update(ministack.ENVIRONMENT, AWS_ENDPOINT_URL_S3=url)
        yield Bench(folder, server)


def _round_trips_row(server: PostgresServer) -> Row:
    with run_proxy(server.port) as proxy:
        url = server.new_url(port=proxy.port)
        asyncio.run(run_cycles(url, "first", 1))
        before = proxy.statements
        asyncio.run(run_cycles(url, "more", _COUNTED_CYCLES))
    return Row(
        what="statements of a cycle on Postgres",
        ours=(proxy.statements - before) / _COUNTED_CYCLES,
        compared_with="the goal",
        theirs=12,
        unit="",
        max_ratio=1,
    )


def _turn_rows(bench: Bench) -> Iterator[Row]:
    with model_api.serving() as api:

        def measure(url: str) -> Callable[[], float]:
            return lambda: float(
                captured_output(turn.OURS, url, "ordinary", base_url=api)
            )

        what = "durable turn at 200 turns, an ordinary tool"
        yield from bench.compared(what, "ms", measure, rounds=3)


def _cycle(url: str) -> Callable[[], float]:
    return lambda: 1000 / per_second(url, RUN_CYCLES, 1)


def _cycles(processes: int, url: str) -> Callable[[], float]:
    return lambda: per_second(url, RUN_CYCLES, processes)


def _resume(url: str) -> Callable[[], float]:
    runs = iter(approve_runs(url, asyncio.run(start_suspended_runs(url, _ROUNDS + 1))))
    return lambda: time_to_stamp_ms(RESUME, url, next(runs))


def _listing(url: str) -> Callable[[], float]:
    asyncio.run(start_suspended_runs(url, _WAITS))
    runner = Runner([], store=url)
    return lambda: milliseconds(lambda: list(runner.open_waits()))


def _disk_rows(bench: Bench) -> Iterator[Row]:
    files, sqlite, postgres, _ = bench.places()
    for place in (files, sqlite, postgres):
        asyncio.run(start_suspended_runs(place.url, _WAITS))
    file = sqlite.url.removeprefix("sqlite:")
    with closing(sqlite3.connect(file)) as database:
        database.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    schema = postgres.url.rpartition("schema=")[2]
    [[table]] = bench.server.rows(f"SELECT pg_total_relation_size('{schema}.objects')")
    on_files = disk_bytes(Path(files.url.removeprefix("file:")))
    for place, size in ((sqlite, Path(file).stat().st_size), (postgres, table)):
        yield Row(
            what=f"waiting run, blocks on the disk, on {place.name}",
            ours=size / _WAITS / 1000,
            compared_with="the same on files",
            theirs=on_files / _WAITS / 1000,
            unit="kB",
        )


def _peer_rows(bench: Bench) -> Iterator[Row]:
    _, sqlite, postgres, _ = bench.places()
    database = bench.server.url()
    measured = (
        (sqlite.url, RUN_CYCLES),
        (f"{bench.folder}/langgraph.db", peers.LANGGRAPH_ON_SQLITE),
        (postgres.url, RUN_CYCLES),
        (database, peers.LANGGRAPH_ON_POSTGRES),
        (database, peers.DBOS_ON_POSTGRES),
    )
    ours, langgraph, on_postgres, langgraph_on_postgres, dbos = (
        1000 / each
        for each in interleaved_medians(
            _ROUNDS, *(partial(per_second, *each, 1) for each in measured)
        )
    )
    for where, mine, kit, theirs, limit in (
        ("SQLite", ours, "LangGraph, its SQLite checkpointer", langgraph, None),
        (
            "Postgres",
            on_postgres,
            "LangGraph, its checkpointer",
            langgraph_on_postgres,
            None,
        ),
        ("Postgres", on_postgres, "DBOS", dbos, _MAX_OF_DBOS),
    ):
        yield Row(
            what=f"cycle, 1 process, on {where}",
            ours=mine,
            compared_with=kit,
            theirs=theirs,
            unit="ms",
            max_ratio=limit,
        )
