"""The words of a reply over HTTP: a POST that asks for server-sent events gets them."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Mapping
from typing import Any

import pytest

from continuations import Agent, AsyncRunner
from continuations.core.reading.live_events import BaseLiveEvent
from continuations.events import MessageAdded, ReplyGiven, RunEnded, TextDelta
from continuations.models.interface import Message, ModelDelta, ModelReply, ModelRequest
from continuations.serve.http.api import HttpApi, Request, Response
from tests.engine.thread_agents import support
from tests.serve.http.api_fixture import (
    RecordingDispatcher,
    problem_slug,
    verify_bearer,
)
from tests.serve.http.sse_client import Reader

pytestmark = pytest.mark.usefixtures("environment")

THREAD = "/threads/support/k"
MESSAGES = f"{THREAD}/messages"
THREAD_ID = f"t-support-{'0' * 32}-1"
NO_HEADERS: Mapping[str, str] = {}


class Api:
    """An API, and requests as an ASGI server sends them."""

    def __init__(self, *agents: Agent, **options: Any) -> None:
        self.runner = AsyncRunner(agents or support(), store="memory:")
        self.api = HttpApi(self.runner, verify=verify_bearer, **options)

    async def post(
        self,
        path: str,
        body: object,
        headers: Mapping[str, str] = NO_HEADERS,
        *,
        can_stream: bool = True,
    ) -> Response:
        """Return the response to a POST that asks for server-sent events."""
        given = {
            "authorization": "Bearer ann",
            "content-type": "application/json",
            "accept": "text/event-stream",
        }
        return await self.api.handle(
            Request(
                method="POST",
                path=path,
                headers={**given, **headers},
                body=json.dumps(body).encode(),
                can_stream=can_stream,
            )
        )

    async def read(self, path: str, body: object, reader: Reader) -> list[Any]:
        """Read one response to its end; return the named events."""
        response = await self.post(path, body, reader.headers)
        assert (200, "text/event-stream") == (
            response.status,
            response.headers["content-type"],
        )
        assert "no-store" == response.headers["cache-control"]
        assert response.chunks is not None
        text = "".join([chunk async for chunk in response.chunks])
        assert text.startswith("retry: 1000\n\n")
        before = len(reader.named)
        for _ in reader.read(text.split("\n")):
            pass
        return [(each.name, each.data) for each in reader.named[before:]]


class Words:
    """A model that waits before each word until the test allows it."""

    name = "words"

    def __init__(self, *words: str, may_write: asyncio.Semaphore | None = None) -> None:
        self.words = words
        self.may_write = may_write
        self.turns = 0

    async def reply(self, request: ModelRequest) -> ModelReply:
        """Write the words, one after the other."""
        self.turns += 1
        for word in self.words:
            if self.may_write is not None:
                await self.may_write.acquire()
            if request.on_delta is not None:
                await request.on_delta(ModelDelta(kind="text", text=word))
        if self.may_write is not None:
            await self.may_write.acquire()
        text = "".join(self.words)
        return ModelReply(
            message=Message.from_mapping({"role": "assistant", "content": text})
        )


async def up_to(chunks: AsyncIterator[str], word: str) -> str:
    text = ""
    while word not in text:
        text += await anext(chunks)
    return text


async def test_message_is_streamed_with_its_reply_at_the_end() -> None:
    """The words come before the stored message; the result is that of JSON."""
    api, reader = Api(), Reader()
    body = {"text": "hello there", "id": "m1"}
    posted, reply = await api.read(MESSAGES, body, reader)

    assert ("posted", "queued", 1) == (
        posted[0],
        posted[1]["status"],
        posted[1]["number"],
    )
    plain = await api.post(MESSAGES, body, can_stream=False)
    assert ("reply", json.loads(plain.body)) == reply
    assert "1: hello there" == reply[1]["output"]
    assert ["hello there", "1: hello there"] == reader.texts
    words = [each for each in reader.events if isinstance(each, TextDelta)]
    assert "1: hello there" == "".join(each.text for each in words)
    stored = next(
        each
        for each in reader.events
        if isinstance(each, MessageAdded) and each.message["role"] == "assistant"
    )
    assert reader.events.index(words[-1]) < reader.events.index(stored)
    assert isinstance(reader.events[-1], ReplyGiven)
    assert reader.last_id == f"{posted[1]['run_id']}/{reader.events[-1].cursor}"


async def test_word_is_sent_before_the_next_one_is_read() -> None:
    may_write = asyncio.Semaphore(1)
    model = Words("one ", "two ", "three", may_write=may_write)
    api = Api(Agent("support", model=model))
    response = await api.post(MESSAGES, {"text": "count"})
    assert response.chunks is not None
    for word in model.words:
        text = await up_to(response.chunks, f'"text": "{word}"')
        assert text.endswith("\n\n")
        may_write.release()
    assert "event: reply" in await up_to(response.chunks, "event: reply")


async def test_client_that_leaves_does_not_stop_its_reply() -> None:
    """The model is asked once, and a repeat of the request returns the reply."""
    may_write = asyncio.Semaphore(1)
    model = Words("one ", "two", may_write=may_write)
    api, reader = Api(Agent("support", model=model)), Reader()
    body = {"text": "count", "id": "m1"}
    response = await api.post(MESSAGES, body)
    chunks: Any = response.chunks
    seen = await up_to(chunks, '"text": "one "')
    for _ in reader.read(seen.split("\n")):
        pass
    assert ["count", "one "] == reader.texts
    await chunks.aclose()
    may_write.release()
    may_write.release()

    [_, (name, reply)] = await api.read(MESSAGES, body, reader)

    assert ("reply", "one two") == (name, reply["output"])
    assert ["count", "one two"] == reader.texts
    assert 1 == model.turns


async def test_repeat_without_a_last_id_has_the_reply_alone() -> None:
    api, reader = Api(), Reader()
    body = {"text": "hello", "id": "m1"}
    await api.read(MESSAGES, body, Reader())
    [_, (name, reply)] = await api.read(MESSAGES, body, reader)
    assert ("reply", "1: hello", []) == (name, reply["output"], reader.events)


async def test_approval_ends_the_stream_and_events_go_on() -> None:
    api, reader = Api(), Reader()
    body = {"text": "pay rent", "id": "m1"}
    [_, (name, reply)] = await api.read(MESSAGES, body, reader)
    [wait] = reply["waits"]
    assert ("reply", "suspended", "pay") == (name, reply["status"], wait["tool"])
    headers = {"authorization": "Bearer ann", "content-type": "application/json"}
    decided = Request(
        method="POST",
        path=f"/waits/{wait['id']}/decision",
        headers=headers,
        body=b'{"decision": "approve"}',
    )
    assert 200 == (await api.api.handle(decided)).status

    [_, (_, reply)] = await api.read(MESSAGES, body, reader)

    assert ("replied", "done: paid rent") == (reply["status"], reply["output"])
    assert ["pay rent", "done: paid rent"] == reader.texts
    cursors = [event.cursor async for event in api.runner.events(reply["run_id"])]
    stored = [
        each.cursor for each in reader.events if not isinstance(each, BaseLiveEvent)
    ]
    # A new thread is stored before its first message is posted.
    assert cursors[-len(stored) :] == stored


async def test_events_of_a_closed_thread_come_first() -> None:
    """The id of the last event may be one of the run before."""
    api, reader = Api(), Reader()
    await api.read(MESSAGES, {"text": "one"}, reader)
    thread = api.runner.thread("support", key="k")
    await thread.send("two")
    await thread.close()
    reader.transcript = type(reader.transcript)()
    before = len(reader.events)
    await api.read(MESSAGES, {"text": "three"}, reader)

    later = reader.events[before:]
    outputs = [each.output for each in later if isinstance(each, ReplyGiven)]
    assert ["2: two", "1: three"] == outputs
    assert 2 == len({each.run_id for each in later})


async def test_run_is_streamed_and_goes_on_from_the_last_id() -> None:
    api, reader = Api(), Reader()
    body = {"run_id": "r1", "input": "hello", "agent": "support"}
    [(name, outcome)] = await api.read("/runs", body, reader)

    assert ("outcome", "finished") == (name, outcome["status"])
    plain = await api.post("/runs", body, can_stream=False)
    assert json.loads(plain.body) == outcome
    assert ["hello", "1: hello"] == reader.texts
    assert isinstance(reader.events[-1], RunEnded)
    assert reader.events[-1].cursor == reader.last_id
    before = len(reader.events)
    assert [(name, outcome)] == await api.read("/runs", body, reader)
    assert [(name, outcome)] == await api.read("/runs/r1/resume", {}, reader)
    assert before == len(reader.events)


async def test_resume_without_a_last_id_has_new_events_alone() -> None:
    api, reader = Api(), Reader()
    await api.runner.start("hello", run_id="r1", work=False)
    [(name, outcome)] = await api.read("/runs/r1/resume", {}, reader)
    assert ("outcome", "finished") == (name, outcome["status"])
    assert ["1: hello"] == reader.texts


async def test_error_before_the_first_event_is_the_response() -> None:
    api = Api()
    for path, body, headers, status, slug in (
        (MESSAGES, {"text": ""}, {}, 400, "malformed"),
        (MESSAGES, {"text": "x"}, {"last-event-id": "r1/1.1"}, 400, "malformed"),
        ("/runs", {"run_id": "!", "input": "x"}, {}, 400, "invalid-id"),
        ("/runs", {"run_id": THREAD_ID, "input": "x"}, {}, 400, "invalid-id"),
        ("/runs/r9/resume", {}, {}, 404, "run-not-found"),
        ("/runs/r9/resume", {}, {"last-event-id": "x"}, 400, "invalid-input"),
    ):
        response = await api.post(path, body, headers)
        assert response.chunks is None
        assert (status, slug) == (response.status, problem_slug(response)), path
    assert await api.runner.thread("support", key="k").look() is None


async def test_error_after_the_first_event_is_the_last_event() -> None:
    """The text of a server error is in the log only."""

    class Broken:
        name = "broken"

        async def reply(self, request: ModelRequest) -> ModelReply:
            """Fail."""
            del request
            msg = "the secret address of a model"
            raise RuntimeError(msg)

    api, reader = Api(Agent("support", model=Broken())), Reader()
    [_, (name, problem)] = await api.read(MESSAGES, {"text": "x"}, reader)
    assert ("error", 502) == (name, problem["status"])
    assert "secret" not in json.dumps(problem)


async def test_other_requests_have_json_responses() -> None:
    """A server that cannot stream, a message to store only, and a dispatcher."""
    dispatcher = RecordingDispatcher()
    api = Api(dispatcher=dispatcher)
    body: dict[str, Any] = {"text": "hello"}
    replied = await api.post(MESSAGES, body, can_stream=False)
    queued = await api.post(MESSAGES, {**body, "wait": False})
    stored = await api.post(
        "/runs",
        {"run_id": "r1", "input": "x", "agent": "support", "work": False},
    )
    woken = await api.post("/runs/r1/resume", {})
    found = [replied, queued, stored, woken]
    assert [200, 202, 202, 202] == [each.status for each in found]
    assert all(each.chunks is None for each in found)
    assert 2 == len(dispatcher.runs)
