"""The life cycle of a call: one table of (state, event) -> next state.

Only this table decides which state may follow which. A pair that is not in the table
raises `IllegalTransition`. So no event leads out of `Refused`, and only `Ready` leads
to `Started`. The diagram in docs/how-it-works.md is drawn from this table.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from continuations.core.changes import events
from continuations.core.rows.calls import (
    STATE_NAMES,
    Errored,
    Nested,
    Parked,
    Proposed,
    Ready,
    Refused,
    Returned,
    Started,
    Unknown,
    Waiting,
)
from continuations.errors import IllegalTransition

if TYPE_CHECKING:
    from continuations.core.rows.calls import CallState

TRANSITIONS: dict[tuple[type[CallState], type[events.CallEvent]], type[CallState]] = {
    # The call is examined.
    (Proposed, events.CallAccepted): Ready,
    (Proposed, events.ApprovalRequested): Waiting,
    (Proposed, events.CallInvalid): Errored,
    (Proposed, events.Denied): Refused,
    # The call waits for an approval.
    (Waiting, events.Approved): Ready,
    (Waiting, events.Answered): Returned,
    (Waiting, events.Denied): Refused,
    (Waiting, events.Expired): Refused,
    (Waiting, events.Reopened): Waiting,
    (Waiting, events.ApprovalRequested): Waiting,
    # The call is checked before it begins.
    (Ready, events.ApprovalRequested): Waiting,
    (Ready, events.Reopened): Waiting,
    (Ready, events.CallInvalid): Errored,
    (Ready, events.Denied): Refused,
    (Ready, events.OutcomeUnknown): Unknown,
    # The call runs.
    (Ready, events.CallStarted): Started,
    (Ready, events.SubAgentStarted): Nested,
    (Ready, events.HandedOver): Returned,
    (Started, events.CallReturned): Returned,
    (Started, events.CallRaised): Errored,
    (Started, events.Reopened): Waiting,
    (Nested, events.CallReturned): Returned,
    (Nested, events.CallRaised): Errored,
    # A workflow waits by itself: nothing runs before the wait.
    (Proposed, events.CallParked): Parked,
    # The tool waits. No approval leads out of this state.
    (Started, events.CallParked): Parked,
    (Parked, events.Answered): Returned,
    (Parked, events.AnswerReceived): Ready,
    (Parked, events.CallRaised): Errored,
    (Parked, events.Denied): Refused,
    (Parked, events.Expired): Refused,
    (Parked, events.Reopened): Parked,
    # The worker died during the call, or stopped before the call began.
    (Started, events.RepeatAllowed): Ready,
    (Started, events.OutcomeUnknown): Unknown,
    (Unknown, events.Unverified): Unknown,
    (Unknown, events.CallParked): Parked,
    (Unknown, events.Approved): Ready,
    (Unknown, events.Answered): Returned,
    (Unknown, events.Denied): Refused,
    (Unknown, events.Expired): Refused,
    (Unknown, events.Reopened): Unknown,
    # The run ended.
    (Proposed, events.CallCancelled): Refused,
    (Waiting, events.CallCancelled): Refused,
    (Ready, events.CallCancelled): Refused,
    (Started, events.CallCancelled): Refused,
    (Nested, events.CallCancelled): Refused,
    (Unknown, events.CallCancelled): Refused,
    (Parked, events.CallCancelled): Refused,
}


def next_state(
    call_id: str, state: CallState, event: events.CallEvent
) -> type[CallState]:
    """Return the state that follows; raises `IllegalTransition` if none does."""
    following = TRANSITIONS.get((type(state), type(event)))
    if following is None:
        why = f"call {call_id} is in the state {STATE_NAMES[type(state)]}"
        raise illegal_transition(why, event)
    return following


def illegal_transition(why: str, event: events.Event) -> IllegalTransition:
    """Return the error for an event that is not possible in the run's state."""
    return IllegalTransition(
        f"event {type(event).__name__} is not possible: {why}. The run is unchanged. "
        "This is a bug in continuations: report it with this message."
    )
