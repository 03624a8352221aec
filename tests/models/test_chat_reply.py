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
    without_port,
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
        (
            completion_json({"role": "assistant", "tool_calls": 7}),
            "message is not valid",
        ),
        (
            completion_json({"role": "assistant", "tool_calls": [7]}),
            "message is not valid",
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
        "model gpt-5-mini: 127.0.0.1:PORT: the response has no choices"
        " (502: Upstream is down). The same request may succeed later."
    ) == without_port(error)


PARTIAL = {"role": "assistant", "content": "Pay 5"}


@pytest.mark.parametrize(
    "choice",
    [
        {"message": PARTIAL, "finish_reason": "error"},
        {
            "message": PARTIAL,
            "finish_reason": "stop",
            "error": {"code": 502, "message": "Upstream is down"},
        },
    ],
    ids=["finish_reason", "error"],
)
def test_choice_that_ended_in_an_error_is_no_reply(choice: dict[str, Any]) -> None:
    """The provider failed in the middle of its reply, and returned the first part."""
    error = adapter_error({"": [{"raw": json.dumps({"choices": [choice]})}]})

    assert "the provider reports an error" in str(error)
    assert ("Upstream is down" in str(error)) is ("error" in choice)
    assert (200, True) == (error.status, error.retryable)


@pytest.mark.parametrize(
    ("code", "retryable"),
    [
        (400, False),
        (401, False),
        (402, False),
        ("402", False),
        (429, True),
        (502, True),
        (7, True),
        ("server_error", True),
    ],
)
def test_code_of_an_error_with_status_200_decides_like_a_status(
    code: object, *, retryable: bool
) -> None:
    body = {"error": {"code": code, "message": "no"}}

    error = adapter_error({"": [{"raw": json.dumps(body)}]})

    assert (200, retryable) == (error.status, error.retryable)


# Other forms of a reply --------------------------------------------------------


def call_with(function: dict[str, Any], **fields: Any) -> dict[str, Any]:
    return {"tool_calls": [{"type": "function", **fields, "function": function}]}


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        ({"content": "hi"}, {"role": "assistant", "content": "hi"}),
        ({"role": None, "content": "hi"}, {"role": "assistant", "content": "hi"}),
        (
            {"role": "assistant", "content": ["a", "b"]},
            {"role": "assistant", "content": "ab"},
        ),
        (
            {
                "role": "assistant",
                "content": None,
                "audio": {"id": "au_1", "data": "UklG", "transcript": "Hello."},
            },
            {"role": "assistant", "content": "Hello.", "audio": {"id": "au_1"}},
        ),
    ],
)
def test_message_in_another_form_is_written_as_openai_writes_it(
    message: dict[str, Any], expected: dict[str, Any]
) -> None:
    assert expected == adapter_reply({"raw": completion_json(message)}).message.data


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        (call_with({"name": "f", "arguments": {"a": 1}}, id="c"), ("c", '{"a":1}')),
        (call_with({"name": "f", "arguments": None}, id="c"), ("c", "{}")),
        (call_with({"name": "f"}, id="c"), ("c", "{}")),
        (call_with({"name": "f", "arguments": "{}"}, id=7), ("7", "{}")),
        (call_with({"name": "f", "arguments": "{}"}, type=None), ("", "{}")),
        ({"function_call": {"name": "f", "arguments": '{"b":2}'}}, ("", '{"b":2}')),
    ],
)
def test_call_in_another_form_is_read(
    message: dict[str, Any], expected: tuple[str, str]
) -> None:
    reply = adapter_reply({"raw": completion_json({"role": "assistant", **message})})

    (call,) = reply.message.tool_calls
    assert ("f", *expected) == (call.tool, call.tool_call_id, call.arguments)
    assert "function_call" not in reply.message.data


@pytest.mark.parametrize(
    ("message", "expected_text"),
    [
        ({"tool_calls": {"name": "f"}}, '"tool_calls" must be a list'),
        (call_with({"arguments": "{}"}, id="c"), "a tool call needs a name"),
        (call_with({"name": "f", "arguments": 7}, id="c"), "arguments, both strings"),
        (call_with({"name": "f", "arguments": "{}"}, id=[1]), "its id must be a"),
        ({"audio": {"id": "au_1"}}, '"audio" has no "transcript"'),
    ],
)
def test_message_that_can_mean_several_things_is_one_error(
    message: dict[str, Any], expected_text: str
) -> None:
    error = adapter_error({"": [{"raw": completion_json(message)}]})

    assert expected_text in str(error)


@pytest.mark.parametrize("finish_reason", ["stop", "length", "content_filter"])
@pytest.mark.parametrize("content", [None, "", []], ids=["null", "text", "list"])
def test_reply_without_content_is_an_empty_text(
    content: Any, finish_reason: str
) -> None:
    """Null, an empty text and no parts mean the same; the engine asks again."""
    reply = adapter_reply({"content": content, "finish_reason": finish_reason})

    assert ("", finish_reason) == (reply.message.content, reply.finish_reason)
    assert "" == reply.message.data["content"]
