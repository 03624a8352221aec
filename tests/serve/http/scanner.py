"""A job of another system with a callback URL, and the HTTP API of its store."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from typing import Any

from continuations import Agent, AsyncRunner, Suspended, ToolContext, external, tool
from continuations.models.scripted import ScriptedModel, ToolCall
from continuations.serve.http.api import HttpApi, Request
from continuations.serve.http.links import Links
from continuations.serve.http.request_response import Response
from continuations.tools import Tool, ToolWait
from continuations_storage import MemoryStore
from tests.clocks import ManualClock
from tests.serve.http.api_fixture import BASE_URL, SECRET, RecordingDispatcher

JSON = {"content-type": "application/json"}
PAGES = {"value": {"pages": 7}}


def scan_model() -> ScriptedModel:
    """Return a model that lets a document be scanned, and ends."""
    return ScriptedModel([ToolCall("scan", {"document": "a.pdf"}), "end"])


class Scanner:
    """A scanner that gets a document and a callback URL, and the HTTP API."""

    def __init__(
        self,
        *,
        within: float | None = None,
        timeout: float | None = None,
        answer_type: Any = None,
    ) -> None:
        self.urls: list[str] = []
        self.received: list[object] = []
        self.before_return: Callable[[], Any] | None = None
        self.clock = ManualClock()
        self.links = Links(SECRET, base_url=BASE_URL, clock=self.clock)
        self.store = MemoryStore()
        self.dispatcher = RecordingDispatcher()
        wait = partial(external, "scan", answer_type, within=within)
        scan = self._make_scan(wait, timeout)
        self.agent = Agent("boss", tools=[scan], model=scan_model())
        self.runner = self.make_runner()
        self.api = HttpApi(
            self.make_runner([]),
            links=self.links,
            dispatcher=self.dispatcher,
            clock=self.clock,
        )

    def _make_scan(
        self, wait: Callable[[], ToolWait[Any]], timeout: float | None
    ) -> Tool[..., Any]:
        @tool(timeout=timeout)
        async def scan(document: str, ctx: ToolContext) -> ToolWait[Any]:
            """Scan a document."""
            del document
            self.urls.append(ctx.callback_url)
            assert ctx.callback_url not in repr(ctx)
            if self.before_return is not None:
                await self.before_return()
            return wait()

        @scan.on_answer
        async def scanned(answer: dict[str, int]) -> str:
            self.received.append(answer)
            return f"{answer['pages']} pages"

        return scan

    def make_runner(self, agents: Any = None) -> AsyncRunner:
        """Return a runner on the store."""
        return AsyncRunner(
            self.agent if agents is None else agents,
            store=self.store,
            clock=self.clock,
            callback_url=self.links.callback_url,
        )

    async def start(self) -> Suspended:
        """Start the run; it waits for the scanner."""
        outcome = await self.runner.start("go", run_id="r1")
        assert isinstance(outcome, Suspended)
        return outcome

    async def beat(self, extend: object) -> Response:
        """Send a heartbeat to the callback URL."""
        return await self.post({"extend": extend}, f"{self.urls[0]}/heartbeat")

    async def post(self, body: object, url: str | None = None) -> Response:
        """Send a body to the callback URL."""
        url = self.urls[0] if url is None else url
        path = url.removeprefix(BASE_URL)
        content = json.dumps(body).encode()
        return await self.api.handle(
            Request(method="POST", path=path, headers=JSON, body=content)
        )
