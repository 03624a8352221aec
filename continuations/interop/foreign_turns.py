"""Read the messages of one agent: check each turn, and find the calls that are open."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from continuations.core import jsontext
from continuations.core.messages import MalformedMessage, Message

if TYPE_CHECKING:
    from collections.abc import Mapping

    from continuations.interop.json_fields import Field


def read_message(field: Field) -> Message:
    """Return a message; raises `FormatError`.

    The content of a tool message that is not a text becomes JSON text, because a
    provider accepts nothing else.
    """
    data = dict(field.object())
    content = data.get("content")
    try:
        if data.get("role") == "tool" and not isinstance(content, str):
            data["content"] = jsontext.dump(content)
        message = Message.from_mapping(data)
        # The messages are kept as UTF-8 texts with a limited depth.
        jsontext.parse(message.text)
    except (MalformedMessage, jsontext.NotJson) as error:
        field.refuse(f"is not a chat message: {error}")
    if message.role in ("system", "developer", "user") and not (
        isinstance(content, str) or jsontext.as_array(content)
    ):
        field["content"].refuse("must be a text or a list of parts")
    return message


class Turns:
    """The messages of one agent, turn by turn.

    Attributes:
        messages: All messages; results are in the order of their calls. The results of
            the last turn are left out while it has an open call.
        open_turn: The place of each call of the last turn that has no result.
        calls: The place of each call of the last turn.
        results: The results of the last turn by the id of the call.
    """

    def __init__(self, field: Field) -> None:
        self.messages: list[Message] = []
        self.open_turn: dict[str, Field] = {}
        self.calls: dict[str, Field] = {}
        self.results: dict[str, Message] = {}
        items = field.items()
        if not items:
            field.refuse("is empty")
        for item in items:
            self._add(item, read_message(item))
        if not self.open_turn:
            self._close_turn()

    def _add(self, field: Field, message: Message) -> None:
        if message.role == "tool":
            call_id = message.answered_call_id or ""
            if self.open_turn.pop(call_id, None) is None:
                field["tool_call_id"].refuse("names no call that is open")
            self.results[call_id] = message
            return
        for call in self.open_turn.values():
            call.refuse("has no tool message before the next message")
        self._close_turn()
        self.messages.append(message)
        if message.tool_call_ids:
            self._open_turn(field["tool_calls"].items(), message)

    def _open_turn(self, fields: list[Field], message: Message) -> None:
        for field, call_id in zip(fields, message.tool_call_ids, strict=True):
            if not call_id:
                field["id"].refuse("is missing")
            if call_id in self.open_turn:
                field["id"].refuse("is the id of two calls of one turn")
            self.open_turn[call_id] = field
        self.calls = dict(self.open_turn)

    def _close_turn(self) -> None:
        if self.results:
            ids = self.messages[-1].tool_call_ids
            self.messages.extend(self.results[call_id] for call_id in ids)
        self.results = {}


def result_text(message: Message) -> str:
    """Return the content of a tool message."""
    data: Mapping[str, Any] = message.data
    return str(data["content"])
