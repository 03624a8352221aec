"""Read a chat completion: from the bytes of a provider's response to a reply.

Unknown fields of the assistant message are kept unchanged, because some providers
want their own fields back (reasoning, signatures).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from continuations.core import jsontext
from continuations.core.messages import MalformedMessage, Message
from continuations.core.model_protocol import ModelReply
from continuations.core.usage import Usage

if TYPE_CHECKING:
    from collections.abc import Mapping


class UnusableReply(ValueError):
    """A response without a usable reply.

    `provider_text` is the provider's own error text, if there is one. Redact it before
    it is shown.
    """

    def __init__(self, reason: str, *, provider_text: str = "") -> None:
        super().__init__(reason)
        self.provider_text = provider_text


def parse_completion(body: bytes) -> ModelReply:
    """Return the reply in the JSON of a completion; raises `UnusableReply`."""
    try:
        completion: Any = jsontext.parse(body)
        choice = _first_choice(completion)
        message = Message.from_mapping(_assistant_message(choice.get("message")))
    except jsontext.NotJson:
        raise UnusableReply("the response is not JSON") from None
    except MalformedMessage as error:
        raise UnusableReply(f"the assistant message is not valid: {error}") from None
    finish = choice.get("finish_reason")
    if not isinstance(finish, str):
        finish = "tool_calls" if message.tool_call_ids else "stop"
    _check_not_empty(message, finish)
    return ModelReply(
        message=message, usage=_usage(completion.get("usage")), finish_reason=finish
    )


def error_text(body: object) -> str:
    """Return type, code and message of a provider's error as one text."""
    if not isinstance(body, dict):
        return body if isinstance(body, str) else ""
    fields = cast("Mapping[str, object]", body)
    inner = fields.get("error", fields)
    if not isinstance(inner, dict):
        return str(inner)
    error = cast("Mapping[str, object]", inner)
    names = [error[name] for name in ("type", "code") if error.get(name)]
    label = ", ".join(dict.fromkeys(str(name) for name in names))
    text = error.get("message") or error.get("detail") or ""
    return ": ".join(part for part in (label, str(text)) if part)


def _first_choice(completion: object) -> Mapping[str, Any]:
    if isinstance(completion, dict):
        fields = cast("Mapping[str, Any]", completion)
        choices = fields.get("choices")
        if isinstance(choices, list) and choices and isinstance(choices[0], dict):
            return cast("Mapping[str, Any]", choices[0])
        # OpenRouter returns status 200 with an `error` if the upstream model fails.
        quote = error_text(fields) if fields.get("error") else ""
        raise UnusableReply("the response has no choices", provider_text=quote)
    raise UnusableReply("the response is not a chat completion")


def _assistant_message(message: object) -> Mapping[str, Any]:
    if not isinstance(message, dict):
        raise UnusableReply("the response has no message")
    fields = cast("Mapping[str, Any]", message)
    if fields.get("role") != "assistant":
        raise UnusableReply("the message is not an assistant message")
    if fields.get("tool_calls", True):
        return fields
    # Some providers send an empty list and refuse it in the next request ("Invalid
    # 'messages[1].tool_calls': empty array", OpenAI).
    return {name: value for name, value in fields.items() if name != "tool_calls"}


def _check_not_empty(message: Message, finish_reason: str) -> None:
    # In the next request an empty message is refused, each time ("Invalid value for
    # 'content': expected a string, got null", OpenAI). To a person it says nothing.
    data = message.data
    if not message.tool_call_ids and all(
        data.get(name) is None for name in ("content", "refusal", "audio")
    ):
        raise UnusableReply(f"the message is empty (finish_reason {finish_reason!r})")


def _usage(data: object) -> Usage:
    if not isinstance(data, dict):
        return Usage(requests=1)
    usage = cast("Mapping[str, Any]", data)
    return Usage(
        requests=1,
        input_tokens=_token_count(usage, "prompt_tokens"),
        output_tokens=_token_count(usage, "completion_tokens"),
        cached_tokens=_token_count(usage.get("prompt_tokens_details"), "cached_tokens"),
        reasoning_tokens=_token_count(
            usage.get("completion_tokens_details"), "reasoning_tokens"
        ),
    )


def _token_count(counts: object, name: str) -> int:
    count = (
        cast("Mapping[str, Any]", counts).get(name) if isinstance(counts, dict) else 0
    )
    return count if isinstance(count, int) and count > 0 else 0
