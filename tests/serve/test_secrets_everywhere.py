"""A secret argument on every route, page and stream: only transcripts show it.

The results and outputs of the scene repeat the secret, as models do.
"""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from continuations import AsyncRunner, Wait
from continuations.serve.aws_lambda import handler
from continuations.serve.console.console import PAGES
from continuations.serve.http.api import HttpApi, Request
from continuations.serve.http.links import Links
from continuations.serve.http.request_response import Response
from continuations.serve.operations import OPERATIONS
from continuations_storage import MemoryStore
from tests.sampling import pairs
from tests.secret_scene import KEY, PHOTO, PIN, RUN, make_agents, open_scene
from tests.serve.aws.test_handler_options import Context
from tests.serve.console.console_client import ConsoleClient
from tests.serve.http.single_rights import EXAMPLES, Example
from tests.serve.rights import all_but

LINKS = Links("s" * 32, base_url="https://api.example")
REQUESTS = {
    **EXAMPLES,
    ("POST", "/runs"): Example(body={"run_id": "new", "input": "go", "agent": "chat"}),
    ("GET", "/runs/{run_id}/diff"): Example(query={"from": "1", "to": "{newest}"}),
    ("GET", "/d/{token}"): Example(),
    ("POST", "/d/{token}"): Example(),
    ("GET", "/healthz"): Example(),
    ("POST", "/callbacks/{token}"): Example(body={"result": 1}),
    ("POST", "/callbacks/{token}/heartbeat"): Example(body={}),
    ("POST", "/webhooks/{name}"): Example(body={}),
}
# These show the transcript, or a part of it, to a person with `read`.
TRANSCRIPTS = {
    ("GET", "/runs/{run_id}/events"),
    ("GET", "/runs/{run_id}/versions"),
    ("GET", "/runs/{run_id}/versions/{number}"),
    ("GET", "/runs/{run_id}/diff"),
    ("GET", "/threads/{agent}/{key}"),
    ("GET", "/threads/{agent}/{key}/events"),
    ("GET", "/threads/{agent}/{key}/messages/{number}"),
    ("POST", "/runs"),
}
PAGES_WITH_TRANSCRIPTS = {
    "/runs/{run}",
    "/runs/{run}/messages",
    "/runs/{run}/versions",
    "/threads/{thread}",
}


def may_all(*_: object) -> bool:
    """Allow everything."""
    return True


may_not_read = all_but("read")


async def filled(runner: AsyncRunner, wait: Wait, template: str) -> str:
    """Return a path or body with the ids of the scene."""
    newest = (await runner.look(RUN)).version
    thread = await runner.thread("chat", key=KEY).look()
    values = {
        "run_id": RUN,
        "run": RUN,
        "wait_id": wait.id,
        "wait": wait.id,
        "number": "1" if "messages" in template else str(newest),
        "newest": str(newest),
        "digest": PHOTO.digest,
        "grant": "01kbn5v3p0c8e2rgd0mwq1t4ay",
        "agent": "chat",
        "key": KEY,
        "thread": thread.run_id if thread else "",
        "token": LINKS.token(wait),
        "name": "none",
    }
    for name, value in values.items():
        template = template.replace(f"{{{name}}}", value)
    return template


async def read(response: Response) -> str:
    """Return everything that a client can read."""
    parts = [each async for each in response.chunks] if response.chunks else []
    text = response.body + repr(response.data) + repr(response.headers)
    return text + "".join(parts)


async def answer(route: tuple[str, str], accept: str, can: Any) -> tuple[int, str]:
    """Return the status and everything that a route sends about a new scene."""
    runner, wait = await open_scene(MemoryStore(), echo=True)
    api = HttpApi(runner, verify=lambda _: "kim", links=LINKS, can=can)
    method, path = route
    example = REQUESTS[route]
    body = json.dumps(example.body)
    headers = {"accept": accept, "content-type": "application/json"}
    request = Request(
        method=method,
        path=await filled(runner, wait, path),
        query={
            name: await filled(runner, wait, value)
            for name, value in example.query.items()
        },
        headers=headers,
        body=b"" if body == "null" else (await filled(runner, wait, body)).encode(),
        can_stream=True,
    )
    response = await api.handle(request)
    return response.status, await read(response)


