"""A stream that was not requested is read as one reply, if it is complete."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from continuations import Agent, Runner, Suspended
from continuations.core.usage import Usage
from tests import effect_log
from tests.model_server import ModelServer
from tests.models.model_calls import adapter_error, adapter_reply, chat_model


def stream_of(*events: Any, end: str = "data: [DONE]\n\n") -> dict[str, Any]:
    body = "".join(f"data: {json.dumps(event)}\n\n" for event in events)
    return {"raw": f": ping\n\n{body}{end}"}


def chunk(finish_reason: str | None = None, **delta: Any) -> dict[str, Any]:
    choice = {"index": 0, "delta": delta, "finish_reason": finish_reason}
    return {"id": "c", "object": "chat.completion.chunk", "choices": [choice]}


def test_stream_of_a_text_is_joined() -> None:
    usage = {"prompt_tokens": 3, "completion_tokens": 2}

    reply = adapter_reply(
        stream_of(
            chunk(role="assistant", content=""),
            chunk(content="Good "),
            {"choices": [{"index": 1, "delta": {"content": "another choice"}}]},
            chunk(content="day."),
            chunk(finish_reason="stop"),
            {"choices": [], "usage": usage},
        )
    )

    assert ("Good day.", "stop") == (reply.message.content, reply.finish_reason)
    assert Usage(requests=1, input_tokens=3, output_tokens=2) == reply.usage


def test_stream_of_calls_is_joined() -> None:
    def part(index: int, **fields: Any) -> dict[str, Any]:
        return {"tool_calls": [{"index": index, **fields}]}

    first = {"id": "a", "type": "function", "function": {"name": "f", "arguments": ""}}
    second = {"id": "b", "type": "function", "function": {"name": "g"}}

    reply = adapter_reply(
        stream_of(
            chunk(role="assistant", content=None, **part(0, **first)),
            chunk(**part(0, function={"arguments": '{"x"'})),
            chunk(**part(1, **second)),
            chunk(**part(0, function={"arguments": ": 1}"})),
            chunk(**part(1, id="", function={"arguments": "{}"})),
            chunk(finish_reason="tool_calls"),
        )
    )

    calls = [(c.tool_call_id, c.tool, c.arguments) for c in reply.message.tool_calls]
    assert [("a", "f", '{"x": 1}'), ("b", "g", "{}")] == calls
    assert "tool_calls" == reply.finish_reason


def test_whole_completion_in_one_event_is_read() -> None:
    message = {"role": "assistant", "content": "hi"}
    whole = {"choices": [{"index": 0, "message": message, "finish_reason": "length"}]}

    reply = adapter_reply(stream_of(whole, end=""))

    assert ("hi", "length") == (reply.message.content, reply.finish_reason)


@pytest.mark.parametrize(
    ("raw", "expected_text"),
    [
        ("data: {broken\n\n", "the response is not JSON"),
        ("data: [DONE]\n\n", "the response has no choices"),
        ('data: {"error": {"message": "Upstream is down"}}\n\n', "Upstream is down"),
        ('data: [1]\n\ndata: {"choices": 7}\n\n', "the response has no choices"),
    ],
)
def test_unusable_stream_is_an_error(raw: str, expected_text: str) -> None:
    assert expected_text in str(adapter_error({"": [{"raw": raw}]}))


# Streams that are not complete --------------------------------------------------

UPSTREAM_ERROR = {"error": {"code": 502, "message": "Upstream is down"}}
PAY = {"index": 0, "id": "a", "type": "function"}


@pytest.mark.parametrize(
    ("stream", "expected_text"),
    [
        (stream_of(chunk(content="Pay"), UPSTREAM_ERROR), "Upstream is down"),
        (
            stream_of(chunk(content="Pay"), chunk("stop"), UPSTREAM_ERROR),
            "Upstream is down",
        ),
        (
            stream_of(chunk(content="Pay"), {"object": "error", "message": "OOM"}),
            "OOM",
        ),
        (stream_of(chunk(content="Pay"), end=""), "the stream ended before"),
        (
            stream_of(chunk(tool_calls=[{**PAY, "function": {"name": "f"}}]), end=""),
            "the stream ended before",
        ),
    ],
)
def test_incomplete_stream_is_a_retryable_error(
    stream: dict[str, Any], expected_text: str
) -> None:
    error = adapter_error({"": [stream]})

    assert expected_text in str(error)
    assert (200, True) == (error.status, error.retryable)


@pytest.mark.parametrize("end", ["", "data: [DONE]\n\n"])
def test_stream_with_a_finish_reason_or_an_end_mark_is_complete(end: str) -> None:
    finish_reason = None if end else "stop"

    reply = adapter_reply(stream_of(chunk(finish_reason, content="Hello"), end=end))

    assert "Hello" == reply.message.content


def test_no_call_of_a_stream_that_was_cut_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The model wanted two calls; the connection ended after the first one."""
    log = tmp_path / "effects"
    monkeypatch.setenv(effect_log.EFFECTS_VARIABLE, str(log))

    def pay(to: str) -> str:
        """Pay a person."""
        effect_log.append_effect("pay", to)
        return "paid"

    function = {"name": "pay", "arguments": '{"to": "jane"}'}
    cut = stream_of(
        chunk(content=None, tool_calls=[{**PAY, "function": function}]), end=""
    )

    with ModelServer({"": [cut]}) as server:
        agent = Agent("hr", tools=[pay], model=chat_model(server))
        runner = Runner(agent, store="memory:", model_retry_time=0)
        outcome = runner.start("pay both")

    assert isinstance(outcome, Suspended)
    assert "the stream ended before" in str(outcome.waits[0].note)
    assert [] == effect_log.read_lines(log)


