"""Waits and decisions as JSON values, as the command line and the doors report them."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from continuations.core import jsontext

if TYPE_CHECKING:
    from continuations.core.decisions import Decision
    from continuations.core.waits import Wait


def wait_json(wait: Wait) -> dict[str, Any]:
    """Return a whole wait as JSON values."""
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
        "created_at": wait.created_at.isoformat(),
        "deadline": wait.deadline and wait.deadline.isoformat(),
        "valid_for": wait.valid_for,
        "policy": wait.policy,
        "denial_stops": wait.denial_stops,
        "expiry_stops": wait.expiry_stops,
        "note": wait.note,
    }


def decision_json(decision: Decision) -> dict[str, Any]:
    """Return a decision as JSON values.

    `arguments` is there if they were edited, `value` if one was answered.
    """
    report: dict[str, Any] = {
        "id": decision.id,
        "wait_id": decision.wait_id,
        "kind": decision.kind,
        "at": decision.at.isoformat(),
        "by": decision.by,
        "reason": decision.reason,
        "digest": decision.digest,
    }
    for name in ("arguments", "value"):
        text: str | None = getattr(decision, name)
        if text is not None:
            report[name] = jsontext.parse(text)
    return report


def indented_json(text: str) -> str:
    """Return a JSON text with one value to a line."""
    try:
        return json.dumps(jsontext.parse(text), indent=2, ensure_ascii=False)
    except (jsontext.NotJson, RecursionError):
        # Nested too deep to be laid out: still whole, on one line.
        return text
