"""The store in one SQLite file: cycles, a listing and bytes at rest, beside files."""

from __future__ import annotations

import asyncio
import sqlite3
from contextlib import closing
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from benchmarks.approval_agent import start_suspended_runs
from benchmarks.on_files import RUN_CYCLES, disk_bytes, milliseconds, per_second
from benchmarks.result_row import Row
from benchmarks.rounds import interleaved_medians
from continuations import Runner

if TYPE_CHECKING:
    from collections.abc import Iterator

_WAITS = 1_000


def rows() -> Iterator[Row]:
    """Measure on the disk of the temporary folder."""
    for processes in (1, 2):
        with TemporaryDirectory() as folder:
            yield _cycles_row(Path(folder), processes)
    with TemporaryDirectory() as folder:
        urls = [f"sqlite:{folder}/runs.db", f"file:{folder}/runs"]
        for url in urls:
            asyncio.run(start_suspended_runs(url, _WAITS))
        yield _arguments_row(*urls)
        yield _disk_row(Path(folder))


def _cycles_row(root: Path, processes: int) -> Row:
    ours, theirs = interleaved_medians(
        3,
        partial(per_second, f"sqlite:{root}/runs.db", RUN_CYCLES, processes),
        partial(per_second, f"file:{root}/runs", RUN_CYCLES, processes),
    )
    return Row(
        what=f"cycles of start, approval and resume a second, {processes} process"
        f"{'es' if processes > 1 else ''} on SQLite",
        ours=ours,
        compared_with="the same on files",
        theirs=theirs,
        unit="",
    )


def _arguments_row(sqlite_url: str, files_url: str) -> Row:
    on_sqlite, on_files = (Runner([], store=url) for url in (sqlite_url, files_url))
    ours, theirs = interleaved_medians(
        5,
        partial(milliseconds, lambda: list(on_sqlite.open_waits())),
        partial(milliseconds, lambda: list(on_files.open_waits())),
    )
    return Row(
        what=f"{_WAITS:,} open waits with arguments, on SQLite",
        ours=ours,
        compared_with="the same on files",
        theirs=theirs,
        unit="ms",
    )


def _disk_row(root: Path) -> Row:
    with closing(sqlite3.connect(root / "runs.db")) as database:
        database.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    return Row(
        what="waiting run on SQLite, blocks on the disk",
        ours=(root / "runs.db").stat().st_size / _WAITS / 1000,
        compared_with="the same on files",
        theirs=disk_bytes(root / "runs") / _WAITS / 1000,
        unit="kB",
    )
