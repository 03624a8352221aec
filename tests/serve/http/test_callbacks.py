"""The callbacks of jobs: a URL with a token of its own ends one wait, by one result."""

from __future__ import annotations

import asyncio
import logging
from datetime import timedelta
from typing import Any

import pytest

from continuations import (
    Agent,
    Answer,
    Finished,
    Runner,
    ToolContext,
    external,
    tool,
)
from continuations.serve.http.api import Request
from continuations.serve.http.links import CallbackInvalid, Links
from continuations.serve.http.request_response import Response
from continuations.tools import ToolWait
from continuations.wire.report import utc_text
from tests.clocks import ManualClock
from tests.engine.agent_builders import root_tool_results
from tests.outcomes import single_wait
from tests.serve.http.api_fixture import BASE_URL, SECRET, json_body, problem_slug
from tests.serve.http.scanner import PAGES, Scanner, scan_model


async def test_result_is_recorded_once_and_ends_the_wait() -> None:
    scanner = Scanner()
    outcome = await scanner.start()
    [wait] = outcome.waits
    assert scanner.urls[0].startswith(f"{BASE_URL}/callbacks/")

    first = await scanner.post(PAGES)
    again = await scanner.post(PAGES)

    assert [200, 200] == [first.status, again.status]
    assert {"status": "recorded", "woken": True} == json_body(first)
    assert ["r1", "r1"] == scanner.dispatcher.runs
    ended = await scanner.runner.resume("r1")
    assert isinstance(ended, Finished)
    assert [{"pages": 7}] == scanner.received
    # And after the end: the same result is no error, and another one is refused
    assert 200 == (await scanner.post(PAGES)).status
    other = await scanner.post({"value": {"pages": 8}})
    assert (409, "already-decided") == (other.status, problem_slug(other))
    # And the holder of the URL reads nothing of the run
    assert "decision" not in json_body(other)
    assert "pages" not in other.body
    assert wait.id not in json_body(first)


async def test_result_that_comes_before_the_tool_returns_is_kept() -> None:
    scanner = Scanner()
    early: list[Response] = []

    async def report() -> None:
        early.append(await scanner.post(PAGES))

    scanner.before_return = report
    outcome = await scanner.runner.start("go", run_id="r1")

    assert [200] == [each.status for each in early]
    assert isinstance(outcome, Finished)
    assert [{"pages": 7}] == scanner.received


async def test_error_of_the_job_is_read_by_the_model() -> None:
    scanner = Scanner()
    await scanner.start()

    response = await scanner.post({"error": "paper jam"})

    assert 200 == response.status
    ended = await scanner.runner.resume("r1")
    assert ["ERROR: paper jam"] == root_tool_results(ended)


async def test_late_result_is_refused_with_the_reason() -> None:
    expired = Scanner(within=60)
    await expired.start()
    expired.clock.seconds += 61
    late = await expired.post(PAGES)
    assert (410, "wait-expired") == (late.status, problem_slug(late))

    cancelled = Scanner()
    await cancelled.start()
    await cancelled.runner.cancel("r1", reason="not needed")
    late = await cancelled.post(PAGES)
    assert (410, "cancelled") == (late.status, problem_slug(late))


@pytest.mark.parametrize(
    ("body", "status", "slug"),
    [
        ({}, 400, "malformed"),
        ({"value": 1, "error": "x"}, 400, "malformed"),
        ({"value": 1, "decision": "approve"}, 400, "malformed"),
        ({"decision": "approve"}, 400, "malformed"),
        ({"error": 7}, 400, "malformed"),
        ([], 400, "malformed"),
    ],
)
async def test_other_bodies_are_refused(body: object, status: int, slug: str) -> None:
    scanner = Scanner()
    await scanner.start()
    response = await scanner.post(body)
    assert (status, slug) == (response.status, problem_slug(response))
    assert 200 == (await scanner.post(PAGES)).status


async def test_url_shows_nothing_and_takes_only_a_post() -> None:
    scanner = Scanner()
    await scanner.start()
    path = scanner.urls[0].removeprefix(BASE_URL)
    for method in ("GET", "HEAD", "PUT", "DELETE"):
        response = await scanner.api.handle(Request(method=method, path=path))
        assert 405 == response.status
    options = await scanner.api.handle(Request(method="OPTIONS", path=path))
    assert "OPTIONS, POST" == options.headers["allow"]


