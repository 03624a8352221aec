"""What the model is told of calls that did not simply return.

The words are distinct for each ending, so that a model cannot take a refusal for a
success, and a test can tell them apart.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from continuations.core.calls import (
    CLOSED_STATES,
    CallRow,
    Errored,
    Nested,
    Refused,
    Returned,
    Started,
    Unknown,
)

if TYPE_CHECKING:
    from continuations.core.decisions import Decision
    from continuations.core.events import ModelReplied
    from continuations.core.frames import FrameRow
    from continuations.core.messages import Message

# Ways to fail right before the call: it was started, and did not run.
_CODES_BEFORE_CALL = ("digest", "stale")

# Reasons of a provider to stop that leave no whole answer (chat completions).
_INCOMPLETE_REPLY_TEXTS = {
    "length": "the model's reply was cut off at its length limit",
    "content_filter": "the model's reply was withheld by the content filter",
}


def final_frame_state(message: Message, event: ModelReplied) -> Returned | Errored:
    """Return how a frame ends with a reply that calls no tool."""
    if event.finish_reason in _INCOMPLETE_REPLY_TEXTS:
        return Errored(
            event.finish_reason, _INCOMPLETE_REPLY_TEXTS[event.finish_reason]
        )
    if event.output_error is not None:
        return Errored("output", event.output_error)
    return Returned(message.content)


def max_turns_error(frame: FrameRow) -> Errored:
    """Return the end of a frame that has used all its turns."""
    return Errored(
        "max_turns",
        f"agent {frame.agent} used all of its {frame.max_turns} turns "
        "without coming to an end",
    )


def tool_message_text(row: CallRow) -> str:
    """Return what the tool message of a closed call says."""
    assert isinstance(row.state, CLOSED_STATES)  # noqa: S101 - for the type checkers
    content = row.state.content
    ran = row.attempts > 0 and not isinstance(row.state, Refused)
    if (
        row.original_arguments is None
        or not ran
        or _error_code(row) in _CODES_BEFORE_CALL
    ):
        return content
    return (
        "The person who approved this call changed its arguments. "
        f"It was run with {row.arguments}, not as you wrote it.\n{content}"
    )


def _error_code(row: CallRow) -> str | None:
    return row.state.code if isinstance(row.state, Errored) else None


def refused_state(row: CallRow, decision: Decision) -> Refused:
    """Return the end of a call that a decision refused."""
    if decision.kind == "expire":
        content = "EXPIRED: nobody approved this call in time. It was not executed."
        return Refused("expired", content)
    if isinstance(row.state, Unknown):
        head = "NOT EXECUTED: it was started, but a person established that it did not"
        content = f"{head} happen, and it will not be repeated."
    else:
        content = "DENIED: a person refused this call. It was not executed."
    if decision.reason:
        content += f" Reason: {decision.reason}"
    return Refused("denied", content)


def cancelled_state(row: CallRow, reason: str) -> Refused:
    """Return the end of a call that was open when its run ended."""
    if isinstance(row.state, Nested):
        content = f"CANCELLED in the middle; what its tools did stands. {reason}"
    elif isinstance(row.state, Started | Unknown):
        content = f"CANCELLED while it ran; its outcome is not known. {reason}"
    else:
        content = f"CANCELLED: it was not executed. {reason}"
    return Refused("cancelled", content)
