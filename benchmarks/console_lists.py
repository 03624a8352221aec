"""The lists of the console in a store of 10,000 waits and 100,000 runs."""

from __future__ import annotations

import asyncio
import time
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from statistics import median
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import httpx

from benchmarks.approval_agent import start_suspended_runs
from benchmarks.result_row import Row
from continuations import Agent, AsyncRunner
from continuations.core.rows.calls import Waiting
from continuations.core.rows.run import Failure
from continuations.ledger.index import run_index, waits
from continuations.ledger.objects import Objects, gather_all, open_store
from continuations.ledger.versions import Versions
from continuations.models.scripted import ScriptedModel
from continuations.serve import console
from continuations.value_class import replace
from continuations_storage import MemoryStore

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator

    from continuations.core.rows.state import RunState
    from continuations.core.rows.waits import Wait
    from continuations.serve.http.request_response import Request

WAITS, ENDED = 10_000, 90_000
_AT_ONCE = 100
_GOAL_MS, _REPEATS = 500, 7
_SEARCHES = {
    "the waits of one run": "/inbox?for=all&q=invoice-777",
    "runs by title": "/runs?q=rotterdam+88123",
    "failed runs": "/runs?status=failed",
}


def rows() -> Iterator[Row]:
    """Measure in memory, and with a file of SQLite. It stores 200,000 runs."""
    with TemporaryDirectory() as folder:
        stores = {"memory": "memory:", "SQLite": f"sqlite:{folder}/runs.db"}
        for name, url in stores.items():
            store = open_store(url)
            asyncio.run(fill(store, WAITS, ENDED))
            yield from asyncio.run(_measure(name, store))


async def _measure(name: str, store: Any) -> list[Row]:
    client = _Client(store)
    with timed() as first:
        while "data-reading" in await client.get("/runs"):  # noqa: ASYNC110 - as an open page does
            await asyncio.sleep(1)
    found = [
        Row(
            what=f"console: read 100,000 runs once, {name}",
            ours=first() * 1000,
            compared_with="the goal",
            theirs=60_000,
            unit="ms",
            max_ratio=1,
        )
    ]
    while "data-reading" in await client.get("/inbox?for=all&q=x"):  # noqa: ASYNC110 - see above
        await asyncio.sleep(1)
    for what, path in _SEARCHES.items():
        times: list[float] = []
        for _ in range(_REPEATS):
            with timed() as spent:
                text = await client.get(path)
            times.append(spent())
            assert "data-reading" not in text  # noqa: S101 - all is read
        found.append(
            Row(
                what=f"console: find {what}, {name}",
                ours=median(times) * 1000,
                compared_with="the goal",
                theirs=_GOAL_MS,
                unit="ms",
                max_ratio=1,
            )
        )
    return found


@contextmanager
def timed() -> Generator[Any]:
    """Give a function that returns the seconds of the block after its end."""
    started, ended = time.perf_counter(), 0.0
    yield lambda: ended - started
    ended = time.perf_counter()


def _kim(_: Request) -> str:
    return "kim"


class _Client:
    """Opens pages of a console on a store, without a server."""

    def __init__(self, store: Any) -> None:
        app = console.app(AsyncRunner([], store=store), verify=_kim)
        self._transport = httpx.ASGITransport(app)

    async def get(self, path: str) -> str:
        """Return the text of a page."""
        async with httpx.AsyncClient(transport=self._transport) as client:
            response = await client.get(
                f"http://bench.example{path}", headers={"accept": "text/html"}
            )
        return response.raise_for_status().text


async def fill(store: Any, waiting: int, ended: int) -> None:
    """Store runs as workers leave them, copied from two runs of a worker."""
    [template] = await start_suspended_runs(MemoryStore(), 1)
    suspended = template.continuation.run_state
    finished = await _finished()
    objects = Objects(store)
    for first in range(0, waiting, _AT_ONCE):
        numbers = range(first, min(first + _AT_ONCE, waiting))
        await gather_all(_store_waiting(objects, suspended, each) for each in numbers)
    for first in range(0, ended, _AT_ONCE):
        numbers = range(first, min(first + _AT_ONCE, ended))
        await gather_all(_store_ended(objects, finished, each) for each in numbers)


async def _finished() -> RunState:
    agent = Agent("shipping", model=ScriptedModel(["done"]))
    runner = AsyncRunner(agent, store=MemoryStore())
    await runner.start("Ship.", run_id="template", labels={"team": "sea"})
    return (await runner.look("template")).run_state


async def _store_waiting(objects: Objects, template: RunState, number: int) -> None:
    run_id = f"invoice-{number}"
    run = replace(template.run, id=run_id, title=f"Invoice {number} of Meridian")
    moved = [_moved(wait, run_id) for wait in template.waits.values()]
    state = template.with_rows(
        run=run,
        waits={wait.id: wait for wait in moved},
        calls={
            call.id: replace(call, state=Waiting(wait.id))
            for call, wait in zip(template.calls.values(), moved, strict=True)
        },
    )
    at = datetime.now(UTC) - timedelta(seconds=number)
    await Versions(objects, run_id).append(None, state, at=at)
    await waits.create(objects, moved)
    await run_index.create_live(objects, run)


def _moved(wait: Wait, run_id: str) -> Wait:
    name = wait.id.partition("@")[0]
    return replace(wait, id=f"{name}@{run_id}", run_id=run_id)


async def _store_ended(objects: Objects, template: RunState, number: int) -> None:
    run_id = f"shipment-{number}"
    title = f"Container to Rotterdam {number}"
    run = replace(template.run, id=run_id, title=title)
    if number % 1000 == 0:
        failure = Failure(code="budget", message="The budget is used up.")
        run = replace(run, status="failed", output=None, failure=failure)
    at = datetime.now(UTC) - timedelta(minutes=number)
    await Versions(objects, run_id).append(None, template.with_rows(run=run), at=at)
    await objects.create(run_index.ended_key(run_id, at), b"")
