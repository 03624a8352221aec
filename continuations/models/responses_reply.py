"""Read a response of the Responses API, whole or as a stream."""

from __future__ import annotations

from contextlib import aclosing
from typing import TYPE_CHECKING, Any, Literal

from continuations.core import jsontext
from continuations.core.messages import MalformedMessage, Message
from continuations.core.model_protocol import ModelDelta, ModelReply
from continuations.core.usage import Usage
from continuations.models.chat_reply import UnusableReply, error_text, lacks_credit
from continuations.models.responses_items import (
    ITEMS_FIELD,
    REASONING_SEPARATOR,
    assistant_fields,
    client_call_type,
)

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Mapping

    from openai import AsyncStream

    from continuations.core.model_protocol import DeltaListener


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


_DELTA_KINDS: dict[str, Literal["text", "reasoning"]] = {
    "response.output_text.delta": "text",
    "response.refusal.delta": "text",
    "response.reasoning_summary_text.delta": "reasoning",
    "response.reasoning_text.delta": "reasoning",
}
_PART_EVENTS = ("response.reasoning_summary_part.added", "response.content_part.added")
_REASONING_PARTS = ("summary_text", "reasoning_text")
_FINAL_EVENTS = frozenset(
    {"response.completed", "response.incomplete", "response.failed"}
)


async def read_stream(
    stream: AsyncStream[object], on_delta: DeltaListener
) -> Mapping[str, Any]:
    """Return the final response object of a stream.

    Each part is handed on before the next event is read. Raises `UnusableReply`: the
    stream was cut, or reports an error. An error of the connection is raised as it is.
    """
    items: list[Any] = []
    has_thought = False
    async with stream, aclosing(_events(stream)) as events:
        async for event in events:
            kind = _kind(event)
            if (delta := _delta(event, has_thought=has_thought)) is not None:
                has_thought = has_thought or delta.kind == "reasoning"
                await on_delta(delta)
            if kind == "response.output_item.done":
                items.append(event.get("item"))
            elif kind in _FINAL_EVENTS:
                return _final_response(event, items)
            elif kind == "error":
                reason = "the provider reports an error"
                raise provider_error(event, reason)
    raise UnusableReply("the stream ended before the response was complete")


def _kind(event: Mapping[str, Any]) -> str:
    kind = event.get("type")
    return kind if isinstance(kind, str) else ""


def _delta(event: Mapping[str, Any], *, has_thought: bool) -> ModelDelta | None:
    """Return the part of a reply in an event, or `None`."""
    kind = _kind(event)
    text = event.get("delta")
    if kind in _DELTA_KINDS and isinstance(text, str) and text:
        return ModelDelta(kind=_DELTA_KINDS[kind], text=text)
    part = jsontext.as_object(event.get("part")) or {}
    is_next = kind in _PART_EVENTS and part.get("type") in _REASONING_PARTS
    if is_next and has_thought:
        return ModelDelta(kind="reasoning", text=REASONING_SEPARATOR)
    return None


async def _events(
    stream: AsyncStream[object],
) -> AsyncGenerator[Mapping[str, Any], None]:
    from openai import APIConnectionError, APIError  # noqa: PLC0415 - slow to import

    content_type = stream.response.headers.get("content-type", "")
    if content_type.partition(";")[0] == "application/json":
        # The server does not stream.
        body = await stream.response.aread()
        response = parse_response(body)
        yield {"type": "response.completed", "response": response}
        return
    try:
        async for event in stream:
            # Another kind of event may be a text.
            yield jsontext.as_object(event) or {}
    except APIConnectionError:
        raise
    except APIError as error:
        # The client raises it for an event with a field `error`.
        fields = jsontext.as_object(error.body) or {"message": error.message}
        reason = "the provider reports an error"
        raise provider_error(fields, reason) from None
    except (ValueError, RecursionError):
        raise UnusableReply("an event of the stream is not JSON") from None


def _final_response(event: Mapping[str, Any], items: list[Any]) -> Mapping[str, Any]:
    response = response_object(event.get("response"))
    if items and not response.get("output"):
        # Some servers send the items in their own events only.
        return {**response, "output": items}
    return response
