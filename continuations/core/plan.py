"""Plan the next actions of a run, for every frame and call that can advance."""

from __future__ import annotations

from typing import TYPE_CHECKING

from continuations.core.actions import (
    Action,
    AskModel,
    ExamineCall,
    RecordStart,
    RunTool,
    VerifyOutcome,
)
from continuations.core.calls import Proposed, Ready, Started, Unknown

if TYPE_CHECKING:
    from continuations.core.calls import CallRow
    from continuations.core.state import RunState

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
    actions: list[Action] = [
        AskModel(row_id) if call is None else _ACTIONS[type(call.state)](row_id)
        for row_id in ids
        if (call := state.calls.get(row_id)) is None
        or not (call.patch is not None and _is_held(state, call))
    ]
    return tuple(actions)


def _is_held(state: RunState, call: CallRow) -> bool:
    from continuations.core import frame_state  # noqa: PLC0415 - few tools write a state

    return frame_state.is_held(call, state.frames[call.frame_id], state.calls)
