"""A client of a console, as a browser or a program sends its requests."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import httpx

from continuations import AsyncRunner, Identity
from continuations.serve import console

if TYPE_CHECKING:
    from continuations.serve.http.request_response import Request

BASE_URL = "http://agents.example"


def verify_header(request: Request) -> Identity | None:
    """Return the person that a test names."""
    name = request.headers.get("x-person")
    groups = request.headers.get("x-groups", "").split()
    return Identity(name, groups) if name else None


@dataclass
class ConsoleClient:
    """Sends requests to a console.

    Attributes:
        runner: The runner of the console.
        options: Options of `console.app` that replace those of the client.
        person: The person who sends the requests, or `None` for an unknown one.
        address: The IP address of the client.
        app: The application, by default a console of the runner.
        base_url: The address of the server.
    """

    runner: AsyncRunner = field(
        default_factory=lambda: AsyncRunner([], store="memory:")
    )
    options: dict[str, Any] = field(default_factory=dict[str, Any])
    person: str | None = "kim"
    address: str = "127.0.0.1"
    app: Any = None
    base_url: str = BASE_URL

    def __post_init__(self) -> None:
        if self.app is None:
            options: dict[str, Any] = {"verify": verify_header, **self.options}
            self.app = console.app(self.runner, **options)
        self.cookies = httpx.Cookies()

    async def send(
        self,
        method: str,
        path: str,
        form: dict[str, str] | None = None,
        json: object = None,
        /,
        **headers: str | None,
    ) -> httpx.Response:
        """Send a request; the name of a header has underscores."""
        given = {"x_person": self.person, "accept": "text/html", **headers}
        sent = {k.replace("_", "-"): v for k, v in given.items() if v is not None}
        transport = httpx.ASGITransport(self.app, client=(self.address, 4711))
        async with httpx.AsyncClient(
            transport=transport, base_url=self.base_url, cookies=self.cookies
        ) as client:
            response = await client.request(
                method, path, data=form, json=json, headers=sent
            )
            self.cookies = client.cookies
        return response

    async def get(self, path: str, **headers: str | None) -> httpx.Response:
        """Open a page."""
        return await self.send("GET", path, **headers)

    async def post(
        self, path: str, form: dict[str, str], **headers: str | None
    ) -> httpx.Response:
        """Send the form of a page of this console, as a browser does."""
        headers.setdefault("origin", self.base_url)
        headers.setdefault("sec_fetch_site", "same-origin")
        return await self.send("POST", path, form, **headers)


def console_of(scene: Any, **options: Any) -> ConsoleClient:
    """Return a client of another process with the store and the clock of a scene."""
    runner = AsyncRunner([], store=scene.store, clock=scene.clock)
    return ConsoleClient(runner, {"clock": scene.clock, **options})
