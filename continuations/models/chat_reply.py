"""A chat completion: the bytes of a provider's answer, read as a reply.

Only what a run needs is understood; the rest of the assistant message is kept as it
came, because some providers want their own fields back (reasoning, signatures).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from continuations.core import jsontext
from continuations.core.messages import MalformedMessage, Message
from continuations.core.usage import Usage
from continuations.models.contract import Reply

if TYPE_CHECKING:
    from collections.abc import Mapping


class Unusable(ValueError):
    """An answer that holds no reply.

    `said` is what the provider put in place of one, if anything; it is foreign text.
    """

    def __init__(self, why: str, *, said: str = "") -> None:
        super().__init__(why)
        self.said = said


def read(body: bytes) -> Reply:
    """Return the reply that a completion's JSON holds; raises `Unusable`."""
    try:
        completion: Any = jsontext.parse(body)
        choice = _first_choice(completion)
        message = Message.of(_sendable(choice.get("message")))
    except jsontext.NotJson:
        raise Unusable("its answer is not JSON") from None
    except MalformedMessage as error:
        raise Unusable(f"its message cannot be kept: {error}") from None
    finish = choice.get("finish_reason")
    if not isinstance(finish, str):
        finish = "tool_calls" if message.calls else "stop"
    _refuse_empty(message, finish)
    return Reply(message=message, usage=_usage(completion.get("usage")), finish=finish)


def error_said(body: object) -> str:
    """Return type, code and message of an error as providers spell it, as one text."""
    if not isinstance(body, dict):
        return body if isinstance(body, str) else ""
    fields = cast("Mapping[str, object]", body)
    inner = fields.get("error", fields)
    if not isinstance(inner, dict):
        return str(inner)
    error = cast("Mapping[str, object]", inner)
    names = [error[name] for name in ("type", "code") if error.get(name)]
    label = ", ".join(dict.fromkeys(str(name) for name in names))
    words = error.get("message") or error.get("detail") or ""
    return ": ".join(part for part in (label, str(words)) if part)


def _first_choice(completion: object) -> Mapping[str, Any]:
    if isinstance(completion, dict):
        fields = cast("Mapping[str, Any]", completion)
        choices = fields.get("choices")
        if isinstance(choices, list) and choices and isinstance(choices[0], dict):
            return cast("Mapping[str, Any]", choices[0])
        # OpenRouter answers 200 with an `error` when the model behind it fails.
        said = error_said(fields) if fields.get("error") else ""
        raise Unusable("its answer has no choices", said=said)
    raise Unusable("its answer is not a completion")


def _sendable(message: object) -> Mapping[str, Any]:
    if not isinstance(message, dict):
        raise Unusable("its answer has no message")
    fields = cast("Mapping[str, Any]", message)
    if fields.get("role") != "assistant":
        raise Unusable("its message is not an assistant's")
    if fields.get("tool_calls", True):
        return fields
    # A provider that sends an empty list refuses it when it comes back ("Invalid
    # 'messages[1].tool_calls': empty array", OpenAI).
    return {name: value for name, value in fields.items() if name != "tool_calls"}


def _refuse_empty(message: Message, finish: str) -> None:
    # Sent back, it would be refused for ever ("Invalid value for 'content': expected
    # a string, got null", OpenAI), and to a person it says nothing.
    data = message.data
    if not message.calls and all(
        data.get(name) is None for name in ("content", "refusal", "audio")
    ):
        raise Unusable(f"its message is empty (finish_reason {finish!r})")


def _usage(given: object) -> Usage:
    if not isinstance(given, dict):
        return Usage(requests=1)
    usage = cast("Mapping[str, Any]", given)
    return Usage(
        requests=1,
        input_tokens=_tokens(usage, "prompt_tokens"),
        output_tokens=_tokens(usage, "completion_tokens"),
        cached_tokens=_tokens(usage.get("prompt_tokens_details"), "cached_tokens"),
        reasoning_tokens=_tokens(
            usage.get("completion_tokens_details"), "reasoning_tokens"
        ),
    )


def _tokens(counts: object, name: str) -> int:
    count = (
        cast("Mapping[str, Any]", counts).get(name) if isinstance(counts, dict) else 0
    )
    return count if isinstance(count, int) and count > 0 else 0
