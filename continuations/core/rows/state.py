"""The state of a run as one flat table of rows with parent ids.

Nested values break early (msgpack at 256 levels, dataclass `==` at 100), so a stack
of a thousand agents is a thousand rows, in memory as on the wire.
"""

from __future__ import annotations

from dataclasses import field
from typing import TYPE_CHECKING

from continuations.core.rows.calls import (
    Nested,
    Parked,
    Proposed,
    Ready,
    Started,
    Unknown,
    Waiting,
)
from continuations.core.rows.waits import Wait, frame_digest, known_wait_ulid
from continuations.value_class import dataclass

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from datetime import datetime

    from continuations.core.rows.calls import CallRow
    from continuations.core.rows.frames import FrameRow, MessageLog
    from continuations.core.rows.run import RunRow
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
