"""The ASGI application: what Starlette carries to the desk and back."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import httpx
import pytest
from fastapi import FastAPI

from continuations.serve.http import asgi
from tests.serve.http.api_fixture import BASE_URL, ApiFixture

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Coroutine, MutableMapping
    from pathlib import Path

    from starlette.applications import Starlette
    from starlette.types import ASGIApp, Scope

    from continuations.serve.http.request_response import Request

KIM = {"authorization": "Bearer kim"}
APPROVE = {"decision": "approve"}


def run_async(story: Coroutine[Any, Any, None]) -> None:
    """Run a story to its end."""
    asyncio.run(story)


def client(app: ASGIApp, base_url: str = BASE_URL) -> httpx.AsyncClient:
    """Return a client of an application of this process."""
    transport = httpx.ASGITransport(app=app)
    return httpx.AsyncClient(transport=transport, base_url=base_url, headers=KIM)


def test_asgi_app_carries_a_decision() -> None:
    async def story() -> None:
        office = ApiFixture()
        wait = await office.start_waiting_run()
        async with client(asgi.app(office.api)) as http:
            listed = await http.get("/waits", params={"limit": 1})
            shown = await http.get(f"/waits/{wait.id}")
            decided = await http.post(f"/waits/{wait.id}/decision", json=APPROVE)
            missing = await http.get("/nothing")

        assert wait.id == listed.json()["waits"][0]["id"]
        assert wait.digest == shown.json()["digest"]
        assert "kim" == decided.json()["decision"]["by"]
        assert "application/problem+json" == missing.headers["content-type"]
        assert "no-store" == decided.headers["cache-control"]

    run_async(story())


@pytest.mark.parametrize("prefix", ["", "/agents", "/a/b"])
def test_mounted_in_fastapi_under_a_prefix(prefix: str) -> None:
    async def story() -> None:
        office = ApiFixture()
        wait = await office.start_waiting_run()
        app = FastAPI()
        app.mount(prefix, asgi.app(office.api))
        link = office.links.link(wait).replace(BASE_URL, prefix)
        form = {"decision": "approve"}

        async with client(app) as http:
            shown = await http.get(link)
            head = await http.head(link)
            options = await http.options(link)
            clicked = await http.post(link, data=form)
            again = await http.post(link, data=form)
            run = await http.get(f"{prefix}/runs/jane-1")

        assert [200, 200, 204] == [
            shown.status_code,
            head.status_code,
            options.status_code,
        ]
        assert b"" == head.content
        assert "content-length" not in head.headers
        assert [200, 200] == [clicked.status_code, again.status_code]
        assert clicked.content == again.content
        assert [wait.id] == run.json()["decided"]

    run_async(story())


def test_one_of_two_hundred_http_deciders_wins(tmp_path: Path) -> None:
    """One decision, 199 told, no 5xx; on files."""

    async def story() -> None:
        office = ApiFixture(f"file:{tmp_path}")
        wait = await office.start_waiting_run()
        path = f"/waits/{wait.id}/decision"

        async with client(asgi.app(office.api)) as http:
            answers = await asyncio.gather(
                *(
                    http.post(
                        path,
                        json={"decision": "deny" if number % 2 else "approve"},
                        headers={"authorization": f"Bearer p{number}"},
                    )
                    for number in range(200)
                )
            )

        assert [200, *[409] * 199] == sorted(each.status_code for each in answers)
        told = {each.json()["decision"]["id"] for each in answers}
        assert 1 == len(told)

    run_async(story())


class AsgiConnection:
    """One connection, whose other end says what a test wants."""

    def __init__(self, *messages: dict[str, Any]) -> None:
        self._messages = iter(messages)
        self.received_count = 0
        self.sent: list[MutableMapping[str, Any]] = []

    async def receive(self) -> dict[str, Any]:
        """Say the next thing."""
        self.received_count += 1
        return next(self._messages)

    async def send(self, message: MutableMapping[str, Any]) -> None:
        """Take an answer."""
        self.sent.append(message)

    async def post(self, app: ASGIApp, path: str, **headers: str) -> None:
        """Post to a path."""
        named = [
            (b"authorization", b"Bearer kim"),
            (b"content-type", b"application/json"),
        ]
        named += [
            (k.replace("_", "-").encode(), v.encode()) for k, v in headers.items()
        ]
        scope = {
            "type": "http",
            "asgi": {"version": "3.0"},
            "http_version": "1.1",
            "method": "POST",
            "path": path,
            "raw_path": path.encode(),
            "query_string": b"",
            "root_path": "",
            "headers": named,
        }
        await app(scope, self.receive, self.send)


def body_part(body: bytes, *, more_body: bool = True) -> dict[str, Any]:
    """Return a piece of a body."""
    return {"type": "http.request", "body": body, "more_body": more_body}


def test_a_body_comes_in_pieces() -> None:
    async def story() -> None:
        office = ApiFixture()
        wait = await office.start_waiting_run()
        line = AsgiConnection(
            body_part(b'{"decision":'),
            body_part(b""),
            body_part(b' "approve"}', more_body=False),
        )

        await line.post(asgi.app(office.api), f"/waits/{wait.id}/decision")

        assert 200 == line.sent[0]["status"]

    run_async(story())


def test_endless_body_is_read_up_to_the_limit() -> None:
    async def story() -> None:
        office = ApiFixture(options={"max_body_bytes": 1000})
        wait = await office.start_waiting_run()
        line = AsgiConnection(*[body_part(b"x" * 400)] * 100)

        await line.post(asgi.app(office.api), f"/waits/{wait.id}/decision")

        assert (413, 3) == (line.sent[0]["status"], line.received_count)

    run_async(story())


@pytest.mark.parametrize("length", ["1001", "9" * 30])
def test_body_with_a_too_large_content_length_is_not_read(length: str) -> None:
    async def story() -> None:
        office = ApiFixture(options={"max_body_bytes": 1000})
        line = AsgiConnection()

        await line.post(asgi.app(office.api), "/sweep", content_length=length)

        assert (413, 0) == (line.sent[0]["status"], line.received_count)

    run_async(story())


def test_disconnect_during_the_body_decides_nothing() -> None:
    """R-C11: the loss of a connection never decides."""

    async def story() -> None:
        office = ApiFixture()
        wait = await office.start_waiting_run()
        line = AsgiConnection(
            body_part(b'{"decision": "approve"}'), {"type": "http.disconnect"}
        )

        await line.post(asgi.app(office.api), f"/waits/{wait.id}/decision")

        assert [] == line.sent
        assert wait == await office.runner.wait(wait.id)

    run_async(story())


def test_a_websocket_is_refused() -> None:
    async def story() -> None:
        line = AsgiConnection({"type": "websocket.connect"})
        scope: Scope = {
            "type": "websocket",
            "path": "/waits",
            "headers": [],
            "root_path": "",
        }

        await asgi.app(ApiFixture().api)(scope, line.receive, line.send)

        assert ["websocket.close"] == [each["type"] for each in line.sent]

    run_async(story())


def test_repeated_header_is_joined() -> None:
    """No verifier sees only the one that it likes (RFC 9110, section 5.3)."""

    async def story() -> None:
        seen: list[str] = []

        def verify(request: Request) -> None:
            seen.append(request.headers["authorization"])

        line = AsgiConnection(body_part(b"", more_body=False))
        app = asgi.app(ApiFixture(options={"verify": verify}).api)
        await line.post(app, "/sweep", authorization="Bearer lee")

        assert ["Bearer kim, Bearer lee"] == seen
        assert 401 == line.sent[0]["status"]

    run_async(story())


def test_standalone_app_runs_its_lifespan() -> None:
    async def story() -> None:
        seen: list[str] = []

        @asynccontextmanager
        async def lifespan(_: Starlette) -> AsyncGenerator[None]:
            seen.append("up")
            yield
            seen.append("down")

        line = AsgiConnection(
            {"type": "lifespan.startup"}, {"type": "lifespan.shutdown"}
        )
        app = asgi.app(ApiFixture().api, lifespan=lifespan)
        await app({"type": "lifespan", "asgi": {}}, line.receive, line.send)

        assert ["up", "down"] == seen
        assert [
            "lifespan.startup.complete",
            "lifespan.shutdown.complete",
        ] == [each["type"] for each in line.sent]

    run_async(story())
