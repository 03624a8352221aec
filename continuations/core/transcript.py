"""Check that a provider will accept a transcript.

After one invalid turn, a provider refuses every later request: "An assistant message
with 'tool_calls' must be followed by tool messages responding to each
'tool_call_id'" (OpenAI, HTTP 400). So the transcript is checked before each request.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from continuations.core.messages import Message, is_instructions
from continuations.value_class import dataclass

if TYPE_CHECKING:
    from collections.abc import Sequence


@dataclass(frozen=True, slots=True)
class TranscriptCheck:
    """The check of the first messages of a transcript, to be continued.

    Attributes:
        count: Number of the checked messages.
        expected: Ids of the tool calls of the last assistant message.
        received: Number of tool messages that followed it.
        violation: The first violation as a text, or `None`.
        call_ids: Ids of all tool calls.
        has_attachments: Whether a message refers to an attachment.
        instructions: Number of the last message that has the instructions of a turn of
            a thread, from 1; 0 for none. See `tool_messages`.
    """

    count: int = 0
    expected: tuple[str, ...] = ()
    received: int = 0
    violation: str | None = None
    call_ids: frozenset[str] = frozenset()
    has_attachments: bool = False
    instructions: int = 0

    def extended(self, messages: Sequence[Message]) -> TranscriptCheck:
        """Return the check of the same messages and of those that follow them."""
        expected, received = self.expected, self.received
        violation = self.violation
        new_ids: set[str] = set()
        attached, instructions = self.has_attachments, self.instructions
        for index, message in enumerate(messages, self.count):
            role, tool_call_ids, answered_call_id, attaches = message.read()
            attached = attached or attaches
            if message.metadata_json is not None and is_instructions(message):
                instructions = index + 1
            new_ids.update(tool_call_ids)
            if violation is not None:
                continue
            missing = len(expected) - received
            if role == "tool":
                if not missing or answered_call_id != expected[received]:
                    violation = (
                        f"message {index} is a tool message for no open tool call"
                    )
                received += 1
                continue
            if missing:
                violation = (
                    f"{missing} tool messages are missing before message {index}"
                )
            expected, received = tool_call_ids, 0
            if violation is None and len(set(expected)) != len(expected):
                violation = f"message {index} has two tool calls with the same id"
        return TranscriptCheck(
            count=self.count + len(messages),
            expected=expected,
            received=received,
            violation=violation,
            call_ids=self.call_ids | new_ids if new_ids else self.call_ids,
            has_attachments=attached,
            instructions=instructions,
        )

    def violation_at_end(self) -> str | None:
        """Return the first violation if no message follows, or `None`.

        An assistant message with tool calls must be followed directly by one tool
        message for each call, in the same order. There must be no other tool messages.
        """
        if self.violation is not None:
            return self.violation
        if self.received < len(self.expected):
            missing = len(self.expected) - self.received
            return f"{missing} tool messages are missing at the end"
        return None if self.count else "the list of messages is empty"


NOTHING_CHECKED = TranscriptCheck()


def find_violation(messages: Sequence[Message]) -> str | None:
    """Return the first violation as a text, or `None` if the messages can be sent."""
    return NOTHING_CHECKED.extended(messages).violation_at_end()


def unique_tool_call_ids(
    known_ids: frozenset[str],
    tool_call_ids: Sequence[str],
    replacement_ids: Sequence[str],
) -> tuple[str, ...]:
    """Return ids for the calls of a new turn that no earlier call of the frame has.

    Some providers repeat ids or leave them empty. Others refuse such a transcript
    ("Duplicate value for 'tool_call_id'"). An empty or repeated id is replaced by the
    id at the same position of `replacement_ids`. Every other id is kept. `known_ids`
    are those of the earlier calls.
    """
    taken: set[str] = set()
    ids: list[str] = []
    for provider_id, replacement in zip(tool_call_ids, replacement_ids, strict=True):
        chosen = provider_id or replacement
        if chosen in taken or chosen in known_ids:
            chosen = replacement
        while chosen in taken or chosen in known_ids:
            chosen += "_"
        taken.add(chosen)
        ids.append(chosen)
    return tuple(ids)
