"""The end of a turn: its results go to the transcript, its patches to the state."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from continuations.core import denials, frame_state, tool_messages
from continuations.core.messages import tool_message

if TYPE_CHECKING:
    from collections.abc import Sequence

    from continuations.core.calls import CallRow
    from continuations.core.draft import Draft
    from continuations.core.frames import FrameRow


def gather(draft: Draft, frame: FrameRow, rows: Sequence[CallRow]) -> FrameRow:
    """Append the results of closed calls; return the frame with its new state."""
    results = [
        tool_message(
            row.tool_call_id,
            tool_messages.tool_message_text(row, denials.count_of(frame.denials, row)),
        )
        for row in rows
    ]
    draft.append(frame.id, *results)
    if not any(row.patch for row in rows):
        return frame
    return replace(frame, state_json=frame_state.after_turn(frame.state_json, rows))
