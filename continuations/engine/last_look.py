"""Look at what arrived for a run before the last reply ends it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from continuations.core.operator_waits import with_operator_requests
from continuations.engine.inbox_messages import is_for_present_reply

if TYPE_CHECKING:
    from continuations.core.events import ModelReplied
    from continuations.core.state import RunState
    from continuations.ledger.arrivals import Arrivals


def something_comes_first(state: RunState, reply: ModelReplied, late: Arrivals) -> bool:
    """Return whether a message, a pause, a stop or a cancellation comes first."""
    # Messages are read in their order, so only the first one counts.
    following = late.inbox_messages[:1]
    reads = any(is_for_present_reply(state, each) for each in following)
    after = with_operator_requests(state, late.operator_requests)
    is_held = after.is_suspended or after.run.rests or late.cancel_request is not None
    return is_held or (reads and _may_ask_again(state, reply))


def _may_ask_again(state: RunState, reply: ModelReplied) -> bool:
    """Return whether the limits of the run allow another turn after a reply."""
    frame, run = state.frames[reply.frame_id], state.run
    usage = run.limited_usage + reply.usage
    return frame.has_turns(1) and not (run.budget and run.budget.reached_limit(usage))
