"""Read a stream of events of the Responses API, and hand its parts on."""

from __future__ import annotations

from contextlib import aclosing
from typing import TYPE_CHECKING, Any, Literal

from continuations.core import jsontext
from continuations.core.model_protocol import ModelDelta
from continuations.models import responses_reply
from continuations.models.chat_reply import UnusableReply
from continuations.models.responses_items import REASONING_SEPARATOR

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Mapping

    from openai import AsyncStream

    from continuations.core.model_protocol import DeltaListener

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
                raise responses_reply.provider_error(event, reason)
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
        response = responses_reply.parse_response(body)
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
        raise responses_reply.provider_error(fields, reason) from None
    except (ValueError, RecursionError):
        raise UnusableReply("an event of the stream is not JSON") from None


def _final_response(event: Mapping[str, Any], items: list[Any]) -> Mapping[str, Any]:
    response = responses_reply.response_object(event.get("response"))
    if items and not response.get("output"):
        # Some servers send the items in their own events only.
        return {**response, "output": items}
    return response
