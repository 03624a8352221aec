"""Read a chat completion: from the bytes of a provider's response to a reply.

Unknown fields of the assistant message are kept unchanged, because some providers
want their own fields back (reasoning, signatures).
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, cast

from continuations.core import jsontext
from continuations.core.messages import MalformedMessage, Message
from continuations.core.model_protocol import ModelReply
from continuations.core.usage import Usage
from continuations.models import chat_stream
from continuations.models.lenient_message import with_standard_forms

if TYPE_CHECKING:
    from collections.abc import Mapping

# The codes of an account without credit, or above a limit of its owner. They come with
# the status of a rate limit, and no repetition helps.
_NO_CREDIT_CODES = frozenset(
    {"insufficient_quota", "billing_hard_limit_reached", "billing_not_active"}
)
# A code that is an HTTP status.
_ERROR_STATUS = re.compile("[45][0-9][0-9]", re.ASCII)


class UnusableReply(ValueError):
    """A response without a usable reply.

    Attributes:
        provider_text: The provider's own error text, if there is one. Redact it before
            it is shown.
        retryable: Whether the same request may get a usable reply.
        error_status: The HTTP status that the provider's error names in its code. It
            decides about a retry, if there is one.
        lacks_credit: Whether the account has no credit.
        usage: The requests and tokens that the response cost.
    """

    def __init__(
        self,
        reason: str,
        *,
        provider_text: str = "",
        retryable: bool = True,
        error_status: int | None = None,
        lacks_credit: bool = False,
    ) -> None:
        super().__init__(reason)
        self.provider_text = provider_text
        self.retryable = retryable
        self.error_status = error_status
        self.lacks_credit = lacks_credit
        self.usage = Usage(requests=1)


def parse_completion(body: bytes, *, output_tool: str | None = None) -> ModelReply:
    """Return the reply in the JSON of a completion; raises `UnusableReply`.

    Args:
        body: The body of the response.
        output_tool: The name of the tool that takes the final reply, if the request
            offered one. Its arguments become the content of the reply.
    """
    usage = Usage(requests=1)
    try:
        completion, is_complete = _parse_body(body)
        usage = _usage(completion)
        choice = _first_choice(completion, is_complete=is_complete)
        fields = _assistant_fields(choice.get("message"))
        if output_tool is not None:
            fields = _with_output_as_content(fields, output_tool)
        finish = choice.get("finish_reason")
        if not isinstance(finish, str):
            finish = "tool_calls" if fields.get("tool_calls") else "stop"
        message = Message.from_mapping(_with_content(fields))
    except UnusableReply as error:
        error.usage = usage
        raise
    except jsontext.NotJson:
        raise UnusableReply("the response is not JSON") from None
    except MalformedMessage as error:
        unusable = UnusableReply(f"the assistant message is not valid: {error}")
        unusable.usage = usage
        raise unusable from None
    return ModelReply(message=message, usage=usage, finish_reason=finish)


def _parse_body(body: bytes) -> tuple[Any, bool]:
    """Return the completion, and whether it is complete."""
    if chat_stream.is_event_stream(body):
        return chat_stream.completion_of_stream(body)
    return jsontext.parse(body), True


def error_text(body: object) -> str:
    """Return type, code and message of a provider's error as one text."""
    if not isinstance(body, dict):
        return body if isinstance(body, str) else ""
    fields = cast("Mapping[str, object]", body)
    inner = fields.get("error", fields)
    if not isinstance(inner, dict):
        return str(inner)
    error = cast("Mapping[str, object]", inner)
    label = ", ".join(_error_names(error))
    text = error.get("message") or error.get("detail") or ""
    return ": ".join(part for part in (label, str(text)) if part)


def lacks_credit(body: object) -> bool:
    """Return whether a provider's error says that the account has no credit."""
    fields = jsontext.as_object(body) or {}
    error = jsontext.as_object(fields.get("error")) or fields
    return not _NO_CREDIT_CODES.isdisjoint(_error_names(error))


def _error_names(error: Mapping[str, object]) -> list[str]:
    """Return the type and the code of a provider's error."""
    names = [error[name] for name in ("type", "code") if error.get(name)]
    return list(dict.fromkeys(str(name) for name in names))


def _first_choice(completion: object, *, is_complete: bool) -> Mapping[str, Any]:
    """Return the first choice of a completion without an error."""
    fields = jsontext.as_object(completion)
    if fields is None:
        raise UnusableReply("the response is not a chat completion")
    choices = jsontext.as_array(fields.get("choices")) or ()
    choice = jsontext.as_object(choices[0]) if choices else None
    if choice is None:
        # OpenRouter returns status 200 with an `error` if the upstream model fails.
        raise _provider_error("the response has no choices", fields)
    if fields.get("error"):
        raise _provider_error("the provider reports an error", fields)
    if choice.get("error") or choice.get("finish_reason") == "error":
        raise _provider_error("the provider reports an error", choice)
    if not is_complete:
        raise UnusableReply("the stream ended before the reply was complete")
    return choice


def _provider_error(reason: str, fields: Mapping[str, Any]) -> UnusableReply:
    error = fields.get("error")
    code = str((jsontext.as_object(error) or {}).get("code"))
    status = int(code) if _ERROR_STATUS.fullmatch(code) else None
    text = error_text(fields) if error else ""
    return UnusableReply(
        reason,
        provider_text=text,
        error_status=status,
        lacks_credit=lacks_credit(fields),
    )


def _assistant_fields(message: object) -> dict[str, Any]:
    if not isinstance(message, dict):
        raise UnusableReply("the response has no message")
    fields = with_standard_forms(cast("Mapping[str, Any]", message))
    if fields["role"] != "assistant":
        raise UnusableReply("the message is not an assistant message")
    return fields


def _with_output_as_content(fields: dict[str, Any], output_tool: str) -> dict[str, Any]:
    """Return a message in which a call of the output tool is the final reply.

    Beside other calls the output is too early: it is left out, and the model gives it
    after their results.
    """
    calls = jsontext.as_array(fields.get("tool_calls")) or ()
    others = [
        call for call in calls if _called_function(call).get("name") != output_tool
    ]
    if len(others) == len(calls):
        return fields
    rest = {name: value for name, value in fields.items() if name != "tool_calls"}
    if others:
        return {**rest, "tool_calls": others}
    return {**rest, "content": _called_function(next(iter(calls))).get("arguments")}


def _called_function(call: object) -> Mapping[str, Any]:
    fields = jsontext.as_object(call) or {}
    return jsontext.as_object(fields.get("function")) or {}


def _with_content(fields: dict[str, Any]) -> dict[str, Any]:
    """Return a message with content: `""` if it has nothing that can be used.

    The engine says what an empty reply means. `null` without tool calls is refused in
    the next request ("Invalid value for 'content': expected a string, got null",
    OpenAI). Raises `UnusableReply` for audio without a transcript.
    """
    if fields.get("tool_calls") or any(
        fields.get(name) is not None for name in ("content", "refusal")
    ):
        return fields
    if fields.get("audio") is not None:
        reason = '"audio" has no "transcript", and only text can be used'
        raise UnusableReply(reason, retryable=False)
    return {**fields, "content": ""}


def _usage(completion: object) -> Usage:
    usage = jsontext.as_object((jsontext.as_object(completion) or {}).get("usage"))
    if usage is None:
        return Usage(requests=1)
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
