"""Threads over HTTP: each sender gets the reply to their own message, once."""

from __future__ import annotations

import json
from typing import Any
from urllib.parse import quote

import httpx
import pytest
from starlette.applications import Starlette
from starlette.routing import Mount

from continuations import Approve, AsyncRunner
from continuations.ledger.arrivals import inbox
from continuations.serve.aws.lambda_events import HttpEvent, parse_event
from continuations.serve.http import asgi
from continuations.serve.http.api import HttpApi, Request
from continuations.serve.http.request_response import Response
from continuations_storage import MemoryStore
from tests.engine.thread_agents import support
from tests.run_environment import RunEnvironment
from tests.serve.http.api_fixture import (
    RecordingDispatcher,
    problem_slug,
    verify_bearer,
)

pytestmark = pytest.mark.usefixtures("environment")

ODD_KEYS = (
    "a/b",
    "x/messages/1",
    "messages",
    "/",
    "..",
    ".",
    "100%",
    "%2F",
    "a b+c?d#e&f=g;h",
    "\u00fc\u6f22\U0001f600",
    "line\nbreak\x00",
    "x" * 500,
    "\u6f22" * 500,
)


class Client:
    """Sends requests to an API, as the person of a bearer token."""

    def __init__(self, runner: AsyncRunner | None = None, **options: Any) -> None:
        self.runner = runner or AsyncRunner(support(), store="memory:")
        self.api = HttpApi(self.runner, verify=verify_bearer, **options)

    async def send(
        self, method: str, path: str, body: object = None, *, by: str = "ann"
    ) -> tuple[int, Any]:
        """Return the status and the JSON of a response."""
        response = await self.response(method, path, body, by=by)
        return response.status, json.loads(response.body)

    async def response(
        self, method: str, path: str, body: object = None, *, by: str = "ann"
    ) -> Response:
        raw_path, _, query = path.partition("?")
        headers = {"authorization": f"Bearer {by}", "content-type": "application/json"}
        return await self.api.handle(
            Request(
                method=method,
                path="unused" if not raw_path else _decoded(raw_path),
                raw_path=raw_path,
                query=dict(pair.split("=") for pair in query.split("&") if pair),
                headers=headers,
                body=b"" if body is None else json.dumps(body).encode(),
            )
        )


def _decoded(raw_path: str) -> str:
    from urllib.parse import unquote  # noqa: PLC0415 - beside its only use

    return unquote(raw_path)


THREAD = "/threads/support/customer%2042"
MESSAGES = f"{THREAD}/messages"


async def test_message_gets_its_reply_and_a_repeat_gets_the_same(
    environment: RunEnvironment,
) -> None:
    """The id makes the request idempotent; the identity is the sender."""
    client = Client()
    body = {"text": "Hello", "id": "m1"}
    status, reply = await client.send("POST", MESSAGES, body)
    assert (200, "replied", "1: Hello", 1) == (
        status,
        reply["status"],
        reply["output"],
        reply["number"],
    )
    assert (200, {**reply}) == await client.send("POST", MESSAGES, body)
    assert 1 == len(environment.turns())
    for changed, by in (({**body, "text": "Bye"}, "ann"), (body, "bob")):
        refused = await client.response("POST", MESSAGES, changed, by=by)
        assert "invalid-input" == problem_slug(refused)
    assert 400 == (await client.send("POST", MESSAGES, {**body, "by": "bob"}))[0]

    status, thread = await client.send("GET", THREAD)
    assert (200, "customer 42", "resting", 1, []) == (
        status,
        thread["thread"],
        thread["status"],
        thread["answered"],
        thread["waits"],
    )
    assert ["system", "user", "assistant"] == [
        message["role"] for message in thread["messages"]
    ]
    status, run = await client.send("GET", f"/runs/{reply['run_id']}")
    assert ("customer 42", "resting") == (run["thread"], run["status"])


async def test_posted_message_is_answered_by_the_dispatcher() -> None:
    """`wait: false` only posts; the reply is missing until a worker has made it."""
    dispatcher = RecordingDispatcher()
    client = Client(dispatcher=dispatcher)
    body = {"text": "Hello", "wait": False}
    status, posted = await client.send("POST", MESSAGES, body)
    run_id = posted["run_id"]
    assert (202, "queued", 1, True) == (
        status,
        posted["status"],
        posted["number"],
        posted["woken"],
    )
    assert [run_id] == dispatcher.runs
    status, missing = await client.send("GET", f"{MESSAGES}/1")
    assert (202, "queued") == (status, missing["status"])
    await client.runner.resume(run_id)
    status, reply = await client.send("GET", f"{MESSAGES}/1")
    assert (200, "1: Hello") == (status, reply["output"])
    assert 404 == (await client.send("GET", f"{MESSAGES}/2"))[0]
    for wrong in ("0", "x", "-1", "9" * 30, "%C2%B2"):
        assert 400 == (await client.send("GET", f"{MESSAGES}/{wrong}"))[0]


