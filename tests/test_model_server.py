"""The model server refuses the requests that the API refuses."""

from __future__ import annotations

import http.client
import json
from typing import Any
from urllib.parse import urlsplit

import pytest

from tests.model_server import ModelServer

HELLO = {"role": "user", "content": "hello"}


def assistant_with_calls(*ids: str) -> dict[str, Any]:
    """Return an assistant message with one tool call for each id."""
    function = {"name": "pay", "arguments": "{}"}
    calls = [{"id": i, "type": "function", "function": function} for i in ids]
    return {"role": "assistant", "content": None, "tool_calls": calls}


def tool_message(call_id: str, content: Any = "ok") -> dict[str, Any]:
    return {"role": "tool", "tool_call_id": call_id, "content": content}


def tool_definition(name: str, **fields: Any) -> dict[str, Any]:
    parameters: dict[str, Any] = {"type": "object", "properties": {}}
    body: dict[str, Any] = {"name": name, "parameters": parameters, **fields}
    return {"type": "function", "function": body}


class Client:
    """One connection to a server, without an SDK."""

    def __init__(self, url: str) -> None:
        host = urlsplit(url).netloc
        self._connection = http.client.HTTPConnection(host, timeout=120)

    def post(
        self,
        body: Any,
        *,
        key: str = "sk-test",
        path: str = "/v1/chat/completions",
        kind: str = "application/json",
    ) -> tuple[int, Any]:
        raw = body if isinstance(body, bytes) else json.dumps(body).encode()
        headers = {"Authorization": f"Bearer {key}", "Content-Type": kind}
        self._connection.request("POST", path, raw, headers)
        response = self._connection.getresponse()
        text = response.read().decode()
        try:
            return response.status, json.loads(text)
        except ValueError:
            return response.status, text

    def close(self) -> None:
        self._connection.close()


def post_messages(
    server: ModelServer, *messages: Any, **settings: Any
) -> tuple[int, Any]:
    client = Client(server.url)
    response = client.post({"model": "m", "messages": list(messages), **settings})
    client.close()
    return response


# Refused requests -------------------------------------------------------------

UNANSWERED = "must be followed by tool messages responding to each 'tool_call_id'"
ORPHAN = "must be a response to a preceeding message with 'tool_calls'"
DUPLICATE = "Duplicate value for 'tool_call_id'"
EMPTY = "empty array. Expected an array with minimum length 1"


@pytest.mark.parametrize(
    ("messages", "expected_text"),
    [
        ([], f"Invalid 'messages': {EMPTY}"),
        ([7], "Invalid type for 'messages[0]': expected an object"),
        ([{"content": "a"}], "Missing required parameter: 'messages[0].role'"),
        ([{"role": "robot", "content": "a"}], "Invalid value: 'robot'"),
        ([{"role": "user"}], "expected a string, got null"),
        ([{"role": "user", "content": 7}], "Invalid type for 'messages[0].content'"),
        ([{"role": "user", "content": [{"text": "a"}]}], "messages[0].content"),
        ([HELLO, {"role": "assistant", "content": None}], "expected a string, got nu"),
        ([HELLO, assistant_with_calls()], f"Invalid 'messages[1].tool_calls': {EMPTY}"),
        (
            [HELLO, assistant_with_calls("")],
            "Invalid 'messages[1].tool_calls[0].id': empty string",
        ),
        ([HELLO, assistant_with_calls("a")], UNANSWERED),
        (
            [HELLO, assistant_with_calls("a", "b"), tool_message("b")],
            "did not have response messages: a",
        ),
        ([HELLO, assistant_with_calls("a"), HELLO, tool_message("a")], UNANSWERED),
        (
            [
                HELLO,
                assistant_with_calls("a"),
                assistant_with_calls("b"),
                tool_message("b"),
                tool_message("a"),
            ],
            UNANSWERED,
        ),
        ([HELLO, tool_message("a")], ORPHAN),
        ([tool_message("a")], ORPHAN),
        (
            [
                HELLO,
                assistant_with_calls("a"),
                tool_message("a"),
                HELLO,
                tool_message("a"),
            ],
            ORPHAN,
        ),
        (
            [HELLO, assistant_with_calls("a"), tool_message("b"), tool_message("a")],
            "'tool_call_id' of 'b' not fou",
        ),
        (
            [HELLO, assistant_with_calls("a"), tool_message("a"), tool_message("a")],
            DUPLICATE,
        ),
        (
            [
                HELLO,
                assistant_with_calls("a", "a"),
                tool_message("a"),
                tool_message("a"),
            ],
            DUPLICATE,
        ),
        (
            [
                HELLO,
                assistant_with_calls("a"),
                tool_message("a"),
                assistant_with_calls("a"),
                tool_message("a"),
            ],
            DUPLICATE,
        ),
        (
            [HELLO, assistant_with_calls("a"), tool_message("a", None)],
            "expected a string, got null",
        ),
        (
            [HELLO, assistant_with_calls("a"), tool_message("a", {"ok": 1})],
            "Invalid type for 'messages[2]",
        ),
        (
            [HELLO, assistant_with_calls("a"), tool_message("a", [])],
            f"'messages[2].content': {EMPTY}",
        ),
        (
            [
                HELLO,
                assistant_with_calls("a"),
                tool_message("a", [{"type": "image_url"}]),
            ],
            "'image_url'",
        ),
        (
            [HELLO, assistant_with_calls("a"), {"role": "tool", "content": ""}],
            "messages[2].tool_call",
        ),
    ],
)
def test_invalid_conversation_is_refused(
    messages: list[Any], expected_text: str
) -> None:
    with ModelServer({"": [{"content": "never"}] * 5}) as server:
        status, body = post_messages(server, *messages)

    error: dict[str, Any] = body["error"]
    assert (400, "invalid_request_error") == (status, error["type"])
    assert expected_text in error["message"]


