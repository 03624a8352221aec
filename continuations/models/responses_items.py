"""Responses of the Responses API, and its items as chat messages and back.

The engine keeps a conversation as chat messages. The adapter derives the assistant
message from the output items of a response, and stores the items beside it, in the
field `openai_responses`. The next request contains these items again, unchanged and in
their order: reasoning, calls of hosted tools, annotations and unknown items.
"""

from __future__ import annotations

from contextlib import aclosing
from typing import TYPE_CHECKING, Any, Literal

from continuations.core import jsontext
from continuations.core.messages import MalformedMessage, Message
from continuations.core.model_protocol import ModelDelta, ModelReply
from continuations.models.chat_reply import (
    UnusableReply,
    error_text,
    lacks_credit,
    read_usage,
    with_standard_forms,
)

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Collection, Iterator, Mapping, Sequence

    from openai import AsyncStream

    from continuations.core.model_protocol import DeltaListener
    from continuations.core.usage import Usage


ITEMS_FIELD = "openai_responses"
# The field in which people and programs find what a model thought, as with other
# providers. This adapter does not send it.
REASONING_FIELD = "reasoning_content"
# It stands between two parts of the reasoning.
REASONING_SEPARATOR = "\n\n"

# The items of calls that a tool of the agent runs.
_CALL_TYPES = frozenset({"function_call", "custom_tool_call"})
# These items ask the application for something that no tool of an agent gives.
_CLIENT_CALL_TYPES = frozenset(
    {
        "computer_call",
        "local_shell_call",
        "shell_call",
        "apply_patch_call",
        "mcp_approval_request",
    }
)


