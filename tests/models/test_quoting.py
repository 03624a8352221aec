"""What may be quoted of a provider's words."""

from __future__ import annotations

import pytest

from continuations.core.messages import Message, tool, user
from continuations.models.quoting import quotable

KEY = "sk-proj-0123456789abcdefghij"


def quoted(text: str, *messages: Message, key: str = KEY) -> str:
    return quotable(text, key=key, messages=messages)


@pytest.mark.parametrize(
    "text",
    [
        "Incorrect API key provided: [key]",
        "The model `gpt-9` does not exist.",
        "The following tool_call_ids did not have response messages: call_abc123",
        "Rate limit reached for gpt-5-mini in organization org-x: Limit 3, Used 3",
        "This model's maximum context length is 128000 tokens.",
    ],
)
def test_plain_words_are_quoted_as_they_are(text: str) -> None:
    assert text == quoted(text, user("please help me with my tools"))


@pytest.mark.parametrize(
    "echo",
    [
        KEY,
        f"'{KEY}'",
        "sk-proj-0**************ghij",
        "sk-proj-…ghij",
        "sk-...ghij",
        "ghij",
        "sk-other-key-of-somebody",
        f"Bearer {KEY}",
        "Bearer abcdef",
    ],
)
def test_whatever_looks_like_a_key_is_not(echo: str) -> None:
    """R-I5."""
    shown = quoted(f"Bad key: {echo}, go away")

    assert "[key]" in shown
    assert shown.startswith("Bad key: ")
    assert shown.endswith("go away")
    assert not {"proj", "ghij", "other", "abcdef"} & set(
        shown.replace("-", " ").split()
    )


def test_a_key_of_any_shape_is_found() -> None:
    assert "no [key] here" == quoted("no hunter2! here", key="hunter2!")


def test_what_was_said_is_left_out() -> None:
    # Given a conversation with a secret in a message, in arguments and in a result
    said = user("My number is DE89370400440532013000, and\nkeep it to yourself.")
    call = {"name": "pay", "arguments": '{"to": "Jane Q. Public of Elm Street"}'}
    asked = Message.of(
        {
            "role": "assistant",
            "tool_calls": [{"id": "call_1", "type": "function", "function": call}],
        }
    )
    result = tool("call_1", "The balance is 12,345.67 EUR")

    # When a provider repeats it
    shown = quoted(
        "Bad input: DE89370400440532013000 / and keep it to yourself / Jane Q. Public"
        " of Elm / 'The balance is 12,345.67 EUR' of call_1",
        said,
        asked,
        result,
    )

    # Then only its own words are left
    assert "Bad input: [...] / [...] / [...] / '[...]' of call_1" == shown


def test_a_short_message_is_left_out_where_it_is_quoted() -> None:
    shown = quoted("Invalid value: '1234'. Wanted: 12345", user("1234"))

    assert "Invalid value: '[...]'. Wanted: 12345" == shown


def test_parts_of_a_message_are_looked_at() -> None:
    parts = [{"type": "image_url", "image_url": {"url": "data:image/png;base64,QUJD"}}]
    message = Message.of({"role": "user", "content": parts})

    assert "cannot load [...]" == quoted(
        "cannot load data:image/png;base64,QUJD", message
    )


def test_it_is_one_line_of_bounded_length() -> None:
    assert "a b c" == quoted("a\n\n  b\x1b\u202ec")
    assert 400 == len(quoted("word " * 1000))


def test_a_header_of_the_clients_own_is_not_repeated() -> None:
    """R-I5: a gateway's password; a short word such as a version stays readable."""
    said = "x-gateway: hunter2-of-the-gateway is wrong for v1beta"

    shown = quotable(
        said, key="", messages=(), headers=("hunter2-of-the-gateway", "v1beta")
    )

    assert "x-gateway: [header] is wrong for v1beta" == shown
