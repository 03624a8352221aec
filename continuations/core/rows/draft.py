"""A mutable copy of a run's state, used while one event is applied."""

from __future__ import annotations

from typing import TYPE_CHECKING, Generic, TypeVar

from continuations.core.rows.frames import FrameRow, MessageLog
from continuations.core.rows.state import RunState, asks_model, is_runnable
from continuations.errors import IllegalTransition
from continuations.value_class import replace

if TYPE_CHECKING:
    from collections.abc import Mapping

    from continuations.core.messages import Message
    from continuations.core.rows.calls import CallRow
    from continuations.core.rows.run import RunRow, Trip
    from continuations.core.rows.waits import Wait


Row = TypeVar("Row")


class _CopyOnWrite(Generic[Row]):
    """A mapping of rows by id that is copied before its first change.

    A `RunState` never changes, and a delta finds unchanged mappings by identity.
    So a mapping that no event changes stays the same object.
    """

    __slots__ = ("_copy", "rows")

    def __init__(self, rows: Mapping[str, Row]) -> None:
        self.rows = rows
        self._copy: dict[str, Row] | None = None

    def put(self, row_id: str, row: Row) -> None:
        self._writable()[row_id] = row

    def remove(self, row_id: str) -> None:
        """Remove a row; a missing row is no error."""
        self._writable().pop(row_id, None)

    def share(self) -> Mapping[str, Row]:
        """Return the rows; the next change makes a new copy."""
        self._copy = None
        return self.rows

    def _writable(self) -> dict[str, Row]:
        if self._copy is None:
            self.rows = self._copy = dict(self.rows)
        return self._copy


