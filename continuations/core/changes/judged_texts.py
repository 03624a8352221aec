"""Inputs and outputs that a person must accept, because a guardrail asks.

The wait suspends the frame and has the whole text. A reply is held in the row of its
frame: it is no message and no output before a person accepts it. An accepted input
leaves its digest in the row, until the model has replied. So the guardrail does not ask
again, and asks again about any other text.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from continuations.core import jsontext
from continuations.core.changes import run_events
from continuations.core.changes.events import (
    InputHeld,
    SuspensionBegan,
    TextAccepted,
    TurnRefused,
)
from continuations.core.changes.transitions import illegal_transition
from continuations.core.messages import Message
from continuations.core.rows.calls import Errored, Returned
from continuations.core.rows.frames import TRIPPED_CODE, FrameRow
from continuations.core.rows.state import Draft, record_trip
from continuations.value_class import replace

if TYPE_CHECKING:
    from continuations.core.changes.events import ModelReplied, TextRefused
    from continuations.core.rows.run import RunRow
    from continuations.core.rows.waits import Wait

# The messages that stand in a transcript instead of a refused text.
REFUSED_INPUT = Message.from_mapping(
    {"role": "assistant", "content": "(This message was refused.)"}
)
WITHHELD_REPLY = Message.from_mapping(
    {"role": "assistant", "content": "(This reply was withheld.)"}
)


def with_digest(run: RunRow, wait: Wait) -> Wait:
    """Return a wait about a text, with a digest over the text and its place."""
    digest = jsontext.digest(
        run.run_nonce, wait.frame_id, wait.id, wait.kind, wait.arguments_json
    )
    return replace(wait, digest=digest)


def judged_text(wait: Wait) -> str | None:
    """Return the text that a wait is about; `None`: the wait is damaged."""
    text = wait.arguments.get(wait.kind)
    return text if isinstance(text, str) else None


def input_digest(run: RunRow, frame_id: str, text: str) -> str:
    """Return the digest of an input that a person accepted; it fits no other run."""
    return jsontext.digest(run.run_nonce, frame_id, text)


def hold_reply(draft: Draft, frame: FrameRow, event: ModelReplied, wait: Wait) -> None:
    """Hold a reply until a person accepts it."""
    if wait.rules.judges != "output" or wait.frame_id != frame.id:
        raise illegal_transition(f"wait {wait.id} is not about the reply", event)
    draft.put_frame(replace(frame, held_reply=event.message))
    if event.trip is not None:
        record_trip(draft, event.trip)
    run_events.apply(draft, SuspensionBegan(wait=wait))


def apply(
    draft: Draft, event: TurnRefused | InputHeld | TextAccepted | TextRefused
) -> tuple[str, Returned | Errored] | None:
    """Apply an event about an input or an output.

    Returns the id and the end of a frame that ends with it.
    """
    if isinstance(event, TurnRefused):
        run_events.add_usage(draft, event.usage)
        if event.trip is not None:
            record_trip(draft, event.trip)
        draft.append(event.frame_id, event.message)
        _check_no_calls(draft, event.frame_id, event)
        return event.frame_id, Errored(event.code, event.content)
    if isinstance(event, InputHeld):
        run_events.add_usage(draft, event.usage)
        record_trip(draft, event.trip)
        run_events.apply(draft, SuspensionBegan(wait=event.wait))
        return None
    wait = draft.waits.get(event.wait_id)
    if wait is None or not wait.rules.judges_text:
        raise illegal_transition("the wait is about no input and no output", event)
    if isinstance(event, TextAccepted):
        return _accept(draft, event, wait)
    draft.drop_wait(wait.id)
    draft.append(wait.frame_id, event.message)
    _check_no_calls(draft, wait.frame_id, event)
    return wait.frame_id, Errored(TRIPPED_CODE, event.content)


def _accept(
    draft: Draft, event: TextAccepted, wait: Wait
) -> tuple[str, Returned] | None:
    frame, text = draft.frame(wait.frame_id), judged_text(wait)
    reply = frame.held_reply
    draft.drop_wait(wait.id)
    if wait.rules.judges == "input":
        accepted = input_digest(draft.run, frame.id, text or "")
        draft.put_frame(replace(frame, accepted_input=accepted))
        return None
    if reply is None or reply.content != text:
        raise illegal_transition("the held reply is not the accepted one", event)
    draft.append(frame.id, reply)
    if frame.parent_call_id is None:
        return None  # a message may have come; else the reply is confirmed
    return frame.id, Returned(reply.content)


def _check_no_calls(
    draft: Draft, frame_id: str, event: TurnRefused | TextRefused
) -> None:
    if draft.frame(frame_id).open_call_ids:
        raise illegal_transition(f"frame {frame_id} has open calls", event)


def violation(frame: FrameRow, wait: Wait | None) -> str | None:
    """Return why a held reply and the wait of its frame do not fit, or `None`."""
    held = frame.held_reply
    is_output = wait is not None and wait.rules.judges == "output"
    if (held is None) is is_output:
        return f"frame {frame.id} holds a reply without its wait, or the reverse"
    if held is not None and wait is not None and judged_text(wait) != held.content:
        return f"the reply that frame {frame.id} holds is not that of its wait"
    return None
