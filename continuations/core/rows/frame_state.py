"""The state of an agent: one JSON object for each frame.

Tools change it with patches: JSON objects whose fields replace fields of the state. A
patch stays in the row of its call until the turn ends. Then the patches of the calls
that returned are applied in the order in which the model asked for the calls.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from continuations.core import jsontext
from continuations.core.rows.calls import CLOSED_STATES, Proposed, Ready, Returned

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from continuations.core.rows.calls import CallRow
    from continuations.core.rows.frames import FrameRow


def with_patch(state_json: str, patch_json: str | None) -> str:
    """Return a state, or a patch, whose fields a later patch has replaced."""
    if patch_json in (None, "{}"):
        return state_json
    return jsontext.canonical({**fields(state_json), **fields(patch_json)})


def after_turn(state_json: str, rows: Iterable[CallRow]) -> str:
    """Return the state after a turn with these calls, in the model's order."""
    for row in rows:
        if row.patch is not None and isinstance(row.state, Returned):
            state_json = with_patch(state_json, row.patch)
    return state_json


def seen_by(call: CallRow, frame: FrameRow, calls: Mapping[str, CallRow]) -> str:
    """Return the state that the tool of a call reads.

    A call that writes reads what the calls before it wrote: they have ended. Another
    call reads the state of the beginning of its turn, whatever runs at the same time.
    """
    if call.patch is None:
        return frame.state_json
    before = after_turn(frame.state_json, _before(call, frame, calls))
    return with_patch(before, call.patch)


def is_held(call: CallRow, frame: FrameRow, calls: Mapping[str, CallRow]) -> bool:
    """Return whether a call must not begin yet, because an earlier one may write."""
    return isinstance(call.state, Ready) and any(
        (row.patch is not None or isinstance(row.state, Proposed))
        and not isinstance(row.state, CLOSED_STATES)
        for row in _before(call, frame, calls)
    )


def _before(
    call: CallRow, frame: FrameRow, calls: Mapping[str, CallRow]
) -> Iterable[CallRow]:
    number = frame.open_call_ids.index(call.id)
    return [calls[call_id] for call_id in frame.open_call_ids[:number]]


def fields(state_json: str) -> dict[str, Any]:
    """Return the fields of a state, or of a patch, as a new dict."""
    parsed: dict[str, Any] = jsontext.parse(state_json or "{}")
    return parsed


def changed_fields(before_json: str, after_json: str) -> str:
    """Return the fields of the later state that the earlier one does not have."""
    before = fields(before_json)
    changed = {
        name: value
        for name, value in fields(after_json).items()
        if name not in before
        or jsontext.canonical(before[name]) != jsontext.canonical(value)
    }
    return jsontext.canonical(changed)
