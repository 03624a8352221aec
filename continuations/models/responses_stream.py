"""Read a stream of events of the Responses API, and hand its parts on."""

from __future__ import annotations

from contextlib import aclosing
from typing import TYPE_CHECKING, Any, Literal

from continuations.core import jsontext
from continuations.core.model_protocol import ModelDelta
from continuations.models import responses_reply
from continuations.models.chat_reply import UnusableReply

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
    async with stream, aclosing(_events(stream)) as events:
        async for event in events:
            kind = event.get("type")
            if kind in _DELTA_KINDS:
                if isinstance(text := event.get("delta"), str) and text:
                    await on_delta(ModelDelta(kind=_DELTA_KINDS[kind], text=text))
            elif kind == "response.output_item.done":
                items.append(event.get("item"))
            elif kind in _FINAL_EVENTS:
                return _final_response(event, items)
            elif kind == "error":
                reason = "the provider reports an error"
                raise responses_reply.provider_error(event, reason)
    raise UnusableReply("the stream ended before the response was complete")


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
