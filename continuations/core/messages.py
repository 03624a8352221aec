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
class Request:
    """One tool call as the model asked for it; `arguments` is what it wrote."""

    id: str
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
    calls: tuple[str, ...] = ()
    answers: str | None = None

    @classmethod
    def of(cls, data: Mapping[str, Any]) -> Message:
        """Make a message of a mapping; raises `MalformedMessage` or `NotJson`."""
        return cls._checked(jsontext.dump(dict(data)), data)

    @classmethod
    def read(cls, text: str) -> Message:
        """Make a message of its JSON text; raises as `of` does."""
        data = jsontext.mapping(jsontext.parse(text))
        if data is None:
            msg = "a message is a JSON object"
            raise MalformedMessage(msg)
        return cls._checked(text, data)

    @classmethod
    def _checked(cls, text: str, data: Mapping[str, Any]) -> Message:
        role = data.get("role")
        if not isinstance(role, str) or role not in ROLES:
            msg = f"a message's role is one of {', '.join(sorted(ROLES))}"
            raise MalformedMessage(msg)
        calls: tuple[str, ...] = ()
        answers = None
        if role == "assistant":
            calls = tuple(request.id for request in _requests(data))
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
    def requests(self) -> tuple[Request, ...]:
        """The tool calls that an assistant message asks for, in order."""
        return tuple(_requests(self.data))

    @property
    def content(self) -> str:
        """What was said in words: text, joined text parts, or else a refusal."""
        data = self.data
        content = data.get("content")
        if (parts := jsontext.items(content)) is not None:
            found = [jsontext.mapping(part) or {} for part in parts]
            said = [part.get("text", part.get("refusal")) for part in found]
            return "".join(text for text in said if isinstance(text, str))
        if isinstance(content, str) and content:
            return content
        refusal = data.get("refusal")
        return refusal if isinstance(refusal, str) else ""

    def with_call_ids(self, ids: tuple[str, ...]) -> Message:
        """Return the message with other ids for its tool calls."""
        data = self.data
        calls = zip(data["tool_calls"], ids, strict=True)
        data["tool_calls"] = [{**call, "id": new} for call, new in calls]
        return Message.of(data)


def system(text: str) -> Message:
    """Return a system message."""
    return Message.of({"role": "system", "content": text})


def user(text: str) -> Message:
    """Return a user message."""
    return Message.of({"role": "user", "content": text})


def tool(call_id: str, content: str) -> Message:
    """Return the message that answers one tool call."""
    return Message.of({"role": "tool", "tool_call_id": call_id, "content": content})


def _requests(data: Mapping[str, Any]) -> list[Request]:
    if data.get("tool_calls") is None:
        return []
    calls = jsontext.items(data["tool_calls"])
    if calls is None:
        msg = "an assistant's tool_calls is a list"
        raise MalformedMessage(msg)
    return [_request(jsontext.mapping(call) or {}) for call in calls]


def _request(call: Mapping[str, Any]) -> Request:
    kind = call.get("type", "function")
    body = jsontext.mapping(call.get(kind)) if isinstance(kind, str) else None
    # Some servers leave the id out, or null.
    given = call.get("id") or ""
    if body is not None and isinstance(given, str):
        name = body.get("name")
        # A custom tool (OpenAI) writes free text in `input`.
        written = body.get("arguments", body.get("input", ""))
        if isinstance(name, str) and isinstance(written, str):
            return Request(given, name, written)
    msg = "a tool call has an id, a name and arguments in text"
    raise MalformedMessage(msg)
