"""Transcripts that a provider would refuse are reported with the reason."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from continuations.core.messages import system_message, tool_message, user_message
from continuations.core.transcript import find_violation, unique_tool_call_ids
from tests.core.rows import assistant_message, tool_request

if TYPE_CHECKING:
    from continuations.core.messages import Message

HELLO = user_message("hi")


def assistant_calling(*ids: str) -> Message:
    return assistant_message(
        None, *(tool_request("t", tool_call_id) for tool_call_id in ids)
    )


def tool_results(*ids: str) -> list[Message]:
    return [tool_message(tool_call_id, "42") for tool_call_id in ids]


@pytest.mark.parametrize(
    "messages",
    [
        [HELLO],
        [system_message("s"), HELLO],
        [HELLO, assistant_message("bye")],
        [HELLO, assistant_message("a"), assistant_message("b")],
        [HELLO, assistant_calling("a"), *tool_results("a")],
        [HELLO, assistant_calling("a", "b"), *tool_results("a", "b"), HELLO],
        [
            HELLO,
            assistant_calling("a"),
            *tool_results("a"),
            assistant_calling("b", "c"),
            *tool_results("b", "c"),
        ],
        [
            HELLO,
            assistant_calling("a"),
            *tool_results("a"),
            assistant_calling("a"),
            *tool_results("a"),
        ],
    ],
)
def test_find_violation_returns_none_for_a_valid_conversation(
    messages: list[Message],
) -> None:
    assert find_violation(messages) is None


@pytest.mark.parametrize(
    ("messages", "reason"),
    [
        ([], "list of messages is empty"),
        ([HELLO, assistant_calling("a")], "1 tool messages are missing at the end"),
        (
            [HELLO, assistant_calling("a", "b"), *tool_results("a")],
            "1 tool messages are missing at the end",
        ),
        (
            [HELLO, assistant_calling("a"), HELLO],
            "1 tool messages are missing before message 2",
        ),
        (
            [HELLO, assistant_calling("a"), HELLO, *tool_results("a")],
            "1 tool messages are missing before message 2",
        ),
        (
            [HELLO, assistant_calling("a", "b"), *tool_results("a"), HELLO],
            "1 tool messages are missing before message 3",
        ),
        (
            [
                HELLO,
                assistant_calling("a"),
                assistant_calling("b"),
                *tool_results("a", "b"),
            ],
            "1 tool messages are missing before message 2",
        ),
        ([HELLO, *tool_results("a")], "message 1 is a tool message"),
        (
            [HELLO, assistant_calling("a"), *tool_results("a", "a")],
            "message 3 is a tool message",
        ),
        (
            [HELLO, assistant_calling("a"), *tool_results("b")],
            "message 2 is a tool message",
        ),
        (
            [HELLO, assistant_calling("a", "b"), *tool_results("b", "a")],
            "message 2 is a tool message",
        ),
        (
            [
                HELLO,
                assistant_calling("a"),
                *tool_results("a"),
                HELLO,
                *tool_results("a"),
            ],
            "message 4 is a tool message",
        ),
        ([*tool_results("a"), HELLO], "message 0 is a tool message"),
        (
            [HELLO, assistant_calling("a", "a"), *tool_results("a", "a")],
            "message 1 has two tool calls",
        ),
    ],
)
def test_find_violation_returns_the_reason_for_an_invalid_conversation(
    messages: list[Message], reason: str
) -> None:
    """Every call needs exactly one tool message, directly after it and in order."""
    assert reason in (find_violation(messages) or "")


# Ids --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("provider_ids", "expected"),
    [
        (("a", "b"), ("a", "b")),
        (("", ""), ("call_c3", "call_c4")),
        (("x", "x"), ("x", "call_c4")),
        (("old", "b"), ("call_c3", "b")),
        (("", "call_c3"), ("call_c3", "call_c4")),
        (("call_c4", ""), ("call_c4", "call_c4_")),
    ],
)
def test_only_an_empty_or_taken_id_is_replaced(
    provider_ids: tuple[str, ...], expected: tuple[str, ...]
) -> None:
    messages = [HELLO, assistant_calling("old"), *tool_results("old")]

    assert expected == unique_tool_call_ids(
        messages, provider_ids, ("call_c3", "call_c4")
    )


@settings(max_examples=200, deadline=None, derandomize=True)
@given(st.lists(st.sampled_from(["", "a", "b", "call_1", "call_2", "call_1_"])))
def test_unique_tool_call_ids_returns_unique_ids_for_any_provider_ids(
    provider_ids: list[str],
) -> None:
    """The ids are unique even if the provider uses the same ids as the replacements."""
    replacements = [f"call_{number}" for number, _ in enumerate(provider_ids)]

    ids = unique_tool_call_ids(
        [HELLO, assistant_calling("a"), *tool_results("a")], provider_ids, replacements
    )

    assert len(provider_ids) == len(set(ids))
    assert not {"", "a"} & set(ids)
