"""Apply requests of operators to a run while a worker works on it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from continuations.core.actions import AskModel, CheckCall, RunTool
from continuations.core.call_cancellation import open_calls_below
from continuations.core.call_events import RepeatAllowed
from continuations.core.calls import Started, Unknown
from continuations.core.operator_waits import with_operator_requests
from continuations.core.reducer import advance
from continuations.core.state import ROOT_FRAME_ID
from continuations.engine.call_checks import is_possible
from continuations.value_class import dataclass

if TYPE_CHECKING:
    from collections.abc import Iterable

    from continuations.core.actions import Action
    from continuations.core.operator_request import OperatorRequest
    from continuations.core.state import RunState
    from continuations.engine.action_tasks import ActionTasks
    from continuations.engine.journal_protocol import Journal


@dataclass(frozen=True, slots=True)
class OperatorEffects:
    """Applies requests of operators to a run with actions in progress."""

    actions: ActionTasks
    journal: Journal

    async def apply(
        self, state: RunState, requests: tuple[OperatorRequest, ...]
    ) -> RunState:
        """Return the run after requests.

        A tool that was called returns, and a model that was asked replies, unless its
        frame has ended. The waits of cancelled calls are closed before this returns, so
        before the version without them.

        If a job with `on_cancel` is cancelled, no request is taken in. Then the caller
        begins nothing more, and the cancelled calls that have not begun are ready.
        """
        if all(each.number <= state.run.last_operator_number for each in requests):
            return state
        not_begun = self._not_begun(state, requests)
        after = with_operator_requests(state, requests, not_begun)
        ended = [wait for key, wait in state.waits.items() if key not in after.waits]
        if any(wait.cancels for wait in ended):
            # `on_cancel` would hold up the renewal of the claim. It is called when the
            # loop has ended: an open call keeps the run from its end.
            after = _with_starts_taken_back(state, not_begun)
        else:
            await self.journal.close_cancelled_waits(state, ended, requests)
        await self.actions.drop(
            [each for each in self.actions if _is_void(after, each)]
        )
        return after

    def _not_begun(
        self, state: RunState, requests: tuple[OperatorRequest, ...]
    ) -> frozenset[str]:
        """Return the started calls, below a cancelled one, that begin no more."""
        cancelled = [each.call_id for each in requests if each.call_id is not None]
        if any(_ends_turn(state, each) for each in requests):
            cancelled += state.frames[ROOT_FRAME_ID].open_call_ids
        below = {
            call_id for each in cancelled for call_id in open_calls_below(state, each)
        }
        return frozenset(
            call_id
            for call_id in below
            if isinstance(state.calls[call_id].state, Started)
            and not self.actions.has_begun_or_closes(RunTool(call_id))
        )


def _ends_turn(state: RunState, request: OperatorRequest) -> bool:
    if not request.message_number:
        return False
    from continuations.core import thread_requests  # noqa: PLC0415 - for threads

    return thread_requests.ends_turn(state, request)


def _with_starts_taken_back(state: RunState, call_ids: Iterable[str]) -> RunState:
    for call_id in sorted(call_ids):
        state = advance(state, RepeatAllowed(call_id=call_id, never_began=True))
    return state


def _is_void(state: RunState, action: Action) -> bool:
    """Return whether an action in progress has no frame or call any more."""
    if isinstance(action, AskModel):
        return action.frame_id not in state.frames or (
            action.frame_id == ROOT_FRAME_ID and state.run.holds_root
        )
    if isinstance(action, CheckCall):
        return not is_possible(state, action)
    call = state.calls.get(action.call_id)
    return call is None or not isinstance(call.state, Started | Unknown)
