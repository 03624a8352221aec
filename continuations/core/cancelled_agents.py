"""Agents that were cancelled: their calls have the reason until their frames end."""

from __future__ import annotations

from typing import TYPE_CHECKING

from continuations.core.calls import CLOSED_STATES, Nested
from continuations.core.transitions import illegal_transition
from continuations.value_class import replace

if TYPE_CHECKING:
    from collections.abc import Iterable

    from continuations.core.calls import CallRow
    from continuations.core.draft import Draft
    from continuations.core.events import AgentCancelled


def mark(draft: Draft, event: AgentCancelled) -> None:
    """Give the reason to a nested call and to all nested calls below it."""
    if not isinstance(draft.call(event.call_id).state, Nested):
        raise illegal_transition(f"call {event.call_id} has no agent", event)
    call_ids = [event.call_id]
    while call_ids:
        row = draft.call(call_ids.pop())
        if isinstance(row.state, Nested):
            draft.put_call(replace(row, cancelled=row.cancelled or event.reason))
            call_ids += draft.frame(row.state.frame_id).open_call_ids


def reason(draft: Draft, frame_id: str) -> str | None:
    """Return why the agent of a frame was cancelled, or `None`.

    The root agent of a thread counts as cancelled while its turn is being stopped.
    """
    call_id = draft.frame(frame_id).parent_call_id
    return draft.run.stopping if call_id is None else draft.call(call_id).cancelled


def last_turn_text(reason: str, rows: Iterable[CallRow]) -> str:
    """Return the reason, and what became of the calls that ran in the last turn.

    No model of the cancelled agent reads these results, so its caller gets them.
    """
    ran = [
        f"{row.tool}: {row.state.content}"
        for row in rows
        if isinstance(row.state, CLOSED_STATES) and row.attempts + row.stage
    ]
    return "\n".join([reason, *(["Its last calls:"] if ran else []), *ran])
