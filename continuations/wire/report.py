"""The JSON forms of runs and waits, as `Continuation.to_json` reports them.

`continuations.present` uses the same functions for HTTP, AWS Lambda and the command
line, so each value has one JSON form. `docs/schemas/continuations.schema.json`
describes the forms. A process that decides imports this module, but not the frames and
calls of `stack_report`.
"""

from __future__ import annotations

from datetime import UTC
from typing import TYPE_CHECKING, Any

from continuations.core import jsontext
from continuations.core.usage import USAGE_COUNTS

if TYPE_CHECKING:
    from datetime import datetime

    from continuations.core.quorum import Vote
    from continuations.core.state import RunState
    from continuations.core.usage import Usage
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
        "title": run.title,
        "labels": dict(run.labels),
        "requester": run.requester,
        "thread": run.thread_key,
        "forked_from": run.forked_from,
        "version": version,
        "status": run.status,
        "created_at": utc_text(run.created_at),
        "claimed_until": optional_utc_text(run.claim.until if run.claim else None),
        "output": run.output,
        "failure": failure and {"code": failure.code, "message": failure.message},
        "usage": usage_json(run.usage),
    }


def usage_json(usage: Usage) -> dict[str, Any]:
    """Return a usage as JSON values."""
    counts = {name: getattr(usage, name) for name in USAGE_COUNTS}
    cost = usage.cost if usage.currency else None
    return {
        **counts,
        "cost": None if cost is None else f"{cost:f}",
        "currency": usage.currency or None,
    }


def wait_json(wait: Wait) -> dict[str, Any]:
    """Return a wait as JSON values."""
    return {
        "id": wait.id,
        "run_id": wait.run_id,
        "call_id": wait.call_id or None,
        "frame_id": wait.frame_id or None,
        "kind": wait.kind,
        "path": list(wait.path),
        "tool": wait.tool,
        "title": wait.title,
        "reversible": wait.reversible,
        "requester": wait.requester,
        "arguments": wait.arguments,
        "readings": wait.readings,
        "secrets": list(wait.secrets),
        "evidence": [finding._asdict() for finding in wait.evidence],
        "agent_words": wait.agent_words,
        "schema": wait.schema,
        "digest": wait.digest,
        "created_at": utc_text(wait.created_at),
        "deadline": optional_utc_text(wait.deadline),
        "valid_for": wait.valid_for,
        "policy": wait.policy,
        "denial_stops": wait.denial_stops,
        "expiry_stops": wait.expiry_stops,
        "note": wait.note,
        "approve_after": optional_utc_text(wait.approve_after),
        "question": wait.question,
        "answer_schema": wait.answer_schema,
        "event": wait.event,
        "event_key": wait.event_key,
        "stage": wait.stage,
        "on_deadline": wait.on_deadline_json and jsontext.parse(wait.on_deadline_json),
        "form_schema": wait.form_schema,
        "editable": None if wait.editable is None else list(wait.editable),
        "approvers": list(wait.approvers),
        "not_requester": wait.quorum is not None and wait.quorum.not_requester,
        "votes_needed": wait.votes_needed,
        "votes": [vote_json(vote) for vote in wait.votes],
    }


def vote_json(vote: Vote) -> dict[str, Any]:
    """Return a vote as JSON values (`vote`).

    `groups` is present if the groups of the person are known, and `shown` if the digest
    that the person saw is known. Edits have `arguments`, answers have `value`, and
    approvals with a form have `form`.
    """
    form: dict[str, Any] = {
        "id": vote.id,
        "wait_id": vote.wait_id,
        "kind": vote.kind,
        "at": utc_text(vote.at),
        "by": vote.by,
        "reason": vote.reason,
        "digest": vote.digest,
        "votes_needed": vote.votes_needed,
        "still_needed": vote.still_needed,
    }
    if vote.groups:
        form["groups"] = list(vote.groups)
    if vote.shown is not None:
        form["shown"] = vote.shown
    for name in ("arguments", "value", "form"):
        text: str | None = getattr(vote, name)
        if text is not None:
            form[name] = jsontext.parse(text)
    return form
