"""The JSON forms of frames and calls, as `Continuation.to_json` reports them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from continuations.core import jsontext
from continuations.core.messages import shown_message
from continuations.core.reading.refused_replies import shown_facts
from continuations.core.reading.views import Frame
from continuations.core.rows.calls import STATE_NAMES
from continuations.core.words.secret_arguments import MASK, masked

if TYPE_CHECKING:
    from continuations.core.messages import Detail
    from continuations.core.rows.calls import CallRow
    from continuations.core.rows.state import RunState


def stack_json(state: RunState, detail: Detail = "transcript") -> dict[str, Any]:
    """Return all frames and calls of a run as JSON values.

    They are two flat lists with parent ids: a stack may be a thousand frames deep.
    """
    return {
        "frames": [frame_json(state, each, detail) for each in state.frames],
        "calls": [call_json(state, call_id) for call_id in state.calls],
    }


def frame_json(state: RunState, frame_id: str, detail: Detail) -> dict[str, Any]:
    """Return a frame and its messages as JSON values.

    `detail` says which texts of messages it has.

    These fields are present only if they have a value:

    - `model_error`: why its model refused the last request
    - `state`: the state of the agent, if tools have changed it
    - `metadata`: facts about messages
    """
    row = state.frames[frame_id]
    frame = Frame(state, frame_id)
    form: dict[str, Any] = {
        "id": row.id,
        "agent": row.agent,
        "parent_call_id": row.parent_call_id,
        "turns": row.turns,
        "messages": [
            shown_message(each, detail, of_sub_agent=row.parent_call_id is not None)
            for each in frame.messages
        ],
        "open_call_ids": list(row.open_call_ids),
    }
    if row.state_json:
        form["state"] = jsontext.parse(row.state_json)
    if row.model_error is not None:
        form["model_error"] = row.model_error
    if frame.metadata:
        form["metadata"] = {
            str(number): shown_facts(facts, detail)
            for number, facts in frame.metadata.items()
        }
    return form


def call_json(state: RunState, call_id: str) -> dict[str, Any]:
    """Return a call as JSON values."""
    row = state.calls[call_id]
    # Before its arguments are validated, the secrets of a call are not known.
    has_no_secrets = row.arguments is not None and not row.secrets
    return {
        "id": row.id,
        "frame_id": row.frame_id,
        "tool": row.tool,
        "tool_call_id": row.tool_call_id,
        "raw_arguments": row.raw_arguments if has_no_secrets else MASK,
        "arguments": _arguments(row, row.arguments),
        "original_arguments": _arguments(row, row.original_arguments),
        "state": STATE_NAMES[type(row.state)],
        "tasks": list(row.tasks),
    }


def _arguments(row: CallRow, text: str | None) -> Any:
    """Return the arguments of a call as JSON values, with secret values masked."""
    return None if text is None else masked(jsontext.parse(text), row.secrets)
