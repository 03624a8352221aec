"""The ASGI application gives the responses of `HttpApi`, alone or mounted."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, MutableMapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from fastapi import FastAPI
from starlette.applications import Starlette
from starlette.types import ASGIApp, Scope

from continuations.serve.http import asgi
from continuations.serve.http.request_response import Request
from tests.serve.http.api_fixture import BASE_URL, ApiFixture, waiting_api

KIM = {"authorization": "Bearer kim"}
APPROVE = {"decision": "approve"}


def client(app: ASGIApp, base_url: str = BASE_URL) -> httpx.AsyncClient:
    """Return an HTTP client of an application."""
    transport = httpx.ASGITransport(app=app)
    return httpx.AsyncClient(transport=transport, base_url=base_url, headers=KIM)


async def test_asgi_app_carries_a_decision() -> None:
    fixture, wait = await waiting_api()
    async with client(asgi.app(fixture.api)) as http:
        listed = await http.get("/waits", params={"limit": 1})
        shown = await http.get(f"/waits/{wait.id}")
        decided = await http.post(f"/waits/{wait.id}/decision", json=APPROVE)
        missing = await http.get("/nothing")

    assert wait.id == listed.json()["waits"][0]["id"]
    assert wait.digest == shown.json()["digest"]
    assert "kim" == decided.json()["decision"]["by"]
    assert "application/problem+json" == missing.headers["content-type"]
    assert "no-store" == decided.headers["cache-control"]


@pytest.mark.parametrize("method", ["GET", "HEAD", "POST", "OPTIONS", "DELETE"])
@pytest.mark.parametrize(
    "path",
    [
        *(
            "/",
            "/waits",
            "/waits/",
            "/waits//decision",
            "/waits/x/decision",
            "/nothing",
        ),
        *("/runs", "/runs/none", "/runs/../resume", "/healthz", "/healthz/", "/d/x"),
        *("/d/", "/d/x/y", "//waits", "/openapi.json", "/sweep", "/runs/a b/cancel"),
    ],
)
async def test_starlette_and_http_api_route_alike(method: str, path: str) -> None:
    """AWS Lambda routes with `HttpApi.handle`, ASGI with Starlette."""
    fixture = ApiFixture()
    connection = AsgiConnection(body_part(b"", more_body=False))

    expected = await fixture.request(method, path)
    await connection.request(asgi.app(fixture.api), method, path)

    assert expected.status == connection.sent[0]["status"]
    assert expected.body.encode() == connection.sent[1].get("body", b"")


@pytest.mark.parametrize("prefix", ["", "/agents", "/a/b"])
async def test_mounted_in_fastapi_under_a_prefix(prefix: str) -> None:
    fixture, wait = await waiting_api()
    app = FastAPI()
    app.mount(prefix, asgi.app(fixture.api))
    link = fixture.links.link(wait).replace(BASE_URL, prefix)
    form = {"decision": "approve", "shown": wait.digest}

    async with client(app) as http:
        shown = await http.get(link)
        head = await http.head(link)
        options = await http.options(link)
        submitted = await http.post(link, data=form)
        again = await http.post(link, data=form)
        run = await http.get(f"{prefix}/runs/jane-1")

    assert [200, 200, 204] == [
        shown.status_code,
        head.status_code,
        options.status_code,
    ]
    assert b"" == head.content
    assert "content-length" not in head.headers
    assert [200, 200] == [submitted.status_code, again.status_code]
    assert submitted.content == again.content
    assert [wait.id] == run.json()["decided"]


async def test_one_of_two_hundred_http_deciders_wins(tmp_path: Path) -> None:
    """One decision is recorded, 199 requests get it, and none gets a 5xx."""
    fixture, wait = await waiting_api(f"file:{tmp_path}")
    path = f"/waits/{wait.id}/decision"

    async with client(asgi.app(fixture.api)) as http:
        replies = await asyncio.gather(
            *(
                http.post(
                    path,
                    json={"decision": "deny" if number % 2 else "approve"},
                    headers={"authorization": f"Bearer p{number}"},
                )
                for number in range(200)
            )
        )

    assert [200, *[409] * 199] == sorted(each.status_code for each in replies)
    decisions = {each.json()["decision"]["id"] for each in replies}
    assert 1 == len(decisions)


class AsgiConnection:
    """One ASGI connection; the client sends the messages of a test."""

    def __init__(self, *messages: dict[str, Any]) -> None:
        self._messages = iter(messages)
        self.received_count = 0
        self.sent: list[MutableMapping[str, Any]] = []

    async def receive(self) -> dict[str, Any]:
        """Return the client's next message."""
        self.received_count += 1
        return next(self._messages)

    async def send(self, message: MutableMapping[str, Any]) -> None:
        """Record a message of the server."""
        self.sent.append(message)

    async def post(self, app: ASGIApp, path: str, **headers: str) -> None:
        """Send a POST request with a JSON body to an application."""
        await self.request(
            app, "POST", path, content_type="application/json", **headers
        )

    async def request(
        self, app: ASGIApp, method: str, path: str, **headers: str
    ) -> None:
        """Send a request to an application."""
        named = [(b"authorization", b"Bearer kim")]
        named += [
            (k.replace("_", "-").encode(), v.encode()) for k, v in headers.items()
        ]
        scope = {
            "type": "http",
            "asgi": {"version": "3.0"},
            "http_version": "1.1",
            "method": method,
            "path": path,
            "raw_path": path.encode(),
            "query_string": b"",
            "root_path": "",
            "headers": named,
        }
        await app(scope, self.receive, self.send)


