"""A quoted error text of a provider contains no secrets."""

from __future__ import annotations

import json
import re

import pytest

from continuations.core.messages import Message, tool_message, user_message
from continuations.models.chat_errors import redact_provider_text

KEY = "sk-proj-0123456789abcdefghij"


def quoted(text: str, *messages: Message, key: str = KEY) -> str:
    return redact_provider_text(text, api_key=key, messages=messages)


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
def test_harmless_text_is_quoted_unchanged(text: str) -> None:
    assert text == quoted(text, user_message("please help me with my tools"))


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
def test_text_that_looks_like_a_key_is_redacted(echo: str) -> None:
    shown = quoted(f"Bad key: {echo}, go away")

    assert "[key]" in shown
    assert shown.startswith("Bad key: ")
    assert shown.endswith("go away")
    assert not {"proj", "ghij", "other", "abcdef"} & set(
        shown.replace("-", " ").split()
    )


def test_configured_key_is_redacted_whatever_its_form() -> None:
    assert "no [key] here" == quoted("no hunter2! here", key="hunter2!")


def test_quoted_conversation_is_redacted() -> None:
    # Given a conversation with a secret in a message, in arguments and in a result
    question = user_message(
        "My number is DE89370400440532013000, and\nkeep it to yourself."
    )
    call = {"name": "pay", "arguments": '{"to": "Jane Q. Public of Elm Street"}'}
    call_message = Message.from_mapping(
        {
            "role": "assistant",
            "tool_calls": [{"id": "call_1", "type": "function", "function": call}],
        }
    )
    result = tool_message("call_1", "The balance is 12,345.67 EUR")

    # When a provider repeats it
    shown = quoted(
        "Bad input: DE89370400440532013000 / and keep it to yourself / Jane Q. Public"
        " of Elm / 'The balance is 12,345.67 EUR' of call_1",
        question,
        call_message,
        result,
    )

    # Then only the provider's own text is left
    assert "Bad input: [...] / [...] / [...] / '[...]' of call_1" == shown


def test_short_message_is_redacted_between_quotes() -> None:
    shown = quoted("Invalid value: '1234'. Wanted: 12345", user_message("1234"))

    assert "Invalid value: '[...]'. Wanted: 12345" == shown


def test_content_parts_are_redacted() -> None:
    parts = [{"type": "image_url", "image_url": {"url": "data:image/png;base64,QUJD"}}]
    message = Message.from_mapping({"role": "user", "content": parts})

    assert "cannot load [...]" == quoted(
        "cannot load data:image/png;base64,QUJD", message
    )


def test_quotation_is_one_line_of_at_most_400_characters() -> None:
    assert "a b c" == quoted("a\n\n  b\x1b\u202ec")
    assert 400 == len(quoted("word " * 1000))


@pytest.mark.parametrize(
    ("value", "echo"),
    [
        ("Token 8c4e77d09a41", "8c4e77d09a41"),
        ("session=8c4e77d09a41; theme=dark", "8c4e77d09a41"),
        ("user:8c4e77d09a41, 4f00beef", "4f00beef"),
        ("8c4e77d09a41==", "8c4e77d09a41"),
        ("Token 8c4e77d09a41", "Token 8c4e77d09a41"),
    ],
)
def test_part_of_a_header_value_is_redacted(value: str, echo: str) -> None:
    """A gateway quotes the token of a header and not its scheme, or one cookie."""
    shown = redact_provider_text(
        f"gateway: {echo} is dark", api_key="", messages=(), client_values=(value,)
    )

    assert "gateway: [hidden] is dark" == shown


def test_client_value_that_contains_another_is_redacted_whole() -> None:
    shown = redact_provider_text(
        "no abcdefgh-ijklmnop here",
        api_key="",
        messages=(),
        client_values=("abcdefgh", "abcdefgh-ijklmnop"),
    )

    assert "no [hidden] here" == shown


STORY = 'Jane said: "no".\nHer account is DE89 3704.\n\tPaid in Köln 😀 with C:\\cards'


@pytest.mark.parametrize(
    "echo",
    [
        STORY,
        repr(STORY),
        str([{"input": STORY}]),
        json.dumps(STORY),
        json.dumps(STORY, ensure_ascii=False),
        json.dumps({"input": json.dumps({"text": STORY})}),
        repr(json.dumps(STORY)),
    ],
    ids=["text", "repr", "list", "json", "utf-8", "json twice", "repr of json"],
)
def test_quoted_conversation_is_redacted_across_line_breaks(echo: str) -> None:
    """A provider quotes an input as JSON or as Python's repr, with escapes."""
    shown = quoted(f"bad input {echo} in body", user_message(STORY))

    assert not {"Jane", "account", "3704", "Paid", "cards"} & {
        *re.findall(r"\w+", shown)
    }
    assert shown.startswith("bad input ")
    assert shown.endswith(" in body")


def test_quoted_arguments_are_redacted_across_line_breaks() -> None:
    arguments = json.dumps({"text": STORY})
    call = {"name": "note", "arguments": arguments}
    message = Message.from_mapping(
        {
            "role": "assistant",
            "tool_calls": [{"id": "call_1", "type": "function", "function": call}],
        }
    )

    for echo in (arguments, STORY, repr(arguments), json.dumps(arguments)):
        shown = quoted(f"bad call {echo} in body", message)
        assert "account" not in shown
        assert "Paid" not in shown


def test_custom_header_values_are_redacted() -> None:
    """A gateway's password is redacted; a short word such as a version is not."""
    text = "x-gateway: hunter2-of-the-gateway is wrong for v1beta"

    shown = redact_provider_text(
        text,
        api_key="",
        messages=(),
        client_values=("hunter2-of-the-gateway", "v1beta"),
    )

    assert "x-gateway: [hidden] is wrong for v1beta" == shown


@pytest.mark.parametrize("key", ["x", "none", "EMPTY", "ollama", "test-key"])
def test_short_or_plain_key_does_not_mangle_the_text(key: str) -> None:
    """A server without keys gets any text as its key: "x", "none", "ollama"."""
    text = "next token: the model ollama is EMPTY; none of the tests extend it"

    assert text == quoted(text, key=key)


@pytest.mark.parametrize(
    "text", ["Incorrect API key provided: hunter2.", "bad token 'hunter2'"]
)
def test_short_key_behind_a_word_for_it_is_redacted(text: str) -> None:
    assert "hunter2" not in quoted(text, key="hunter2")
