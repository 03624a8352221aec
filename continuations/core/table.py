"""The state of a run as one flat table of rows with parent ids.

Nested values break early (msgpack at 256 levels, dataclass `==` at 100), so a stack
of a thousand agents is a thousand rows, in memory as on the wire.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from continuations.core.calls import Proposed, Ready, Started, Unknown
from continuations.core.run import ENDED

if TYPE_CHECKING:
    from collections.abc import Mapping

    from continuations.core.calls import CallRow
    from continuations.core.frames import FrameRow, Log
    from continuations.core.run import RunRow
    from continuations.core.waits import Wait

ROOT = "f1"


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
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
    logs: Mapping[str, Log]
    agenda: Mapping[str, None] = field(compare=False)

    @classmethod
    def of(
        cls,
        *,
        run: RunRow,
        manifest: str,
        frames: Mapping[str, FrameRow],
        calls: Mapping[str, CallRow],
        waits: Mapping[str, Wait],
        logs: Mapping[str, Log],
    ) -> Table:
        """Make a table of rows alone."""
        agenda: dict[str, None] = {}
        if run.status not in ENDED:
            asked = [row.id for row in frames.values() if not row.open]
            moving = [row.id for row in calls.values() if can_move(row)]
            agenda = dict.fromkeys([*asked, *moving])
        return cls(
            run=run,
            manifest=manifest,
            frames=frames,
            calls=calls,
            waits=waits,
            logs=logs,
            agenda=agenda,
        )


def can_move(row: CallRow) -> bool:
    """Tell whether a call can move without anybody's decision."""
    match row.state:
        case Proposed() | Ready() | Started():
            return True
        case Unknown(checked=checked):
            return row.verifiable and not checked
        case _:
            return False


def path_of(table: Table, frame_id: str) -> tuple[str, ...]:
    """Return the names from the root agent down to a frame's agent or tool."""
    names: list[str] = []
    frame = table.frames[frame_id]
    while frame.call is not None:
        call = table.calls[frame.call]
        names.append(call.tool)
        frame = table.frames[call.frame]
    names.append(frame.agent)
    return tuple(reversed(names))
