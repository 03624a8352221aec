"""The dicts that the prototype's `request` returns, made from a continuation."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from continuations.core import jsontext
from continuations.core.changes import tool_messages
from continuations.core.rows.calls import CLOSED_STATES, Nested
from continuations.core.rows.decisions import Deny
from continuations.core.rows.state import ROOT_FRAME_ID

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from continuations.core.rows.calls import CallRow
    from continuations.core.rows.state import RunState
    from continuations.wire.continuation import Continuation

_Json = dict[str, Any]


def completed(continuation: Continuation) -> _Json:
    """Return the result of an agent that has ended."""
    return {
        "result": continuation.output,
        "messages": continuation.root.messages,
        "end_reason": "completed",
    }


def paused(continuation: Continuation, suspended_by: list[str]) -> _Json:
    """Return the result of an agent that is paused."""
    state = continuation.run_state
    top = _node(state, ROOT_FRAME_ID)
    suspended = {"suspend_list": suspended_by} if suspended_by else {}
    if "resume_request" not in top:
        return {"continuation": top, **suspended, "end_reason": "suspended"}
    return {
        "continuation": top,
        "approval_info": list(_entries(top, [], [])),
        **suspended,
        "end_reason": "approval_required",
    }


def _node(state: RunState, frame_id: str) -> _Json:
    messages = [message.data for message in state.logs[frame_id].messages]
    rows = [state.calls[call] for call in state.frames[frame_id].open_call_ids]
    if not rows:
        return {"messages": messages}
    asked = {call["id"]: call for call in messages[-1]["tool_calls"]}
    pending: list[_Json] = []
    for row in rows:
        if isinstance(row.state, CLOSED_STATES):
            text = tool_messages.tool_message_text(row)
            result = {"role": "tool", "tool_call_id": row.tool_call_id}
            messages.append({**result, "content": text})
        else:
            pending.append(_request(state, row, asked[row.tool_call_id]))
    processed = [{"id": call["id"], "approved": False} for call in pending]
    return {"messages": messages, "resume_request": pending, "processed": processed}


def _request(state: RunState, row: CallRow, asked: _Json) -> _Json:
    request: _Json = {
        key: asked[key] for key in ("id", "type", "function") if key in asked
    }
    if isinstance(row.state, Nested):
        request["continuation"] = _node(state, row.state.frame_id)
    return request


def _entries(node: _Json, names: list[str], ids: list[str]) -> Iterator[_Json]:
    for call in node.get("resume_request", []):
        here = {
            "paths": [*names, call["function"]["name"]],
            "path_ids": [*ids, call["id"]],
        }
        below = call.get("continuation")
        if below is None:
            yield {**here, "tool_call": call, "approved": False}
        elif "resume_request" in below:
            yield from _entries(below, here["paths"], here["path_ids"])
        else:
            yield {**here, "approved": True}


def without_denials(
    given: Mapping[str, Any],
) -> tuple[Mapping[str, Any], dict[tuple[str, ...], Deny]]:
    """Return a paused result as plain JSON values, and its denials by path of ids."""
    denied: dict[tuple[str, ...], Deny] = {}
    entries: list[Any] = []
    for entry in jsontext.as_array(given.get("approval_info")) or ():
        fields = jsontext.as_object(entry)
        verdict = fields.get("approved") if fields is not None else None
        if fields is not None and isinstance(verdict, Deny):
            path = jsontext.as_array(fields.get("path_ids")) or ()
            denied[tuple(map(str, path))] = verdict
            entries.append({**fields, "approved": False})
        else:
            entries.append(entry)
    return ({**given, "approval_info": entries} if denied else given), denied
