"""Chat messages as items of the Responses API, and items as chat messages.

The engine keeps a conversation as chat messages. The adapter derives the assistant
message from the output items of a response, and stores the items beside it, in the
field `openai_responses`. The next request contains these items again, unchanged and in
their order: reasoning, calls of hosted tools, annotations and unknown items.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from continuations.core import jsontext
from continuations.models.chat_reply import with_standard_forms

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

    from continuations.core.messages import Message

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