async def test_answer_that_the_tool_rejects_can_be_sent_again_to_the_same_url() -> None:
    """The other system knows one URL; it leads to the wait that is open now."""
    scanner = Scanner()
    outcome = await scanner.start()
    [first] = outcome.waits
    assert 200 == (await scanner.post({"value": "seven"})).status
    # Before a worker looks, the first result counts
    assert 409 == (await scanner.post(PAGES)).status
    second = single_wait(await scanner.runner.resume("r1"))
    assert first.id != second.id
    assert "rejected" in (second.note or "")

    assert 200 == (await scanner.post({"value": "eight"})).status
    await scanner.runner.resume("r1")
    assert 200 == (await scanner.post(PAGES)).status
    assert 200 == (await scanner.post(PAGES)).status

    ended = await scanner.runner.resume("r1")
    assert isinstance(ended, Finished)
    assert [{"pages": 7}] == scanner.received
    # And each result that was recorded is repeated without an error, others not
    for body in ({"value": "seven"}, {"value": "eight"}, PAGES):
        assert 200 == (await scanner.post(body)).status
    assert 409 == (await scanner.post({"value": "nine"})).status


async def test_result_that_comes_while_the_outcome_is_unknown_tells_it() -> None:
    """No person is asked any more whether the job began: it has a result."""
    scanner = Scanner(timeout=0.01)
    scanner.before_return = asyncio.Event().wait
    unknown = await scanner.start()
    assert ["unknown"] == [wait.kind for wait in unknown.waits]

    assert 200 == (await scanner.post(PAGES)).status
    ended = await scanner.make_runner().resume("r1")

    assert isinstance(ended, Finished)
    assert [{"pages": 7}] == scanner.received
    assert 1 == len(scanner.urls)
    assert [] == await scanner.store.keys("waits/")
    assert [] == await scanner.store.keys("markers/")


async def test_token_is_never_logged(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    scanner = Scanner()
    await scanner.start()
    token = scanner.urls[0].rpartition("/")[2]
    await scanner.post(PAGES)
    await scanner.post({"value": 0})
    await scanner.post(PAGES, scanner.urls[0][:-1])
    assert token not in caplog.text
    run = await scanner.runner.look("r1")
    assert "a.pdf" in run.to_json()
    assert token not in run.to_json()
    assert token not in repr(scanner.links)


def test_without_the_option_the_tool_gets_a_clear_error() -> None:
    @tool
    def scan(document: str, ctx: ToolContext) -> ToolWait[Any]:
        """Scan a document."""
        return external(document + ctx.callback_url)

    agent = Agent("boss", tools=[scan], model=scan_model())
    ended = Runner(agent, store="memory:").start("go")
    [text] = root_tool_results(ended)
    assert "InvalidInput" in text


def test_callback_and_link_tokens_are_not_interchangeable() -> None:
    links = Links(SECRET, base_url=BASE_URL, clock=ManualClock())
    url = links.callback_url("external-01m7y1whx00000000000000000@r1")
    token = url.rpartition("/")[2]
    assert "external-01m7y1whx00000000000000000@r1" == links.read_callback(token)
    for other in (token[:-1], token[1:], f"{token}A", token[:8] + "A" + token[9:], ""):
        with pytest.raises(CallbackInvalid):
            links.read_callback(other)
    rotated = Links(b"\xff" * 32, previous=SECRET, base_url=BASE_URL)
    assert links.read_callback(token) == rotated.read_callback(token)


async def test_decide_with_the_first_id_reaches_the_wait_that_is_open_now() -> None:
    scanner = Scanner()
    [first] = (await scanner.start()).waits
    await scanner.runner.decide(first.id, Answer("seven"))
    await scanner.runner.resume("r1")

    decision = await scanner.runner.decide(first.id, Answer({"pages": 3}))

    assert first.id != decision.wait_id
    assert isinstance(await scanner.runner.resume("r1"), Finished)


async def test_heartbeat_at_the_url_moves_the_deadline() -> None:
    scanner = Scanner(within=60)
    [wait] = (await scanner.start()).waits
    scanner.clock.seconds += 50

    response = await scanner.beat(60)

    assert 200 == response.status
    moved = wait.created_at + timedelta(seconds=110)
    assert json_body(response) == {
        "status": "extended",
        "deadline": utc_text(moved),
    }
    scanner.clock.seconds += 50
    assert 200 == (await scanner.post(PAGES)).status
    late = await scanner.beat(60)
    assert (409, "already-decided") == (late.status, problem_slug(late))
    for extend in ("60", None, True, 0, -1, 10**10):
        assert 400 == (await scanner.beat(extend)).status
