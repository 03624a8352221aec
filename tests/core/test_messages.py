"""Messages keep their JSON text."""

from __future__ import annotations

from typing import Any

import pytest

from continuations.core.jsontext import NotJson
from continuations.core.messages import (
    MalformedMessage,
    Message,
    ToolCallRequest,
    system_message,
    tool_message,
    user_message,
)
from tests.core.rows import assistant_message, tool_request


def test_unknown_fields_and_their_order_survive_byte_for_byte() -> None:
    """The provider gets its own message back unchanged."""
    text = (
        '{"z": 1.10, "role": "assistant", "content": "hi", "reasoning": [{"é":'
        ' "\\ud83d\\ude00"}], "annotations": [], "refusal": null, "a": 1e2}'
    )

    assert text == Message.from_json(text).text


def test_from_mapping_makes_compact_json_text() -> None:
    message = Message.from_mapping({"role": "user", "content": "é\u2028"})

    assert '{"role":"user","content":"é\u2028"}' == message.text
    assert "user" == message.role


def test_data_is_a_copy() -> None:
    message = user_message("hi")
    message.data["content"] = "changed"

    assert "hi" == message.content


@pytest.mark.parametrize("role", ["system", "developer", "user", "assistant"])
def test_every_role_is_accepted(role: str) -> None:
    assert role == Message.from_mapping({"role": role, "content": "x"}).role


MALFORMED: list[dict[str, Any]] = [
    {},
    {"role": "robot", "content": "x"},
    {"role": None},
    {"role": "function", "name": "f", "content": "x"},
    {"role": "tool", "content": "x"},
    {"role": "tool", "tool_call_id": 7, "content": "x"},
    {"role": "assistant", "tool_calls": {"id": "x"}},
    {"role": "assistant", "tool_calls": "x"},
    {"role": "assistant", "tool_calls": ["x"]},
    {"role": "assistant", "tool_calls": [{"id": "x", "type": "function"}]},
    {"role": "assistant", "tool_calls": [tool_request("t") | {"id": 5}]},
    {
        "role": "assistant",
        "tool_calls": [{"id": "x", "function": {"name": None, "arguments": ""}}],
    },
    {
        "role": "assistant",
        "tool_calls": [{"id": "x", "function": {"name": "t", "arguments": {}}}],
    },
]


@pytest.mark.parametrize("data", MALFORMED, ids=str)
def test_from_mapping_rejects_a_malformed_message(data: dict[str, Any]) -> None:
    with pytest.raises(MalformedMessage):
        Message.from_mapping(data)


@pytest.mark.parametrize("role", [["user"], {"a": 1}], ids=str)
def test_role_that_is_not_a_string_is_rejected(role: object) -> None:
    """A list or dict is not hashable, which must not raise TypeError."""
    with pytest.raises(MalformedMessage):
        Message.from_mapping({"role": role, "content": "x"})


@pytest.mark.parametrize("text", ["[]", '"x"', "null", "1"])
def test_from_json_rejects_json_that_is_not_an_object(text: str) -> None:
    with pytest.raises(MalformedMessage):
        Message.from_json(text)


def test_from_json_rejects_text_that_is_not_json() -> None:
    with pytest.raises(NotJson):
        Message.from_json('{"role": "user"')


def test_tool_call_type_that_is_not_a_string_is_rejected() -> None:
    call = {"id": "x", "type": ["function"], "function": {"name": "t"}}

    with pytest.raises(MalformedMessage):
        Message.from_mapping({"role": "assistant", "tool_calls": [call]})


def test_tool_calls_keep_order_and_raw_arguments() -> None:
    """Arguments that are not valid JSON are kept as text."""
    message = assistant_message(
        None,
        tool_request("a", "1", '{"x": 1'),
        tool_request("b", "", ""),
        tool_request("a", "1"),
    )

    expected = (
        ToolCallRequest("1", "a", '{"x": 1'),
        ToolCallRequest("", "b", ""),
        ToolCallRequest("1", "a", "{}"),
    )
    assert expected == message.tool_calls
    assert ("1", "", "1") == message.tool_call_ids


def test_tool_call_without_id_and_arguments_is_accepted() -> None:
    """Some servers omit both."""
    call = {"function": {"name": "now"}}

    expected = (ToolCallRequest("", "now", ""),)
    assert (
        expected
        == Message.from_mapping({"role": "assistant", "tool_calls": [call]}).tool_calls
    )


def test_arguments_of_a_custom_tool_are_its_input() -> None:
    call = {"id": "x", "type": "custom", "custom": {"name": "sql", "input": "select"}}

    expected = (ToolCallRequest("x", "sql", "select"),)
    assert (
        expected
        == Message.from_mapping({"role": "assistant", "tool_calls": [call]}).tool_calls
    )


@pytest.mark.parametrize("calls", [None, []])
def test_null_or_empty_tool_calls_mean_no_calls(calls: object) -> None:
    message = Message.from_mapping(
        {"role": "assistant", "content": "x", "tool_calls": calls}
    )

    assert () == message.tool_call_ids


def test_with_tool_call_ids_changes_only_the_ids() -> None:
    message = assistant_message(
        "so", tool_request("a", "x") | {"extra": {"k": [1]}}, tool_request("b", "x")
    )

    renamed = message.with_tool_call_ids(("x", "call_c4"))

    expected = message.data
    expected["tool_calls"][1]["id"] = "call_c4"
    assert expected == renamed.data
    assert list(expected) == list(renamed.data)
    assert ("x", "call_c4") == renamed.tool_call_ids


def test_tool_message_has_the_id_of_its_call() -> None:
    message = tool_message("x", "42")

    assert ("tool", "x", "42") == (
        message.role,
        message.answered_call_id,
        message.content,
    )


CONTENTS: list[tuple[Any, str | None, str]] = [
    ("hi", None, "hi"),
    ("", "I cannot", "I cannot"),
    (None, "I cannot", "I cannot"),
    (None, None, ""),
    ([{"type": "text", "text": "a"}, {"type": "text", "text": "b"}], None, "ab"),
    ([{"type": "refusal", "refusal": "no"}], None, "no"),
    ([{"type": "image_url", "image_url": {}}, "odd", {"text": 5}], None, ""),
    ([], None, ""),
    ({"odd": 1}, None, ""),
]


@pytest.mark.parametrize(("content", "refusal", "expected"), CONTENTS)
def test_content_joins_text_and_refusal(
    content: object, refusal: object, expected: str
) -> None:
    message = Message.from_mapping(
        {"role": "assistant", "content": content, "refusal": refusal}
    )

    assert expected == message.content


def test_system_message_has_the_role_system() -> None:
    assert {"role": "system", "content": "x"} == system_message("x").data
