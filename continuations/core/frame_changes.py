"""The events of a frame that are not about messages and calls."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from continuations.core import frame_state, history, run_stream

if TYPE_CHECKING:
    from continuations.core.frames import FrameRow
    from continuations.core.state import RunState


def other_changes(
    before: RunState | None, after: RunState, row: FrameRow
) -> list[tuple[type[run_stream.BaseEvent], dict[str, Any]]]:
    """Return the events of a frame between two versions."""
    changes: list[tuple[type[run_stream.BaseEvent], dict[str, Any]]] = []
    old_row = before.frames.get(row.id) if before else None
    old_state = "" if old_row is None else old_row.state_json
    if row.state_json != old_state:
        changed = frame_state.changed_fields(old_state, row.state_json)
        changes.append((run_stream.StateChanged, {"changes_json": changed}))
    old_log = before.logs.get(row.id) if before else None
    compacted = history.fields_of_event(old_log, after.logs[row.id], row)
    if compacted:
        changes.append((run_stream.Compacted, compacted))
    return changes
