"""What can be done next, for every frame and call that can move by itself."""

from __future__ import annotations

from typing import TYPE_CHECKING

from continuations.core.actions import (
    Action,
    AskModel,
    ExamineCall,
    RunTool,
    StartCall,
    VerifyOutcome,
)
from continuations.core.calls import Proposed, Ready, Started, Unknown

if TYPE_CHECKING:
    from continuations.core.state import RunState

_ACTIONS: dict[
    type[object], type[ExamineCall | StartCall | RunTool | VerifyOutcome]
] = {
    Proposed: ExamineCall,
    Ready: StartCall,
    Started: RunTool,
    Unknown: VerifyOutcome,
}


def plan(state: RunState) -> tuple[Action, ...]:
    """Return every action that needs no decision, in the order of their ids.

    Empty means: the run has ended, or only a decision can move it.
    """
    # By the number in the id: the same order in every process.
    ids = sorted(state.runnable, key=lambda row_id: int(row_id[1:]))
    return tuple(_action(state, row_id) for row_id in ids)


def _action(state: RunState, row_id: str) -> Action:
    call = state.calls.get(row_id)
    if call is None:
        return AskModel(row_id)
    return _ACTIONS[type(call.state)](row_id)