@pytest.mark.parametrize(
    "invalid",
    [
        {"id": 7},
        {"type": None},
        {"type": "custom"},
        {"function": None},
        {"function": {"name": "a b", "arguments": "{}"}},
        {"function": {"name": "pay", "arguments": {}}},
        {"function": {"name": "pay"}},
    ],
)
def test_invalid_call_is_refused(invalid: dict[str, Any]) -> None:
    message = assistant_with_calls("a")
    message["tool_calls"][0] |= invalid
    with ModelServer({"": [{"content": "never"}] * 5}) as server:
        status, body = post_messages(server, HELLO, message, tool_message("a"))

    assert 400 == status
    assert body["error"]["param"].startswith("messages[1].tool_calls[0]")


@pytest.mark.parametrize(
    ("settings", "expected_text"),
    [
        ({"tools": []}, f"Invalid 'tools': {EMPTY}"),
        ({"tools": [tool_definition("a b")]}, "does not match pattern"),
        ({"tools": [tool_definition("straße")]}, "does not match pattern"),
        ({"tools": [tool_definition("a\n")]}, "does not match pattern"),
        ({"tools": [tool_definition("")]}, "empty string"),
        ({"tools": [tool_definition("a" * 65)]}, "string too long"),
        (
            {"tools": [tool_definition("a"), tool_definition("a")]},
            "tool names must be unique",
        ),
        (
            {"tools": [tool_definition("a", parameters={"type": "string"})]},
            "got 'type: \"str",
        ),
        (
            {"tools": [tool_definition("a", parameters={})]},
            "schema must be a JSON Schema of",
        ),
        ({"tools": [tool_definition("a", parameters=None)]}, "expected an object"),
        ({"tool_choice": "auto"}, "only allowed when 'tools' are specified"),
        ({"parallel_tool_calls": True}, "only allowed when 'tools' are specified"),
        ({"agent": "hr"}, "Unknown parameter: 'agent'"),
        ({"stream": True}, "does not stream"),
        ({"model": None}, "you must provide a model parameter"),
    ],
)
def test_invalid_setting_is_refused(
    settings: dict[str, Any], expected_text: str
) -> None:
    with ModelServer({"": [{"content": "never"}]}) as server:
        status, body = post_messages(server, HELLO, **settings)

    assert 400 == status
    assert expected_text in body["error"]["message"]


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"[]",
        b"{",
        b'{"model":"m","messages":[{"role":"user","content":"\xff"}]}',
        b'{"model":"m","messages":[{"role":"user","content":"\xed\xa0\xbd"}]}',
        b'{"model":"m","messages":[{"role":"user","content":"\\ud83d"}]}',
        b'{"model":"m","messages":[{"role":"user","content":"\\uDC00"}]}',
        b'{"model":"m","temperature":NaN,"messages":[]}',
        b"[" * 100_000,
    ],
)
def test_body_that_is_not_json_is_refused(raw: bytes) -> None:
    with ModelServer({}) as server:
        client = Client(server.url)
        status, body = client.post(raw)
        client.close()

    assert 400 == status
    assert "We could not parse the JSON body" in body["error"]["message"]


def test_key_path_and_content_type_are_checked_first() -> None:
    with ModelServer({}, key="sk-right") as server:
        client = Client(server.url)
        wrong = client.post({}, key="sk-wrong-and-long")
        elsewhere = client.post({}, path="/v1/models", key="sk-right")
        form = client.post({}, kind="text/plain", key="sk-right")
        client.close()

    assert (401, "invalid_api_key") == (wrong[0], wrong[1]["error"]["code"])
    assert "sk-wrong-and-long" not in wrong[1]["error"]["message"]
    assert [404, 415] == [elsewhere[0], form[0]]
