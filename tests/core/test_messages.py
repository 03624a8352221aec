"""One message of a conversation: kept as it was said."""

from __future__ import annotations

from typing import Any

import pytest

from continuations.core import messages as said
from continuations.core.jsontext import NotJson
from continuations.core.messages import MalformedMessage, Message, Request
from tests.core.rows import assistant, request


def test_unknown_fields_and_their_order_survive_byte_for_byte() -> None:
    """R-D7: what a provider sent goes back to it as it was."""
    text = (
        '{"z": 1.10, "role": "assistant", "content": "hi", "reasoning": [{"é":'
        ' "\\ud83d\\ude00"}], "annotations": [], "refusal": null, "a": 1e2}'
    )

    assert text == Message.read(text).text


def test_a_message_of_a_mapping_is_its_compact_text() -> None:
    message = Message.of({"role": "user", "content": "é\u2028"})

    assert '{"role":"user","content":"é\u2028"}' == message.text
    assert "user" == message.role


def test_data_is_a_fresh_copy() -> None:
    message = said.user("hi")
    message.data["content"] = "changed"

    assert "hi" == message.content


@pytest.mark.parametrize("role", ["system", "developer", "user", "assistant"])
def test_every_role_is_read(role: str) -> None:
    assert role == Message.of({"role": role, "content": "x"}).role


REFUSED: list[dict[str, Any]] = [
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
    {"role": "assistant", "tool_calls": [request("t") | {"id": 5}]},
    {
        "role": "assistant",
        "tool_calls": [{"id": "x", "function": {"name": None, "arguments": ""}}],
    },
    {
        "role": "assistant",
        "tool_calls": [{"id": "x", "function": {"name": "t", "arguments": {}}}],
    },
]


@pytest.mark.parametrize("data", REFUSED, ids=str)
def test_what_no_provider_would_take_is_refused(data: dict[str, Any]) -> None:
    """X-10, EF-25."""
    with pytest.raises(MalformedMessage):
        Message.of(data)


@pytest.mark.parametrize("role", [["user"], {"a": 1}], ids=str)
def test_a_role_that_is_no_text_is_refused(role: object) -> None:
    """Not even a list, which no set can be asked about."""
    with pytest.raises(MalformedMessage):
        Message.of({"role": role, "content": "x"})


@pytest.mark.parametrize("text", ["[]", '"x"', "null", "1"])
def test_json_that_is_no_object_is_no_message(text: str) -> None:
    with pytest.raises(MalformedMessage):
        Message.read(text)


def test_text_that_is_no_json_is_no_message() -> None:
    with pytest.raises(NotJson):
        Message.read('{"role": "user"')


def test_the_kind_of_a_tool_call_may_not_be_a_text() -> None:
    call = {"id": "x", "type": ["function"], "function": {"name": "t"}}

    with pytest.raises(MalformedMessage):
        Message.of({"role": "assistant", "tool_calls": [call]})


def test_requests_are_read_in_order_with_what_the_model_wrote() -> None:
    """R-D3: broken JSON in arguments is text like any other."""
    message = assistant(
        None, request("a", "1", '{"x": 1'), request("b", "", ""), request("a", "1")
    )

    expected = (
        Request("1", "a", '{"x": 1'),
        Request("", "b", ""),
        Request("1", "a", "{}"),
    )
    assert expected == message.requests
    assert ("1", "", "1") == message.calls


def test_a_call_without_an_id_or_arguments_is_still_a_call() -> None:
    """R-D5: some servers leave both out."""
    call = {"function": {"name": "now"}}

    expected = (Request("", "now", ""),)
    assert expected == Message.of({"role": "assistant", "tool_calls": [call]}).requests


def test_a_custom_tool_is_called_with_its_input() -> None:
    call = {"id": "x", "type": "custom", "custom": {"name": "sql", "input": "select"}}

    expected = (Request("x", "sql", "select"),)
    assert expected == Message.of({"role": "assistant", "tool_calls": [call]}).requests


@pytest.mark.parametrize("calls", [None, []])
def test_no_calls_are_no_calls(calls: object) -> None:
    message = Message.of({"role": "assistant", "content": "x", "tool_calls": calls})

    assert () == message.calls


def test_other_ids_leave_everything_else_as_it_was() -> None:
    """R-D5, R-D7."""
    given = assistant(
        "so", request("a", "x") | {"extra": {"k": [1]}}, request("b", "x")
    )

    renamed = given.with_call_ids(("x", "call_c4"))

    expected = given.data
    expected["tool_calls"][1]["id"] = "call_c4"
    assert expected == renamed.data
    assert list(expected) == list(renamed.data)
    assert ("x", "call_c4") == renamed.calls


def test_a_tool_message_names_the_call_that_it_answers() -> None:
    message = said.tool("x", "42")

    assert ("tool", "x", "42") == (message.role, message.answers, message.content)


SAID: list[tuple[Any, str | None, str]] = [
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


@pytest.mark.parametrize(("content", "refusal", "expected"), SAID)
def test_content_is_what_was_said_in_words(
    content: object, refusal: object, expected: str
) -> None:
    message = Message.of({"role": "assistant", "content": content, "refusal": refusal})

    assert expected == message.content


def test_system_messages_are_made() -> None:
    assert {"role": "system", "content": "x"} == said.system("x").data
