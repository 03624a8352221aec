"""An `HttpApi` whose runs wait for an approval, and the requests of its clients."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlencode

from continuations import ApprovalPolicy, AsyncRunner, ToolContext, Wait, tool
from continuations.authoring.tool.tool_protocol import ToolProtocol
from continuations.engine.ports import SystemClock
from continuations.serve.http.api import HttpApi, Request, Response
from continuations.serve.http.links import LinkInvalid, Links
from continuations_storage import Store
from tests import sample_app
from tests.clocks import ManualClock
from tests.effect_log import Effect
from tests.scripts import call, scripted_model, turn_count

SECRET = "0123456789abcdef" * 2
BASE_URL = "https://api.example"


def verify_bearer(request: Request) -> str | None:
    """Return the name in the bearer token."""
    scheme, _, name = request.headers.get("authorization", "").partition(" ")
    return name if scheme == "Bearer" else None


class RecordingDispatcher:
    """A dispatcher that records the runs, or fails."""

    def __init__(self, *, error: Exception | None = None) -> None:
        self.runs: list[str] = []
        self._error = error

    async def wake(self, run_id: str) -> None:
        if self._error is not None:
            raise self._error
        self.runs.append(run_id)


@dataclass
class ApiFixture:
    """An `HttpApi` on the sample application, whose agent wants to pay 500 cents.

    Attributes:
        store: The store or its URL.
        note: An argument of the payment.
        policy: The approval policy of the payment.
        options: Options for `HttpApi` that replace those of the fixture.
    """

    store: str | Store = "memory:"
    note: str = "for Jane"
    policy: ApprovalPolicy | None = None
    options: Mapping[str, Any] = field(default_factory=dict[str, Any])

    def __post_init__(self) -> None:
        # A file store tells the real time, and a worker's clock must agree with it.
        self.manual_clock = ManualClock()
        self.clock = self.manual_clock if self.store == "memory:" else SystemClock()
        self.effects: list[Effect] = []
        self.digests: dict[str, str] = {}
        self.payment_started = asyncio.Event()
        self.payments_allowed = asyncio.Event()
        self.payments_allowed.set()
        self.runner = self.make_runner(self.store)
        self.links = Links(SECRET, base_url=BASE_URL, clock=self.clock)
        options: dict[str, Any] = {
            "verify": verify_bearer,
            "links": self.links,
            "clock": self.clock,
            **self.options,
        }
        self.api = HttpApi(self.runner, **options)

    def make_runner(self, store: str | Store) -> AsyncRunner:
        """Return a runner of the sample application on a store."""
        lines = [[call("pay", cents=500, note=self.note)], "all done"]
        agents = sample_app.make_agents(
            scripted_model(lambda messages: lines[turn_count(messages)], _ignore_turn),
            record=self.effects.append,
            tools=[self._make_pay],
        )
        return AsyncRunner(agents, store=store, clock=self.clock)

    def _make_pay(self, record: sample_app.Record) -> ToolProtocol:
        @tool(approval=self.policy or True)
        async def pay(cents: int, note: str, ctx: ToolContext) -> str:
            """Pay."""
            del note
            self.payment_started.set()
            await self.payments_allowed.wait()
            record(Effect.of("pay", str(cents), ctx))
            return f"paid {cents}"

        return pay

    @property
    def paid_cents(self) -> list[int]:
        """The payments that were made, in order."""
        return [int(effect.what) for effect in self.effects]

    async def start_waiting_run(self, run_id: str = "jane-1") -> Wait:
        outcome = await self.runner.start("pay Jane", run_id=run_id)
        wait = outcome.continuation.waits[0]
        self.digests[wait.id] = wait.digest
        return wait

    async def request(
        self,
        method: str,
        path: str,
        body: object = None,
        *,
        by: str | None = "kim",
        query: Mapping[str, str] | None = None,
    ) -> Response:
        """Send a request, with a JSON body if there is one."""
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
        """Post the form of a link, as the page of the first state sends it."""
        posted = {"shown": self.digest_of(link), **fields}
        return await self.api.handle(form_request(link, urlencode(posted)))

    def digest_of(self, link: str) -> str:
        """Return the digest that the page of a link shows."""
        try:
            wait_id = self.links.read(path_of(link).rpartition("/")[2]).wait_id
        except LinkInvalid:
            wait_id = ""
        return self.digests.get(wait_id, "the page of a bad link shows no digest")

    async def open_link(self, link: str, method: str = "GET") -> Response:
        return await self.api.handle(Request(method=method, path=path_of(link)))

    async def keys(self) -> list[str]:
        """Return every key of the store."""
        return await self.runner.store.keys("")


async def waiting_api(*args: Any, **options: Any) -> tuple[ApiFixture, Wait]:
    """Return an API whose run `jane-1` waits for an approval, and the wait."""
    fixture = ApiFixture(*args, **options)
    return fixture, await fixture.start_waiting_run()


def _ignore_turn(task: str, turn: int) -> None:
    del task, turn


def form_request(link: str, text: str) -> Request:
    """Return the request that the form of a link sends."""
    headers = {"content-type": "application/x-www-form-urlencoded"}
    path = path_of(link)
    return Request(method="POST", path=path, headers=headers, body=text.encode())


def path_of(link: str) -> str:
    return link.removeprefix(BASE_URL)


def json_body(response: Response) -> Any:
    return json.loads(response.body)


def problem_slug(response: Response) -> str:
    """Return the last part of a problem's type."""
    assert "application/problem+json" == response.headers["content-type"]
    problem = json_body(response)
    assert response.status == problem["status"]
    slug: str = problem["type"].rpartition(":")[2]
    return slug
