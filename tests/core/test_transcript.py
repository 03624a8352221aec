"""Is a conversation sendable, and if not, why not?"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from continuations.core import messages as said
from continuations.core.transcript import fault, unique_call_ids
from tests.core.rows import assistant, request

if TYPE_CHECKING:
    from continuations.core.messages import Message

HELLO = said.user("hi")


def asks(*ids: str) -> Message:
    return assistant(None, *(request("t", given) for given in ids))


def answers(*ids: str) -> list[Message]:
    return [said.tool(given, "42") for given in ids]


@pytest.mark.parametrize(
    "messages",
    [
        [HELLO],
        [said.system("s"), HELLO],
        [HELLO, assistant("bye")],
        [HELLO, assistant("a"), assistant("b")],
        [HELLO, asks("a"), *answers("a")],
        [HELLO, asks("a", "b"), *answers("a", "b"), HELLO],
        [HELLO, asks("a"), *answers("a"), asks("b", "c"), *answers("b", "c")],
        [HELLO, asks("a"), *answers("a"), asks("a"), *answers("a")],
    ],
)
def test_a_sendable_conversation_has_no_fault(messages: list[Message]) -> None:
    """R-D1."""
    assert fault(messages) is None


@pytest.mark.parametrize(
    ("messages", "words"),
    [
        ([], "no messages"),
        ([HELLO, asks("a")], "last turn lacks"),
        ([HELLO, asks("a", "b"), *answers("a")], "last turn lacks the results of 1"),
        ([HELLO, asks("a"), HELLO], "message 2 stands before"),
        ([HELLO, asks("a"), HELLO, *answers("a")], "message 2 stands before"),
        ([HELLO, asks("a", "b"), *answers("a"), HELLO], "message 3 stands before"),
        ([HELLO, asks("a"), asks("b"), *answers("a", "b")], "message 2 stands before"),
        ([HELLO, *answers("a")], "message 1 answers"),
        ([HELLO, asks("a"), *answers("a", "a")], "message 3 answers"),
        ([HELLO, asks("a"), *answers("b")], "message 2 answers"),
        ([HELLO, asks("a", "b"), *answers("b", "a")], "message 2 answers"),
        ([HELLO, asks("a"), *answers("a"), HELLO, *answers("a")], "message 4 answers"),
        ([*answers("a"), HELLO], "message 0 answers"),
        ([HELLO, asks("a", "a"), *answers("a", "a")], "message 1 has two calls"),
    ],
)
def test_what_providers_refuse_is_named(messages: list[Message], words: str) -> None:
    """R-D1, EF-25, X-10: orphans, gaps, strangers between, twice the same id."""
    assert words in (fault(messages) or "")


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
    messages = [HELLO, asks("old"), *answers("old")]

    assert expected == unique_call_ids(messages, wanted, ("call_c3", "call_c4"))


@settings(max_examples=200, deadline=None, derandomize=True)
@given(st.lists(st.sampled_from(["", "a", "b", "call_1", "call_2", "call_1_"])))
def test_ids_come_out_different_whatever_a_provider_sends(wanted: list[str]) -> None:
    """R-D5: also when it guesses ours."""
    fresh = [f"call_{number}" for number, _ in enumerate(wanted)]

    ids = unique_call_ids([HELLO, asks("a"), *answers("a")], wanted, fresh)

    assert len(wanted) == len(set(ids))
    assert not {"", "a"} & set(ids)
