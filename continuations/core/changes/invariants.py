"""Check that the rows of a run's state fit together.

Every state that is read from bytes is checked once. After the check, no code meets a
missing row, a cycle, or a wait whose call does not wait.

A version is read after its base, which has been checked. So only the rows that differ,
and those that refer to them, are checked.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from continuations.core.rows.calls import STATE_TYPES, Nested, Waiting, open_wait_id
from continuations.core.rows.state import ROOT_FRAME_ID, RunState
from continuations.value_class import dataclass

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping

    from continuations.core.rows.calls import CallRow
    from continuations.core.rows.frames import FrameRow
    from continuations.core.rows.waits import Wait

_MAX_ID_DIGITS = 19


def find_violation(state: RunState, known: RunState | None = None) -> str | None:
    """Return the first violation as a text, or `None` if all rows fit together.

    Args:
        state: The state.
        known: A state whose rows fit together. The rows that both share are checked
            only if they refer to others.
    """
    rows = None if known is None else _changed_rows(state, known)
    if rows is None:
        rows = _Rows(state.frames, state.calls, state.waits, state.logs)
    return next(_violations(state, rows), None)


@dataclass(frozen=True, slots=True)
class _Rows:
    """The ids of the rows that are checked."""

    frames: Collection[str]
    calls: Collection[str]
    waits: Collection[str]
    logs: Collection[str]


def _changed_rows(state: RunState, known: RunState) -> _Rows | None:
    """Return the rows that a state does not share, and those that refer to them.

    `None`: something has changed that all rows depend on.
    """
    run, old = state.run, known.run
    if run.has_ended or old.has_ended or run.id != old.id or run.next_id < old.next_id:
        return None
    frames = _changed_ids(state.frames, known.frames)
    calls = _changed_ids(state.calls, known.calls)
    waits = _changed_ids(state.waits, known.waits)
    logs = _changed_ids(state.logs, known.logs)
    near_frames, near_calls = frames | logs, set(calls)
    for each in (known, state):
        changed = [each.frames[name] for name in frames & each.frames.keys()]
        for frame in changed:
            near_calls |= {frame.parent_call_id or "", *frame.open_call_ids}
        asked = {name for frame in changed for name in frame.open_call_ids}
        for name in (calls | asked) & each.calls.keys():
            call = each.calls[name]
            near_frames.add(call.frame_id)
            if isinstance(call.state, Nested):
                near_frames.add(call.state.frame_id)
        for wait in (each.waits[name] for name in waits & each.waits.keys()):
            near_frames.add(wait.frame_id)
            near_calls.add(wait.call_id)
    return _Rows(
        sorted(near_frames & state.frames.keys()),
        sorted(near_calls & state.calls.keys()),
        [
            wait.id
            for wait in state.waits.values()
            if wait.id in waits or wait.call_id in calls or wait.frame_id in frames
        ],
        sorted(logs & state.logs.keys()),
    )


def _changed_ids(new: Mapping[str, Any], old: Mapping[str, Any]) -> set[str]:
    # Rows are immutable, so an identical object is an unchanged row.
    known = old.get
    return {key for key, row in new.items() if known(key) is not row} | (
        old.keys() - new.keys()
    )


def _violations(state: RunState, rows: _Rows) -> Iterator[str]:
    root = state.frames.get(ROOT_FRAME_ID)
    if root is None or root.parent_call_id is not None:
        yield "the root frame is missing"
        return
    if state.frames.keys() != state.logs.keys():
        yield "its frames and its message logs have different ids"
        return
    for frame in map(state.frames.__getitem__, rows.frames):
        yield from _frame_violations(state, frame)
        yield from _held_reply_violations(state, frame)
        yield from _history_violations(state, frame)
        record = frame.history
        if record is not None and (
            max(record.counted, record.summary_number)
            > len(state.logs[frame.id].messages)
        ):
            yield f"frame {frame.id} counts messages that it does not have"
    for call_id in rows.calls:
        yield from _call_violations(state, state.calls[call_id])
    for wait_id in rows.waits:
        yield from _wait_violations(state, state.waits[wait_id])
    suspended = [
        wait.frame_id
        for wait in state.waits.values()
        if not wait.call_id and wait.rules.suspends
    ]
    if len(set(suspended)) != len(suspended):
        yield "two waits suspend one frame, or the run"
    if state.run.answered > state.run.last_inbox_number:
        yield "it has replies to messages that it did not read"
    yield from _id_violations(state, rows)


def _id_violations(state: RunState, rows: _Rows) -> Iterator[str]:
    for kind, keys, found in (
        ("f", rows.frames, state.frames),
        ("c", rows.calls, state.calls),
    ):
        for key in keys:
            row = found[key]
            if key != row.id or not _is_allocated_id(key, kind, state.run.next_id):
                yield f"the id {key[:20]} was never allocated"
    for frame_id in rows.logs:
        log = state.logs[frame_id]
        if not 0 < log.id < state.run.next_id:
            yield f"the log id {log.id} was never allocated"


def _is_allocated_id(row_id: str, kind: str, next_id: int) -> bool:
    number = row_id[1:]
    # The length first: Python refuses to read integers of thousands of digits.
    plain = len(number) < _MAX_ID_DIGITS and number.isascii() and number.isdecimal()
    return row_id[:1] == kind and plain and int(number) < next_id


def _wait_violations(state: RunState, wait: Wait) -> Iterator[str]:
    if wait.subject not in wait.rules.subjects:
        yield f"wait {wait.id} has kind {wait.kind}, which does not fit its subject"
    elif wait.subject == "call":
        yield from _call_wait_violations(state, wait)
    elif wait.subject == "frame":
        frame = state.frames.get(wait.frame_id)
        if frame is None or (frame.open_call_ids and not frame.step):
            yield f"wait {wait.id} belongs to no frame whose model may be asked"
        elif not (wait.rules.suspends or frame.step):
            yield f"wait {wait.id} belongs to no workflow"
    if wait.run_id != state.run.id:
        yield f"wait {wait.id} belongs to another run"


def _call_wait_violations(state: RunState, wait: Wait) -> Iterator[str]:
    call = state.calls.get(wait.call_id)
    if call is None or open_wait_id(call.state) != wait.id:
        yield f"wait {wait.id} belongs to no waiting call"
    elif type(call.state) is not STATE_TYPES[wait.rules.call_state]:
        yield f"wait {wait.id} has kind {wait.kind}, which does not fit its call"


def _frame_violations(state: RunState, frame: FrameRow) -> Iterator[str]:
    if len(set(frame.open_call_ids)) != len(frame.open_call_ids):
        yield f"frame {frame.id} lists a call twice"
    for call_id in frame.open_call_ids:
        call = state.calls.get(call_id)
        if call is None or call.frame_id != frame.id:
            listed = call_id[:60]
            yield f"frame {frame.id} lists call {listed}, which is not its own"
    pending = frame.pending_reply
    if pending is not None and (frame.open_call_ids or not pending):
        yield f"frame {frame.id} cannot have a pending reply"
    if frame.id == ROOT_FRAME_ID:
        if frame.depth:
            yield "the depth of the root frame is not 0"
        return
    parent = state.calls.get(frame.parent_call_id or "")
    if parent is None or parent.frame_id not in state.frames:
        yield f"frame {frame.id} has no parent call"
        return
    # Depth grows by one from parent to child, so there can be no cycle.
    if frame.depth != state.frames[parent.frame_id].depth + 1:
        yield f"frame {frame.id} has the wrong depth"
    nested = isinstance(parent.state, Nested) and parent.state.frame_id == frame.id
    if not nested and not state.run.has_ended:
        yield f"frame {frame.id} is not the frame of its parent call"


def _history_violations(state: RunState, frame: FrameRow) -> Iterator[str]:
    if not frame.step:
        return
    from continuations.core.rows import workflow_history  # noqa: PLC0415 - few runs have a workflow

    log = state.logs[frame.id]
    if frame.step == "new" and len(log.messages) > 1:
        yield f"frame {frame.id}: a workflow that never ran has a history"
    is_open = not state.run.has_ended
    calls = frame.open_call_ids if is_open else ()
    try:
        violation = workflow_history.find_violation(log.entries, calls)
    except workflow_history.InvalidEntry as error:
        violation = str(error)
    if violation is not None:
        yield f"frame {frame.id}: {violation}"


def _held_reply_violations(state: RunState, frame: FrameRow) -> Iterator[str]:
    wait = state.suspending.get(frame.id)
    if frame.held_reply is None and (wait is None or wait.rules.judges != "output"):
        return
    from continuations.core.changes import judged_texts  # noqa: PLC0415 - rarely needed

    violation = judged_texts.violation(frame, wait)
    if violation is not None:
        yield violation


def _call_violations(state: RunState, call: CallRow) -> Iterator[str]:
    frame = state.frames.get(call.frame_id)
    if frame is None or call.id not in frame.open_call_ids:
        yield f"call {call.id} is not an open call of its frame"
    if isinstance(call.state, Nested):
        child = state.frames.get(call.state.frame_id)
        if child is None or child.parent_call_id != call.id:
            yield f"call {call.id} refers to a frame that is not its own"
    began = call.attempts or call.stage
    if isinstance(call.state, Waiting) and (began or call.approved_digest):
        yield f"call {call.id} waits for an approval, but it began or is approved"
    wait_id = open_wait_id(call.state)
    if wait_id is not None and (
        wait_id not in state.waits or state.waits[wait_id].call_id != call.id
    ):
        yield f"call {call.id} refers to wait {wait_id}, which is not its own"
