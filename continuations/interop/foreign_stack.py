"""A paused stack as another program wrote it: plain values, without any code."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Iterator

    from continuations.core.messages import Message
    from continuations.interop.json_fields import Field


@dataclass(frozen=True, slots=True)
class AwaitsApproval:
    """The call waits for an approval. `note` says why, for the person who decides."""

    note: str


@dataclass(frozen=True, slots=True)
class HasResult:
    """The call has run."""

    content: str


@dataclass(frozen=True, slots=True)
class WasRejected:
    """A person rejected the call; the model does not know that yet."""


CallProgress: TypeAlias = "AwaitsApproval | HasResult | WasRejected | ForeignFrame"


@dataclass(frozen=True, slots=True)
class ForeignCall:
    """One call of the last turn of a frame.

    Attributes:
        tool_call_id: The id that the model's provider chose.
        tool: The name of the tool.
        arguments: The arguments, as the model wrote them.
        progress: How far the call is. A frame: its tool is an agent at work.
        field: The place of the call in the file.
    """

    tool_call_id: str
    tool: str
    arguments: str
    progress: CallProgress
    field: Field


@dataclass(frozen=True, slots=True)
class ForeignFrame:
    """The messages and open calls of one agent.

    Attributes:
        messages: The messages. With open calls, the last one is the model's reply that
            has them.
        calls: The calls of the last turn, or none if the model has all results.
    """

    messages: tuple[Message, ...]
    calls: tuple[ForeignCall, ...]

    def walk(
        self, above: tuple[str, ...] = ()
    ) -> Iterator[tuple[tuple[str, ...], ForeignCall]]:
        """Return every call, each with the ids of the calls above it and its own."""
        for call in self.calls:
            path = (*above, call.tool_call_id)
            yield path, call
            if isinstance(call.progress, ForeignFrame):
                yield from call.progress.walk(path)