async def test_api_without_agents_posts_reads_and_closes() -> None:
    """Also a request that waits posts only; the dispatcher gets the thread."""
    store, woken = MemoryStore(), RecordingDispatcher()
    client = Client(AsyncRunner([], store=store), dispatcher=woken)
    posted: Any = {}
    extras: tuple[dict[str, Any], ...] = ({}, {"wait": False})
    for number, extra in enumerate(extras, 1):
        body: dict[str, Any] = {"text": "Hello", "id": f"m{number}", **extra}
        status, posted = await client.send("POST", MESSAGES, body)
        assert (202, "queued", number) == (
            status,
            posted["status"],
            posted["number"],
        )
        assert posted["woken"]
    run_id = posted["run_id"]
    assert [run_id, run_id] == woken.runs
    status, missing = await client.send("GET", f"{MESSAGES}/1")
    assert (202, "queued") == (status, missing["status"])

    worker = AsyncRunner(support(), store=store)
    await worker.sweep()
    status, reply = await client.send("GET", f"{MESSAGES}/1")
    assert (200, "1: Hello") == (status, reply["output"])

    assert 200 == (await client.send("POST", f"{THREAD}/close", {}))[0]
    assert [run_id] * 3 == woken.runs
    await worker.sweep()
    assert "finished" == (await worker.look(run_id)).status


async def test_approval_is_shown_to_its_sender_and_later_messages_are_queued(
    environment: RunEnvironment,
) -> None:
    """After the decision each message has its own reply."""
    client = Client()
    status, held = await client.send("POST", MESSAGES, {"text": "pay rent"})
    assert (202, "suspended") == (status, held["status"])
    [wait] = held["waits"]
    assert ("approval", "ann", "open") == (
        wait["kind"],
        wait["requester"],
        wait["state"],
    )
    status, queued = await client.send("POST", MESSAGES, {"text": "Hi"}, by="bob")
    assert (202, "queued", []) == (status, queued["status"], queued["waits"])
    status, again = await client.send("GET", f"{MESSAGES}/1")
    assert (202, [wait]) == (status, again["waits"])

    await client.runner.decide(wait["id"], Approve(by="kim"))
    assert [] == (await client.send("GET", f"{MESSAGES}/1"))[1]["waits"]
    await client.runner.sweep()
    for number, expected in ((1, "done: paid rent"), (2, "2: Hi")):
        status, reply = await client.send("GET", f"{MESSAGES}/{number}")
        assert (200, expected) == (status, reply["output"])
    assert ["pay rent"] == environment.effect_names()


async def test_stop_and_close_are_recorded_under_the_identity() -> None:
    """The stopped reply is `failed`; the next message opens a closed thread anew."""
    client = Client()
    for name in ("stop", "close"):
        refused = await client.response("POST", f"{THREAD}/{name}", {})
        assert "message-not-found" == problem_slug(refused)
    await client.send("POST", MESSAGES, {"text": "pay rent"})
    status, changed = await client.send("POST", f"{THREAD}/stop", {"reason": "No."})
    assert 200 == status
    await client.runner.sweep()
    status, reply = await client.send("GET", f"{MESSAGES}/1")
    assert (200, "failed", "stopped") == (
        status,
        reply["status"],
        reply["failure"]["code"],
    )
    closed = await client.send("POST", f"{THREAD}/close", {})
    assert (200, {**changed, "status": "finished"}) == closed
    status, anew = await client.send("POST", MESSAGES, {"text": "Hello"})
    assert (200, "1: Hello", 1) == (status, anew["output"], anew["number"])
    assert anew["run_id"] != reply["run_id"]
    # The replies of the first run can still be read.
    old = await client.send("GET", f"{MESSAGES}/1?run_id={reply['run_id']}")
    assert (200, reply) == old
    wrong = await client.send("GET", f"{MESSAGES}/1?run_id=t-x-1")
    assert 400 == wrong[0]


async def test_message_behind_a_close_is_gone() -> None:
    """The problem says what to do next."""
    client = Client()
    _, held = await client.send("POST", MESSAGES, {"text": "pay rent"})
    await client.send("POST", f"{THREAD}/close", {})
    status, late = await client.send("POST", MESSAGES, {"text": "late"})
    assert (202, 3) == (status, late["number"])
    await client.runner.decide(held["waits"][0]["id"], Approve(by="kim"))
    await client.runner.sweep()
    gone = await client.response("GET", f"{MESSAGES}/3")
    assert (410, "thread-closed") == (gone.status, problem_slug(gone))


