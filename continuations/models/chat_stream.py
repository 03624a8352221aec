"""Join the events of a stream of a chat completion into one completion.

The adapter does not request a stream, but some servers send one in every case.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from continuations.core import jsontext

if TYPE_CHECKING:
    from collections.abc import Mapping

_END = "[DONE]"
# Each event adds a part to these fields; every other field has its last value.
_PARTIAL_FIELDS = frozenset({"content", "refusal", "reasoning_content", "reasoning"})


def is_event_stream(body: bytes) -> bool:
    """Return whether a body is a stream of server-sent events."""
    return body.lstrip().startswith((b"data:", b"event:", b":"))


def completion_of_stream(body: bytes) -> dict[str, Any]:
    """Return the completion that a stream makes; raises `NotJson`.

    Only the first choice is read, as of a completion.
    """
    completion: dict[str, Any] = {}
    message: dict[str, Any] = {}
    choice: dict[str, Any] = {}
    for event in _events(body):
        chunk = jsontext.as_object(jsontext.parse(event)) or {}
        completion |= {k: v for k, v in chunk.items() if v is not None}
        part = _first_choice(chunk)
        if part is None:
            continue
        choice |= {k: v for k, v in part.items() if v is not None}
        whole = jsontext.as_object(part.get("message"))
        _add_delta(message, whole or jsontext.as_object(part.get("delta")) or {})
    if choice:
        choice.pop("delta", None)
        completion["choices"] = [{**choice, "message": {"content": None, **message}}]
    return completion


def _events(body: bytes) -> list[str]:
    """Return the data of each event, without the end mark."""
    events: list[str] = []
    lines: list[str] = []
    for line in [*body.decode("utf-8", "replace").splitlines(), ""]:
        if line.startswith("data:"):
            lines.append(line[5:].removeprefix(" "))
        elif not line and lines:
            events.append("\n".join(lines))
            lines = []
    return [event for event in events if event.strip() not in ("", _END)]


def _first_choice(chunk: Mapping[str, Any]) -> dict[str, Any] | None:
    for each in jsontext.as_array(chunk.get("choices")) or ():
        choice = jsontext.as_object(each)
        if choice is not None and choice.get("index", 0) == 0:
            return dict(choice)
    return None


def _add_delta(message: dict[str, Any], delta: Mapping[str, Any]) -> None:
    for name, value in delta.items():
        if name == "tool_calls":
            for part in jsontext.as_array(value) or ():
                _add_tool_call(message.setdefault(name, []), part)
        elif name in _PARTIAL_FIELDS and isinstance(value, str):
            message[name] = (message.get(name) or "") + value
        elif value is not None:
            message[name] = value


def _add_tool_call(calls: list[dict[str, Any]], part: Any) -> None:
    fields = dict(jsontext.as_object(part) or {})
    index = fields.pop("index", len(calls))
    if not isinstance(index, int) or index >= len(calls):
        calls.append(fields)
        return
    call = calls[index]
    old, new = (
        jsontext.as_object(each.get("function")) or {} for each in (call, fields)
    )
    arguments = f"{old.get('arguments') or ''}{new.get('arguments') or ''}"
    known = {k: v for k, v in new.items() if v}
    call |= {k: v for k, v in fields.items() if v}
    call["function"] = {**old, **known, "arguments": arguments}
