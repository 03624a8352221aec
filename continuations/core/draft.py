"""A table under change: each mapping is copied once, when first written to."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, TypeVar

from continuations.core.frames import Log
from continuations.core.run import ENDED
from continuations.core.table import Table, can_move
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

    def __init__(self, table: Table) -> None:
        self._from = table
        self.run = table.run
        self.frames = table.frames
        self.calls = table.calls
        self.waits = table.waits
        self.logs = table.logs
        self._agenda = table.agenda

    def table(self) -> Table:
        """Return the changed table."""
        return Table(
            run=self.run,
            manifest=self._from.manifest,
            frames=self.frames,
            calls=self.calls,
            waits=self.waits,
            logs=self.logs,
            agenda={} if self.run.status in ENDED else self._agenda,
        )

    def new_id(self, kind: str) -> str:
        """Return an id that no row of this run ever had."""
        number = self.run.next_id
        self.run = replace(self.run, next_id=number + 1)
        return f"{kind}{number}"

    def put_run(self, row: RunRow) -> None:
        """Replace the row of the run."""
        self.run = row

    def frame(self, frame_id: str) -> FrameRow:
        """Return a frame."""
        return _found(self.frames, frame_id)

    def put_frame(self, row: FrameRow) -> None:
        """Add or replace a frame."""
        self.frames = _with(self.frames, self._from.frames, row.id, row)
        self._move(row.id, can=not row.open)

    def drop_frame(self, frame_id: str) -> None:
        """Forget a frame that has ended, and its messages."""
        self.frames = _without(self.frames, self._from.frames, frame_id)
        self.logs = _without(self.logs, self._from.logs, frame_id)
        self._move(frame_id, can=False)

    def call(self, call_id: str) -> CallRow:
        """Return a call."""
        return _found(self.calls, call_id)

    def put_call(self, row: CallRow) -> None:
        """Add or replace a call."""
        self.calls = _with(self.calls, self._from.calls, row.id, row)
        self._move(row.id, can=can_move(row))

    def drop_call(self, call_id: str) -> None:
        """Forget a call whose result stands in the transcript."""
        self.calls = _without(self.calls, self._from.calls, call_id)
        self._move(call_id, can=False)

    def put_wait(self, row: Wait) -> None:
        """Add a wait."""
        self.waits = _with(self.waits, self._from.waits, row.id, row)

    def drop_wait(self, wait_id: str) -> None:
        """Forget a wait that is over."""
        self.waits = _without(self.waits, self._from.waits, wait_id)

    def log(self, frame_id: str) -> Log:
        """Return the messages of a frame."""
        return self.logs[frame_id]

    def new_log(self, frame_id: str, messages: tuple[Message, ...]) -> None:
        """Begin a frame's log, or begin it anew with other messages."""
        number = self.run.next_id
        self.run = replace(self.run, next_id=number + 1)
        log = Log(number, messages)
        self.logs = _with(self.logs, self._from.logs, frame_id, log)

    def append(self, frame_id: str, *messages: Message) -> None:
        """Add messages to the end of a frame's log."""
        log = self.logs[frame_id].appended(*messages)
        self.logs = _with(self.logs, self._from.logs, frame_id, log)

    def _move(self, row_id: str, *, can: bool) -> None:
        listed = row_id in self._agenda
        if can and not listed:
            self._agenda = _with(self._agenda, self._from.agenda, row_id, None)
        elif listed and not can:
            self._agenda = _without(self._agenda, self._from.agenda, row_id)


def _found(rows: Mapping[str, Row], row_id: str) -> Row:
    row = rows.get(row_id)
    if row is None:
        msg = f"{row_id} is not there (any more); what came for it is too late"
        raise IllegalTransition(msg)
    return row


def _with(
    rows: Mapping[str, Row], original: Mapping[str, Row], key: str, row: Row
) -> Mapping[str, Row]:
    changed = dict(rows) if rows is original else rows
    assert isinstance(changed, dict)  # noqa: S101 - for the type checkers
    changed[key] = row
    return changed


def _without(
    rows: Mapping[str, Row], original: Mapping[str, Row], key: str
) -> Mapping[str, Row]:
    changed = dict(rows) if rows is original else rows
    assert isinstance(changed, dict)  # noqa: S101 - for the type checkers
    changed.pop(key, None)
    return changed