class Draft:
    """The rows of a state, to be read and replaced until `to_run_state`."""

    __slots__ = (
        "_calls",
        "_frames",
        "_logs",
        "_manifest",
        "_runnable",
        "_suspending",
        "_waits",
        "run",
    )

    def __init__(self, state: RunState) -> None:
        self.run = state.run
        self._manifest = state.manifest
        self._frames = _CopyOnWrite(state.frames)
        self._calls = _CopyOnWrite(state.calls)
        self._waits = _CopyOnWrite(state.waits)
        self._logs = _CopyOnWrite(state.logs)
        self._runnable = _CopyOnWrite(state.runnable)
        self._suspending = _CopyOnWrite(state.suspending)

    def to_run_state(self) -> RunState:
        """Return the changed state; later changes of the draft do not reach it."""
        ended = self.run.has_ended
        return RunState(
            run=self.run,
            manifest=self._manifest,
            frames=self._frames.share(),
            calls=self._calls.share(),
            waits=self._waits.share(),
            logs=self._logs.share(),
            runnable={} if ended else self._runnable.share(),
            suspending=self._suspending.share(),
        )

    @property
    def frames(self) -> Mapping[str, FrameRow]:
        """The frames by id."""
        return self._frames.rows

    @property
    def calls(self) -> Mapping[str, CallRow]:
        """The calls by id."""
        return self._calls.rows

    @property
    def waits(self) -> Mapping[str, Wait]:
        """The open waits by id."""
        return self._waits.rows

    def allocate_id(self, kind: str) -> str:
        """Return an id that no row of this run has or ever had."""
        number = self.run.next_id
        self.run = replace(self.run, next_id=number + 1)
        return f"{kind}{number}"

    def put_run(self, row: RunRow) -> None:
        """Replace the row of the run."""
        self.run = row

    def frame(self, frame_id: str) -> FrameRow:
        """Return a frame; raises `IllegalTransition` if it is missing."""
        return _require_row(self._frames.rows, frame_id)

    def put_frame(self, row: FrameRow) -> None:
        """Add or replace a frame."""
        self._frames.put(row.id, row)
        runnable = asks_model(row, self.run, self._suspending.rows)
        self._set_runnable(row.id, runnable=runnable)

    def drop_frame(self, frame_id: str) -> None:
        """Remove a frame that has ended, its messages and its wait."""
        for wait in self.waits_of_frame(frame_id):
            self.drop_wait(wait.id)
        self._frames.remove(frame_id)
        self._logs.remove(frame_id)
        self._set_runnable(frame_id, runnable=False)

    def call(self, call_id: str) -> CallRow:
        """Return a call; raises `IllegalTransition` if it is missing."""
        return _require_row(self._calls.rows, call_id)

    def put_call(self, row: CallRow) -> None:
        """Add or replace a call."""
        self._calls.put(row.id, row)
        self._set_runnable(row.id, runnable=is_runnable(row))

    def drop_call(self, call_id: str) -> None:
        """Remove a call whose result is in the transcript."""
        self._calls.remove(call_id)
        self._set_runnable(call_id, runnable=False)

    def put_wait(self, row: Wait) -> None:
        """Add a wait, which suspends its frame or the run if it belongs to no call."""
        self._waits.put(row.id, row)
        if not row.call_id and row.rules.suspends:
            self._suspending.put(row.frame_id, row)
            self._set_runnable(row.frame_id, runnable=False)

    def drop_wait(self, wait_id: str) -> None:
        """Remove a wait that has ended."""
        row = self._waits.rows.get(wait_id)
        self._waits.remove(wait_id)
        if row is None or row.call_id or not row.rules.suspends:
            return
        self._suspending.remove(row.frame_id)
        if row.frame_id:
            frame = self.frame(row.frame_id)
            if frame.held_reply is not None:  # no person can accept it now
                frame = replace(frame, held_reply=None)
            self.put_frame(frame)

    def waits_of_frame(self, frame_id: str) -> list[Wait]:
        """Return the waits whose subject is a frame."""
        return [each for each in self.waits.values() if each.frame_id == frame_id]

    @property
    def suspending(self) -> Mapping[str, Wait]:
        """The waits of frames and of the run, by the frame's id or the empty text."""
        return self._suspending.rows

    @property
    def logs(self) -> Mapping[str, MessageLog]:
        """The messages by frame id."""
        return self._logs.rows

    def log(self, frame_id: str) -> MessageLog:
        """Return the messages of a frame."""
        return self._logs.rows[frame_id]

    def start_log(self, frame_id: str, messages: tuple[Message, ...]) -> None:
        """Start a frame's log, or replace it by a log with a new id."""
        number = self.run.next_id
        self.run = replace(self.run, next_id=number + 1)
        self.put_log(frame_id, MessageLog(number, messages))

    def append(self, frame_id: str, *messages: Message) -> None:
        """Add messages to the end of a frame's log."""
        self.put_log(frame_id, self.log(frame_id).appended(*messages))

    def put_log(self, frame_id: str, log: MessageLog) -> None:
        """Add or replace the log of a frame."""
        self._logs.put(frame_id, log)

    def _set_runnable(self, row_id: str, *, runnable: bool) -> None:
        listed = row_id in self._runnable.rows
        if runnable and not listed:
            self._runnable.put(row_id, None)
        elif listed and not runnable:
            self._runnable.remove(row_id)


def _require_row(rows: Mapping[str, Row], row_id: str) -> Row:
    row = rows.get(row_id)
    if row is None:
        raise IllegalTransition(
            f"an event came too late: {row_id} is not in the state of the run. "
            "This is a bug in continuations: report it with this message."
        )
    return row


def record_trip(draft: Draft, trip: Trip) -> None:
    """Give a trip an id of its own, and add it to its frame."""
    frame = draft.frame(trip.frame_id)
    kept = replace(trip, id=draft.allocate_id("g"))
    draft.put_frame(replace(frame, trips=(*frame.trips, kept)))


def trips_between(before: RunState | None, after: RunState) -> list[Trip]:
    """Return the trips that one version added, in their order."""
    old = {trip.id for trip in _trips(before)} if before is not None else set[str]()
    new = {trip.id: trip for trip in _trips(after) if trip.id not in old}
    return sorted(new.values(), key=lambda trip: int(trip.id[1:]))


def _trips(state: RunState) -> list[Trip]:
    return [trip for frame in state.frames.values() for trip in frame.trips]
