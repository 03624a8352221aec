"""The results of the calls of a frame that returned, from its messages."""

from __future__ import annotations

from typing import TYPE_CHECKING

from continuations.core.output_retries import is_retry_request

if TYPE_CHECKING:
    from collections.abc import Sequence

    from continuations.core.messages import Message

# The first words of the results of calls that did not return; see `tool_messages`.
_NOT_RETURNED = (
    "ERROR:",
    "ANSWERED:",
    "DENIED:",
    "EXPIRED:",
    "CANCELLED",
    "NOT EXECUTED:",
)
# The first line of the result of a call whose arguments a person changed.
_EDITED = "The person who approved this call changed its arguments. "


def returned_results(messages: Sequence[Message]) -> dict[str, str]:
    """Return the newest result of each tool since the last message of the user.

    A result that begins with the words of a failed or refused call does not count.
    """
    results: dict[str, str] = {}
    round_results: dict[str, str] = {}
    for message in reversed(messages):
        if message.role == "user" and not is_retry_request(message):
            break
        if message.role == "tool":
            round_results[message.answered_call_id or ""] = message.content
        elif message.role == "assistant" and round_results:
            for request in reversed(message.tool_calls):
                text = round_results.get(request.tool_call_id)
                if text is not None and _has_returned(text):
                    results.setdefault(request.tool, text)
            round_results = {}
    return results


def _has_returned(text: str) -> bool:
    if text.startswith(_EDITED):
        text = text.partition("\n")[2]
    return not text.startswith(_NOT_RETURNED)
