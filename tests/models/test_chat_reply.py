"""Responses of a chat completions server are read as replies."""

from __future__ import annotations

import json
from typing import Any

import pytest

from continuations.core.messages import tool_message, user_message
from continuations.core.usage import Usage
from continuations.models.interface import ModelRequest
from tests.model_server import ModelServer
from tests.models.model_calls import (
    adapter_error,
    adapter_reply,
    call_model,
    chat_model,
)


def test_unknown_fields_survive_and_go_back_unchanged() -> None:
    # Given a provider that adds its own fields
    extra: dict[str, Any] = {
        "reasoning_details": [{"type": "thinking", "signature": "Zm9v", "n": 1.50}],
        "provider": {"big": 10**40, "nothing": None, "yes": True},
        "content": None,
    }
    call = {"name": "weather", "arguments": '{"city":  "Köln" }', "id": "call_7"}
    script = {"": [{"tool_calls": [call], **extra}, {"content": "done"}]}

    with ModelServer(script) as server:
        # When its message is sent back
        first = call_model(chat_model(server))
        messages = [
            user_message("hello"),
            first.message,
            tool_message("call_7", "rain"),
        ]
        call_model(chat_model(server), ModelRequest(messages=messages))

    # Then the message is unchanged
    sent = server.requests[1]["messages"][1]
    assert first.message.data == sent
    assert extra == {name: sent[name] for name in extra}
    assert '{"city":  "Köln" }' == sent["tool_calls"][0]["function"]["arguments"]
    assert ["role", "content", "tool_calls", "refusal"] == list(sent)[:4]
    assert "tool_calls" == first.finish_reason


@pytest.mark.parametrize("tool_calls", [[], None])
def test_empty_tool_calls_are_dropped(tool_calls: Any) -> None:
    message = {"role": "assistant", "tool_calls": tool_calls, "content": "hi", "x": 1}

    reply = adapter_reply({"raw": json.dumps({"choices": [{"message": message}]})})

    assert '{"role":"assistant","content":"hi","x":1}' == reply.message.text
    assert "stop" == reply.finish_reason


def test_usage_is_counted() -> None:
    usage = {
        "prompt_tokens": 100,
        "completion_tokens": 20,
        "prompt_tokens_details": {"cached_tokens": 64},
        "completion_tokens_details": {"reasoning_tokens": 8},
    }

    assert (
        Usage(
            requests=1,
            input_tokens=100,
            output_tokens=20,
            cached_tokens=64,
            reasoning_tokens=8,
        )
        == adapter_reply({"content": "ok", "usage": usage}).usage
    )


@pytest.mark.parametrize(
    "usage",
    [
        None,
        {},
        "many",
        {"prompt_tokens": None, "prompt_tokens_details": None},
        {"prompt_tokens": -1, "completion_tokens": "7"},
    ],
)
def test_missing_usage_counts_as_one_request(usage: Any) -> None:
    assert Usage(requests=1) == adapter_reply({"content": "ok", "usage": usage}).usage


def test_finish_reason_is_returned() -> None:
    assert (
        "length"
        == adapter_reply({"content": "ok", "finish_reason": "length"}).finish_reason
    )


def test_refusal_is_a_reply() -> None:
    assert "No." == adapter_reply({"content": None, "refusal": "No."}).message.content


def completion_json(message: Any) -> str:
    return json.dumps({"choices": [{"message": message}]})


CALL_WITH_OBJECT_ARGUMENTS: dict[str, Any] = {
    "id": "c",
    "type": "function",
    "function": {"name": "f", "arguments": {"a": 1}},
}


@pytest.mark.parametrize(
    ("raw", "expected_text"),
    [
        ("<html>", "the response is not JSON"),
        ("", "the response is not JSON"),
        ("[" * 100_000, "the response is not JSON"),
        (
            completion_json({"role": "assistant", "content": float("inf")}),
            "is not JSON",
        ),
        ("[]", "the response is not a chat completion"),
        ("{}", "the response has no choices"),
        ('{"choices": []}', "the response has no choices"),
        ('{"choices": [7]}', "the response has no choices"),
        ('{"choices": [{}]}', "the response has no message"),
        (
            completion_json({"role": "user", "content": "hi"}),
            "is not an assistant message",
        ),
        (completion_json({"content": "hi"}), "is not an assistant message"),
        (
            completion_json({"role": "assistant", "tool_calls": 7}),
            "message is not valid",
        ),
        (
            completion_json({"role": "assistant", "tool_calls": [7]}),
            "message is not valid",
        ),
        (
            completion_json(
                {"role": "assistant", "tool_calls": [CALL_WITH_OBJECT_ARGUMENTS]}
            ),
            "message is not valid",
        ),
        (
            completion_json({"role": "assistant", "content": None}),
            "the message is empty",
        ),
    ],
)
def test_invalid_completion_is_a_retryable_error(raw: str, expected_text: str) -> None:
    error = adapter_error({"": [{"raw": raw}]})

    assert expected_text in str(error)
    assert (200, True) == (error.status, error.retryable)


def test_error_body_with_status_200_is_quoted() -> None:
    raw = json.dumps({"error": {"code": 502, "message": "Upstream is down"}})

    error = adapter_error({"": [{"raw": raw}]})

    assert (
        "model gpt-5-mini: 127.0.0.1: the response has no choices"
        " (502: Upstream is down). Resume the run to retry."
    ) == str(error)
