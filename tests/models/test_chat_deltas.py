"""A requested stream: its parts arrive at once, and its reply is the unstreamed one."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from continuations.core.messages import user_message
from continuations.errors import ModelError
from continuations.models.dialect import ChatDialect
from continuations.models.interface import ModelDelta, ModelReply, ModelRequest
from continuations.models.openai_chat import OpenAIChat
from tests import aimock
from tests.model_server import ModelServer
from tests.models.model_calls import KEY, adapter_reply, call_model, chat_model

STALL: bytes | None = None  # sends nothing more, and keeps the connection
TEXT = "Grüße, 世界 😀"


def chunk(finish_reason: str | None = None, **delta: Any) -> dict[str, Any]:
    """Return one event of a stream."""
    choice = {"index": 0, "delta": delta, "finish_reason": finish_reason}
    return {"id": "c", "object": "chat.completion.chunk", "choices": [choice]}


CALL = {"id": "a", "type": "function", "function": {"name": "f", "arguments": "{}"}}
EVENTS: list[dict[str, Any]] = [
    chunk(role="assistant", content=""),
    chunk(reasoning_content="I ", reasoning="I "),
    chunk(reasoning_content="think."),
    *(chunk(content=letter) for letter in TEXT),
    chunk(tool_calls=[{"index": 0, **CALL}]),
    chunk(finish_reason="tool_calls"),
    {"choices": [], "usage": {"prompt_tokens": 3, "completion_tokens": 2}},
]


def stream_bytes(line_end: str = "\n", events: Sequence[Any] = EVENTS) -> bytes:
    texts = [json.dumps(each, ensure_ascii=False) for each in events]
    lines = [f"data: {text}{line_end}{line_end}" for text in [*texts, "[DONE]"]]
    return f": ping{line_end}{line_end}{''.join(lines)}".encode()


async def read_request(reader: asyncio.StreamReader) -> dict[str, Any]:
    """Return the JSON of a request; one that is not read would reset the connection."""
    head = await reader.readuntil(b"\r\n\r\n")
    length = int(head.lower().split(b"content-length: ")[1].split(b"\r\n")[0])
    body: dict[str, Any] = json.loads(await reader.readexactly(length))
    return body


@asynccontextmanager
async def serving(
    serve: Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]],
) -> AsyncGenerator[str]:
    """Run a server on loopback; yield its URL, and close all connections at the end."""
    tasks: list[asyncio.Task[Any]] = []

    async def handle(
        reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        task = asyncio.current_task()
        assert task is not None
        tasks.append(task)
        try:
            await serve(reader, writer)
        finally:
            writer.close()
            with suppress(ConnectionError):
                await writer.wait_closed()

    server = await asyncio.start_server(handle, "127.0.0.1", 0)
    try:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1"
    finally:
        server.close()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


@asynccontextmanager
async def raw_server(
    parts: Sequence[bytes | None], *, is_cut: bool = False
) -> AsyncGenerator[str]:
    """Run a server that sends these bytes as the parts of a body; yield its URL."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await read_request(reader)
        head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n"
        writer.write(f"{head}transfer-encoding: chunked\r\n\r\n".encode())
        for part in parts:
            if part is None:
                await asyncio.sleep(30)
                continue
            writer.write(f"{len(part):x}\r\n".encode() + part + b"\r\n")
            await writer.drain()
        if not is_cut:
            writer.write(b"0\r\n\r\n")

    async with serving(serve) as url:
        yield url


def streamed(
    parts: Sequence[bytes | None],
    *,
    is_cut: bool = False,
) -> tuple[ModelReply, list[ModelDelta]]:
    """Return the reply of the adapter for a stream, and its parts."""
    deltas: list[ModelDelta] = []

    async def hear(delta: ModelDelta) -> None:
        deltas.append(delta)

    async def scenario() -> ModelReply:
        async with raw_server(parts, is_cut=is_cut) as url:
            model = OpenAIChat("gpt-5-mini", base_url=url, api_key=KEY, timeout=1.0)
            return await model.reply(request(hear))

    return asyncio.run(scenario()), deltas


def request(on_delta: Any) -> ModelRequest:
    """Return a request with a listener."""
    return ModelRequest(messages=[user_message("hello")], on_delta=on_delta)


async def ignore(_: ModelDelta) -> None:
    """Take a part."""


def joined(deltas: Sequence[ModelDelta], kind: str) -> str:
    """Return the parts of one kind as one text."""
    return "".join(each.text for each in deltas if each.kind == kind)


def cut_in(size: int, data: bytes) -> list[bytes]:
    """Return bytes in pieces of one size."""
    return [data[at : at + size] for at in range(0, len(data), size)]


