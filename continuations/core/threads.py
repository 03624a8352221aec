"""Threads: runs that rest after each reply, until the next message.

A thread rests if its last reply answers the last message that it read. That follows
from two numbers of its row, so no wait and no flag says it:

    answered == last_inbox_number    it rests
    answered <  last_inbox_number    it works on the messages after `answered`

What limits a run limits one message of a thread. So an error of a turn is the reply to
its message, and the thread rests.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from continuations.core.state import ROOT_FRAME_ID

if TYPE_CHECKING:
    from continuations.core.draft import Draft
    from continuations.core.run import Failure


def begin_message(draft: Draft, sender: str | None) -> None:
    """Let a resting thread work: its next reply answers the message that was read."""
    run, root = draft.run, draft.frame(ROOT_FRAME_ID)
    begun = replace(run, earlier_usage=run.usage, sender=sender)
    draft.put_run(replace(begun, output=None, failure=None))
    draft.put_frame(replace(root, earlier_turns=root.turns))


def rest(draft: Draft, *, output: str | None, failure: Failure | None = None) -> None:
    """Give the reply to the messages that were read, and rest."""
    run = draft.run
    answered = run.last_inbox_number
    draft.put_run(replace(run, answered=answered, output=output, failure=failure))
    # The row has not changed, but no model is asked any more.
    draft.put_frame(draft.frame(ROOT_FRAME_ID))


def rest_after_failure(draft: Draft, failure: Failure) -> None:
    """Drop the closed calls and the agents that they called, and rest."""
    for call_id in list(draft.calls):
        draft.drop_call(call_id)
    for frame_id in list(draft.frames):
        if frame_id != ROOT_FRAME_ID:
            draft.drop_frame(frame_id)
    root = draft.frame(ROOT_FRAME_ID)
    idle = replace(
        root, open_call_ids=(), pending_reply=None, failed_requests=0, polls=0
    )
    draft.put_frame(idle)
    rest(draft, output=None, failure=failure)
