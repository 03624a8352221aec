"""Transcripts that a provider would refuse are reported with the reason."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from continuations.core.messages import (
    NOTHING_CHECKED,
    Message,
    find_violation,
    system_message,
    tool_message,
    unique_tool_call_ids,
    user_message,
)
from continuations.core.rows.frames import MessageLog
from tests.core.rows import assistant_message, tool_request
from tests.sampling import examples

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
    known_ids = NOTHING_CHECKED.extended(messages).call_ids

    assert expected == unique_tool_call_ids(
        known_ids, provider_ids, ("call_c3", "call_c4")
    )


@settings(max_examples=examples(200), deadline=None, derandomize=True)
@given(st.lists(st.sampled_from(["", "a", "b", "call_1", "call_2", "call_1_"])))
def test_unique_tool_call_ids_returns_unique_ids_for_any_provider_ids(
    provider_ids: list[str],
) -> None:
    """The ids are unique even if the provider uses the same ids as the replacements."""
    replacements = [f"call_{number}" for number, _ in enumerate(provider_ids)]

    ids = unique_tool_call_ids(frozenset("a"), provider_ids, replacements)

    assert len(provider_ids) == len(set(ids))
    assert not {"", "a"} & set(ids)


# Logs -----------------------------------------------------------------------


def messages_of(kinds: list[str]) -> list[Message]:
    """Return messages of any kinds, in an order that may be invalid."""
    made = {
        "user": [HELLO],
        "call": [assistant_calling("a", "b")],
        "twice": [assistant_calling("a", "a")],
        "result": tool_results("a"),
        "results": tool_results("a", "b"),
    }
    return [message for kind in kinds for message in made[kind]]


@settings(max_examples=examples(300), deadline=None, derandomize=True)
@given(
    st.lists(st.sampled_from(["user", "call", "twice", "result", "results"])),
    st.integers(0, 12),
    st.integers(0, 12),
)
def test_continued_check_finds_what_a_whole_check_finds(
    kinds: list[str], first: int, second: int
) -> None:
    """A log that grew, and was checked in between, has the check of all messages."""
    messages = messages_of(kinds)
    log = MessageLog(1, tuple(messages[:first]))
    assert find_violation(log.messages) == log.transcript_check.violation_at_end()

    for end in (first + second, len(messages)):
        log = log.appended(*messages[len(log.messages) : end])
        assert find_violation(log.messages) == log.transcript_check.violation_at_end()

    assert NOTHING_CHECKED.extended(log.messages) == log.transcript_check


def test_check_does_not_change_the_value_of_a_log() -> None:
    log, same = MessageLog(1, (HELLO,)), MessageLog(1, (HELLO,))
    assert log.transcript_check.violation_at_end() is None

    assert (log, hash(log), repr(log)) == (same, hash(same), repr(same))
    shortened = replace(log, messages=())
    assert "the list of messages is empty" == (
        shortened.transcript_check.violation_at_end()
    )
