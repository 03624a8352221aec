"""Is a conversation sendable, and if not, why not?"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from continuations.core import messages as said
from continuations.core.transcript import find_violation, unique_tool_call_ids
from tests.core.rows import assistant_message, tool_request

if TYPE_CHECKING:
    from continuations.core.messages import Message

HELLO = said.user_message("hi")


def assistant_calling(*ids: str) -> Message:
    return assistant_message(None, *(tool_request("t", given) for given in ids))


def tool_results(*ids: str) -> list[Message]:
    return [said.tool_message(given, "42") for given in ids]


@pytest.mark.parametrize(
    "messages",
    [
        [HELLO],
        [said.system_message("s"), HELLO],
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
def test_a_sendable_conversation_has_no_fault(messages: list[Message]) -> None:
    """R-D1."""
    assert find_violation(messages) is None


@pytest.mark.parametrize(
    ("messages", "words"),
    [
        ([], "no messages"),
        ([HELLO, assistant_calling("a")], "last turn lacks"),
        (
            [HELLO, assistant_calling("a", "b"), *tool_results("a")],
            "last turn lacks the results of 1",
        ),
        ([HELLO, assistant_calling("a"), HELLO], "message 2 stands before"),
        (
            [HELLO, assistant_calling("a"), HELLO, *tool_results("a")],
            "message 2 stands before",
        ),
        (
            [HELLO, assistant_calling("a", "b"), *tool_results("a"), HELLO],
            "message 3 stands before",
        ),
        (
            [
                HELLO,
                assistant_calling("a"),
                assistant_calling("b"),
                *tool_results("a", "b"),
            ],
            "message 2 stands before",
        ),
        ([HELLO, *tool_results("a")], "message 1 answers"),
        ([HELLO, assistant_calling("a"), *tool_results("a", "a")], "message 3 answers"),
        ([HELLO, assistant_calling("a"), *tool_results("b")], "message 2 answers"),
        (
            [HELLO, assistant_calling("a", "b"), *tool_results("b", "a")],
            "message 2 answers",
        ),
        (
            [
                HELLO,
                assistant_calling("a"),
                *tool_results("a"),
                HELLO,
                *tool_results("a"),
            ],
            "message 4 answers",
        ),
        ([*tool_results("a"), HELLO], "message 0 answers"),
        (
            [HELLO, assistant_calling("a", "a"), *tool_results("a", "a")],
            "message 1 has two calls",
        ),
    ],
)
def test_invalid_conversation_is_reported_with_the_reason(
    messages: list[Message], words: str
) -> None:
    """R-D1, EF-25, X-10: orphans, gaps, strangers between, twice the same id."""
    assert words in (find_violation(messages) or "")


# Ids --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("wanted", "expected"),
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
    wanted: tuple[str, ...], expected: tuple[str, ...]
) -> None:
    """R-D5."""
    messages = [HELLO, assistant_calling("old"), *tool_results("old")]

    assert expected == unique_tool_call_ids(messages, wanted, ("call_c3", "call_c4"))


@settings(max_examples=200, deadline=None, derandomize=True)
@given(st.lists(st.sampled_from(["", "a", "b", "call_1", "call_2", "call_1_"])))
def test_call_ids_are_unique_whatever_a_provider_sends(wanted: list[str]) -> None:
    """R-D5: also when it guesses ours."""
    fresh = [f"call_{number}" for number, _ in enumerate(wanted)]

    ids = unique_tool_call_ids(
        [HELLO, assistant_calling("a"), *tool_results("a")], wanted, fresh
    )

    assert len(wanted) == len(set(ids))
    assert not {"", "a"} & set(ids)
