"""Plan the next actions of a run, for every frame and call that can advance."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias, final

from continuations.core.rows.calls import (
    CLOSED_STATES,
    Nested,
    Parked,
    Proposed,
    Ready,
    Started,
    Unknown,
    Waiting,
)
from continuations.value_class import dataclass

if TYPE_CHECKING:
    from continuations.core.rows.calls import CallRow
    from continuations.core.rows.state import RunState


@dataclass(frozen=True, slots=True)
class AskModel:
    """Ask the frame's model for its next reply."""

    frame_id: str


@dataclass(frozen=True, slots=True)
class ExamineCall:
    """Find the call's tool, validate its arguments, ask its approval policy."""

    call_id: str


@dataclass(frozen=True, slots=True)
class RecordStart:
    """Record that the call starts, or open the frame of the agent that it calls.

    `RunTool` runs the tool, after this record is committed.
    """

    call_id: str


@dataclass(frozen=True, slots=True)
class RunTool:
    """Run the tool of a call whose start is recorded."""

    call_id: str


@dataclass(frozen=True, slots=True)
class VerifyOutcome:
    """Ask the tool's `verify` function whether a call of unknown outcome happened."""

    call_id: str


@dataclass(frozen=True, slots=True)
class StepWorkflow:
    """Run the code of a workflow until it can go on no more."""

    frame_id: str


@dataclass(frozen=True, slots=True)
class CancelCall:
    """End a call that is marked as cancelled, once the mark is committed."""

    call_id: str


@final
@dataclass(frozen=True, slots=True)
class CheckCall:
    """Let agents that are guardrails check a call; no plan has this action.

    It comes before `ExamineCall`, or with `before_start` before `RecordStart`.
    """

    frame_id: str
    call_id: str
    before_start: bool = False


Action: TypeAlias = (
    AskModel
    | ExamineCall
    | RecordStart
    | RunTool
    | VerifyOutcome
    | StepWorkflow
    | CancelCall
    | CheckCall
)
# The actions that have a task of their own.
Launched: TypeAlias = AskModel | RunTool | VerifyOutcome | CheckCall
# The actions that request replies of models.
REQUESTS = (AskModel, CheckCall)


# A call is `Started` when its start is recorded; only then does its tool run. A call of
# an unknown outcome is runnable only if its tool can verify it.
_ACTIONS: dict[
    type[object], type[ExamineCall | RecordStart | RunTool | VerifyOutcome]
] = {
    Proposed: ExamineCall,
    Ready: RecordStart,
    Started: RunTool,
    Unknown: VerifyOutcome,
}


def plan(state: RunState) -> tuple[Action, ...]:
    """Return every action that needs no decision.

    The order is that of the numbers in the ids of the frames and calls. Calls of a turn
    that write the state of their agent begin one after another. An empty plan means
    that the run has ended, or that a wait must end before it can advance.
    """
    if state.is_suspended:
        return ()
    ids = [*state.runnable]
    if len(ids) > 1:
        # Every process must plan in the same order.
        ids.sort(key=lambda row_id: int(row_id[1:]))
    actions: list[Action] = []
    for row_id in ids:
        call = state.calls.get(row_id)
        if call is None:
            if not state.frames[row_id].step:
                actions.append(AskModel(row_id))
            elif not _is_cancelled(state, row_id):
                actions.append(StepWorkflow(row_id))
        elif call.cancelled is not None:
            if _can_be_cancelled(state, call):
                actions.append(CancelCall(row_id))
        elif call.patch is None or not _is_held(state, call):
            actions.append(_ACTIONS[type(call.state)](row_id))
    return tuple(actions)


def _is_cancelled(state: RunState, frame_id: str) -> bool:
    """Return whether the call of a workflow was cancelled: its code runs no more."""
    call = state.calls.get(state.frames[frame_id].parent_call_id or "")
    return call is not None and call.cancelled is not None


def _can_be_cancelled(state: RunState, call: CallRow) -> bool:
    """Return whether a marked call can end: a call that runs, runs to its end."""
    if isinstance(call.state, Proposed | Waiting | Ready | Parked):
        return True
    if not isinstance(call.state, Nested) or not state.frames[call.frame_id].step:
        return False
    frames = [state.frames[call.state.frame_id]]
    for frame in frames:  # grows while it is read
        below = [state.calls[each] for each in frame.open_call_ids]
        if all(isinstance(each.state, CLOSED_STATES) for each in below) or any(
            isinstance(each.state, Proposed | Waiting | Ready | Parked | Unknown)
            for each in below
        ):
            return True
        nested = (each.state for each in below if isinstance(each.state, Nested))
        frames += [state.frames[each.frame_id] for each in nested]
    return False


def _is_held(state: RunState, call: CallRow) -> bool:
    from continuations.core.rows import frames  # noqa: PLC0415 - few tools write a state

    return frames.is_held_back(call, state.frames[call.frame_id], state.calls)
