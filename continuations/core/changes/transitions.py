"""The life cycle of a call: one table of (state, event) -> next state.

Only this table decides which state may follow which. A pair that is not in the table
raises `IllegalTransition`. So no event leads out of `Refused`, and only `Ready` leads
to `Started`. The diagram in docs/how-it-works.md is drawn from this table.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from continuations.core.changes.call_events import (
    Answered,
    AnswerReceived,
    ApprovalRequested,
    Approved,
    CallAccepted,
    CallCancelled,
    CallInvalid,
    CallParked,
    CallRaised,
    CallReturned,
    CallStarted,
    Denied,
    Expired,
    HandedOver,
    OutcomeUnknown,
    Reopened,
    RepeatAllowed,
    SubAgentStarted,
    Unverified,
)
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
    from continuations.core.changes.call_events import CallEvent
    from continuations.core.changes.events import Event
    from continuations.core.rows.calls import CallState

TRANSITIONS: dict[tuple[type[CallState], type[CallEvent]], type[CallState]] = {
    # The call is examined.
    (Proposed, CallAccepted): Ready,
    (Proposed, ApprovalRequested): Waiting,
    (Proposed, CallInvalid): Errored,
    (Proposed, Denied): Refused,
    # The call waits for an approval.
    (Waiting, Approved): Ready,
    (Waiting, Answered): Returned,
    (Waiting, Denied): Refused,
    (Waiting, Expired): Refused,
    (Waiting, Reopened): Waiting,
    (Waiting, ApprovalRequested): Waiting,
    # The call is checked before it begins.
    (Ready, ApprovalRequested): Waiting,
    (Ready, Reopened): Waiting,
    (Ready, CallInvalid): Errored,
    (Ready, Denied): Refused,
    (Ready, OutcomeUnknown): Unknown,
    # The call runs.
    (Ready, CallStarted): Started,
    (Ready, SubAgentStarted): Nested,
    (Ready, HandedOver): Returned,
    (Started, CallReturned): Returned,
    (Started, CallRaised): Errored,
    (Started, Reopened): Waiting,
    (Nested, CallReturned): Returned,
    (Nested, CallRaised): Errored,
    # A workflow waits by itself: nothing runs before the wait.
    (Proposed, CallParked): Parked,
    # The tool waits. No approval leads out of this state.
    (Started, CallParked): Parked,
    (Parked, Answered): Returned,
    (Parked, AnswerReceived): Ready,
    (Parked, CallRaised): Errored,
    (Parked, Denied): Refused,
    (Parked, Expired): Refused,
    (Parked, Reopened): Parked,
    # The worker died during the call, or stopped before the call began.
    (Started, RepeatAllowed): Ready,
    (Started, OutcomeUnknown): Unknown,
    (Unknown, Unverified): Unknown,
    (Unknown, CallParked): Parked,
    (Unknown, Approved): Ready,
    (Unknown, Answered): Returned,
    (Unknown, Denied): Refused,
    (Unknown, Expired): Refused,
    (Unknown, Reopened): Unknown,
    # The run ended.
    (Proposed, CallCancelled): Refused,
    (Waiting, CallCancelled): Refused,
    (Ready, CallCancelled): Refused,
    (Started, CallCancelled): Refused,
    (Nested, CallCancelled): Refused,
    (Unknown, CallCancelled): Refused,
    (Parked, CallCancelled): Refused,
}


def next_state(call_id: str, state: CallState, event: CallEvent) -> type[CallState]:
    """Return the state that follows; raises `IllegalTransition` if none does."""
    following = TRANSITIONS.get((type(state), type(event)))
    if following is None:
        why = f"call {call_id} is in the state {STATE_NAMES[type(state)]}"
        raise illegal_transition(why, event)
    return following


def illegal_transition(why: str, event: Event) -> IllegalTransition:
    """Return the error for an event that is not possible in the run's state."""
    return IllegalTransition(
        f"event {type(event).__name__} is not possible: {why}. The run is unchanged. "
        "This is a bug in continuations: report it with this message."
    )
