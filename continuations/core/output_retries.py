"""Ask a model again after a final reply that cannot be used.

The request is a user message in the transcript. So the number of requests is counted
there, and a crash does not start the count again. A user message with the same first
words counts as a request; the model is then asked less often, never more.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from continuations.core.messages import user_message

if TYPE_CHECKING:
    from collections.abc import Sequence

    from continuations.core.messages import Message

_PREFIX = "Your last reply cannot be used. "
EMPTY_REPLY = "The reply is empty: it has no text and no tool call."


def retry_message(problem: str) -> Message:
    """Return the user message that says why the last reply cannot be used."""
    return user_message(f"{_PREFIX}{problem}\nReply again, with the whole output.")


def count_retries(messages: Sequence[Message]) -> int:
    """Return how often a model was asked again since the last message of a user."""
    count = 0
    for message in reversed(messages):
        if message.role == "user":
            if not message.content.startswith(_PREFIX):
                break
            count += 1
    return count


def is_empty_reply(message: Message) -> bool:
    """Return whether a reply has neither a tool call nor anything to read or hear."""
    if message.tool_call_ids or message.content:
        return False
    data = message.data
    return not data.get("content") and not data.get("audio")
