"""Do the rows of a table fit together?

Asked once of every table that comes from bytes, so that nothing after it meets a row
that is not there, a circle, or a decision about a call that is not waiting.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from continuations.core.calls import Nested, Unknown, Waiting
from continuations.core.run import ENDED
from continuations.core.table import ROOT

if TYPE_CHECKING:
    from collections.abc import Iterator

    from continuations.core.calls import CallRow
    from continuations.core.frames import FrameRow
    from continuations.core.table import Table


def fault(table: Table) -> str | None:
    """Return the first thing that does not fit, or `None`."""
    return next(_faults(table), None)


def _faults(table: Table) -> Iterator[str]:
    root = table.frames.get(ROOT)
    if root is None or root.call is not None:
        yield "it has no root frame"
        return
    if table.frames.keys() != table.logs.keys():
        yield "its frames and its logs differ"
        return
    for frame in table.frames.values():
        yield from _frame_faults(table, frame)
    for call in table.calls.values():
        yield from _call_faults(table, call)
    for wait in table.waits.values():
        call_row = table.calls.get(wait.call_id)
        if call_row is None or _wait_of(call_row) != wait.id:
            yield f"wait {wait.id} belongs to no call that waits"
        if wait.run_id != table.run.id:
            yield f"wait {wait.id} belongs to another run"
    for row_id in (*table.frames, *table.calls):
        if not row_id[1:].isdecimal() or int(row_id[1:]) >= table.run.next_id:
            yield f"the id {row_id} was never given out"


def _frame_faults(table: Table, frame: FrameRow) -> Iterator[str]:
    if len(set(frame.open)) != len(frame.open):
        yield f"frame {frame.id} has a call twice"
    for call_id in frame.open:
        call = table.calls.get(call_id)
        if call is None or call.frame != frame.id:
            yield f"frame {frame.id} has call {call_id}, which is not its own"
    if frame.id == ROOT:
        if frame.depth:
            yield "the root frame has a depth"
        return
    parent = table.calls.get(frame.call or "")
    if parent is None or parent.frame not in table.frames:
        yield f"frame {frame.id} hangs from no call"
        return
    # Depth grows from parent to child, so there is no circle.
    if frame.depth != table.frames[parent.frame].depth + 1:
        yield f"frame {frame.id} is at the wrong depth"
    if not isinstance(parent.state, Nested) and table.run.status not in ENDED:
        yield f"frame {frame.id} hangs from a call that is not in it"


def _call_faults(table: Table, call: CallRow) -> Iterator[str]:
    frame = table.frames.get(call.frame)
    if frame is None or call.id not in frame.open:
        yield f"call {call.id} is open in no frame"
    if isinstance(call.state, Nested):
        child = table.frames.get(call.state.frame)
        if child is None or child.call != call.id:
            yield f"call {call.id} is in a frame that is not its own"
    wait = _wait_of(call)
    if wait is not None and wait not in table.waits:
        yield f"call {call.id} waits for {wait}, which is not there"


def _wait_of(call: CallRow) -> str | None:
    return call.state.wait if isinstance(call.state, Waiting | Unknown) else None
