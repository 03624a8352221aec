"""Ask a model again after a final reply that cannot be used.

The request is a user message in the transcript, and the frame counts the requests. So
a crash does not start the count again. A message of a user does.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from continuations.core.changes.transitions import illegal_transition
from continuations.core.messages import user_message

if TYPE_CHECKING:
    from continuations.core.changes.events import ModelReplied
    from continuations.core.messages import Message
    from continuations.core.rows.frames import FrameRow

_PREFIX = "Your last reply cannot be used. "
_SUFFIX = "\nReply again, with the whole output."
EMPTY_REPLY = "The reply is empty: it has no text and no tool call."


def retry_message(problem: str) -> Message:
    """Return the user message that says why the last reply cannot be used."""
    return user_message(f"{_PREFIX}{problem}{_SUFFIX}")


def retry_reason(message: Message) -> str:
    """Return the problem that a request to reply again names."""
    return message.content.removeprefix(_PREFIX).removesuffix(_SUFFIX)


def is_retry_request(message: Message) -> bool:
    """Return whether a message asks the model to reply again."""
    return message.role == "user" and message.content.startswith(_PREFIX)


def check_reply(frame: FrameRow, event: ModelReplied) -> None:
    """Raise `IllegalTransition` if a frame cannot take a reply."""
    if frame.open_call_ids:
        raise illegal_transition(f"frame {frame.id} has open calls", event)
    if event.message.role != "assistant":
        raise illegal_transition(f"the reply has the role {event.message.role}", event)
    if frame.parent_call_id is not None and not event.is_final:
        raise illegal_transition("only the root frame reads messages", event)


def counted(frame: FrameRow, *, retries: bool, continues: Message | None) -> FrameRow:
    """Return the frame after a reply, perhaps one that asks for another turn."""
    if retries:
        return replace(frame, retries=frame.retries + 1)
    return frame if continues is None else replace(frame, continues=frame.continues + 1)


def is_empty_reply(message: Message) -> bool:
    """Return whether a reply has neither a tool call nor anything to read or hear."""
    if message.tool_call_ids or message.content:
        return False
    data = message.data
    return not data.get("content") and not data.get("audio")
