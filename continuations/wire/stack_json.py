"""The JSON of the stack of a run: its frames and calls."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from continuations.core import jsontext
from continuations.core.messages import shown_message
from continuations.core.reading.views import Frame, shown_facts
from continuations.core.rows.calls import STATE_NAMES
from continuations.core.words.secret_arguments import MASK, masked
from continuations.wire.report import JsonForm

if TYPE_CHECKING:
    from continuations.core.messages import Detail
    from continuations.core.rows.calls import CallRow
    from continuations.core.rows.frames import FrameRow
    from continuations.core.rows.state import RunState

FRAME = JsonForm(
    names="id agent parent_call_id turns open_call_ids", optional="state model_error"
)
# Secret arguments are masked. Before the arguments are validated, the secrets of a call
# are not known.
CALL = JsonForm(
    names="id frame_id tool tool_call_id raw_arguments state tasks",
    values={
        "raw_arguments": lambda row: (
            MASK if row.arguments is None or row.secrets else row.raw_arguments
        ),
        "state": lambda row: STATE_NAMES[type(row.state)],
    },
)


def stack_json(state: RunState, detail: Detail = "transcript") -> dict[str, Any]:
    """Return all frames and calls of a run as JSON values.

    They are two flat lists with parent ids: a stack may be a thousand frames deep.
    `detail` says which texts of messages the frames have.
    """
    return {
        "frames": [_frame_json(state, row, detail) for row in state.frames.values()],
        "calls": [_call_json(row) for row in state.calls.values()],
    }


def _call_json(row: CallRow) -> dict[str, Any]:
    texts = {
        "arguments": row.arguments,
        "original_arguments": row.original_arguments,
    }
    arguments = {
        name: None if text is None else masked(jsontext.parse(text), row.secrets)
        for name, text in texts.items()
    }
    return {**CALL.of(row), **arguments}


def _frame_json(state: RunState, row: FrameRow, detail: Detail) -> dict[str, Any]:
    frame = Frame(state, row.id)
    is_sub_agent = row.parent_call_id is not None
    messages = [
        shown_message(each, detail, of_sub_agent=is_sub_agent)
        for each in frame.messages
    ]
    metadata = {
        str(number): shown_facts(facts, detail)
        for number, facts in frame.metadata.items()
    }
    form = {**FRAME.of(row), "messages": messages}
    return {**form, "metadata": metadata} if metadata else form
