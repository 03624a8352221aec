"""Plan the next actions of a run, for every frame and call that can advance."""

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
    """Return every action that needs no decision, ordered by frame or call.

    An empty plan means that the run has ended or that only a decision advances it.
    """
    # Sorted by the number in the id, so that every process has the same order.
    ids = sorted(state.runnable, key=lambda row_id: int(row_id[1:]))
    return tuple(_action(state, row_id) for row_id in ids)


def _action(state: RunState, row_id: str) -> Action:
    call = state.calls.get(row_id)
    if call is None:
        return AskModel(row_id)
    return _ACTIONS[type(call.state)](row_id)