def assistant_fields(items: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the fields of the chat message that output items stand for.

    The content is the text of all messages, without what the model marked as a comment
    on its way to a final answer.
    """
    texts: list[tuple[object, str]] = []
    refusals: list[str] = []
    calls: list[dict[str, Any]] = []
    for item in items:
        if _kind(item) == "message":
            parts = [*map(_object, jsontext.as_array(item.get("content")) or ())]
            texts += [(item.get("phase"), text) for text in _texts(parts, "text")]
            refusals += _texts(parts, "refusal")
        elif _kind(item) in _CALL_TYPES:
            calls.append(_chat_call(item))
    if not calls and any(phase == "final_answer" for phase, _ in texts):
        texts = [(phase, text) for phase, text in texts if phase == "final_answer"]
    content = "".join(text for _, text in texts)
    fields: dict[str, Any] = {"role": "assistant", "content": content or None}
    if calls:
        fields["tool_calls"] = calls
    if refusals:
        fields["refusal"] = "".join(refusals)
    if not calls and not refusals:
        fields["content"] = content
    if thoughts := _thoughts(items):
        fields[REASONING_FIELD] = REASONING_SEPARATOR.join(thoughts)
    return with_standard_forms(fields)


def client_call_type(items: Sequence[Mapping[str, Any]]) -> str | None:
    """Return the type of an item that only a program of the client can answer.

    A hosted shell answers its calls in the same output.
    """
    # A list: an id of a hostile item may be no text.
    answered = [i.get("call_id") for i in items if _kind(i).endswith("_output")]
    for item in items:
        kind = _kind(item)
        if kind in _CLIENT_CALL_TYPES and item.get("call_id") not in answered:
            return kind
    return None


def input_items(
    messages: Sequence[Message],
    *,
    plain: Collection[int] = (),
    files: Mapping[str, bytes] | None = None,
) -> Iterator[Mapping[str, Any]]:
    """Yield the items of a conversation.

    Args:
        messages: The conversation. It is a valid transcript.
        plain: The positions of messages whose stored output items are not sent. They
            are written from text and calls alone, as those of other adapters.
        files: The bytes of attachments by digest.
    """
    custom_calls: set[str] = set()
    for position, message in enumerate(messages):
        data = _expanded(message, files) if files else message.data
        if message.role == "tool":
            yield _tool_output(data, is_custom=data["tool_call_id"] in custom_calls)
        elif message.role == "assistant":
            calls = jsontext.as_array(data.get("tool_calls")) or ()
            custom_calls = {c["id"] for c in calls if _kind(c) == "custom"}
            items = None if position in plain else stored_items(data)
            yield from _plain_items(message, custom_calls) if items is None else items
        else:
            yield {
                "role": message.role,
                "content": _input_content(data.get("content")),
            }


def _expanded(message: Message, files: Mapping[str, bytes]) -> dict[str, Any]:
    from continuations.models.expanded_parts import expanded_data  # noqa: PLC0415 - few requests have files

    return expanded_data(message, files)


def stored_items(data: Mapping[str, Any]) -> list[Mapping[str, Any]] | None:
    """Return the stored output items of an assistant message, as they are sent.

    `None` if it has none, or if they do not say what the message says: a program has
    changed the message, and the message counts. An id of a call that the engine had to
    replace is replaced in its item. Reasoning at the end is left out: a response that
    was cut off has such an item, and the API refuses it.
    """
    values = jsontext.as_array(data.get(ITEMS_FIELD))
    if not values or not all(isinstance(value, dict) for value in values):
        return None
    items: list[Mapping[str, Any]] = list(values)
    own = assistant_fields(items)
    ids = [call.get("id") for call in jsontext.as_array(data.get("tool_calls")) or ()]
    if _without_ids(own) != _without_ids(data):
        return None
    while items and _kind(items[-1]) == "reasoning":
        items.pop()
    positions = [i for i, item in enumerate(items) if _kind(item) in _CALL_TYPES]
    for position, call_id in zip(positions, ids, strict=True):
        if items[position].get("call_id") != call_id:
            items[position] = {**items[position], "call_id": call_id}
    return items


def _kind(item: Mapping[str, Any]) -> str:
    kind = item.get("type")
    return kind if isinstance(kind, str) else ""


def _object(value: object) -> Mapping[str, Any]:
    return jsontext.as_object(value) or {}


def _thoughts(items: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return the summaries and the plain reasoning of a reply, in order."""
    parts = [
        _object(part)
        for item in items
        if _kind(item) == "reasoning"
        for name in ("summary", "content")
        for part in jsontext.as_array(item.get(name)) or ()
    ]
    return [text for text in _texts(parts, "text") if text]


def _texts(parts: Sequence[Mapping[str, Any]], name: str) -> list[str]:
    values = [part.get(name) for part in parts]
    return [value for value in values if isinstance(value, str)]


def _chat_call(item: Mapping[str, Any]) -> dict[str, Any]:
    name, call_id = item.get("name"), item.get("call_id")
    if item["type"] == "custom_tool_call":
        custom = {"name": name, "input": item.get("input")}
        return {"id": call_id, "type": "custom", "custom": custom}
    function = {"name": name, "arguments": item.get("arguments")}
    return {"id": call_id, "type": "function", "function": function}


def _without_ids(data: Mapping[str, Any]) -> tuple[Any, ...]:
    """Return what an assistant message says, without the ids of its calls."""
    calls = map(_object, jsontext.as_array(data.get("tool_calls")) or ())
    bodies = [{k: v for k, v in call.items() if k != "id"} for call in calls]
    return data.get("content") or "", data.get("refusal"), bodies


def _plain_items(
    message: Message, custom_calls: set[str]
) -> Iterator[Mapping[str, Any]]:
    if content := message.content:
        yield {"role": "assistant", "content": content}
    for call in message.tool_calls:
        is_custom = call.tool_call_id in custom_calls
        yield {
            "type": "custom_tool_call" if is_custom else "function_call",
            "call_id": call.tool_call_id,
            "name": call.tool,
            "input" if is_custom else "arguments": call.arguments,
        }


def _tool_output(data: Mapping[str, Any], *, is_custom: bool) -> Mapping[str, Any]:
    kind = "custom_tool_call_output" if is_custom else "function_call_output"
    output = _input_content(data.get("content"))
    return {"type": kind, "call_id": data["tool_call_id"], "output": output}


def _input_content(content: Any) -> Any:
    parts = jsontext.as_array(content)
    if parts is None:
        return content
    return [_input_part(part) for part in parts]


def _input_part(value: Any) -> Any:
    """Return a part of a chat message's content as the Responses API wants it."""
    part = _object(value)
    match part.get("type"):
        case "text":
            return {"type": "input_text", "text": part.get("text")}
        case "image_url":
            image = _object(part.get("image_url"))
            return {
                "type": "input_image",
                "detail": image.get("detail", "auto"),
                "image_url": image.get("url"),
            }
        case "file":
            return {"type": "input_file", **_object(part.get("file"))}
        case _:
            return value


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
        raise UnusableReply(f"the output is not valid: {error}", usage=usage) from None
    finish = "tool_calls" if message.tool_call_ids else "stop"
    if _status(response) == "incomplete":
        details = jsontext.as_object(response.get("incomplete_details")) or {}
        reason = details.get("reason")
        reason = reason if isinstance(reason, str) else "incomplete"
        finish = _FINISH_REASONS.get(reason, reason)
    return ModelReply(message=message, usage=usage, finish_reason=finish)


def usage_of(response: Mapping[str, Any]) -> Usage:
    """Return the request and the tokens that a response cost."""
    return read_usage(response, "input", "output")


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