@pytest.mark.parametrize("key", ODD_KEYS)
@pytest.mark.parametrize("mount", ["", "/threads/api"])
async def test_keys_are_any_text_behind_asgi(key: str, mount: str) -> None:
    """A slash of the key is not a slash of the path, also below a mount point."""
    if mount and "\n" in key:
        return  # Starlette's `Mount` has no path with a line break

    client = Client()
    app: Any = asgi.app(client.api)
    if mount:
        app = Starlette(routes=[Mount(mount, app)])
    url = httpx.URL(
        "http://api",
        raw_path=f"{mount}/threads/support/{_encoded(key)}".encode(),
    )
    transport = httpx.ASGITransport(app)
    headers = {"authorization": "Bearer ann"}
    async with httpx.AsyncClient(transport=transport, headers=headers) as http:
        posted = await http.post(f"{url}/messages", json={"text": "Hello"})
        assert (200, "1: Hello") == (posted.status_code, posted.json()["output"])
        read = await http.get(f"{url}/messages/1")
        assert (200, "1: Hello") == (read.status_code, read.json()["output"])
        shown = await http.get(f"{url}")
        assert (200, key) == (shown.status_code, shown.json()["thread"])
    state = await client.runner.thread(key=key).look()
    assert state is not None


@pytest.mark.parametrize("key", ODD_KEYS)
async def test_keys_are_any_text_behind_a_function_url(key: str) -> None:
    """The event has the encoded path."""
    client = Client()
    path = f"/threads/support/{_encoded(key)}/messages"
    event = parse_event(
        {
            "version": "2.0",
            "rawPath": path,
            "rawQueryString": "",
            "headers": {
                "authorization": "Bearer ann",
                "content-type": "application/json",
            },
            "requestContext": {"http": {"method": "POST", "path": path}},
            "body": json.dumps({"text": "Hello"}),
            "isBase64Encoded": False,
        }
    )
    assert isinstance(event, HttpEvent)
    response = await client.api.handle(event.request)
    assert 200 == response.status
    messages = await client.runner.thread(key=key).messages()
    assert 3 == len(messages)


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/threads/support/%FF/messages", 404),
        ("/threads/support//messages", 404),
        ("/threads/support", 404),
        ("/threads/support/k/other", 404),
        (f"/threads/support/{'x' * 501}/messages", 400),
        ("/threads/nobody/k/messages", 400),
    ],
)
async def test_other_paths_are_refused_by_both_doors(path: str, status: int) -> None:
    """Nothing is stored."""
    client = Client()
    assert status == (await client.send("POST", path, {"text": "Hello"}))[0]
    transport = httpx.ASGITransport(asgi.app(client.api))
    headers = {"authorization": "Bearer ann"}
    async with httpx.AsyncClient(transport=transport, headers=headers) as http:
        response = await http.post(f"http://api{path}", json={"text": "Hello"})
    assert status == response.status_code
    assert [] == await client.runner.store.keys("")


async def test_api_below_a_base_path_and_without_a_raw_path() -> None:
    """A request without a raw path has the key of its decoded path."""
    client = Client(base_path="/agents")
    for raw_path in ("/agents/threads/support/a%2Fb/messages", None):
        path = "/agents/threads/support/a/b/messages"
        request = Request(
            method="POST",
            path=path if raw_path else "/agents/threads/support/a b%/messages",
            raw_path=raw_path,
            headers={
                "authorization": "Bearer ann",
                "content-type": "application/json",
            },
            body=b'{"text": "Hello"}',
        )
        assert 200 == (await client.api.handle(request)).status
    for key in ("a/b", "a b%"):
        assert 3 == len(await client.runner.thread(key=key).messages())


def _encoded(key: str) -> str:
    """Return a key as one segment of a path; clients drop `.` and `..` otherwise."""
    return quote(key, safe="").replace(".", "%2E")


async def test_message_to_a_full_inbox_is_refused_with_429(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The problem tells the sender to let the thread read first."""
    monkeypatch.setattr(inbox, "MAX_UNREAD_MESSAGES", 1)
    client = Client()

    path = "/threads/support/k/messages"
    body = {"text": "hello", "wait": False}
    await client.send("POST", path, body)
    refused = await client.response("POST", path, body)
    assert (429, "inbox-full") == (refused.status, problem_slug(refused))
    assert "resume it" in str(refused.body)
