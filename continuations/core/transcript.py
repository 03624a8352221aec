"""Check that a provider will accept a transcript.

After one invalid turn, a provider refuses every later request: "An assistant message
with 'tool_calls' must be followed by tool messages responding to each
'tool_call_id'" (OpenAI, HTTP 400). So the transcript is checked before each request.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from continuations.core.messages import Message


def find_violation(messages: Sequence[Message]) -> str | None:
    """Return the first violation as a text, or `None` if the messages can be sent.

    An assistant message with tool calls must be followed directly by one tool message
    for each call, in the same order. There must be no other tool messages.
    """
    expected: tuple[str, ...] = ()
    received = 0
    for index, message in enumerate(messages):
        missing = len(expected) - received
        if message.role == "tool":
            if not missing or message.answered_call_id != expected[received]:
                return f"message {index} is a tool message for no open tool call"
            received += 1
            continue
        if missing:
            return f"{missing} tool messages are missing before message {index}"
        expected, received = message.tool_call_ids, 0
        if len(set(expected)) != len(expected):
            return f"message {index} has two tool calls with the same id"
    if received < len(expected):
        return f"{len(expected) - received} tool messages are missing at the end"
    return None if messages else "the list of messages is empty"


def unique_tool_call_ids(
    messages: Sequence[Message],
    tool_call_ids: Sequence[str],
    replacement_ids: Sequence[str],
) -> tuple[str, ...]:
    """Return ids for the calls of a new turn that no earlier call of the frame has.

    Some providers repeat ids or leave them empty. Others refuse such a transcript
    ("Duplicate value for 'tool_call_id'"). An empty or repeated id is replaced by the
    id at the same position of `replacement_ids`. Every other id is kept.
    """
    taken = {call_id for message in messages for call_id in message.tool_call_ids}
    ids: list[str] = []
    for provider_id, replacement in zip(tool_call_ids, replacement_ids, strict=True):
        usable = provider_id and provider_id not in taken
        chosen = provider_id if usable else replacement
        while chosen in taken:
            chosen += "_"
        taken.add(chosen)
        ids.append(chosen)
    return tuple(ids)