# Forms of events ------------------------------------------------------------------


@pytest.mark.parametrize("mark", ["\u2028", "\u2029", "\x85", "\x7f"])
def test_line_ends_of_other_standards_are_part_of_a_text(mark: str) -> None:
    """JSON allows these characters in a string; in a stream they end no line."""
    event = json.dumps(chunk("stop", content=f"a{mark}b"), ensure_ascii=False)

    reply = adapter_reply({"raw": f"data: {event}\n\n"})

    assert f"a{mark}b" == reply.message.content


@pytest.mark.parametrize("line_end", ["\n", "\r\n", "\r"])
def test_each_line_end_of_an_event_stream_is_read(line_end: str) -> None:
    event = json.dumps(chunk("stop", content="Hello"))

    reply = adapter_reply({"raw": f"data: {event}{line_end}{line_end}"})

    assert "Hello" == reply.message.content


def joined_calls(*parts: dict[str, Any]) -> list[tuple[str, str, str]]:
    reply = adapter_reply(
        stream_of(*(chunk(tool_calls=[part]) for part in parts), chunk("tool_calls"))
    )
    return [(c.tool_call_id, c.tool, c.arguments) for c in reply.message.tool_calls]


@pytest.mark.parametrize(
    "index",
    [{}, {"index": None}, {"index": -1}, {"index": "0"}],
    ids=["missing", "null", "negative", "text"],
)
def test_fragments_without_an_index_are_joined(index: dict[str, Any]) -> None:
    """A new id or name begins a call; every other fragment continues the last one."""
    calls = joined_calls(
        {**index, "id": "a", "function": {"name": "f", "arguments": '{"x"'}},
        {**index, "function": {"arguments": ": 1}"}},
        {**index, "id": "b", "function": {"name": "g", "arguments": ""}},
        {**index, "id": "b", "function": {"arguments": "{}"}},
    )

    assert [("a", "f", '{"x": 1}'), ("b", "g", "{}")] == calls


def test_indexes_that_begin_at_1_are_joined() -> None:
    calls = joined_calls(
        {"index": 1, "id": "a", "function": {"name": "f", "arguments": '{"x"'}},
        {"index": 1, "function": {"arguments": ": 1}"}},
    )

    assert [("a", "f", '{"x": 1}')] == calls


def test_calls_with_one_index_and_several_ids_are_several_calls() -> None:
    calls = joined_calls(
        {"index": 0, "id": "a", "function": {"name": "f", "arguments": "{}"}},
        {"index": 0, "id": "b", "function": {"name": "g", "arguments": "{}"}},
    )

    assert [("a", "f", "{}"), ("b", "g", "{}")] == calls


def test_fragments_of_a_legacy_call_are_joined() -> None:
    reply = adapter_reply(
        stream_of(
            chunk(function_call={"name": "f", "arguments": ""}),
            chunk(function_call={"arguments": '{"x"'}),
            chunk(function_call={"arguments": ": 1}"}),
            chunk("function_call"),
        )
    )

    (call,) = reply.message.tool_calls
    assert ("f", '{"x": 1}') == (call.tool, call.arguments)
