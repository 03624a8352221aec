"""Messages that the engine writes: the ends of calls, instructions, repeated requests.

Each kind of end begins with another word, so that a model cannot mistake a refusal for
a success.

Programs read how a call ended as a code, and never the texts. The row of a call that
ended goes away after its turn. The metadata of its tool message keeps the code, unless
the call simply returned.

The engine adds other messages, too. Each turn of a thread has the instructions of the
code that began it. The first ones are the first message of the root frame. If a later
turn has others, they are a system message of their own before the message that begins
the turn. A model gets only the last ones, in front of the conversation. So a turn keeps
its instructions wherever it is resumed, also after a fork or a rewind.

A model is asked again after a final reply that cannot be used. The request is a user
message in the transcript, and the frame counts the requests. So a crash does not start
the count again. A message of a user does.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, cast, get_args

from continuations.core import jsontext
from continuations.core.changes.events import CallInvalid
from continuations.core.changes.transitions import illegal_transition
from continuations.core.messages import (
    FROZEN_INSTRUCTIONS,
    OF_INSTRUCTIONS,
    Message,
    is_instructions,
    system_message,
    tool_message,
    user_message,
)
from continuations.core.rows import calls, frames
from continuations.value_class import replace

if TYPE_CHECKING:
    from collections.abc import Sequence

    from continuations.core.changes.events import ModelReplied
    from continuations.core.rows.decisions import Decision
    from continuations.core.rows.frames import FrameRow, MessageLog
    from continuations.core.rows.state import Draft


# `invalid`: the call failed before it began. `error`: it failed later. `not_executed`:
# its outcome was unknown, and it did not happen.
CallEnd = Literal[
    "returned",
    "answered",
    "denied",
    "expired",
    "cancelled",
    "not_executed",
    "invalid",
    "error",
]
CALL_ENDS: tuple[CallEnd, ...] = get_args(CallEnd)
# The ends of calls that began, and whose tool or agent may have run to its end.
BEGUN_ENDS = frozenset({"returned", "error"})
_END = "end"
_HANDOFF = "handoff"


def end_of(row: calls.CallRow) -> CallEnd:
    """Return how a closed call ended."""
    state = row.state
    assert isinstance(state, calls.CLOSED_STATES)  # noqa: S101 - for the type checkers
    has_begun = bool(row.attempts or row.stage)
    if isinstance(state, calls.Returned):
        # Only an answer to an approval ends a call that was never started.
        return "returned" if has_begun else "answered"
    if isinstance(state, calls.Refused):
        return cast("CallEnd", state.code)
    return "error" if has_begun else "invalid"


def with_end(message: Message, row: calls.CallRow) -> Message:
    """Return the tool message of a closed call, which says how the call ended."""
    end = end_of(row)
    if isinstance(row.state, calls.Returned) and row.state.handoff is not None:
        facts = {_HANDOFF: row.state.handoff.agent}
        return message.with_metadata(jsontext.canonical(facts))
    if end == "returned":
        return message
    return message.with_metadata(jsontext.canonical({_END: end}))


def agent_after(message: Message) -> str | None:
    """Return the agent that a tool message gives the conversation to, or `None`."""
    facts = message.metadata if message.role == "tool" else None
    return None if facts is None else facts.get(_HANDOFF)


def end_in(message: Message) -> CallEnd:
    """Return how the call of a tool message ended."""
    facts = message.metadata
    return "returned" if facts is None else facts.get(_END, "returned")


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


def final_frame_state(
    message: Message, event: ModelReplied
) -> calls.Returned | calls.Errored:
    """Return the end of a frame whose model replied without a tool call."""
    if event.finish_reason in INCOMPLETE_REPLY_TEXTS:
        return calls.Errored(
            event.finish_reason, INCOMPLETE_REPLY_TEXTS[event.finish_reason]
        )
    if is_empty_reply(message):
        return calls.Errored("empty", _EMPTY_REPLY_TEXT)
    if event.output_error is not None:
        return calls.Errored(event.error_code, event.output_error)
    return calls.Returned(message.content)


def is_incomplete(event: ModelReplied) -> bool:
    """Return whether the provider cut off or withheld a part of the reply."""
    return event.finish_reason in INCOMPLETE_REPLY_TEXTS


def asks_again(frame: FrameRow, event: ModelReplied) -> bool:
    """Return whether the model gets another turn, because its reply is no output."""
    is_whole = not is_incomplete(event)
    is_wrong = event.is_final and event.output_error is not None
    return is_wrong and event.may_retry and frame.has_turns() and is_whole


def is_cut_off(event: ModelReplied, row: calls.CallRow) -> bool:
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


def failed_agent_text(
    frame: FrameRow, end: calls.Errored, last_message: Message
) -> str:
    """Return the text that a calling agent reads about a frame that failed."""
    text = f"ERROR: the agent {frame.agent} failed: {end.content}"
    if end.code == "output":
        text += f"\nIts last reply was:\n{last_message.content}"
    return text


def max_turns_error(frame: FrameRow) -> calls.Errored:
    """Return the end of a frame that has used all its turns."""
    return calls.Errored(
        "max_turns",
        f"agent {frame.agent} used all of its {frame.max_turns} turns without a final "
        "reply. Raise max_turns, or give the agent a smaller task.",
    )


def tool_message_text(row: calls.CallRow, denial_count: int = 0) -> str:
    """Return the content of the tool message of a closed call.

    `denial_count` is the number of turns in which the same call was denied.
    """
    assert isinstance(row.state, calls.CLOSED_STATES)  # noqa: S101 - for the type checkers
    content = row.state.content
    if isinstance(row.state, calls.Returned) and not (row.attempts or row.stage):
        # Only an answer to an approval ends a call that was never started.
        return (
            "ANSWERED: a person answered this call instead of the tool. It was not "
            f"executed. The answer:\n{content}"
        )
    if denial_count > 1:
        content += frames.denial_text(denial_count)
    ran = row.attempts + row.stage > 0 and not isinstance(row.state, calls.Refused)
    if row.original_arguments is None or not ran:
        return content
    from continuations.core.rows.state import shown_arguments  # noqa: PLC0415 - few calls are edited

    # An edit keeps the secret values, and a result is shown to approvers.
    kept = ' "[secret]" stands for a value of yours that was kept.' * bool(row.secrets)
    return (
        "The person who approved this call changed its arguments. The tool ran with "
        f"{shown_arguments(row)} instead of your arguments.{kept}\n{content}"
    )


def tool_message_parts(row: calls.CallRow, parts_json: str) -> list[Any]:
    """Return the content of the tool message of a call that returned attachments."""
    assert isinstance(row.state, calls.Returned)  # noqa: S101 - for the type checkers
    note = tool_message_text(row).removesuffix(row.state.content)
    parts: list[Any] = jsontext.parse(parts_json)
    return [{"type": "text", "text": note}, *parts] if note else parts


def refused_state(row: calls.CallRow, decision: Decision) -> calls.Refused:
    """Return the state of a call that was denied or that expired."""
    if isinstance(row.state, calls.Parked):
        return _refused_wait(row, decision)
    if decision.kind == "expire":
        content = "EXPIRED: this call was not approved in time. It was not executed."
        return calls.Refused("expired", content)
    code = "denied"
    if isinstance(row.state, calls.Unknown):
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
    return calls.Refused(code, content)


def _refused_wait(row: calls.CallRow, decision: Decision) -> calls.Refused:
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
    return calls.Refused(code, content)


def _has_tool(row: calls.CallRow) -> bool:
    """Return whether a tool ran before the wait; a workflow also waits by itself."""
    return not row.tool.startswith(".")


def cancelled_state(
    row: calls.CallRow, reason: str, *, never_began: bool = False
) -> calls.Refused:
    """Return the state of a call that was cancelled, or whose run has ended."""
    began = row.attempts - never_began if isinstance(row.state, calls.Started) else 0
    began = row.attempts if isinstance(row.state, calls.Ready) else began
    if isinstance(row.state, calls.Nested):
        content = f"CANCELLED while it ran; effects of its tools remain. {reason}"
    elif isinstance(row.state, calls.Parked) and not _has_tool(row):
        content = f"CANCELLED while it waited. {reason}"
    elif isinstance(row.state, calls.Parked) or row.stage:
        content = f"CANCELLED while it waited; effects of the tool remain. {reason}"
    elif isinstance(row.state, calls.Unknown) or began:
        content = f"CANCELLED while it ran; its outcome is not known. {reason}"
    else:
        content = f"CANCELLED: it was not executed. {reason}"
    return calls.Refused("cancelled", content)


def result_message(row: calls.CallRow, denial_count: int = 0) -> Message:
    """Return the tool message of a closed call, with the code of its end."""
    content: str | list[Any]
    if row.parts_json is None:
        content = tool_message_text(row, denial_count)
    else:
        content = tool_message_parts(row, row.parts_json)
    return with_end(tool_message(row.tool_call_id, content), row)


def gather(draft: Draft, frame: FrameRow, rows: Sequence[calls.CallRow]) -> FrameRow:
    """Append the results of a turn; return the frame with the state after the turn."""
    draft.append(
        frame.id,
        *(result_message(row, frames.denial_count(frame.denials, row)) for row in rows),
    )
    for row in rows:
        if row.patch is not None:
            state = frames.state_after_turn(frame.state_json, rows)
            return replace(frame, state_json=state)
    return frame


def is_frozen(log: MessageLog) -> bool:
    """Return whether a thread keeps its first instructions for all turns."""
    first = log.messages[0] if log.messages else None
    return first is not None and first.metadata_json == FROZEN_INSTRUCTIONS


def frozen_log(log: MessageLog) -> MessageLog:
    """Return the first log of a thread, whose instructions stay for all turns."""
    frozen = system_message(_present(log)).with_metadata(FROZEN_INSTRUCTIONS)
    return replace(log, messages=(frozen,))


def new_instructions(log: MessageLog, instructions: str) -> Message | None:
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


_PREFIX = "Your last reply cannot be used. "
_SUFFIX = "\nReply again, with the whole output."
EMPTY_REPLY = "The reply is empty: it has no text and no tool call."


def retry_message(problem: str) -> Message:
    """Return the user message that says why the last reply cannot be used."""
    return user_message(f"{_PREFIX}{problem}{_SUFFIX}")


def retry_reason(message: Message) -> str:
    """Return the problem that a request to reply again names."""
    return message.content.removeprefix(_PREFIX).removesuffix(_SUFFIX)


def is_retry_request(message: Message) -> bool:
    """Return whether a message asks the model to reply again."""
    return message.role == "user" and message.content.startswith(_PREFIX)


def check_reply(frame: FrameRow, event: ModelReplied) -> None:
    """Raise `IllegalTransition` if a frame cannot take a reply."""
    if frame.open_call_ids:
        raise illegal_transition(f"frame {frame.id} has open calls", event)
    if event.message.role != "assistant":
        raise illegal_transition(f"the reply has the role {event.message.role}", event)
    if frame.parent_call_id is not None and not event.is_final:
        raise illegal_transition("only the root frame reads messages", event)


def counted_turn(
    frame: FrameRow, *, retries: bool, continues: Message | None
) -> FrameRow:
    """Return the frame after a reply, perhaps one that asks for another turn."""
    if retries:
        return replace(frame, retries=frame.retries + 1)
    return frame if continues is None else replace(frame, continues=frame.continues + 1)


def is_empty_reply(message: Message) -> bool:
    """Return whether a reply has neither a tool call nor anything to read or hear."""
    if message.tool_call_ids or message.content:
        return False
    data = message.data
    return not data.get("content") and not data.get("audio")
