"""The life of a call: one table of (state, event) -> state.

Everything that decides what may become of a call stands in this file. A pair that is
missing is a fault and raises `IllegalTransition` with both names in it; in particular
nothing leads from `Refused` anywhere, and into `Started` there is one way only, from
`Ready`. The picture in docs/how-it-works.md is drawn from this table.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from continuations.core.calls import (
    STATE_NAMES,
    Errored,
    Nested,
    Proposed,
    Ready,
    Refused,
    Returned,
    Started,
    Unknown,
    Waiting,
)
from continuations.core.events import (
    Answered,
    ApprovalRequested,
    Approved,
    CallAccepted,
    CallCancelled,
    CallInvalid,
    CallRaised,
    CallReturned,
    CallStarted,
    Denied,
    Expired,
    OutcomeUnknown,
    Reopened,
    RepeatAllowed,
    SubAgentStarted,
    Unverified,
)
from continuations.errors import IllegalTransition

if TYPE_CHECKING:
    from continuations.core.calls import CallState
    from continuations.core.events import CallEvent

TRANSITIONS: dict[tuple[type[CallState], type[CallEvent]], type[CallState]] = {
    # The model asked for it.
    (Proposed, CallAccepted): Ready,
    (Proposed, ApprovalRequested): Waiting,
    (Proposed, CallInvalid): Errored,
    # A person is asked.
    (Waiting, Approved): Ready,
    (Waiting, Denied): Refused,
    (Waiting, Expired): Refused,
    (Waiting, Reopened): Waiting,
    # It runs.
    (Ready, CallStarted): Started,
    (Ready, SubAgentStarted): Nested,
    (Started, CallReturned): Returned,
    (Started, CallRaised): Errored,
    (Nested, CallReturned): Returned,
    (Nested, CallRaised): Errored,
    # Its worker died.
    (Started, RepeatAllowed): Ready,
    (Started, OutcomeUnknown): Unknown,
    (Unknown, Unverified): Unknown,
    (Unknown, Approved): Ready,
    (Unknown, Answered): Returned,
    (Unknown, Denied): Refused,
    (Unknown, Expired): Refused,
    (Unknown, Reopened): Unknown,
    # The run ends around it.
    (Proposed, CallCancelled): Refused,
    (Waiting, CallCancelled): Refused,
    (Ready, CallCancelled): Refused,
    (Started, CallCancelled): Refused,
    (Nested, CallCancelled): Refused,
    (Unknown, CallCancelled): Refused,
}


def next_state(call_id: str, state: CallState, event: CallEvent) -> type[CallState]:
    """Return the state that follows; raises `IllegalTransition`."""
    found = TRANSITIONS.get((type(state), type(event)))
    if found is None:
        name = STATE_NAMES[type(state)]
        msg = f"call {call_id} is {name} and cannot be {type(event).__name__}"
        raise IllegalTransition(msg)
    return found
