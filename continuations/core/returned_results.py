"""The results of the calls of a frame that returned, from its messages."""

from __future__ import annotations

from typing import TYPE_CHECKING

from continuations.core.call_ends import end_in
from continuations.core.output_retries import is_retry_request

if TYPE_CHECKING:
    from collections.abc import Sequence

    from continuations.core.messages import Message


def returned_results(messages: Sequence[Message]) -> dict[str, str]:
    """Return the newest result of each tool since the last message of the user.

    The result of a failed or refused call does not count.
    """
    results: dict[str, str] = {}
    round_results: dict[str, Message] = {}
    for message in reversed(messages):
        if message.role == "user" and not is_retry_request(message):
            break
        if message.role == "tool":
            round_results[message.answered_call_id or ""] = message
        elif message.role == "assistant" and round_results:
            for request in reversed(message.tool_calls):
                result = round_results.get(request.tool_call_id)
                if result is not None and end_in(result) == "returned":
                    results.setdefault(request.tool, result.content)
            round_results = {}
    return results
