"""The ASGI application: what Starlette carries to the desk and back."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import httpx
import pytest
from fastapi import FastAPI

from continuations.serve import web
from tests.serve.office import HOST, Office

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Coroutine, MutableMapping
    from pathlib import Path

    from starlette.applications import Starlette
    from starlette.types import ASGIApp, Scope

    from continuations.serve.http import Request

KIM = {"authorization": "Bearer kim"}
APPROVE = {"decision": "approve"}


def does(story: Coroutine[Any, Any, None]) -> None:
    """Run a story to its end."""
    asyncio.run(story)


def client(app: ASGIApp, base_url: str = HOST) -> httpx.AsyncClient:
    """Return a client of an application of this process."""
    transport = httpx.ASGITransport(app=app)
    return httpx.AsyncClient(transport=transport, base_url=base_url, headers=KIM)


def test_a_decision_over_asgi() -> None:
    async def story() -> None:
        office = Office()
        wait = await office.opened()
        async with client(web.app(office.desk)) as http:
            listed = await http.get("/waits", params={"limit": 1})
            shown = await http.get(f"/waits/{wait.id}")
            decided = await http.post(f"/waits/{wait.id}/decision", json=APPROVE)
            missing = await http.get("/nothing")

        assert wait.id == listed.json()["waits"][0]["id"]
        assert wait.digest == shown.json()["digest"]
        assert "kim" == decided.json()["decision"]["by"]
        assert "application/problem+json" == missing.headers["content-type"]
        assert "no-store" == decided.headers["cache-control"]

    does(story())


@pytest.mark.parametrize("prefix", ["", "/agents", "/a/b"])
def test_mounted_in_fastapi_under_a_prefix(prefix: str) -> None:
    async def story() -> None:
        office = Office()
        wait = await office.opened()
        app = FastAPI()
        app.mount(prefix, web.app(office.desk))
        link = office.links.link(wait).replace(HOST, prefix)
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

    does(story())


def test_of_two_hundred_http_deciders_one_decides(tmp_path: Path) -> None:
    """One decision, 199 told, no 5xx; on files."""

    async def story() -> None:
        office = Office(f"file:{tmp_path}")
        wait = await office.opened()
        path = f"/waits/{wait.id}/decision"

        async with client(web.app(office.desk)) as http:
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

    does(story())


class Line:
    """One connection, whose other end says what a test wants."""

    def __init__(self, *said: dict[str, Any]) -> None:
        self._said = iter(said)
        self.taken = 0
        self.sent: list[MutableMapping[str, Any]] = []

    async def receive(self) -> dict[str, Any]:
        """Say the next thing."""
        self.taken += 1
        return next(self._said)

    async def send(self, message: MutableMapping[str, Any]) -> None:
        """Take an answer."""
        self.sent.append(message)

    async def calls(self, app: ASGIApp, path: str, **headers: str) -> None:
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


def part(body: bytes, *, more: bool = True) -> dict[str, Any]:
    """Return a piece of a body."""
    return {"type": "http.request", "body": body, "more_body": more}


def test_a_body_comes_in_pieces() -> None:
    async def story() -> None:
        office = Office()
        wait = await office.opened()
        line = Line(part(b'{"decision":'), part(b""), part(b' "approve"}', more=False))

        await line.calls(web.app(office.desk), f"/waits/{wait.id}/decision")

        assert 200 == line.sent[0]["status"]

    does(story())


def test_a_body_that_never_ends_is_read_up_to_the_bound() -> None:
    async def story() -> None:
        office = Office(options={"most_body": 1000})
        wait = await office.opened()
        line = Line(*[part(b"x" * 400)] * 100)

        await line.calls(web.app(office.desk), f"/waits/{wait.id}/decision")

        assert (413, 3) == (line.sent[0]["status"], line.taken)

    does(story())


@pytest.mark.parametrize("length", ["1001", "9" * 30])
def test_a_body_that_says_that_it_is_too_long_is_not_read(length: str) -> None:
    async def story() -> None:
        office = Office(options={"most_body": 1000})
        line = Line()

        await line.calls(web.app(office.desk), "/sweep", content_length=length)

        assert (413, 0) == (line.sent[0]["status"], line.taken)

    does(story())


def test_who_hangs_up_in_the_middle_has_decided_nothing() -> None:
    """R-C11: the loss of a connection never decides."""

    async def story() -> None:
        office = Office()
        wait = await office.opened()
        line = Line(part(b'{"decision": "approve"}'), {"type": "http.disconnect"})

        await line.calls(web.app(office.desk), f"/waits/{wait.id}/decision")

        assert [] == line.sent
        assert wait == await office.runner.wait(wait.id)

    does(story())


def test_a_websocket_is_refused() -> None:
    async def story() -> None:
        line = Line({"type": "websocket.connect"})
        scope: Scope = {
            "type": "websocket",
            "path": "/waits",
            "headers": [],
            "root_path": "",
        }

        await web.app(Office().desk)(scope, line.receive, line.send)

        assert ["websocket.close"] == [each["type"] for each in line.sent]

    does(story())


def test_a_header_that_comes_twice_is_one_with_both() -> None:
    """No verifier sees only the one that it likes (RFC 9110, section 5.3)."""

    async def story() -> None:
        seen: list[str] = []

        def verify(request: Request) -> None:
            seen.append(request.headers["authorization"])

        line = Line(part(b"", more=False))
        app = web.app(Office(options={"verify": verify}).desk)
        await line.calls(app, "/sweep", authorization="Bearer lee")

        assert ["Bearer kim, Bearer lee"] == seen
        assert 401 == line.sent[0]["status"]

    does(story())


def test_an_application_of_its_own_has_a_lifespan() -> None:
    async def story() -> None:
        seen: list[str] = []

        @asynccontextmanager
        async def lifespan(_: Starlette) -> AsyncGenerator[None]:
            seen.append("up")
            yield
            seen.append("down")

        line = Line({"type": "lifespan.startup"}, {"type": "lifespan.shutdown"})
        app = web.app(Office().desk, lifespan=lifespan)
        await app({"type": "lifespan", "asgi": {}}, line.receive, line.send)

        assert ["up", "down"] == seen
        assert [
            "lifespan.startup.complete",
            "lifespan.shutdown.complete",
        ] == [each["type"] for each in line.sent]

    does(story())
