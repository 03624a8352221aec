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


def is_retry_request(message: Message) -> bool:
    """Return whether a message asks the model to reply again."""
    return message.role == "user" and message.content.startswith(_PREFIX)


def count_retries(messages: Sequence[Message], summary_number: int = 0) -> int:
    """Return how often a model was asked again since the last message of a user.

    `summary_number` is the number of the message that is a summary, from 1; 0: none.
    """
    count = 0
    for number in range(len(messages), 0, -1):
        message = messages[number - 1]
        if message.role == "user" and number != summary_number:
            if not is_retry_request(message):
                break
            count += 1
    return count


def is_empty_reply(message: Message) -> bool:
    """Return whether a reply has neither a tool call nor anything to read or hear."""
    if message.tool_call_ids or message.content:
        return False
    data = message.data
    return not data.get("content") and not data.get("audio")