def test_each_route_has_a_request() -> None:
    """Add a request of a new route to `REQUESTS`, and decide whether it shows texts."""
    served = {(each.method, each.path) for each in OPERATIONS}
    assert served == REQUESTS.keys()


@pytest.mark.parametrize(
    ("route", "accept"),
    pairs(sorted(REQUESTS), ["application/json", "text/event-stream"]),
)
def test_route_shows_a_secret_to_readers_of_transcripts_only(
    route: tuple[str, str], accept: str
) -> None:
    async def scenario() -> None:
        status, text = await answer(route, accept, may_not_read)
        assert status < 500
        assert PIN not in text
        if route == ("GET", "/runs/{run_id}/files/{digest}"):
            assert 403 == status
            return
        allowed, whole = await answer(route, accept, may_all)
        if accept == "application/json":
            assert status == allowed
            assert (PIN in whole) == (route in TRANSCRIPTS)

    asyncio.run(asyncio.wait_for(scenario(), 60))


QUERIES = {
    "/runs/{run}": ("", "?call=c3", "?call=c5", "?version=4"),
    "/runs/{run}/messages": ("", "?frame=f7", "/runs/{thread}/messages"),
    "/runs/{run}/versions": ("", "?from=1&to={newest}", "/runs/{thread}/versions"),
    "/runs/{run}/rewind": ("?version=2",),
    "/runs/{run}/fork": ("", "?version=2"),
    "/runs/{run}/cancel": ("", "?call=c6"),
}


async def pages(can: Any, path: str) -> list[tuple[str, int, str]]:
    """Return address, status and text of the pages of a path."""
    found: list[tuple[str, int, str]] = []
    for query in QUERIES.get(path, ("",)):
        runner, wait = await open_scene(MemoryStore(), echo=True)
        client = ConsoleClient(runner, {"can": can})
        address = await filled(
            runner, wait, query if query.startswith("/") else path + query
        )
        page = await client.get(address)
        found.append((address, page.status_code, page.text))
    return found


@pytest.mark.parametrize("path", sorted({each.path for each in PAGES}))
async def test_page_shows_a_secret_to_readers_of_transcripts_only(path: str) -> None:
    hidden = await pages(may_not_read, path)
    whole = await pages(may_all, path)
    for (address, status, text), (_, allowed, _) in zip(hidden, whole, strict=True):
        assert PIN not in text, address
        is_file = "{digest}" in path
        assert (403 if is_file else allowed) == status, address
    shows = any(PIN in text for _, _, text in whole)
    assert shows == (path in PAGES_WITH_TRANSCRIPTS)


@pytest.mark.parametrize("path", sorted({e.path for e in PAGES if "POST" in e.methods}))
async def test_form_of_a_page_shows_no_secret_without_the_right(path: str) -> None:
    runner, wait = await open_scene(MemoryStore(), echo=True)
    client = ConsoleClient(runner, {"can": may_not_read})
    form = {"decision": "approve", "shown": wait.digest, "version": "2"}
    form |= {"text": "pay", "typed": RUN, "cents": "x", "arguments": "{}"}
    response = await client.post(await filled(runner, wait, path), form)
    assert PIN not in response.text
    for _ in range(2):
        if response.status_code != 303:
            break
        response = await client.get(response.headers["location"])
        assert PIN not in response.text


@pytest.mark.parametrize(
    "event",
    [
        {"resume": RUN},
        {"start": {"input": "go", "agent": "chat", "run_id": "new"}},
        {"thread": {"agent": "chat", "key": "other", "message": "hi"}},
        {"cancel": {"run_id": RUN}},
        {"sweep": True},
    ],
)
def test_direct_invocation_of_lambda_shows_no_secret_argument(event: Any) -> None:
    runner, _ = asyncio.run(open_scene(MemoryStore(), echo=False))
    handle = handler(store=runner.store, agents=lambda: make_agents(echo=False))
    try:
        assert PIN not in json.dumps(handle(event, Context()))
    finally:
        handle.close()
