"""A table under change: each mapping is copied once, when first written to."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, TypeVar

from continuations.core.frames import MessageLog
from continuations.core.run import ENDED_STATUSES
from continuations.core.state import RunState, is_runnable
from continuations.errors import IllegalTransition

if TYPE_CHECKING:
    from collections.abc import Mapping

    from continuations.core.calls import CallRow
    from continuations.core.frames import FrameRow
    from continuations.core.messages import Message
    from continuations.core.run import RunRow
    from continuations.core.waits import Wait

Row = TypeVar("Row")


class Draft:
    """The rows of one table, to be read and replaced, then frozen again."""

    def __init__(self, state: RunState) -> None:
        self._base = state
        self.run = state.run
        self.frames = state.frames
        self.calls = state.calls
        self.waits = state.waits
        self.logs = state.logs
        self._runnable = state.runnable

    def to_run_state(self) -> RunState:
        """Return the changed table."""
        return RunState(
            run=self.run,
            manifest=self._base.manifest,
            frames=self.frames,
            calls=self.calls,
            waits=self.waits,
            logs=self.logs,
            runnable={} if self.run.status in ENDED_STATUSES else self._runnable,
        )

    def allocate_id(self, kind: str) -> str:
        """Return an id that no row of this run ever had."""
        number = self.run.next_id
        self.run = replace(self.run, next_id=number + 1)
        return f"{kind}{number}"

    def put_run(self, row: RunRow) -> None:
        """Replace the row of the run."""
        self.run = row

    def frame(self, frame_id: str) -> FrameRow:
        """Return a frame."""
        return _require_row(self.frames, frame_id)

    def put_frame(self, row: FrameRow) -> None:
        """Add or replace a frame."""
        self.frames = _put_row(self.frames, self._base.frames, row.id, row)
        self._set_runnable(row.id, runnable=not row.open_call_ids)

    def drop_frame(self, frame_id: str) -> None:
        """Forget a frame that has ended, and its messages."""
        self.frames = _remove_row(self.frames, self._base.frames, frame_id)
        self.logs = _remove_row(self.logs, self._base.logs, frame_id)
        self._set_runnable(frame_id, runnable=False)

    def call(self, call_id: str) -> CallRow:
        """Return a call."""
        return _require_row(self.calls, call_id)

    def put_call(self, row: CallRow) -> None:
        """Add or replace a call."""
        self.calls = _put_row(self.calls, self._base.calls, row.id, row)
        self._set_runnable(row.id, runnable=is_runnable(row))

    def drop_call(self, call_id: str) -> None:
        """Forget a call whose result stands in the transcript."""
        self.calls = _remove_row(self.calls, self._base.calls, call_id)
        self._set_runnable(call_id, runnable=False)

    def put_wait(self, row: Wait) -> None:
        """Add a wait."""
        self.waits = _put_row(self.waits, self._base.waits, row.id, row)

    def drop_wait(self, wait_id: str) -> None:
        """Forget a wait that is over."""
        self.waits = _remove_row(self.waits, self._base.waits, wait_id)

    def log(self, frame_id: str) -> MessageLog:
        """Return the messages of a frame."""
        return self.logs[frame_id]

    def start_log(self, frame_id: str, messages: tuple[Message, ...]) -> None:
        """Begin a frame's log, or begin it anew with other messages."""
        number = self.run.next_id
        self.run = replace(self.run, next_id=number + 1)
        log = MessageLog(number, messages)
        self.logs = _put_row(self.logs, self._base.logs, frame_id, log)

    def append(self, frame_id: str, *messages: Message) -> None:
        """Add messages to the end of a frame's log."""
        log = self.logs[frame_id].appended(*messages)
        self.logs = _put_row(self.logs, self._base.logs, frame_id, log)

    def _set_runnable(self, row_id: str, *, runnable: bool) -> None:
        listed = row_id in self._runnable
        if runnable and not listed:
            self._runnable = _put_row(self._runnable, self._base.runnable, row_id, None)
        elif listed and not runnable:
            self._runnable = _remove_row(self._runnable, self._base.runnable, row_id)


def _require_row(rows: Mapping[str, Row], row_id: str) -> Row:
    row = rows.get(row_id)
    if row is None:
        msg = f"{row_id} is not there (any more); what came for it is too late"
        raise IllegalTransition(msg)
    return row


def _put_row(
    rows: Mapping[str, Row], shared: Mapping[str, Row], key: str, row: Row
) -> Mapping[str, Row]:
    changed = dict(rows) if rows is shared else rows
    assert isinstance(changed, dict)  # noqa: S101 - for the type checkers
    changed[key] = row
    return changed


def _remove_row(
    rows: Mapping[str, Row], shared: Mapping[str, Row], key: str
) -> Mapping[str, Row]:
    changed = dict(rows) if rows is shared else rows
    assert isinstance(changed, dict)  # noqa: S101 - for the type checkers
    changed.pop(key, None)
    return changed
