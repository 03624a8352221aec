"""Join the events of a stream of a chat completion into one completion.

The adapter requests a stream for a listener, and some servers send one in every case.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from continuations.core import jsontext

if TYPE_CHECKING:
    from collections.abc import Mapping

_END = "[DONE]"
# Only these end a line. `str.splitlines` also splits at characters of JSON strings.
_LINE_END = re.compile(r"\r\n|\r|\n")
# Each event adds a part to these fields; every other field has its last value.
_PARTIAL_FIELDS = frozenset({"content", "refusal", "reasoning_content", "reasoning"})


def is_event_stream(body: bytes) -> bool:
    """Return whether a body is a stream of server-sent events."""
    return body.lstrip().startswith((b"data:", b"event:", b":"))


def completion_of_stream(body: bytes) -> tuple[dict[str, Any], bool]:
    """Return the completion that a stream makes, and whether it is complete.

    A complete stream has a `finish_reason` or the end mark. A stream without both was
    cut: the last text or call may be unfinished, and more calls may be missing. Only
    the first choice is read, as of a completion. Raises `NotJson`.
    """
    completion: dict[str, Any] = {}
    message = _MessageParts()
    choice: dict[str, Any] = {}
    events = _events(body)
    has_end_mark = _END in events
    for event in events:
        if event == _END:
            continue
        chunk = jsontext.as_object(jsontext.parse(event)) or {}
        completion |= {k: v for k, v in chunk.items() if v is not None}
        if chunk.get("object") == "error":  # vLLM
            completion["error"] = dict(chunk)
        part = first_choice(chunk)
        if part is None:
            continue
        choice |= {k: v for k, v in part.items() if v is not None}
        whole = jsontext.as_object(part.get("message"))
        message.add(whole or jsontext.as_object(part.get("delta")) or {})
    if choice:
        choice.pop("delta", None)
        fields = {"content": None, **message.fields}
        completion["choices"] = [{**choice, "message": fields}]
    return completion, has_end_mark or "finish_reason" in choice


def _events(body: bytes) -> list[str]:
    """Return the data of each event."""
    events: list[str] = []
    lines: list[str] = []
    for line in [*_LINE_END.split(body.decode("utf-8", "replace")), ""]:
        if line.startswith("data:"):
            lines.append(line[5:].removeprefix(" "))
        elif not line and lines:
            events.append("\n".join(lines).strip())
            lines = []
    return [event for event in events if event]


def first_choice(chunk: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the first choice of an event, or `None`."""
    for each in jsontext.as_array(chunk.get("choices")) or ():
        choice = jsontext.as_object(each)
        if choice is not None and choice.get("index") in (0, None):
            return dict(choice)
    return None


class _MessageParts:
    """Joins the parts of a message.

    Attributes:
        fields: The message so far.
    """

    def __init__(self) -> None:
        self.fields: dict[str, Any] = {}
        self._calls: list[dict[str, Any]] = []
        self._call_by_index: dict[int, dict[str, Any]] = {}

    def add(self, delta: Mapping[str, Any]) -> None:
        """Add the part of one event."""
        for name, value in delta.items():
            if name == "tool_calls":
                for part in jsontext.as_array(value) or ():
                    self._add_call_part(part)
                self.fields[name] = self._calls
            elif name in _PARTIAL_FIELDS and isinstance(value, str):
                self.fields[name] = (self.fields.get(name) or "") + value
            elif name == "function_call" and jsontext.as_object(value) is not None:
                self.fields[name] = _joined_function(self.fields.get(name), value)
            elif value is not None:
                self.fields[name] = value

    def _add_call_part(self, value: Any) -> None:
        part = dict(jsontext.as_object(value) or {})
        index = part.pop("index", None)
        if not isinstance(index, int) or index < 0:
            index = None
        call = self._call_of_part(index, part)
        if call is None:
            call = dict[str, Any]()
            self._calls.append(call)
        if index is not None:
            self._call_by_index[index] = call
        function = _joined_function(call.get("function"), part.get("function"))
        call |= {k: v for k, v in part.items() if v not in (None, "")}
        if function:
            call["function"] = function

    def _call_of_part(
        self, index: int | None, part: Mapping[str, Any]
    ) -> dict[str, Any] | None:
        """Return the call that a part continues, or `None` for a new call."""
        if index is not None:
            call = self._call_by_index.get(index)
        else:
            call = self._calls[-1] if self._calls else None
        identifier = part.get("id")
        if call is None or (identifier and call.get("id", identifier) != identifier):
            # Some servers send all calls with the index 0 and an id of their own.
            return None
        function = jsontext.as_object(part.get("function")) or {}
        is_new = index is None and not identifier and bool(function.get("name"))
        return None if is_new else call


def _joined_function(old: Any, new: Any) -> dict[str, Any]:
    """Return a function whose arguments are continued by those of its next part."""
    known, more = (jsontext.as_object(each) or {} for each in (old, new))
    function = {**known, **{k: v for k, v in more.items() if v}}
    arguments = [each.get("arguments") for each in (known, more)]
    texts = [each for each in arguments if isinstance(each, str)]
    if texts and len(texts) + arguments.count(None) == len(arguments):
        function["arguments"] = "".join(texts)
    return function
