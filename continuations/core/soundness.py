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
    from continuations.core.waits import Wait

_MOST_DIGITS = 19


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
        yield from _wait_faults(table, wait)
    yield from _id_faults(table)


def _id_faults(table: Table) -> Iterator[str]:
    for kind, rows in (("f", table.frames), ("c", table.calls)):
        for key, row in rows.items():
            if key != row.id or not _was_given(key, kind, table.run.next_id):
                yield f"the id {key[:20]} was never given out"
    for log in table.logs.values():
        if not 0 < log.id < table.run.next_id:
            yield f"the log id {log.id} was never given out"


def _was_given(row_id: str, kind: str, next_id: int) -> bool:
    number = row_id[1:]
    # The length first: Python refuses to read integers of thousands of digits.
    plain = len(number) < _MOST_DIGITS and number.isascii() and number.isdecimal()
    return row_id[:1] == kind and plain and int(number) < next_id


def _wait_faults(table: Table, wait: Wait) -> Iterator[str]:
    call = table.calls.get(wait.call_id)
    if call is None or _wait_of(call) != wait.id:
        yield f"wait {wait.id} belongs to no call that waits"
    elif wait.kind != ("unknown" if isinstance(call.state, Unknown) else "approval"):
        yield f"wait {wait.id} is not of the kind that its call waits for"
    if wait.run_id != table.run.id:
        yield f"wait {wait.id} belongs to another run"


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
    inside = isinstance(parent.state, Nested) and parent.state.frame == frame.id
    if not inside and table.run.status not in ENDED:
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
    if wait is not None and (
        wait not in table.waits or table.waits[wait].call_id != call.id
    ):
        yield f"call {call.id} waits for {wait}, which is not its own"


def _wait_of(call: CallRow) -> str | None:
    return call.state.wait if isinstance(call.state, Waiting | Unknown) else None
