"""From a decision in one process to the tool in another one with a worker loop."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import threading
import time
from contextlib import contextmanager
from queue import SimpleQueue
from statistics import median
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from benchmarks.child_process import ROOT, environment
from benchmarks.result_row import Row
from continuations import (
    Agent,
    Approve,
    AsyncRunner,
    Runner,
    Suspended,
    open_store,
    tool,
)
from continuations.models.scripted import ScriptedModel, ToolCall
from continuations_storage.faults import ForwardingStore
from tests.postgres_server import missing, run_server

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable, Iterator

_DECISIONS = 20
_CODE = "import sys; from benchmarks.wakeups import serve; serve(*sys.argv[1:])"
_PAUSE = 0.3


def rows() -> Iterator[Row]:
    """Measure on files, SQLite, Postgres if there is one, and in memory."""
    with TemporaryDirectory() as folder:
        for name, url in (("files", "file:"), ("SQLite", "sqlite:")):
            milliseconds = {
                reports: _measure(f"{url}{folder}/{name}-{reports}", reports)
                for reports in ("reports", "none")
            }
            yield _row(f"another process, on {name}", milliseconds)
    if "Postgres" not in missing():
        with run_server(durable=True) as server:
            urls = {each: server.new_url() for each in ("reports", "none")}
            milliseconds = {each: _measure(url, each) for each, url in urls.items()}
            yield _row("another process, on Postgres", milliseconds)
    milliseconds = {each: _measure("memory:", each) for each in ("reports", "none")}
    yield _row("another event loop, in memory", milliseconds)


def _row(where: str, millimilliseconds: dict[str, float]) -> Row:
    return Row(
        what=f"from a decision to the tool in {where}",
        ours=millimilliseconds["reports"],
        compared_with="the same without reports of the store, soon after other work",
        theirs=millimilliseconds["none"],
        unit="ms",
    )


class _Silent(ForwardingStore):
    """A store without a watch."""

    def watch(self, prefix: str) -> None:
        del prefix


def _store(url: str, reports: str) -> Any:
    store = open_store(url)
    return store if reports == "reports" else _Silent(store)


def _agent(tell: Callable[[int], object]) -> Agent:
    @tool(approval=True)
    def note(number: int) -> str:
        """Save a note."""
        tell(time.monotonic_ns())
        return str(number)

    script = ScriptedModel([ToolCall("note", {"number": 7}), "Saved."])
    return Agent("notes", tools=[note], model=script)


def serve(url: str, reports: str) -> None:
    """Run a worker loop that writes the time of each call, until SIGTERM."""
    agent = _agent(lambda at: os.write(1, f"{at}\n".encode()))
    Runner(agent, store=_store(url, reports)).serve_forever()


def _measure(url: str, reports: str) -> float:
    """Return the median of the millimilliseconds from a decision to its tool."""
    store = _store(url, reports)
    count = _DECISIONS if reports == "reports" else _DECISIONS // 4
    waits = asyncio.run(_start(store, count + 1))
    decider, found = Runner([], store=store), SimpleQueue[int]()
    with _serving(url, store, reports, found):
        millimilliseconds: list[float] = []
        for wait in waits:
            # Let the loop become idle.
            time.sleep(_PAUSE)
            decider.decide(wait, Approve(by="kim"))
            decided_at = time.monotonic_ns()
            millimilliseconds.append((found.get(timeout=60) - decided_at) / 1e6)
    # The first call imports what the process needs.
    return median(millimilliseconds[1:])


async def _start(store: Any, count: int) -> list[str]:
    runner = AsyncRunner(_agent(lambda _: None), store=store)
    waits: list[str] = []
    for _ in range(count):
        outcome = await runner.start("Save the note 7.")
        assert isinstance(outcome, Suspended)  # noqa: S101 - the script ends here
        waits.append(outcome.waits[0].id)
    return waits


@contextmanager
def _serving(
    url: str, store: Any, reports: str, found: SimpleQueue[int]
) -> Generator[None]:
    if url == "memory:":
        with _serving_thread(store, found):
            yield
        return
    command = [sys.executable, "-c", _CODE, url, reports]
    with subprocess.Popen(
        command, cwd=ROOT, env=environment(), stdout=subprocess.PIPE, text=True
    ) as worker:
        assert worker.stdout is not None  # noqa: S101 - a pipe
        reader = threading.Thread(target=_read_times, args=(worker.stdout, found))
        reader.start()
        # Until the loop waits.
        time.sleep(2)
        try:
            yield
        finally:
            worker.send_signal(signal.SIGTERM)
            reader.join()


def _read_times(lines: Iterable[str], found: SimpleQueue[int]) -> None:
    for line in lines:
        found.put(int(line))


@contextmanager
def _serving_thread(store: Any, found: SimpleQueue[int]) -> Generator[None]:
    runner = AsyncRunner(_agent(found.put), store=store)
    loop = asyncio.new_event_loop()
    stop = asyncio.Event()
    thread = threading.Thread(
        target=lambda: loop.run_until_complete(runner.serve_forever(stop=stop))
    )
    thread.start()
    try:
        yield
    finally:
        loop.call_soon_threadsafe(stop.set)
        thread.join()
        loop.close()
