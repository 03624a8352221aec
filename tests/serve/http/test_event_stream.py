"""Server-sent events over HTTP: each event once, over any number of connections."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from continuations import Approve, AsyncRunner
from continuations.serve.http.api import HttpApi, Request, Response
from tests.engine.thread_agents import support
from tests.present.schema_check import assert_matches_schema
from tests.serve.http.api_fixture import problem_slug, verify_bearer

pytestmark = pytest.mark.usefixtures("environment")

THREAD = "/threads/support/customer%2042/events"


class Browser:
    """An `EventSource`: it keeps the last id, and sends it with each request."""

    def __init__(self) -> None:
        self.runner = AsyncRunner(support(), store="memory:")
        self._api = HttpApi(self.runner, verify=verify_bearer)
        self.last_id = ""

    async def get(self, path: str, **query: str) -> Response:
        """Return the response to one request."""
        headers = {"authorization": "Bearer ann", "accept": "text/event-stream"}
        if self.last_id:
            headers["last-event-id"] = self.last_id
        decoded = path.replace("%20", " ")
        request = Request(
            method="GET", path=decoded, raw_path=path, query=query, headers=headers
        )
        return await self._api.handle(request)

    async def events(self, path: str, **query: str) -> list[dict[str, Any]]:
        """Return the events of one response."""
        response = await self.get(path, **query)
        assert (200, "text/event-stream") == (
            response.status,
            response.headers["content-type"],
        )
        first, *blocks = response.body.split("\n\n")
        assert first == "retry: 1000"
        assert "" == blocks.pop()
        found: list[dict[str, Any]] = []
        for block in blocks:
            id_line, data_line = block.split("\n")
            self.last_id = id_line.removeprefix("id: ")
            found.append(json.loads(data_line.removeprefix("data: ")))
            assert_matches_schema("event", found[-1])
        return found


async def test_run_is_streamed_in_parts_and_ends_with_204() -> None:
    """Each event comes once, whatever the size of a response."""

    browser = Browser()
    await browser.runner.start("pay rent", run_id="r1")
    [wait] = (await browser.runner.look("r1")).waits
    seen: list[dict[str, Any]] = []
    while part := await browser.events("/runs/r1/events", limit="2"):
        assert len(part) <= 2
        seen += part
    # Nothing is new while the run waits
    assert [] == await browser.events("/runs/r1/events")

    await browser.runner.decide(wait.id, Approve(by="kim"))
    await browser.runner.resume("r1")
    seen += await browser.events("/runs/r1/events")

    expected = [event.cursor async for event in browser.runner.events("r1")]
    assert expected == [each["cursor"] for each in seen]
    assert "RunEnded" == seen[-1]["type"]
    over = await browser.get("/runs/r1/events", wait="20")
    assert (204, "") == (over.status, over.body)


async def test_response_waits_for_the_next_event() -> None:
    browser = Browser()
    await browser.runner.start("pay rent", run_id="r1")
    await browser.events("/runs/r1/events")
    [wait] = (await browser.runner.look("r1")).waits
    waiting = asyncio.create_task(browser.events("/runs/r1/events", wait="20"))
    await asyncio.sleep(0)
    assert not waiting.done()
    await browser.runner.decide(wait.id, Approve(by="kim"))
    await browser.runner.resume("r1")

    assert "WaitDecided" in [each["type"] for each in await waiting]


async def test_thread_is_streamed_over_messages_and_a_close() -> None:
    """A thread that was opened again is another run; no event is left out."""

    browser = Browser()
    thread = browser.runner.thread("support", key="customer 42")
    first = (await thread.send("hello")).run_id
    seen = [each["run_id"] for each in await browser.events(THREAD)]
    await thread.send("again")
    await thread.close()
    second = (await thread.send("anew")).run_id
    texts: list[str] = []
    while part := await browser.events(THREAD):
        seen += [each["run_id"] for each in part]
        texts += [each["output"] for each in part if each["type"] == "ReplyGiven"]

    assert ["2: again", "1: anew"] == texts
    expected = [first] * len([0 async for _ in browser.runner.events(first)])
    expected += [second] * len([0 async for _ in browser.runner.events(second)])
    assert expected == seen


async def test_wrong_requests_are_refused() -> None:
    browser = Browser()
    assert 404 == (await browser.get(THREAD)).status
    thread = browser.runner.thread("support", key="customer 42")
    await thread.send("hello")
    await browser.runner.start("hello", run_id="r1")
    for path, query in (
        (THREAD, {"wait": "21"}),
        (THREAD, {"wait": "x"}),
        ("/runs/r1/events", {"wait": "-1"}),
        ("/runs/r1/events", {"other": "1"}),
        ("/runs/r1/events", {"after": "x"}),
    ):
        response = await browser.get(path, **query)
        assert 400 == response.status, (path, query)
    browser.last_id = "r1/1.1"
    response = await browser.get(THREAD)
    assert (400, "malformed") == (response.status, problem_slug(response))
