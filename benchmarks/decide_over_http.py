"""Decisions over HTTP on files, beside the two creates that each of them must make."""

from __future__ import annotations

import asyncio
import secrets
import time
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from starlette.applications import Starlette
from starlette.responses import Response
from starlette.routing import Route

from benchmarks.approval_agent import start_suspended_runs
from benchmarks.on_files import folders_to_measure
from benchmarks.result_row import Row
from benchmarks.rounds import interleaved_medians
from continuations import AsyncRunner, open_store
from continuations.serve.http import asgi
from continuations.serve.http.api import HttpApi

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterable, Iterator

    from starlette.requests import Request

    from continuations_storage import Store

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
        yield from _rows(parent, where)


def _rows(parent: str | None, where: str) -> Iterator[Row]:
    with TemporaryDirectory(dir=parent) as folder, asyncio.Runner() as loop:
        url = f"file:{folder}"
        loop.run(start_suspended_runs(url, _DECISIONS * (_ROUNDS + 1)))
        runner = AsyncRunner([], store=url)
        app = asgi.app(HttpApi(runner, verify=lambda _: "kim"))
        wait_ids = loop.run(_wait_ids(runner))
        plain = _PlainWork(open_store(url))
        names = [secrets.token_hex(8) for _ in range(2 * len(wait_ids))]
        loop.run(plain.prepare(names))

        async def decide(wait_id: str) -> None:
            await _post(app, f"/waits/{wait_id}/decision")

        def measured(
            work: Callable[[str], Coroutine[Any, Any, None]], left: list[str]
        ) -> Callable[[], float]:
            return lambda: loop.run(
                _milliseconds(work, [left.pop() for _ in range(_DECISIONS)])
            )

        decide_ms, creates_ms, floor_ms = interleaved_medians(
            _ROUNDS,
            measured(decide, wait_ids),
            measured(plain.create_twice, names),
            measured(plain.answer_request, names),
        )
    what = f"decision over HTTP, {_CLIENTS} clients, {where}"
    yield Row(
        what=what,
        ours=decide_ms,
        compared_with="its two creates alone",
        theirs=creates_ms,
        unit="ms",
        max_ratio=1.5,
    )
    yield Row(
        what=what,
        ours=decide_ms,
        compared_with="its floor: two creates, a read and a delete, in a handler of "
        "Starlette that parses no body",
        theirs=floor_ms,
        unit="ms",
    )


class _PlainWork:
    """The operations of a decision on keys of their own."""

    def __init__(self, store: Store) -> None:
        self._store = store
        route = Route("/waits/{name}/decision", self._handle, methods=["POST"])
        self._app = Starlette(routes=[route])

    async def prepare(self, names: Iterable[str]) -> None:
        """Create what exists before a decision: the folder of the run and the wait."""
        for name in names:
            await self._store.create(f"runs/{name}/v/1", b"")
            await self._store.create(f"waits/{name}", b"x" * 600)

    async def create_twice(self, name: str) -> None:
        """Make the creates of a decision."""
        await self._store.create(f"markers/{name}@{name}", b"")
        await self._store.create(f"runs/{name}/in/{name}", b"x" * 300)

    async def answer_request(self, name: str) -> None:
        """Send a request whose handler makes all operations of a decision."""
        await _post(self._app, f"/waits/{name}/decision")

    async def _handle(self, request: Request) -> Response:
        name = request.path_params["name"]
        await request.body()
        await self._store.read(f"waits/{name}")
        await self.create_twice(name)
        await self._store.delete(f"waits/{name}")
        return Response(_BODY, media_type="application/json")


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
