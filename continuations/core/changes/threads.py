"""Threads: runs that rest after each reply, until the next message.

A thread rests if its last reply answers the last message that it read. That follows
from two numbers of its row, so no wait and no flag says it:

    answered == last_inbox_number    it rests
    answered <  last_inbox_number    it works on the messages after `answered`

The limits of a run limit each message of a thread. So an error of a turn is the reply
to its message, and the thread rests.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from continuations.core.changes.events import (
    ThreadClosed,
    TurnInterrupted,
    TurnStopping,
)
from continuations.core.changes.transitions import illegal_transition
from continuations.core.rows.run import Failure, RunRow, kept_requesters
from continuations.core.rows.state import ROOT_FRAME_ID
from continuations.value_class import replace

if TYPE_CHECKING:
    from continuations.core.changes.events import UserMessageAdded
    from continuations.core.rows.frames import FrameRow
    from continuations.core.rows.state import Draft

    ThreadEvent: TypeAlias = (
        UserMessageAdded | ThreadClosed | TurnStopping | TurnInterrupted
    )


def apply(draft: Draft, event: ThreadEvent) -> None:
    """Apply a message, or what changes the turn of a thread."""
    if isinstance(event, TurnStopping):
        draft.put_run(replace(draft.run, stopping=event.reason))
    elif isinstance(event, TurnInterrupted):
        draft.put_run(replace(draft.run, reads_next=event.number))
        draft.put_frame(_without_request(draft.frame(ROOT_FRAME_ID)))
    else:
        _take_message(draft, event)


def _take_message(draft: Draft, event: UserMessageAdded | ThreadClosed) -> None:
    """Add a message to the root frame of a run, or close a thread that rests."""
    run, root = draft.run, draft.frame(ROOT_FRAME_ID)
    last = run.last_inbox_number
    if event.number != last + 1:
        why = f"inbox message {event.number} does not follow inbox message {last}"
        raise illegal_transition(why, event)
    if isinstance(event, ThreadClosed):
        if not run.rests:
            raise illegal_transition("the run is not a thread that rests", event)
        closed = replace(run, status="finished", failure=None, answered=event.number)
        draft.put_run(replace(closed, last_inbox_number=event.number))
        return
    # Providers refuse a transcript with a message between a call and its result.
    if not root.reads_messages:
        raise illegal_transition("the root frame has open calls or a reply", event)
    role = event.message.role
    if role in ("assistant", "tool"):
        raise illegal_transition(f"an inbox message has the role {role}", event)
    if run.rests:
        run, root = _begun(run, root, event.by)
        if event.beginning is not None:
            root = replace(root, max_turns=event.beginning.max_turns)
            if event.beginning.instructions is not None:
                draft.append(ROOT_FRAME_ID, event.beginning.instructions)
    elif run.thread_key is None and not is_by_same(event.by, run.requester):
        # The calls that follow were asked for by this person too.
        names = kept_requesters((*run.requesters, event.by or ""))
        run = replace(run, requesters=names)
    draft.put_run(replace(run, last_inbox_number=event.number))
    draft.put_frame(_with_new_counts(root))
    draft.append(ROOT_FRAME_ID, event.message)


def _with_new_counts(root: FrameRow) -> FrameRow:
    """Return the root frame, whose counts begin again with a message of a user."""
    if root.denials or root.retries or root.continues or root.accepted_input:
        return replace(root, denials=(), retries=0, continues=0, accepted_input="")
    return root


def _begun(run: RunRow, root: FrameRow, sender: str | None) -> tuple[RunRow, FrameRow]:
    """Return the rows of a thread that answers a message: its limits count from now."""
    begun = replace(
        run,
        earlier_usage=run.usage,
        sender=sender,
        requesters=(),
        output=None,
        failure=None,
    )
    return begun, replace(root, earlier_turns=root.turns)


def rest(draft: Draft, *, output: str | None, failure: Failure | None = None) -> None:
    """Give the reply to the messages that were read, and rest."""
    run = draft.run
    replied = replace(
        run,
        answered=run.last_inbox_number,
        stopping=None,
        output=output,
        failure=failure,
    )
    draft.put_run(replied)
    # The row has not changed, but no model is asked any more.
    draft.put_frame(draft.frame(ROOT_FRAME_ID))


def rest_after_failure(draft: Draft, failure: Failure) -> None:
    """Drop the closed calls and the agents that they called, and rest."""
    for call_id in list(draft.calls):
        draft.drop_call(call_id)
    for frame_id in list(draft.frames):
        if frame_id != ROOT_FRAME_ID:
            draft.drop_frame(frame_id)
    root = _without_request(draft.frame(ROOT_FRAME_ID))
    draft.put_frame(replace(root, open_call_ids=()))
    rest(draft, output=None, failure=failure)


def _without_request(frame: FrameRow) -> FrameRow:
    """Return a frame whose model is asked anew, also if a reply is pending."""
    return replace(
        frame, pending_reply=None, failed_requests=0, polls=0, woken_until=None
    )


def is_by_same(by: str | None, other: str | None) -> bool:
    """Return whether two senders are one person, or both are unknown.

    Names that look the same are one person.
    """
    if by == other:
        return True
    from continuations.core.identity import is_same_person  # noqa: PLC0415 - few runs need it

    return is_same_person(by, other)
