"""The state of a run as one flat table of rows with parent ids.

Nested values break early (msgpack at 256 levels, dataclass `==` at 100), so a stack
of a thousand agents is a thousand rows, in memory as on the wire. While one event is
applied, a state has a mutable copy, a `Draft`.
"""

from __future__ import annotations

from dataclasses import field
from typing import TYPE_CHECKING, Generic, TypeVar

from continuations.core.rows.calls import (
    Nested,
    Parked,
    Proposed,
    Ready,
    Started,
    Unknown,
    Waiting,
)
from continuations.core.rows.frames import FrameRow, MessageLog
from continuations.core.rows.waits import Wait, frame_digest, known_wait_ulid
from continuations.errors import IllegalTransition
from continuations.value_class import dataclass, replace

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from datetime import datetime

    from continuations.core.messages import Message
    from continuations.core.rows.calls import CallRow
    from continuations.core.rows.run import RunRow, Trip
    from continuations.core.rows.wait_rules import WaitKind


ROOT_FRAME_ID = "f1"


@dataclass(frozen=True, slots=True, kw_only=True)
class RunState:
    """The state of a run at one version; a change makes a new value.

    Attributes:
        run: Row of the run.
        manifest: JSON text that describes the code that the run uses.
        frames: Frames by id.
        calls: Calls of the current turn of each frame, by id.
        waits: Open waits by id.
        logs: Messages by frame id.
        runnable: Ids of the frames and calls that can advance without a decision. They
            follow from the rows and are not stored. While a wait suspends the run, none
            of them begins anything. A call that writes a state may have to wait for
            earlier calls of its turn; `plan` leaves it out.
        suspending: The waits of frames and of the run by the frame's id, or by the
            empty text. They follow from `waits`.
    """

    run: RunRow
    manifest: str
    frames: Mapping[str, FrameRow]
    calls: Mapping[str, CallRow]
    waits: Mapping[str, Wait]
    logs: Mapping[str, MessageLog]
    runnable: Mapping[str, None] = field(compare=False)
    suspending: Mapping[str, Wait] = field(compare=False)

    def read_messages(self, known: RunState | None = None) -> None:
        """Read and check all messages; raises `FormatError` if one is invalid.

        Call it before anything is done because of a stored state: a log reads its
        messages when they are first needed. The messages of `known` are left out.
        """
        for frame_id, log in self.logs.items():
            before = known.logs.get(frame_id) if known else None
            if before is not log:
                log.read_messages(before)

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
        """Build a state, and find out which rows are runnable."""
        runnable: dict[str, None] = {}
        suspending = {
            row.frame_id: row
            for row in waits.values()
            if not row.call_id and row.rules.suspends
        }
        if not run.has_ended:
            frame_ids = [
                row.id for row in frames.values() if asks_model(row, run, suspending)
            ]
            call_ids = [row.id for row in calls.values() if is_runnable(row)]
            runnable = dict.fromkeys([*frame_ids, *call_ids])
        return cls(
            run=run,
            manifest=manifest,
            frames=frames,
            calls=calls,
            waits=waits,
            logs=logs,
            runnable=runnable,
            suspending=suspending,
        )

    def with_rows(
        self,
        *,
        run: RunRow | None = None,
        frames: Mapping[str, FrameRow] | None = None,
        calls: Mapping[str, CallRow] | None = None,
        waits: Mapping[str, Wait] | None = None,
        logs: Mapping[str, MessageLog] | None = None,
    ) -> RunState:
        """Build the state with other rows; those that are `None` stay."""
        return self.from_rows(
            run=self.run if run is None else run,
            manifest=self.manifest,
            frames=self.frames if frames is None else frames,
            calls=self.calls if calls is None else calls,
            waits=self.waits if waits is None else waits,
            logs=self.logs if logs is None else logs,
        )

    def waits_gone_in(self, after: RunState) -> list[Wait]:
        """Return the open waits that a later state does not have."""
        return [wait for key, wait in self.waits.items() if key not in after.waits]

    @property
    def is_suspended(self) -> bool:
        """Whether a wait suspends the whole run, so that nothing begins."""
        return "" in self.suspending


