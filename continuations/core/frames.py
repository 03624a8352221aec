"""One agent's activation: what was said in it, and its open calls."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from continuations.core.messages import Message


@dataclass(frozen=True, slots=True, kw_only=True)
class FrameRow:
    """One frame in the flat table; `call` is the call that it answers, if any.

    `open` are the calls of the turn that is under way, in the model's order. The
    messages are in the log of the same id.
    """

    id: str
    agent: str
    parent_call_id: str | None
    depth: int = 0
    turns: int = 0
    max_turns: int | None = None
    open_call_ids: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class MessageLog:
    """The messages of a frame, which only ever grow under one `id`.

    Whoever rewrites them gives the log a new id: a delta says "keep the first k of
    the log that you have", and must never keep what another history said.
    """

    id: int
    messages: tuple[Message, ...]

    def appended(self, *messages: Message) -> MessageLog:
        """Return the log with messages after those it has."""
        return MessageLog(self.id, self.messages + messages)
