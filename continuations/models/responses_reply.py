"""Read a response of the Responses API: from its JSON to a reply."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from continuations.core import jsontext
from continuations.core.messages import MalformedMessage, Message
from continuations.core.model_protocol import ModelReply
from continuations.core.usage import Usage
from continuations.models.chat_reply import UnusableReply, error_text, lacks_credit
from continuations.models.responses_items import (
    ITEMS_FIELD,
    assistant_fields,
    client_call_type,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

# The finish reasons of chat completions, by the reason of an incomplete response.
_FINISH_REASONS = {"max_output_tokens": "length", "content_filter": "content_filter"}
# The HTTP status that the code of a failed response stands for. Every other code means
# that the same request fails again.
_STATUS_BY_CODE = {
    "server_error": 500,
    "rate_limit_exceeded": 429,
    "vector_store_timeout": 504,
}
_PENDING_STATUSES = frozenset({"queued", "in_progress"})
_LOST_STATUSES = frozenset({"failed", "cancelled", "expired"})


def parse_response(body: bytes) -> Mapping[str, Any]:
    """Return the response object of a body; raises `UnusableReply`."""
    try:
        return response_object(jsontext.parse(body))
    except jsontext.NotJson:
        raise UnusableReply("the response is not JSON") from None


def response_object(value: object) -> Mapping[str, Any]:
    """Return a value as a response object; raises `UnusableReply`."""
    response = jsontext.as_object(value)
    if response is None:
        raise UnusableReply("the response is not an object of the Responses API")
    return response


def id_of(response: Mapping[str, Any]) -> str:
    """Return the id of a response; raises `UnusableReply`."""
    identifier = response.get("id")
    if not isinstance(identifier, str) or not identifier:
        raise UnusableReply("the pending response has no id")
    return identifier


def is_pending(response: Mapping[str, Any]) -> bool:
    """Return whether the provider still computes a response."""
    return _status(response) in _PENDING_STATUSES


def is_lost(response: Mapping[str, Any]) -> bool:
    """Return whether a response failed, expired or was cancelled."""
    return _status(response) in _LOST_STATUSES


def reply_of(response: Mapping[str, Any]) -> ModelReply:
    """Return the reply in a response object; raises `UnusableReply`."""
    usage = usage_of(response)
    try:
        items = _output_items(response)
        fields = assistant_fields(items)
        if items:
            fields[ITEMS_FIELD] = items
        message = Message.from_mapping(fields)
    except UnusableReply as error:
        error.usage = usage
        raise
    except (MalformedMessage, jsontext.NotJson) as error:
        unusable = UnusableReply(f"the output is not valid: {error}")
        unusable.usage = usage
        raise unusable from None
    finish = "tool_calls" if message.tool_call_ids else "stop"
    if _status(response) == "incomplete":
        details = jsontext.as_object(response.get("incomplete_details")) or {}
        reason = details.get("reason")
        reason = reason if isinstance(reason, str) else "incomplete"
        finish = _FINISH_REASONS.get(reason, reason)
    return ModelReply(message=message, usage=usage, finish_reason=finish)


def usage_of(response: Mapping[str, Any]) -> Usage:
    """Return the request and the tokens that a response cost."""
    usage = jsontext.as_object(response.get("usage")) or {}
    return Usage(
        requests=1,
        input_tokens=_count(usage, "input_tokens"),
        output_tokens=_count(usage, "output_tokens"),
        cached_tokens=_count(usage.get("input_tokens_details"), "cached_tokens"),
        reasoning_tokens=_count(usage.get("output_tokens_details"), "reasoning_tokens"),
    )


def provider_error(value: Mapping[str, Any], reason: str) -> UnusableReply:
    """Return the error that a response or an event contains."""
    error = jsontext.as_object(value.get("error")) or value
    code = error.get("code")
    status = _STATUS_BY_CODE.get(code, 400) if isinstance(code, str) else None
    text = error_text({"error": dict(error)}) if "message" in error else ""
    return UnusableReply(
        reason,
        provider_text=text,
        error_status=status,
        lacks_credit=lacks_credit(dict(error)),
    )


def _status(response: Mapping[str, Any]) -> object:
    status = response.get("status")
    # Some servers leave the status out.
    return status if isinstance(status, str) else "completed"


def _output_items(response: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    status = _status(response)
    if response.get("error") or status in _LOST_STATUSES:
        raise provider_error(response, "the provider reports an error")
    if status in _PENDING_STATUSES:
        raise UnusableReply(f"the response is {status}")
    values = jsontext.as_array(response.get("output"))
    if values is None:
        raise UnusableReply("the response has no output")
    if not all(isinstance(value, dict) for value in values):
        raise UnusableReply("an item of the output is no object")
    items: list[Mapping[str, Any]] = list(values)
    if kind := client_call_type(items):
        reason = f"the output asks for a {kind}, and no tool of an agent gives one"
        raise UnusableReply(reason, retryable=False)
    return items


def _count(counts: object, name: str) -> int:
    count = (jsontext.as_object(counts) or {}).get(name)
    return count if isinstance(count, int) and count > 0 else 0
