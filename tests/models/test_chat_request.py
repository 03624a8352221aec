"""The requests that are sent to a chat completions server."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
from openai import AsyncOpenAI

from continuations import Agent, Finished, run
from continuations.core.messages import (
    Message,
    system_message,
    tool_message,
    user_message,
)
from continuations.models.interface import ModelRequest, OutputSchema, ToolSpec
from continuations.models.openai_chat import OpenAIChat
from tests.model_server import ModelServer
from tests.models.model_calls import KEY, adapter_error, call_model, chat_model


class RecordingServer:
    """A server that records path, headers and body of each request."""

    def __init__(self) -> None:
        seen: list[tuple[str, dict[str, str], bytes]] = []
        message = {"role": "assistant", "content": "ok"}
        response = json.dumps({"choices": [{"message": message}]}).encode()

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                seen.append((self.path, dict(self.headers), body))
                self.send_response(200)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(response)))
                self.send_header("Connection", "close")
                self.end_headers()
                self.wfile.write(response)

            def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
                pass

        self.seen = seen
        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}/v1"
        threading.Thread(
            target=self.server.serve_forever, args=(0.01,), daemon=True
        ).start()


@pytest.fixture
def recorder() -> Iterator[RecordingServer]:
    recorder = RecordingServer()
    yield recorder
    recorder.server.shutdown()
    recorder.server.server_close()


WEATHER = ToolSpec(
    name="weather",
    description="The weather of a „Stadt“.",
    parameters={"type": "object", "properties": {"city": {"type": "string"}}},
)
ASKED: dict[str, Any] = {
    "role": "assistant",
    "content": None,
    "tool_calls": [
        {
            "id": "call_1",
            "type": "function",
            "function": {"name": "weather", "arguments": '{"city": "Köln"}'},
        }
    ],
}
SCHEMA: dict[str, Any] = {
    "name": "out",
    "schema": {"type": "object", "properties": {}},
    "strict": True,
}
OUTPUT_SCHEMA = OutputSchema(name="Weather", schema=WEATHER.parameters)
RESPONSE_FORMAT: dict[str, Any] = {
    "type": "json_schema",
    "json_schema": {
        "name": "Weather",
        "schema": {
            **WEATHER.parameters,
            "required": ["city"],
            "additionalProperties": False,
        },
        "strict": True,
    },
}
CASES: dict[str, ModelRequest] = {
    "plain": ModelRequest(messages=[system_message("be brief"), user_message("hello")]),
    "tools": ModelRequest(
        messages=[
            user_message("rain?"),
            Message.from_mapping(ASKED),
            tool_message("call_1", "yes"),
        ],
        tools=[WEATHER],
        settings={"tool_choice": "auto", "parallel_tool_calls": False},
    ),
    "settings": ModelRequest(
        messages=[user_message("hello")],
        settings={
            "temperature": 0.2,
            "service_tier": "flex",
            "response_format": {"type": "json_schema", "json_schema": SCHEMA},
            "max_completion_tokens": 100,
            "stop": ["a", "b"],
            "metadata": {"z": "1", "a": "2"},
        },
    ),
    "output schema": ModelRequest(
        messages=[user_message("hello")],
        output_schema=OUTPUT_SCHEMA,
        settings={"temperature": 0.2, "service_tier": "flex"},
    ),
    "output schema and own response_format": ModelRequest(
        messages=[user_message("hello")],
        output_schema=OUTPUT_SCHEMA,
        settings={"response_format": {"type": "json_object"}},
    ),
    "unicode": ModelRequest(
        messages=[user_message('Grüße 你好 \u0000 \x7f \\ " / </script>')]
    ),
    "emoji": ModelRequest(messages=[user_message("👩‍🚀 \U0010ffff")]),
    "line separators": ModelRequest(
        messages=[user_message("a\u2028b\u2029c\u0085d\r\n")]
    ),
    "numbers": ModelRequest(
        messages=[
            Message.from_mapping({"role": "assistant", "content": "", "x": 10**30})
        ]
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_adapter_sends_the_same_bytes_as_the_openai_client(
    recorder: RecordingServer, case: str
) -> None:
    # Given a request
    request = CASES[case]
    named = [
        {"name": t.name, "description": t.description, "parameters": dict(t.parameters)}
        for t in request.tools
    ]
    tools = [{"type": "function", "function": function} for function in named]
    wanted = {"response_format": RESPONSE_FORMAT} if request.output_schema else {}
    arguments: dict[str, Any] = {
        "model": "gpt-5-mini",
        "messages": [message.data for message in request.messages],
        **({"tools": tools} if tools else {}),
        **wanted,
        **request.settings,
    }

    # When it is sent by the adapter, and as the documentation of openai says
    call_model(OpenAIChat("gpt-5-mini", base_url=recorder.url, api_key=KEY), request)

    async def documented() -> None:
        async with AsyncOpenAI(base_url=recorder.url, api_key=KEY) as client:
            await client.chat.completions.create(**arguments)

    asyncio.run(documented())

    # Then path, every header and every byte are the same
    ours, theirs = recorder.seen
    assert theirs == ours


def test_lone_surrogate_is_replaced_only_in_the_request() -> None:
    # Given a lone surrogate, as a character and as an escape
    literal = user_message("half \ud83d of it")
    escaped = Message.from_json(
        '{"role":"user","content":"half \\uD83D, \\ud83d\\ude00"}'
    )

    with ModelServer({"": [{"content": "ok"}]}) as server:
        call_model(chat_model(server), ModelRequest(messages=[literal, escaped]))

    sent = [message["content"] for message in server.requests[0]["messages"]]
    assert ["half \ufffd of it", "half \ufffd, 😀"] == sent
    assert literal.content == "half \ud83d of it"


def test_request_contains_no_extra_settings() -> None:
    with ModelServer({"": [{"content": "ok"}]}) as server:
        call_model(
            chat_model(server),
            ModelRequest(messages=[user_message("a")], agent="hr", run_id="r-1"),
        )

    assert {} == server.requests[0]["settings"]


@dataclass
class Trip:
    city: str
    days: int = 1


TRIP_SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {"city": {"type": "string"}, "days": {"type": "integer"}},
    "required": ["city", "days"],
    "additionalProperties": False,
}


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        (
            {},
            {
                "type": "json_schema",
                "json_schema": {"name": "Trip", "schema": TRIP_SCHEMA, "strict": True},
            },
        ),
        ({"response_format": {"type": "json_object"}}, {"type": "json_object"}),
    ],
)
def test_output_type_of_an_agent_is_requested_as_response_format(
    settings: dict[str, Any], expected: dict[str, Any]
) -> None:
    """An own `response_format` in the settings of the agent wins."""
    with ModelServer({"": [{"content": '{"city":"Oslo"}'}]}) as server:
        outcome = run(
            Agent("a", model=chat_model(server), output_type=Trip, settings=settings),
            "Where to?",
        )

    assert isinstance(outcome, Finished)
    assert Trip("Oslo") == outcome.output
    assert {"response_format": expected} == server.requests[0]["settings"]


def test_settings_that_are_no_json_are_rejected() -> None:
    request = ModelRequest(
        messages=[user_message("a")], settings={"temperature": float("nan")}
    )

    assert "settings and tools must be JSON" in str(adapter_error({}, request))
