"""The state of a run as one flat table of rows with parent ids.

Nested values break early (msgpack at 256 levels, dataclass `==` at 100), so a stack
of a thousand agents is a thousand rows, in memory as on the wire.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from continuations.core.calls import Proposed, Ready, Started, Unknown
from continuations.core.run import ENDED_STATUSES

if TYPE_CHECKING:
    from collections.abc import Mapping

    from continuations.core.calls import CallRow
    from continuations.core.frames import FrameRow, MessageLog
    from continuations.core.run import RunRow
    from continuations.core.waits import Wait

ROOT_FRAME_ID = "f1"


@dataclass(frozen=True, slots=True, kw_only=True)
class RunState:
    """All rows of a run; a change is a new table that shares the unchanged rows.

    `manifest` is the JSON text that says what the code looked like. `agenda` names
    the frames and calls that can move without a decision; it follows from the rows
    and is never stored.
    """

    run: RunRow
    manifest: str
    frames: Mapping[str, FrameRow]
    calls: Mapping[str, CallRow]
    waits: Mapping[str, Wait]
    logs: Mapping[str, MessageLog]
    runnable: Mapping[str, None] = field(compare=False)

    @classmethod
    def from_rows(
        cls,
        *,
        run: RunRow,
        manifest: str,
        frames: Mapping[str, FrameRow],
        calls: Mapping[str, CallRow],
        waits: Mapping[str, Wait],
        logs: Mapping[str, MessageLog],
    ) -> RunState:
        """Make a table of rows alone."""
        runnable: dict[str, None] = {}
        if run.status not in ENDED_STATUSES:
            asked = [row.id for row in frames.values() if not row.open_call_ids]
            moving = [row.id for row in calls.values() if is_runnable(row)]
            runnable = dict.fromkeys([*asked, *moving])
        return cls(
            run=run,
            manifest=manifest,
            frames=frames,
            calls=calls,
            waits=waits,
            logs=logs,
            runnable=runnable,
        )


def is_runnable(row: CallRow) -> bool:
    """Tell whether a call can move without anybody's decision."""
    match row.state:
        case Proposed() | Ready() | Started():
            return True
        case Unknown(verify_tried=checked):
            return row.verifiable and not checked
        case _:
            return False


def frame_path(state: RunState, frame_id: str) -> tuple[str, ...]:
    """Return the names from the root agent down to a frame's agent or tool."""
    names: list[str] = []
    frame = state.frames[frame_id]
    while frame.parent_call_id is not None:
        call = state.calls[frame.parent_call_id]
        names.append(call.tool)
        frame = state.frames[call.frame_id]
    names.append(frame.agent)
    return tuple(reversed(names))