def body_part(body: bytes, *, more_body: bool = True) -> dict[str, Any]:
    """Return one part of a request body."""
    return {"type": "http.request", "body": body, "more_body": more_body}


async def test_body_may_arrive_in_parts() -> None:
    fixture, wait = await waiting_api()
    connection = AsgiConnection(
        body_part(b'{"decision":'),
        body_part(b""),
        body_part(b' "approve"}', more_body=False),
    )

    await connection.post(asgi.app(fixture.api), f"/waits/{wait.id}/decision")

    assert 200 == connection.sent[0]["status"]


async def test_endless_body_is_read_up_to_the_limit() -> None:
    fixture, wait = await waiting_api(options={"max_body_bytes": 1000})
    connection = AsgiConnection(*[body_part(b"x" * 400)] * 100)

    await connection.post(asgi.app(fixture.api), f"/waits/{wait.id}/decision")

    assert (413, 3) == (connection.sent[0]["status"], connection.received_count)


@pytest.mark.parametrize("length", ["1001", "9" * 30])
async def test_body_with_a_too_large_content_length_is_not_read(length: str) -> None:
    fixture = ApiFixture(options={"max_body_bytes": 1000})
    connection = AsgiConnection()

    await connection.post(asgi.app(fixture.api), "/sweep", content_length=length)

    assert (413, 0) == (connection.sent[0]["status"], connection.received_count)


async def test_disconnect_during_the_body_decides_nothing() -> None:
    """A lost connection never decides."""
    fixture, wait = await waiting_api()
    connection = AsgiConnection(
        body_part(b'{"decision": "approve"}'), {"type": "http.disconnect"}
    )

    await connection.post(asgi.app(fixture.api), f"/waits/{wait.id}/decision")

    assert [] == connection.sent
    assert wait == await fixture.runner.wait(wait.id)


async def test_websocket_is_refused() -> None:
    connection = AsgiConnection({"type": "websocket.connect"})
    scope: Scope = {
        "type": "websocket",
        "path": "/waits",
        "headers": [],
        "root_path": "",
    }

    await asgi.app(ApiFixture().api)(scope, connection.receive, connection.send)

    assert ["websocket.close"] == [each["type"] for each in connection.sent]


async def test_repeated_header_is_joined() -> None:
    """A verifier sees all values of a header (RFC 9110, section 5.3)."""
    seen: list[str] = []

    def verify(request: Request) -> None:
        seen.append(request.headers["authorization"])

    connection = AsgiConnection(body_part(b"", more_body=False))
    app = asgi.app(ApiFixture(options={"verify": verify}).api)
    await connection.post(app, "/sweep", authorization="Bearer lee")

    assert ["Bearer kim, Bearer lee"] == seen
    assert 401 == connection.sent[0]["status"]


async def test_standalone_app_runs_its_lifespan() -> None:
    seen: list[str] = []

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncGenerator[None]:
        seen.append("up")
        yield
        seen.append("down")

    connection = AsgiConnection(
        {"type": "lifespan.startup"}, {"type": "lifespan.shutdown"}
    )
    app = asgi.app(ApiFixture().api, lifespan=lifespan)
    await app({"type": "lifespan", "asgi": {}}, connection.receive, connection.send)

    assert ["up", "down"] == seen
    assert [
        "lifespan.startup.complete",
        "lifespan.shutdown.complete",
    ] == [each["type"] for each in connection.sent]
