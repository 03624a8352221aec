"""The file store: listings, creates and cycles beside the plain system calls."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import time
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from benchmarks.approval_agent import start_suspended_runs
from benchmarks.result_row import Row
from benchmarks.rounds import interleaved_medians
from continuations import Agent, Approve, AsyncRunner, Runner, Suspended, tool
from continuations.core.ulid import encode_ulid
from continuations.models.scripted import ScriptedModel, ToolCall
from continuations_storage import FileStore

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_BODY = b"x" * 800
_CREATES = 200
CYCLES = 100
RUN_CYCLES = f"{__name__}:run_cycles"
_BLOCK = 512  # the unit of st_blocks
_IN_MEMORY = "/dev/shm"  # noqa: S108 - a file system in memory
_WORKER = """
import asyncio, importlib, sys
module, _, name = sys.argv[1].partition(":")
work = getattr(importlib.import_module(module), name)
asyncio.run(work(sys.argv[2], "first" + sys.argv[3], 1))
print("ready", flush=True)
input()
asyncio.run(work(sys.argv[2], sys.argv[3], int(sys.argv[4])))
"""


def rows() -> Iterator[Row]:
    """Measure on the disk of the temporary folder."""
    for count, max_ratio in ((1_000, 3), (10_000, 3)):
        with TemporaryDirectory() as folder:
            yield _listing_row(Path(folder), count, max_ratio)
    with TemporaryDirectory() as folder:
        yield _arguments_row(folder)
    with TemporaryDirectory() as folder:
        yield _create_row(Path(folder))
    with TemporaryDirectory() as folder:
        yield _disk_row(Path(folder))
    for parent, where in folders_to_measure():
        with TemporaryDirectory(dir=parent) as folder:
            yield _cycles_row(Path(folder), where)


def folders_to_measure() -> Iterator[tuple[str | None, str]]:
    """Yield the temporary folder, and one in memory if the system has it."""
    yield None, "on files"
    if Path(_IN_MEMORY).is_dir():
        yield _IN_MEMORY, "on files in memory, where a flush is free"


def make_keys_of_waits(root: Path, count: int) -> Path:
    """Make the files of open waits without a body; return their folder."""
    folder = root / "waits"
    folder.mkdir()
    for number in range(count):
        (folder / f"approval-{encode_ulid(number, bytes(10))}@r-{number % 7}").touch()
    return folder


def _listing_row(root: Path, count: int, max_ratio: float) -> Row:
    folder = make_keys_of_waits(root, count)
    runner = Runner([], store=FileStore(root))
    ours, theirs = interleaved_medians(
        9,
        partial(milliseconds, lambda: sum(1 for _ in runner.waiting())),
        partial(milliseconds, lambda: sum(1 for _ in os.scandir(folder))),
    )
    return Row(
        what=f"{count:,} open waits listed, on files",
        ours=ours,
        compared_with="os.scandir of the same folder",
        theirs=theirs,
        unit="ms",
        max_ratio=max_ratio,
    )


def _arguments_row(folder: str) -> Row:
    asyncio.run(start_suspended_runs(f"file:{folder}", 1_000))
    runner = Runner([], store=f"file:{folder}")
    ours, theirs = interleaved_medians(
        5,
        partial(milliseconds, lambda: list(runner.open_waits())),
        partial(milliseconds, lambda: [runner.wait(w.id) for w in runner.waiting()]),
    )
    return Row(
        what="1,000 open waits with arguments, on files",
        ours=ours,
        compared_with="a call of wait() for each",
        theirs=theirs,
        unit="ms",
    )


def _create_row(root: Path) -> Row:
    store = FileStore(root / "store")
    (root / "plain").mkdir()

    async def create_all(batch: str) -> None:
        for number in range(_CREATES):
            await store.create(f"runs/{batch}/v/{number}", _BODY)

    def measured_store() -> float:
        batch = os.urandom(4).hex()
        return milliseconds(lambda: asyncio.run(create_all(batch))) / _CREATES

    def measured_calls() -> float:
        return (
            milliseconds(partial(write_plainly, root / "plain", _CREATES, _BODY))
            / _CREATES
        )

    ours, theirs = interleaved_medians(5, measured_store, measured_calls)
    return Row(
        what="create of 800 bytes, on files",
        ours=ours * 1000,
        compared_with="open, write, fsync, close, fsync of the folder",
        theirs=theirs * 1000,
        unit="us",
    )


def write_plainly(folder: Path, count: int, body: bytes) -> None:
    """Write files, each flushed with its folder, by system calls alone."""
    for _ in range(count):
        path = folder / os.urandom(8).hex()
        file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL)
        left = memoryview(body)
        while left:
            left = left[os.write(file, left) :]
        os.fsync(file)
        os.close(file)
        directory = os.open(folder, os.O_RDONLY)
        os.fsync(directory)
        os.close(directory)


def _disk_row(root: Path) -> Row:
    asyncio.run(start_suspended_runs(f"file:{root}", 101))
    before = disk_bytes(root)
    asyncio.run(start_suspended_runs(f"file:{root}", 100))
    return Row(
        what="waiting run, blocks on the disk",
        ours=(disk_bytes(root) - before) / 100 / 1000,
        compared_with="the bytes of its files",
        theirs=_file_bytes(root) / 201 / 1000,
        unit="kB",
    )


def disk_bytes(root: Path) -> int:
    """Return the blocks of all files and folders below a folder, in bytes."""
    return sum(path.stat().st_blocks * _BLOCK for path in root.rglob("*"))


def _file_bytes(root: Path) -> int:
    return sum(path.stat().st_size for path in root.rglob("*") if path.is_file())


def _cycles_row(root: Path, where: str) -> Row:
    cycles, creates = interleaved_medians(
        3,
        partial(per_second, f"file:{root}", RUN_CYCLES, 2),
        partial(per_second, str(root), f"{__name__}:run_creates", 2),
    )
    return Row(
        what=f"cycles of start, approval and resume a second, 2 processes, {where}",
        ours=cycles,
        compared_with="their 10 creates alone",
        theirs=creates,
        unit="",
    )


def per_second(place: str, function: str, processes: int) -> float:
    """Return the cycles a second of some processes.

    Args:
        place: The folder or store that the function works on.
        function: `module:name` of a coroutine function of a place, a name of the
            process and a number of cycles.
        processes: The number of processes.
    """
    command = [sys.executable, "-c", _WORKER, function, place]
    workers = [
        subprocess.Popen(
            [*command, os.urandom(4).hex(), str(CYCLES)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        for _ in range(processes)
    ]
    for worker in workers:
        assert worker.stdout is not None  # noqa: S101 - for the type checker
        worker.stdout.readline()  # "ready": its modules are loaded
    started = time.perf_counter()
    for worker in workers:
        assert worker.stdin is not None  # noqa: S101 - as above
        worker.stdin.write(b"go\n")
        worker.stdin.flush()
    assert not any(worker.wait() for worker in workers)  # noqa: S101 - ends here
    return processes * CYCLES / (time.perf_counter() - started)


async def run_cycles(url: str, name: str, count: int) -> None:
    """Start, approve and resume runs in a store; called in a child process."""

    @tool(approval=True)
    def pay(cents: int) -> str:
        """Pay an amount."""
        return f"Paid {cents}."

    model = ScriptedModel([ToolCall("pay", {"cents": 500}), "It is paid."])
    runner = AsyncRunner(Agent("payer", tools=[pay], model=model), store=url)
    for number in range(count):
        run_id = f"{name}-{number}"
        outcome = await runner.start("Pay 500.", run_id=run_id)
        assert isinstance(outcome, Suspended)  # noqa: S101 - the script ends here
        await runner.decide(outcome.waits[0].id, Approve(by="kim"))
        await runner.resume(run_id)


async def run_creates(root: str, name: str, count: int) -> None:
    """Make the creates of the same cycles; called in a child process."""
    store = FileStore(root)
    for number in range(count):
        run = f"runs/{name}-{number}"
        for step in range(3):
            await store.create(f"markers/{step}@{name}-{number}", b"")
        for version in range(5):
            await store.create(f"{run}/v/{version}", _BODY)
        await store.create(f"waits/{name}-{number}", _BODY)
        await store.create(f"{run}/in/d", _BODY)


async def run_plain_creates(root: str, name: str, count: int) -> None:
    """Write the files of the same cycles by system calls; called in a child process."""
    folder = Path(root) / name
    folder.mkdir(exist_ok=True)
    for _ in range(count):
        write_plainly(folder, 3, b"")
        write_plainly(folder, 7, _BODY)


def milliseconds(function: Callable[[], object]) -> float:
    """Return the time of one call."""
    started = time.perf_counter()
    function()
    return (time.perf_counter() - started) * 1000