@pytest.mark.parametrize("line_end", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize("size", [1, 7, 64, 100_000])
def test_parts_and_reply_do_not_depend_on_how_the_bytes_are_cut(
    line_end: str, size: int
) -> None:
    """Also characters of several bytes and line ends may be cut."""
    data = stream_bytes(line_end)
    unstreamed = adapter_reply({"raw": data.decode()})

    reply, deltas = streamed(cut_in(size, data))

    assert unstreamed == reply
    assert TEXT == joined(deltas, "text") == reply.message.content
    assert "I think." == joined(deltas, "reasoning")
    assert ("a",) == reply.message.tool_call_ids
    assert (3, 2) == (reply.usage.input_tokens, reply.usage.output_tokens)


async def test_each_part_is_handed_on_before_the_next_bytes_are_sent() -> None:
    """The server sends the second part only after the first one was received."""

    received: list[str] = []
    first_came = asyncio.Event()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await read_request(reader)
        head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n"
        writer.write(f"{head}connection: close\r\n\r\n".encode())
        writer.write(f"data: {json.dumps(chunk(content='one '))}\n\n".encode())
        await first_came.wait()
        writer.write(stream_bytes(events=[chunk("stop", content="two")]))

    async def hear(delta: ModelDelta) -> None:
        received.append(delta.text)
        first_came.set()

    async with serving(serve) as url:
        model = OpenAIChat("gpt-5-mini", base_url=url, api_key=KEY, timeout=120)
        reply = await model.reply(request(hear))
    assert "one two" == reply.message.content
    assert ["one ", "two"] == received


HALF = stream_bytes()[: stream_bytes().index(b"data", 500)]


@pytest.mark.parametrize(
    ("parts", "is_cut", "reason"),
    [
        ([HALF], True, "was cut before the reply was complete"),
        ([HALF], False, "ended before the reply was complete"),
        ([HALF, STALL], False, "did not go on in time"),
        ([b"data: {not json}\n\n", HALF], False, "not JSON"),
        ([b"\xff\xfe\x00garbage"], False, "not JSON"),
        ([b""], False, "not JSON"),
    ],
)
def test_a_stream_that_breaks_is_a_retryable_error(
    parts: list[bytes | None], reason: str, *, is_cut: bool
) -> None:
    """The provider bills it, so the error has the usage of a request."""
    with pytest.raises(ModelError, match=reason) as caught:
        streamed(parts, is_cut=is_cut)

    assert caught.value.retryable
    assert caught.value.usage is not None
    assert "hello" not in str(caught.value)


def test_an_error_in_a_stream_is_the_providers_error() -> None:
    failed = {"error": {"message": "Overloaded", "code": 529}}
    data = stream_bytes(events=[chunk(content="Half"), failed])

    with pytest.raises(ModelError, match="Overloaded") as caught:
        streamed([data])

    assert caught.value.retryable


@pytest.mark.parametrize(
    "refusal",
    ["Unknown parameter: 'stream_options'.", "include_usage is not supported"],
)
async def test_a_server_that_refuses_stream_options_streams_without_them(
    refusal: str,
) -> None:
    """The refusal is remembered for the later requests of the process."""
    asked: list[bool] = []
    deltas: list[ModelDelta] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        sent = await read_request(reader)
        assert sent["stream"] is True
        asked.append("stream_options" in sent)
        body, status = stream_bytes(), "200 OK"
        if asked[-1]:
            body = json.dumps({"error": {"message": refusal}}).encode()
            status = "400 Bad Request"
        lines = f"HTTP/1.1 {status}\r\nconnection: close\r\n"
        writer.write(f"{lines}content-length: {len(body)}\r\n\r\n".encode() + body)

    async def hear(delta: ModelDelta) -> None:
        deltas.append(delta)

    async with serving(serve) as url:
        model = OpenAIChat("gpt-5-mini", base_url=url, api_key=KEY, timeout=120)
        for _ in range(2):
            await model.reply(request(hear))

    assert [True, False, False] == asked
    assert TEXT * 2 == joined(deltas, "text")


def test_a_server_that_does_not_stream_is_asked_for_the_whole_reply() -> None:
    """The server of these tests refuses streams as the API refuses parameters."""
    deltas: list[ModelDelta] = []

    async def hear(delta: ModelDelta) -> None:
        deltas.append(delta)

    with ModelServer({"": [{"content": "Whole."}]}, key=KEY) as server:
        reply = call_model(chat_model(server), request(hear))

    assert ("Whole.", []) == (reply.message.content, deltas)
    assert "stream" not in server.requests[-1]["settings"]


def test_a_completion_in_place_of_a_stream_is_read() -> None:
    completion = {
        "choices": [{"index": 0, "message": {"role": "assistant", "content": "Whole."}}]
    }

    reply, deltas = streamed([json.dumps(completion).encode()])

    assert ("Whole.", []) == (reply.message.content, deltas)


def test_a_dialect_without_streams_never_asks_for_one() -> None:
    with ModelServer({"": [{"content": "Whole."}]}, key=KEY) as server:
        model = chat_model(server, dialect=ChatDialect(stream="none"))
        call_model(model, request(ignore))

    assert 1 == len(server.requests)


if aimock.is_installed():

    def test_a_stream_of_aimock_is_the_reply_that_is_not_streamed(
        tmp_path: Path,
    ) -> None:
        fixture = {
            "match": {"userMessage": "hello"},
            "response": {"content": TEXT, "reasoning": "I think."},
        }
        deltas: list[ModelDelta] = []

        async def hear(delta: ModelDelta) -> None:
            deltas.append(delta)

        with aimock.run_aimock(tmp_path, [fixture]) as server:
            model = OpenAIChat("gpt-5-mini", base_url=server.url, api_key=aimock.KEY)
            replies = [call_model(model, request(each)) for each in (hear, None)]

        assert TEXT == joined(deltas, "text") == replies[1].message.content
        assert replies[0].message.content == replies[1].message.content
        assert replies[0].finish_reason == replies[1].finish_reason
