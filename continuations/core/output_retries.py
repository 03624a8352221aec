"""Ask a model again after a final reply that cannot be used.

The request is a user message in the transcript, and the frame counts the requests. So
a crash does not start the count again. Runs of earlier releases have no count: there,
user messages with the same first words are counted. The model is then asked less often,
never more.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from continuations.core.messages import user_message

if TYPE_CHECKING:
    from collections.abc import Sequence

    from continuations.core.frames import FrameRow
    from continuations.core.messages import Message

_PREFIX = "Your last reply cannot be used. "
EMPTY_REPLY = "The reply is empty: it has no text and no tool call."


def retry_message(problem: str) -> Message:
    """Return the user message that says why the last reply cannot be used."""
    return user_message(f"{_PREFIX}{problem}\nReply again, with the whole output.")


def count_retries(frame: FrameRow, messages: Sequence[Message]) -> int:
    """Return how often a model was asked again since the last message of a user.

    Messages that a hook adds do not start the count of the frame again.
    """
    count = 0
    for message in reversed(messages):
        if message.role == "user":
            if not message.content.startswith(_PREFIX):
                break
            count += 1
    return max(count, frame.retries)


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
