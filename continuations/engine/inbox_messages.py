"""Add inbox messages to a run."""

from __future__ import annotations

from typing import TYPE_CHECKING

from continuations.core.changes import events
from continuations.core.changes.reducer import advance
from continuations.core.changes.threads import is_by_same
from continuations.core.rows.frames import final_reply
from continuations.core.rows.state import ROOT_FRAME_ID, RunState

if TYPE_CHECKING:
    from continuations.ledger.arrivals.arrivals import Arrivals
    from continuations.wire.arrivals import InboxMessage


def with_inbox_messages(
    state: RunState,
    inbox_messages: tuple[InboxMessage, ...],
    beginning: events.TurnBeginning | None = None,
) -> RunState:
    """Return the run with the messages that may be added now.

    Messages are added in the order of their numbers, and only while the root frame has
    no open call and no pending reply. A provider rejects a user message between a call
    and its result, and a pending reply answers the messages that were sent. A thread
    that is busy takes only messages that may be merged. `beginning` is for the message
    that begins a turn of a thread.
    """
    for message in inbox_messages:
        if message.number <= state.run.last_inbox_number:
            continue
        if not _takes(state, message):
            break
        number = message.number
        if message.closes:
            return advance(state, events.ThreadClosed(number=number))
        event = events.UserMessageAdded(
            number=number,
            message=message.message,
            by=message.by,
            beginning=beginning,
        )
        state = advance(state, event)
    return state


def find_beginning_message(
    state: RunState, inbox_messages: tuple[InboxMessage, ...]
) -> InboxMessage | None:
    """Return the message with which a thread that rests begins a turn, or `None`."""
    run = state.run
    if not run.rests or run.has_ended:
        return None
    following = run.last_inbox_number + 1
    found = (each for each in inbox_messages if each.number == following)
    return next((each for each in found if not each.closes), None)


def with_next_messages(
    stored: RunState,
    state: RunState,
    inbox_messages: tuple[InboxMessage, ...],
    beginning: events.TurnBeginning | None = None,
) -> RunState:
    """Return the run with the messages that may be added since a stored version.

    A reply of a thread that is not stored comes first: the next message clears it.
    """
    if state.run.answered != stored.run.answered:
        return state
    return with_inbox_messages(state, inbox_messages, beginning)


def _takes(state: RunState, message: InboxMessage) -> bool:
    run = state.run
    is_next = message.number == run.last_inbox_number + 1
    if run.has_ended or not is_next:
        return False
    reads = state.frames[ROOT_FRAME_ID].reads_messages
    return reads and (run.rests or is_for_present_reply(state, message))


def is_for_present_reply(state: RunState, message: InboxMessage) -> bool:
    """Return whether the model may read a message before it gives its reply.

    All messages of a run are for its one reply. In a thread each message has a reply,
    unless its sender lets it be merged. Only messages of one sender are merged: what
    the agent does then is asked for by one person.
    """
    run = state.run
    if run.thread_key is None:
        return True
    # A repeat of a message may interrupt, although the message itself was queued.
    interrupts = message.number == run.reads_next
    merges = interrupts or message.when_busy in ("merge", "interrupt")
    return merges and not message.closes and is_by_same(message.by, run.sender)


def leaves_messages(state: RunState, arrived: Arrivals) -> bool:
    """Return whether a thread rests although some messages have no reply."""
    last = state.run.last_inbox_number
    numbers = (each.number for each in arrived.inbox_messages)
    return state.run.rests and any(
        number > last for number in (*numbers, *arrived.unread_numbers)
    )


def with_confirmed_reply(state: RunState) -> RunState:
    """Return the run, finished if its last message is the final reply of its model.

    The worker that got the reply could not look for messages before the end. Call it
    when there is no unread message.
    """
    run = state.run
    if run.has_ended or run.rests or state.is_suspended:
        return state
    root, log = state.frames[ROOT_FRAME_ID], state.logs[ROOT_FRAME_ID]
    if final_reply(root, log) is None:
        return state
    return advance(state, events.ReplyConfirmed())
