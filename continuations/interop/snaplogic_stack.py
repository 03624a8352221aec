"""The structure of a file of SnapLogic's prototype: frames, calls and decisions.

A file has one of these forms:

- `continuation` with `messages`, and with `resume_request` if calls are pending
- `messages` and `rejected_tool_calls`: a person rejected calls
- `result`: the agent has ended, and nothing is paused
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NoReturn

from continuations.interop.foreign_stack import (
    AwaitsApproval,
    ForeignCall,
    ForeignFrame,
    HasResult,
    WasRejected,
)
from continuations.interop.foreign_turns import Turns, result_text

if TYPE_CHECKING:
    from collections.abc import Callable

    from continuations.core.messages import ToolCallRequest
    from continuations.interop.foreign_stack import CallProgress
    from continuations.interop.json_fields import Field

_ASKED = "The file of the paused agent says that this call waits for an approval."
_LOST = (
    "The file of the paused agent has no state of this call. It may have been approved "
    "before, and it has no result."
)
_END_REASONS = {
    "continuation": ("approval_required", "suspended"),
    "rejected_tool_calls": ("rejected_tool_calls",),
}


def read_stack(top: Field) -> ForeignFrame:
    """Return the stack of a file; raises `FormatError`."""
    if top.has("continuation"):
        _check_end_reason(top, "continuation")
        return _read_frame(top["continuation"])
    if top.has("rejected_tool_calls"):
        _check_end_reason(top, "rejected_tool_calls")
        return _read_rejected(top)
    return _refuse_form(top)


def _refuse_form(top: Field) -> NoReturn:
    if "result" not in top.object():
        top["continuation"].refuse("is missing")
    top["result"].refuse(
        "says that the agent has ended: nothing is paused in the file",
        "Pass the file of a paused agent.",
    )


def _check_end_reason(top: Field, form: str) -> None:
    reason = top["end_reason"]
    if reason.value is not None and reason.text() not in _END_REASONS[form]:
        reason.refuse(f"is {reason.text()[:40]!r}, and the file has the field {form}")


def _read_frame(node: Field) -> ForeignFrame:
    turns = Turns(node["messages"])
    if not node.has("resume_request") or not node["resume_request"].items():
        return _frame(turns, lambda _call_id, _field: AwaitsApproval(_LOST))
    requests = _calls_by_id(node["resume_request"], turns)
    _check_processed(node, requests)

    def progress(call_id: str, field: Field) -> CallProgress:
        request = requests.get(call_id)
        if request is None:
            field.refuse("has neither a tool message nor an entry in resume_request")
        if request.has("continuation"):
            return _read_frame(request["continuation"])
        return AwaitsApproval(_ASKED)

    return _frame(turns, progress)


def _read_rejected(top: Field) -> ForeignFrame:
    turns = Turns(top["messages"])
    rejected = _calls_by_id(top["rejected_tool_calls"], turns)

    def progress(call_id: str, _field: Field) -> CallProgress:
        return WasRejected() if call_id in rejected else AwaitsApproval(_LOST)

    return _frame(turns, progress)


def _frame(
    turns: Turns, progress: Callable[[str, Field], CallProgress]
) -> ForeignFrame:
    """Return a frame; `progress` tells how far a call without a result is."""
    if not turns.open_turn:
        return ForeignFrame(tuple(turns.messages), ())

    def read_call(asked: ToolCallRequest) -> ForeignCall:
        result = turns.results.get(asked.tool_call_id)
        if result is not None:
            place = turns.calls[asked.tool_call_id]
            done = HasResult(result_text(result))
            return ForeignCall(
                asked.tool_call_id, asked.tool, asked.arguments, done, place
            )
        place = turns.open_turn[asked.tool_call_id]
        open_ = progress(asked.tool_call_id, place)
        return ForeignCall(
            asked.tool_call_id, asked.tool, asked.arguments, open_, place
        )

    calls = turns.messages[-1].tool_calls
    return ForeignFrame(tuple(turns.messages), tuple(map(read_call, calls)))


def _calls_by_id(field: Field, turns: Turns) -> dict[str, Field]:
    """Return the listed calls; each must be the same as in the messages."""
    found: dict[str, Field] = {}
    for item in field.items():
        call_id = item["id"].text()
        if call_id in found:
            item["id"].refuse("is listed twice")
        if call_id not in turns.open_turn:
            item["id"].refuse("names no call of the messages that is open")
        _check_same_call(item, turns.open_turn[call_id])
        found[call_id] = item
    return found


def _check_same_call(copy: Field, call: Field) -> None:
    """Refuse a copy of a call that was edited: the edit was not recorded."""
    for key in ("name", "arguments"):
        if copy["function"][key].value != call["function"][key].value:
            copy["function"][key].refuse(
                f"differs from {call.path}.function.{key}",
                "Restore it, and edit the arguments with Approve(arguments=...).",
            )


def _check_processed(node: Field, requests: dict[str, Field]) -> None:
    """Check the form of `processed`. Its values are not read.

    The prototype writes true at the last id of every path, also for a rejected call.
    """
    if not node.has("processed"):
        return
    for item in node["processed"].items():
        item["approved"].boolean()
        if item["id"].text() not in requests:
            item["id"].refuse("is not in resume_request")


def approved_paths(top: Field, stack: ForeignFrame) -> frozenset[tuple[str, ...]]:
    """Return the full paths of ids that `approval_info` marks as approved."""
    if not top.has("approval_info"):
        return frozenset()
    calls = dict(stack.walk())
    seen: set[tuple[str, ...]] = set()
    approved: set[tuple[str, ...]] = set()
    for entry in top["approval_info"].items():
        path = tuple(item.text() for item in entry["path_ids"].items())
        is_approved = entry["approved"].boolean()
        call = calls.get(path)
        if call is None:
            entry["path_ids"].refuse("names no call that is open")
        if path in seen:
            entry["path_ids"].refuse("is listed twice")
        seen.add(path)
        if not isinstance(call.progress, AwaitsApproval):
            continue  # an agent that is suspended: there is nothing to approve
        if entry.has("tool_call"):
            _check_same_call(entry["tool_call"], call.field)
        if is_approved:
            approved.add(path)
    return frozenset(approved)
