"""What a tool may know about the call that it is."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from datetime import datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolContext:
    """Given to a tool that has a parameter of this type; the model never sees it.

    `idempotency_key` names this call and no other, over every attempt and process.
    `fence` only grows over the life of a run: keep the highest one that you saw and
    refuse lower ones, and a process that was replaced cannot act. `attempt` counts
    from 1. `deadline` is when the tool will be given up on. `context` is your own
    live object, handed in at start and resume; it is never stored and never shown.
    """

    run_id: str
    call_id: str
    idempotency_key: str
    fence: int
    attempt: int
    deadline: datetime | None = None
    context: Any = field(default=None, repr=False)
