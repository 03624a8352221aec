"""Texts that the model reads about calls that did not simply return.

Each kind of end begins with another word, so that a model cannot mistake a refusal for
a success.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from continuations.core import jsontext
from continuations.core.changes.call_ends import with_end
from continuations.core.changes.call_events import CallInvalid
from continuations.core.changes.output_retries import is_empty_reply
from continuations.core.messages import tool_message
from continuations.core.rows import denials
from continuations.core.rows.calls import (
    CLOSED_STATES,
    CallRow,
    Errored,
    Nested,
    Parked,
    Ready,
    Refused,
    Returned,
    Started,
    Unknown,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from continuations.core.changes.events import ModelReplied
    from continuations.core.messages import Message
    from continuations.core.rows.decisions import Decision
    from continuations.core.rows.draft import Draft
    from continuations.core.rows.frames import FrameRow

# Finish reasons of chat completions that mean an incomplete reply.
INCOMPLETE_REPLY_TEXTS = {
    "length": (
        "the model's reply was cut off at its length limit. Raise the limit in the "
        "settings of the agent, or ask for less."
    ),
    "content_filter": (
        "the provider's content filter withheld the model's reply. Change the input or "
        "the instructions."
    ),
}
_EMPTY_REPLY_TEXT = (
    "the model's last reply is empty. Start the task again, or use another model."
)


HANDED_OVER = "The agent {} has the conversation now."
SECOND_HANDOFF = (
    "ERROR: the call was not executed: another call of this turn handed the "
    "conversation to {}. A turn has one handoff."
)


def final_frame_state(message: Message, event: ModelReplied) -> Returned | Errored:
    """Return the end of a frame whose model replied without a tool call."""
    if event.finish_reason in INCOMPLETE_REPLY_TEXTS:
        return Errored(event.finish_reason, INCOMPLETE_REPLY_TEXTS[event.finish_reason])
    if is_empty_reply(message):
        return Errored("empty", _EMPTY_REPLY_TEXT)
    if event.output_error is not None:
        return Errored(event.error_code, event.output_error)
    return Returned(message.content)


def is_incomplete(event: ModelReplied) -> bool:
    """Return whether the provider cut off or withheld a part of the reply."""
    return event.finish_reason in INCOMPLETE_REPLY_TEXTS


def asks_again(frame: FrameRow, event: ModelReplied) -> bool:
    """Return whether the model gets another turn, because its reply is no output."""
    is_whole = not is_incomplete(event)
    is_wrong = event.is_final and event.output_error is not None
    return is_wrong and event.may_retry and frame.has_turns() and is_whole


def is_cut_off(event: ModelReplied, row: CallRow) -> bool:
    """Return whether a call was cut off before its arguments began.

    Elsewhere, empty arguments stand for `{}`. Arguments that were cut off later are not
    JSON.
    """
    return is_incomplete(event) and not row.raw_arguments.strip()


def cut_off_call(event: ModelReplied, call_id: str) -> CallInvalid:
    """Return the end of a call that was cut off before its arguments began."""
    text = (
        "ERROR: the call was not executed: the reply was cut off before its arguments."
    )
    return CallInvalid(call_id=call_id, code=event.finish_reason, content=text)


def failed_agent_text(frame: FrameRow, end: Errored, last_message: Message) -> str:
    """Return the text that a calling agent reads about a frame that failed."""
    text = f"ERROR: the agent {frame.agent} failed: {end.content}"
    if end.code == "output":
        text += f"\nIts last reply was:\n{last_message.content}"
    return text


def max_turns_error(frame: FrameRow) -> Errored:
    """Return the end of a frame that has used all its turns."""
    return Errored(
        "max_turns",
        f"agent {frame.agent} used all of its {frame.max_turns} turns without a final "
        "reply. Raise max_turns, or give the agent a smaller task.",
    )


def tool_message_text(row: CallRow, denial_count: int = 0) -> str:
    """Return the content of the tool message of a closed call.

    `denial_count` is the number of turns in which the same call was denied.
    """
    assert isinstance(row.state, CLOSED_STATES)  # noqa: S101 - for the type checkers
    content = row.state.content
    if isinstance(row.state, Returned) and not (row.attempts or row.stage):
        # Only an answer to an approval ends a call that was never started.
        return (
            "ANSWERED: a person answered this call instead of the tool. It was not "
            f"executed. The answer:\n{content}"
        )
    if denial_count > 1:
        content += denials.repeat_text(denial_count)
    ran = row.attempts + row.stage > 0 and not isinstance(row.state, Refused)
    if row.original_arguments is None or not ran:
        return content
    from continuations.core.rows.sorted_rows import shown_arguments  # noqa: PLC0415 - few calls are edited

    # An edit keeps the secret values, and a result is shown to approvers.
    kept = ' "[secret]" stands for a value of yours that was kept.' * bool(row.secrets)
    return (
        "The person who approved this call changed its arguments. The tool ran with "
        f"{shown_arguments(row)} instead of your arguments.{kept}\n{content}"
    )


def tool_message_parts(row: CallRow, parts_json: str) -> list[Any]:
    """Return the content of the tool message of a call that returned attachments."""
    assert isinstance(row.state, Returned)  # noqa: S101 - for the type checkers
    note = tool_message_text(row).removesuffix(row.state.content)
    parts: list[Any] = jsontext.parse(parts_json)
    return [{"type": "text", "text": note}, *parts] if note else parts


def refused_state(row: CallRow, decision: Decision) -> Refused:
    """Return the state of a call that was denied or that expired."""
    if isinstance(row.state, Parked):
        return _refused_wait(row, decision)
    if decision.kind == "expire":
        content = "EXPIRED: this call was not approved in time. It was not executed."
        return Refused("expired", content)
    code = "denied"
    if isinstance(row.state, Unknown):
        confirmed_by = "The tool" if decision.by == "verify" else "A person"
        content = (
            f"NOT EXECUTED: the call was started and interrupted. {confirmed_by} "
            "confirmed that it did not happen. It will not be repeated."
        )
        code = "not_executed"
    elif row.attempts:
        content = (
            "DENIED: a rule refused to repeat this call. The call was started before "
            "and interrupted. It will not be repeated."
        )
    else:
        denied_by = "a person" if decision.rule is None else "a rule"
        content = f"DENIED: {denied_by} refused this call. It was not executed."
    if decision.reason:
        content += f" Reason: {decision.reason}"
    return Refused(code, content)


def _refused_wait(row: CallRow, decision: Decision) -> Refused:
    """Return the state of a call that waited and got no answer."""
    who = "the tool" if _has_tool(row) else "the workflow"
    if decision.kind == "expire":
        content = f"EXPIRED: {who} waited, and its deadline passed without an answer."
        code = "expired"
    else:
        content = f"DENIED: {who} asked a person, who declined to answer."
        code = "denied"
    content += " Effects of the tool remain." if _has_tool(row) else ""
    if decision.reason:
        content += f" Reason: {decision.reason}"
    return Refused(code, content)


def _has_tool(row: CallRow) -> bool:
    """Return whether a tool ran before the wait; a workflow also waits by itself."""
    return not row.tool.startswith(".")


def cancelled_state(row: CallRow, reason: str, *, never_began: bool = False) -> Refused:
    """Return the state of a call that was cancelled, or whose run has ended."""
    began = row.attempts - never_began if isinstance(row.state, Started) else 0
    began = row.attempts if isinstance(row.state, Ready) else began
    if isinstance(row.state, Nested):
        content = f"CANCELLED while it ran; effects of its tools remain. {reason}"
    elif isinstance(row.state, Parked) and not _has_tool(row):
        content = f"CANCELLED while it waited. {reason}"
    elif isinstance(row.state, Parked) or row.stage:
        content = f"CANCELLED while it waited; effects of the tool remain. {reason}"
    elif isinstance(row.state, Unknown) or began:
        content = f"CANCELLED while it ran; its outcome is not known. {reason}"
    else:
        content = f"CANCELLED: it was not executed. {reason}"
    return Refused("cancelled", content)


def result_message(row: CallRow, denial_count: int = 0) -> Message:
    """Return the tool message of a closed call, with the code of its end."""
    content: str | list[Any]
    if row.parts_json is None:
        content = tool_message_text(row, denial_count)
    else:
        content = tool_message_parts(row, row.parts_json)
    return with_end(tool_message(row.tool_call_id, content), row)


def gather(draft: Draft, frame: FrameRow, rows: Sequence[CallRow]) -> FrameRow:
    """Append the results of a turn; return the frame with the state after the turn."""
    draft.append(
        frame.id,
        *(result_message(row, denials.count_of(frame.denials, row)) for row in rows),
    )
    for row in rows:
        if row.patch is not None:
            from continuations.core.rows import frame_state  # noqa: PLC0415 - few tools write a state

            state = frame_state.after_turn(frame.state_json, rows)
            return replace(frame, state_json=state)
    return frame
