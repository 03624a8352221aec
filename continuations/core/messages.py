"""What was said: one message of a chat completions conversation.

A message is the JSON text that a provider, a user or a tool gave. It is stored and
sent back as that text, so fields that nobody here knows of survive unchanged.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from continuations.core import jsontext

if TYPE_CHECKING:
    from collections.abc import Mapping

ROLES = frozenset({"system", "developer", "user", "assistant", "tool"})


class MalformedMessage(ValueError):
    """Not a message that a chat completions provider would take."""


@dataclass(frozen=True, slots=True)
class ToolCallRequest:
    """One tool call as the model asked for it; `arguments` is what it wrote."""

    tool_call_id: str
    tool: str
    arguments: str


@dataclass(frozen=True, slots=True)
class Message:
    """One message; `text` is its JSON, the rest is read out of it once.

    `calls` are the provider's ids of an assistant's tool calls, in order; `answers`
    is the id that a tool message answers.
    """

    text: str
    role: str
    tool_call_ids: tuple[str, ...] = ()
    tool_call_id: str | None = None

    @classmethod
    def from_mapping(cls, data: Mapping[str, Any]) -> Message:
        """Make a message of a mapping; raises `MalformedMessage` or `NotJson`."""
        return cls._from_parsed(jsontext.dump(dict(data)), data)

    @classmethod
    def from_json(cls, text: str) -> Message:
        """Make a message of its JSON text; raises as `of` does."""
        data = jsontext.as_object(jsontext.parse(text))
        if data is None:
            msg = "a message is a JSON object"
            raise MalformedMessage(msg)
        return cls._from_parsed(text, data)

    @classmethod
    def _from_parsed(cls, text: str, data: Mapping[str, Any]) -> Message:
        role = data.get("role")
        if not isinstance(role, str) or role not in ROLES:
            msg = f"a message's role is one of {', '.join(sorted(ROLES))}"
            raise MalformedMessage(msg)
        calls: tuple[str, ...] = ()
        answers = None
        if role == "assistant":
            calls = tuple(request.tool_call_id for request in _tool_calls_of(data))
        elif role == "tool":
            answers = data.get("tool_call_id")
            if not isinstance(answers, str):
                msg = "a tool message names the call that it answers"
                raise MalformedMessage(msg)
        return cls(text, role, calls, answers)

    @property
    def data(self) -> dict[str, Any]:
        """A fresh copy of the message as a mapping."""
        data: dict[str, Any] = jsontext.parse(self.text)
        return data

    @property
    def tool_calls(self) -> tuple[ToolCallRequest, ...]:
        """The tool calls that an assistant message asks for, in order."""
        return tuple(_tool_calls_of(self.data))

    @property
    def content(self) -> str:
        """What was said in words: text, joined text parts, or else a refusal."""
        data = self.data
        content = data.get("content")
        if (parts := jsontext.as_array(content)) is not None:
            found = [jsontext.as_object(part) or {} for part in parts]
            said = [part.get("text", part.get("refusal")) for part in found]
            return "".join(text for text in said if isinstance(text, str))
        if isinstance(content, str) and content:
            return content
        refusal = data.get("refusal")
        return refusal if isinstance(refusal, str) else ""

    def with_tool_call_ids(self, ids: tuple[str, ...]) -> Message:
        """Return the message with other ids for its tool calls."""
        data = self.data
        calls = zip(data["tool_calls"], ids, strict=True)
        data["tool_calls"] = [{**call, "id": new} for call, new in calls]
        return Message.from_mapping(data)


def system_message(text: str) -> Message:
    """Return a system message."""
    return Message.from_mapping({"role": "system", "content": text})


def user_message(text: str) -> Message:
    """Return a user message."""
    return Message.from_mapping({"role": "user", "content": text})


def tool_message(call_id: str, content: str) -> Message:
    """Return the message that answers one tool call."""
    return Message.from_mapping(
        {"role": "tool", "tool_call_id": call_id, "content": content}
    )


def _tool_calls_of(data: Mapping[str, Any]) -> list[ToolCallRequest]:
    if data.get("tool_calls") is None:
        return []
    calls = jsontext.as_array(data["tool_calls"])
    if calls is None:
        msg = "an assistant's tool_calls is a list"
        raise MalformedMessage(msg)
    return [_tool_call_of(jsontext.as_object(call) or {}) for call in calls]


def _tool_call_of(call: Mapping[str, Any]) -> ToolCallRequest:
    kind = call.get("type", "function")
    body = jsontext.as_object(call.get(kind)) if isinstance(kind, str) else None
    # Some servers leave the id out, or null.
    given = call.get("id") or ""
    if body is not None and isinstance(given, str):
        name = body.get("name")
        # A custom tool (OpenAI) writes free text in `input`.
        written = body.get("arguments", body.get("input", ""))
        if isinstance(name, str) and isinstance(written, str):
            return ToolCallRequest(given, name, written)
    msg = "a tool call has an id, a name and arguments in text"
    raise MalformedMessage(msg)
