"""Model: messages and tools in, one reply out."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from continuations.core.usage import Usage

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from continuations.core.messages import Message


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolSpec:
    """A tool as the model is told of it; `parameters` is a JSON Schema."""

    name: str
    description: str
    parameters: Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelRequest:
    """One question to a model: a sendable conversation and what it may call.

    `settings` go to the provider as they are (temperature, reasoning_effort, ...).
    `agent` and `run_id` are for logs and tests; they are not sent.
    """

    messages: Sequence[Message]
    tools: Sequence[ToolSpec] = ()
    settings: Mapping[str, Any] = field(default_factory=dict[str, Any])
    agent: str = ""
    run_id: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelReply:
    """One assistant message, what it cost, and why the provider stopped."""

    message: Message
    usage: Usage = field(default_factory=lambda: Usage(requests=1))
    finish_reason: str = "stop"


class Model(Protocol):
    """Whatever answers a conversation; `name` stands in the manifest.

    `reply` raises `ModelError` when there is no usable answer, and nothing else. It
    is asked again only after such an error, or after a crash while it answered. It
    must not keep state of a conversation: the next question may come from another
    process.
    """

    @property
    def name(self) -> str:
        """The model's name, for the manifest and for people."""
        ...

    async def reply(self, request: ModelRequest) -> ModelReply:
        """Return the next assistant message of a conversation."""
        ...