def asks_model(row: FrameRow, run: RunRow, suspending: Mapping[str, Wait]) -> bool:
    """Tell whether the model of a frame is to be asked, or the code of a workflow."""
    if row.step:
        return row.step in RUNNABLE_STEPS and row.id not in suspending
    if row.open_call_ids or row.id in suspending:
        return False
    # Only the root of a thread is held; for a run there is no further look.
    is_root_of_thread = run.thread_key is not None and row.id == ROOT_FRAME_ID
    return not (is_root_of_thread and run.holds_root)


# The steps of a workflow whose code can go on.
RUNNABLE_STEPS = ("new", "due")
# The states of a call that is marked as cancelled, and that can still end.
_CANCELLABLE = (Proposed, Waiting, Ready, Parked, Nested)


def is_runnable(row: CallRow) -> bool:
    """Tell whether a call can advance without a decision."""
    if row.cancelled is not None and isinstance(row.state, _CANCELLABLE):
        return True
    match row.state:
        case Proposed() | Ready() | Started():
            return True
        case Unknown(verify_tried=verify_tried):
            return row.verifiable and not verify_tried
        case _:
            return False


def frame_path(state: RunState, frame_id: str) -> tuple[str, ...]:
    """Return the root agent's name and the tools of the calls down to a frame.

    An agent that got the conversation of a sub-agent follows the tool of the sub-agent.
    """
    names: list[str] = []
    frame = state.frames[frame_id]
    while frame.parent_call_id is not None:
        call = state.calls[frame.parent_call_id]
        # A grant for the agent before it must not cover its calls.
        names += [frame.agent] if frame.began_as else []
        names.append(call.tool)
        frame = state.frames[call.frame_id]
    names.append(frame.agent)
    return tuple(reversed(names))


def call_path(state: RunState, call: CallRow) -> tuple[str, ...]:
    """Return the names from the root agent down to the tool of a call."""
    return (*frame_path(state, call.frame_id), call.tool)


def frame_wait(
    state: RunState, kind: WaitKind, wait_id: str, now: datetime, frame_id: str = ""
) -> Wait:
    """Return a new wait of a frame, or of the run; the caller adds what it is about."""
    shown_id = frame_id or ROOT_FRAME_ID
    return Wait(
        id=wait_id,
        run_id=state.run.id,
        frame_id=frame_id,
        kind=kind,
        path=frame_path(state, shown_id),
        tool=state.frames[shown_id].agent,
        arguments_json="{}",
        schema_json="{}",
        digest=frame_digest(
            run_nonce=state.run.run_nonce, wait_id=wait_id, frame_id=frame_id
        ),
        created_at=now,
    )


def early_wait_ulids(state: RunState) -> Mapping[str, CallRow]:
    """Return the calls whose tool may have begun, by the ULID of the wait of each.

    Another system can answer such a wait before the tool has returned. It can also
    answer after the worker of the tool died: the answer then tells the outcome.
    """
    return {
        known_wait_ulid(state.run, call): call
        for call in state.calls.values()
        if _may_be_answered_early(state, call)
    }


def _may_be_answered_early(state: RunState, call: CallRow) -> bool:
    # After a loss of versions, an answer may belong to a stage that was lost.
    is_unknown = isinstance(call.state, Unknown) and not state.run.history_lost
    return is_unknown or isinstance(call.state, Started)


def shown_arguments(row: CallRow) -> str | None:
    """Return the arguments of a call with secret values masked."""
    if row.arguments is None or not row.secrets:
        return row.arguments
    from continuations.core.words.secret_arguments import masked_json  # noqa: PLC0415 - few tools have secrets

    return masked_json(row.arguments, row.secrets)


def by_frame(rows: Iterable[CallRow]) -> dict[str, list[CallRow]]:
    """Return calls by the ids of their frames."""
    found: dict[str, list[CallRow]] = {}
    for row in rows:
        found.setdefault(row.frame_id, []).append(row)
    return found


def by_depth(rows: Iterable[FrameRow]) -> list[FrameRow]:
    """Return frames, the highest first."""
    return sorted(rows, key=lambda row: (row.depth, int(row.id[1:])))


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
