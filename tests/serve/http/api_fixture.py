"""A run that waits for somebody, a desk in front of it, and people who ask."""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

from continuations import Agent, ApprovalPolicy, AsyncRunner, tool
from continuations.engine.ports import SystemClock
from continuations.models.scripted import ScriptedModel, ToolCall
from continuations.serve.http.api import HttpApi, Request, Response
from continuations.serve.http.links import Links
from tests.clocks import ManualClock

if TYPE_CHECKING:
    from collections.abc import Mapping

    from continuations import Wait
    from continuations_storage import Store

SECRET = "0123456789abcdef" * 2
BASE_URL = "https://desk.example"


class Bank:
    """Counts what was really paid; with `shut`, a payment stands until it opens."""

    def __init__(self) -> None:
        self.paid: list[int] = []
        self.payment_started = asyncio.Event()
        self.reopened = asyncio.Event()
        self.closed = False

    def agent(
        self, note: str = "for Jane", *, policy: ApprovalPolicy | None = None
    ) -> Agent:
        """Return an agent that wants to pay 500, and needs a Yes for it."""

        @tool(approval=policy or True)
        async def pay(cents: int, note: str) -> str:
            """Pay."""
            del note
            self.payment_started.set()
            if self.closed:
                await self.reopened.wait()
            self.paid.append(cents)
            return f"paid {cents}"

        call = ToolCall("pay", {"cents": 500, "note": note})
        return Agent("clerk", tools=[pay], model=ScriptedModel([call, "all done"]))


def verify_bearer(request: Request) -> str | None:
    """Tell who asks by a header that nobody forges here."""
    scheme, _, name = request.headers.get("authorization", "").partition(" ")
    return name if scheme == "Bearer" else None


class RecordingDispatcher:
    """A dispatcher that only notes who is to be woken, or fails."""

    def __init__(self, *, error: Exception | None = None) -> None:
        self.runs: list[str] = []
        self._fails = error

    async def wake(self, run_id: str) -> None:
        """Note a run."""
        if self._fails is not None:
            raise self._fails
        self.runs.append(run_id)


@dataclass
class ApiFixture:
    """A runner, its desk and its bank, with a clock that stands still."""

    store: str | Store = "memory:"
    note: str = "for Jane"
    policy: ApprovalPolicy | None = None
    options: Mapping[str, Any] = field(default_factory=dict[str, Any])

    def __post_init__(self) -> None:
        # A store of files tells the real time, which a worker's clock must agree with.
        self.manual_clock = ManualClock()
        self.clock = self.manual_clock if self.store == "memory:" else SystemClock()
        self.bank = Bank()
        agent = self.bank.agent(self.note, policy=self.policy)
        self.runner = AsyncRunner(agent, store=self.store, clock=self.clock)
        self.links = Links(SECRET, base_url=BASE_URL, clock=self.clock)
        given: dict[str, Any] = {
            "verify": verify_bearer,
            "links": self.links,
            "clock": self.clock,
            **self.options,
        }
        self.api = HttpApi(self.runner, **given)

    async def start_waiting_run(self, run_id: str = "jane-1") -> Wait:
        """Start a run; returns what it waits for."""
        outcome = await self.runner.start("pay Jane", run_id=run_id)
        return outcome.continuation.waits[0]

    async def request(
        self,
        method: str,
        path: str,
        body: object = None,
        *,
        by: str | None = "kim",
        query: Mapping[str, str] | None = None,
    ) -> Response:
        """Ask the desk, with JSON if something is said."""
        headers = {} if by is None else {"authorization": f"Bearer {by}"}
        content = b""
        if body is not None:
            headers["content-type"] = "application/json"
            content = json.dumps(body).encode()
        request = Request(
            method=method, path=path, headers=headers, body=content, query=query or {}
        )
        return await self.api.handle(request)

    async def decide(
        self, wait: Wait, body: object, *, by: str | None = "kim"
    ) -> Response:
        """Post a decision."""
        return await self.request("POST", f"/waits/{wait.id}/decision", body, by=by)

    async def submit_form(self, link: str, **fields: str) -> Response:
        """Post a link's form."""
        return await self.api.handle(form_request(link, urlencode(fields)))

    async def open_link(self, link: str, method: str = "GET") -> Response:
        """Open a link."""
        return await self.api.handle(Request(method=method, path=path_of(link)))

    async def keys(self) -> list[str]:
        """Return every key of the store."""
        return await self.runner.store.keys("")


def form_request(link: str, text: str) -> Request:
    """Return the request that a form of a link's page makes."""
    headers = {"content-type": "application/x-www-form-urlencoded"}
    path = path_of(link)
    return Request(method="POST", path=path, headers=headers, body=text.encode())


def path_of(link: str) -> str:
    """Return the path of a link."""
    return link.removeprefix(BASE_URL)


def json_body(response: Response) -> Any:
    """Return the JSON of a response."""
    return json.loads(response.body)


def problem_slug(response: Response) -> str:
    """Return which problem a response tells of."""
    assert "application/problem+json" == response.headers["content-type"]
    told: str = json_body(response)["type"]
    assert response.status == json_body(response)["status"]
    return told.rpartition(":")[2]
