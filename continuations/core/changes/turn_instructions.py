"""The instructions of a thread: each turn has those of the code that began it.

The first instructions are the first message of the root frame. If a later turn has
others, they are a system message of their own before the message that begins the turn.
A model gets only the last ones, in front of the conversation. So a turn keeps its
instructions wherever it is resumed, also after a fork or a rewind.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from continuations.core.messages import (
    FROZEN_INSTRUCTIONS,
    OF_INSTRUCTIONS,
    Message,
    is_instructions,
    system_message,
)
from continuations.value_class import replace

if TYPE_CHECKING:
    from collections.abc import Sequence

    from continuations.core.rows.frames import MessageLog


def is_frozen(log: MessageLog) -> bool:
    """Return whether a thread keeps its first instructions for all turns."""
    first = log.messages[0] if log.messages else None
    return first is not None and first.metadata_json == FROZEN_INSTRUCTIONS


def frozen_log(log: MessageLog) -> MessageLog:
    """Return the first log of a thread, whose instructions stay for all turns."""
    frozen = system_message(_present(log)).with_metadata(FROZEN_INSTRUCTIONS)
    return replace(log, messages=(frozen,))


def new_message(log: MessageLog, instructions: str) -> Message | None:
    """Return the message of other instructions for a turn, `None` for the same ones."""
    if instructions == _present(log):
        return None
    return system_message(instructions).with_metadata(OF_INSTRUCTIONS)


def sent_messages(log: MessageLog) -> tuple[Message, ...]:
    """Return the messages of a frame that its model gets, the instructions first."""
    place, messages = log.transcript_check.instructions, log.messages
    if not place or (place == 1 and messages[0].content):
        return messages
    return _with_one(messages, place - 1)


def without_older_instructions(messages: Sequence[Message]) -> Sequence[Message]:
    """Return messages without the instructions that others have replaced."""
    places = [i for i, each in enumerate(messages) if is_instructions(each)]
    return _with_one(messages, places[-1]) if places else messages


def _with_one(messages: Sequence[Message], place: int) -> tuple[Message, ...]:
    """Return messages whose only instructions are those at a place, at the front."""
    chosen = messages[place]
    first = 1 if _is_first_instructions(messages[0]) else 0
    rest = [each for each in messages[first:] if not is_instructions(each)]
    return (chosen, *rest) if chosen.content else tuple(rest)


def _present(log: MessageLog) -> str:
    """Return the instructions of the last turn."""
    place = log.transcript_check.instructions
    if place:
        return log.messages[place - 1].content
    first = log.messages[0] if log.messages else None
    if first is None or not _is_first_instructions(first):
        return ""
    return first.content


def _is_first_instructions(message: Message) -> bool:
    """Return whether the first message of a thread has its first instructions."""
    return message.role == "system" and message.metadata_json is None
