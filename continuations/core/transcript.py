"""Is this list of messages sendable, and if not, why not?

Providers refuse a conversation for ever after one broken turn: "An assistant message
with 'tool_calls' must be followed by tool messages responding to each
'tool_call_id'" (OpenAI, HTTP 400). So it is checked here, before every request.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from continuations.core.messages import Message


def find_violation(messages: Sequence[Message]) -> str | None:
    """Return what is wrong with a conversation, or `None` if it can be sent.

    Each tool call of an assistant message has exactly one tool message, directly
    after it, in order, before any other role; no tool message stands alone.
    """
    owed: tuple[str, ...] = ()
    paid = 0
    for index, message in enumerate(messages):
        if message.role == "tool":
            if paid == len(owed) or message.tool_call_id != owed[paid]:
                return f"message {index} answers a call that nobody waits for"
            paid += 1
            continue
        if paid < len(owed):
            return f"message {index} stands before the results of {len(owed) - paid}"
        owed, paid = message.tool_call_ids, 0
        if len(set(owed)) != len(owed):
            return f"message {index} has two calls of one id"
    if paid < len(owed):
        return f"the last turn lacks the results of {len(owed) - paid} calls"
    return None if messages else "there are no messages"


def unique_tool_call_ids(
    messages: Sequence[Message],
    tool_call_ids: Sequence[str],
    replacement_ids: Sequence[str],
) -> tuple[str, ...]:
    """Return ids for a new turn's calls which no earlier call of the frame has.

    Providers repeat ids, or leave them empty; others refuse such a transcript
    ("Duplicate value for 'tool_call_id'"). An id that is empty or taken is replaced
    by the one in its place in `fresh`; every other id stays as the provider gave it.
    """
    taken = {call for message in messages for call in message.tool_call_ids}
    ids: list[str] = []
    for given, own in zip(tool_call_ids, replacement_ids, strict=True):
        chosen = given if given and given not in taken else own
        while chosen in taken:
            chosen += "_"
        taken.add(chosen)
        ids.append(chosen)
    return tuple(ids)
