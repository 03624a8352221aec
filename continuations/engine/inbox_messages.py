"""Add inbox messages to a run."""

from __future__ import annotations

from typing import TYPE_CHECKING

from continuations.core.events import ReplyConfirmed, UserMessageAdded
from continuations.core.frames import final_reply
from continuations.core.reducer import advance
from continuations.core.run import ENDED_STATUSES
from continuations.core.state import ROOT_FRAME_ID

if TYPE_CHECKING:
    from continuations.core.state import RunState
    from continuations.wire.records import InboxMessage


def with_inbox_messages(
    state: RunState, inbox_messages: tuple[InboxMessage, ...]
) -> RunState:
    """Return the run with the messages that may be added now.

    Messages are added in the order of their numbers, and only while the root frame has
    no open call and no pending reply. A provider rejects a user message between a call
    and its result, and a pending reply answers the messages that were sent.
    """
    for message in inbox_messages:
        if message.number <= state.run.last_inbox_number:
            continue
        if (
            state.run.status in ENDED_STATUSES
            or not state.frames[ROOT_FRAME_ID].reads_messages
            or message.number != state.run.last_inbox_number + 1
        ):
            break
        event = UserMessageAdded(number=message.number, message=message.message)
        state = advance(state, event)
    return state


def with_confirmed_reply(state: RunState) -> RunState:
    """Return the run, finished if its last message is the final reply of its model.

    The worker that got the reply could not look for messages before the end. Call it
    when there is no unread message.
    """
    if state.run.status in ENDED_STATUSES or state.is_suspended:
        return state
    root, log = state.frames[ROOT_FRAME_ID], state.logs[ROOT_FRAME_ID]
    if final_reply(root, log) is None:
        return state
    return advance(state, ReplyConfirmed())
