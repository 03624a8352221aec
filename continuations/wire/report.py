"""The JSON forms of a run's rows, as `Continuation.to_json` reports them.

`continuations.present` uses the same functions for HTTP, AWS Lambda and the command
line, so each row has one JSON form. `docs/schemas/continuations.schema.json` describes
the forms.
"""

from __future__ import annotations

from dataclasses import asdict
from datetime import UTC
from typing import TYPE_CHECKING, Any

from continuations.core import jsontext
from continuations.core.calls import STATE_NAMES
from continuations.core.views import Frame

if TYPE_CHECKING:
    from datetime import datetime

    from continuations.core.state import RunState
    from continuations.core.waits import Wait


def utc_text(moment: datetime) -> str:
    """Return a moment as ISO 8601 text in UTC: `2026-11-21T14:00:00.000Z`.

    Stored moments have milliseconds, so every moment is shown with milliseconds.
    """
    text = moment.astimezone(UTC).isoformat(timespec="milliseconds")
    return text.removesuffix("+00:00") + "Z"


def optional_utc_text(moment: datetime | None) -> str | None:
    """Return a moment as `utc_text` does, or `None`."""
    return None if moment is None else utc_text(moment)


def run_json(state: RunState, version: int) -> dict[str, Any]:
    """Return the row of a run as JSON values."""
    run = state.run
    failure = run.failure
    return {
        "run_id": run.id,
        "agent": run.agent,
        "version": version,
        "status": run.status,
        "created_at": utc_text(run.created_at),
        "claimed_until": optional_utc_text(run.claim.until if run.claim else None),
        "output": run.output,
        "failure": failure and {"code": failure.code, "message": failure.message},
        "usage": asdict(run.usage),
    }


def stack_json(state: RunState) -> dict[str, Any]:
    """Return all frames and calls of a run as JSON values.

    They are two flat lists with parent ids: a stack may be a thousand frames deep.
    """
    return {
        "frames": [frame_json(state, frame_id) for frame_id in state.frames],
        "calls": [call_json(state, call_id) for call_id in state.calls],
    }


def frame_json(state: RunState, frame_id: str) -> dict[str, Any]:
    """Return a frame and its messages as JSON values."""
    row = state.frames[frame_id]
    return {
        "id": row.id,
        "agent": row.agent,
        "parent_call_id": row.parent_call_id,
        "turns": row.turns,
        "messages": Frame(state, frame_id).messages,
        "open_call_ids": list(row.open_call_ids),
    }


def call_json(state: RunState, call_id: str) -> dict[str, Any]:
    """Return a call as JSON values."""
    row = state.calls[call_id]
    return {
        "id": row.id,
        "frame_id": row.frame_id,
        "tool": row.tool,
        "tool_call_id": row.tool_call_id,
        "raw_arguments": row.raw_arguments,
        "arguments": row.arguments and jsontext.parse(row.arguments),
        "original_arguments": row.original_arguments
        and jsontext.parse(row.original_arguments),
        "state": STATE_NAMES[type(row.state)],
    }


def wait_json(wait: Wait) -> dict[str, Any]:
    """Return a wait as JSON values."""
    return {
        "id": wait.id,
        "run_id": wait.run_id,
        "call_id": wait.call_id,
        "kind": wait.kind,
        "path": list(wait.path),
        "tool": wait.tool,
        "arguments": wait.arguments,
        "schema": wait.schema,
        "digest": wait.digest,
        "created_at": utc_text(wait.created_at),
        "deadline": optional_utc_text(wait.deadline),
        "valid_for": wait.valid_for,
        "policy": wait.policy,
        "denial_stops": wait.denial_stops,
        "expiry_stops": wait.expiry_stops,
        "note": wait.note,
    }
