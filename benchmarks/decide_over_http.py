"""Decisions over HTTP on files, beside the two creates that each of them must make."""

from __future__ import annotations

import asyncio
import secrets
import time
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from benchmarks.approval_agent import start_suspended_runs
from benchmarks.on_files import folders_to_measure
from benchmarks.result_row import Row
from benchmarks.rounds import interleaved_medians
from continuations import AsyncRunner, open_store
from continuations.serve.http import asgi
from continuations.serve.http.api import HttpApi

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterable, Iterator

_ROUNDS, _DECISIONS, _CLIENTS = 5, 100, 16
_BODY = b'{"decision": "approve"}'
_HEADERS = [
    (b"host", b"api.example"),
    (b"content-type", b"application/json"),
    (b"content-length", str(len(_BODY)).encode()),
]


def rows() -> Iterator[Row]:
    """Measure an ASGI application on files, with 16 clients at a time.

    The web server and the network are not measured: they are not ours.
    """
    for parent, where in folders_to_measure():
        yield _row(parent, where)


def _row(parent: str | None, where: str) -> Row:
    with TemporaryDirectory(dir=parent) as folder, asyncio.Runner() as loop:
        url = f"file:{folder}"
        loop.run(start_suspended_runs(url, _DECISIONS * (_ROUNDS + 1)))
        runner = AsyncRunner([], store=url)
        app = asgi.app(HttpApi(runner, verify=lambda _: "kim"))
        store = open_store(url)
        wait_ids = loop.run(_wait_ids(runner))
        names = [secrets.token_hex(8) for _ in wait_ids]
        for name in names:
            # The folder of a run exists before its first decision.
            loop.run(store.create(f"runs/{name}/v/1", b""))

        async def decide(wait_id: str) -> None:
            await _post(app, f"/waits/{wait_id}/decision")

        async def create_twice(name: str) -> None:
            await store.create(f"markers/{name}@{name}", b"")
            await store.create(f"runs/{name}/in/{name}", b"x" * 300)

        decide_ms, creates_ms = interleaved_medians(
            _ROUNDS,
            lambda: loop.run(
                _milliseconds(decide, [wait_ids.pop() for _ in range(_DECISIONS)])
            ),
            lambda: loop.run(
                _milliseconds(create_twice, [names.pop() for _ in range(_DECISIONS)])
            ),
        )
    return Row(
        what=f"decision over HTTP, {_CLIENTS} clients, {where}",
        ours=decide_ms,
        compared_with="its two creates alone",
        theirs=creates_ms,
        unit="ms",
        max_ratio=1.5,
    )


async def _wait_ids(runner: AsyncRunner) -> list[str]:
    return [summary.id async for summary in runner.waiting()]


async def _milliseconds(
    work: Callable[[str], Coroutine[Any, Any, None]], names: Iterable[str]
) -> float:
    """Return the mean time of one piece of work, in milliseconds."""
    left = iter(names)

    async def client() -> None:
        for name in left:
            await work(name)

    started = time.perf_counter()
    await asyncio.gather(*(client() for _ in range(_CLIENTS)))
    return (time.perf_counter() - started) * 1000 / _DECISIONS


async def _post(app: Any, path: str) -> None:
    """Send a decision to an ASGI application, as a server does."""
    statuses: list[int] = []

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": _BODY, "more_body": False}

    async def send(message: dict[str, Any]) -> None:
        if message["type"] == "http.response.start":
            statuses.append(message["status"])

    scope = {
        "type": "http",
        "method": "POST",
        "path": path,
        "raw_path": path.encode(),
        "query_string": b"",
        "root_path": "",
        "headers": _HEADERS,
    }
    await app(scope, receive, send)
    assert statuses == [200]  # noqa: S101 - a refused decision would be too fast
