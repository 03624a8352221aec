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
from continuations.serve.desk import Desk, Request, Response
from continuations.serve.links import Links
from tests.engine.offices import Clock

if TYPE_CHECKING:
    from collections.abc import Mapping

    from continuations import Wait
    from continuations_storage import Store

SECRET = "0123456789abcdef" * 2
HOST = "https://desk.example"


class Bank:
    """Counts what was really paid; with `shut`, a payment stands until it opens."""

    def __init__(self) -> None:
        self.paid: list[int] = []
        self.paying = asyncio.Event()
        self.opens = asyncio.Event()
        self.shut = False

    def agent(
        self, note: str = "for Jane", *, policy: ApprovalPolicy | None = None
    ) -> Agent:
        """Return an agent that wants to pay 500, and needs a Yes for it."""

        @tool(approval=policy or True)
        async def pay(cents: int, note: str) -> str:
            """Pay."""
            del note
            self.paying.set()
            if self.shut:
                await self.opens.wait()
            self.paid.append(cents)
            return f"paid {cents}"

        call = ToolCall("pay", {"cents": 500, "note": note})
        return Agent("clerk", tools=[pay], model=ScriptedModel([call, "all done"]))


def who(request: Request) -> str | None:
    """Tell who asks by a header that nobody forges here."""
    scheme, _, name = request.headers.get("authorization", "").partition(" ")
    return name if scheme == "Bearer" else None


class Wakes:
    """A dispatcher that only notes who is to be woken, or fails."""

    def __init__(self, *, fails: Exception | None = None) -> None:
        self.runs: list[str] = []
        self._fails = fails

    async def wake(self, run_id: str) -> None:
        """Note a run."""
        if self._fails is not None:
            raise self._fails
        self.runs.append(run_id)


@dataclass
class Office:
    """A runner, its desk and its bank, with a clock that stands still."""

    store: str | Store = "memory:"
    note: str = "for Jane"
    policy: ApprovalPolicy | None = None
    options: Mapping[str, Any] = field(default_factory=dict[str, Any])

    def __post_init__(self) -> None:
        # A store of files tells the real time, which a worker's clock must agree with.
        self.hands = Clock()
        self.clock = self.hands if self.store == "memory:" else SystemClock()
        self.bank = Bank()
        agent = self.bank.agent(self.note, policy=self.policy)
        self.runner = AsyncRunner(agent, store=self.store, clock=self.clock)
        self.links = Links(SECRET, base_url=HOST, clock=self.clock)
        given: dict[str, Any] = {
            "verify": who,
            "links": self.links,
            "clock": self.clock,
            **self.options,
        }
        self.desk = Desk(self.runner, **given)

    async def opened(self, run_id: str = "jane-1") -> Wait:
        """Start a run; returns what it waits for."""
        outcome = await self.runner.start("pay Jane", run_id=run_id)
        return outcome.continuation.waits[0]

    async def ask(
        self,
        method: str,
        path: str,
        said: object = None,
        *,
        by: str | None = "kim",
        query: Mapping[str, str] | None = None,
    ) -> Response:
        """Ask the desk, with JSON if something is said."""
        headers = {} if by is None else {"authorization": f"Bearer {by}"}
        body = b""
        if said is not None:
            headers["content-type"] = "application/json"
            body = json.dumps(said).encode()
        request = Request(
            method=method, path=path, headers=headers, body=body, query=query or {}
        )
        return await self.desk.answer(request)

    async def decide(
        self, wait: Wait, said: object, *, by: str | None = "kim"
    ) -> Response:
        """Post a decision."""
        return await self.ask("POST", f"/waits/{wait.id}/decision", said, by=by)

    async def click(self, link: str, **said: str) -> Response:
        """Post a link's form."""
        return await self.desk.answer(form(link, urlencode(said)))

    async def look(self, link: str, method: str = "GET") -> Response:
        """Open a link."""
        return await self.desk.answer(Request(method=method, path=path_of(link)))

    async def keys(self) -> list[str]:
        """Return every key of the store."""
        return await self.runner.store.keys("")


def form(link: str, text: str) -> Request:
    """Return the request that a form of a link's page makes."""
    headers = {"content-type": "application/x-www-form-urlencoded"}
    path = path_of(link)
    return Request(method="POST", path=path, headers=headers, body=text.encode())


def path_of(link: str) -> str:
    """Return the path of a link."""
    return link.removeprefix(HOST)


def value(response: Response) -> Any:
    """Return the JSON of a response."""
    return json.loads(response.body)


def slug(response: Response) -> str:
    """Return which problem a response tells of."""
    assert "application/problem+json" == response.headers["content-type"]
    told: str = value(response)["type"]
    assert response.status == value(response)["status"]
    return told.rpartition(":")[2]
