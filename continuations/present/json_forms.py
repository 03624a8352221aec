"""The JSON forms of runs, waits, decisions and outcomes.

Every form has a definition in `docs/schemas/continuations.schema.json`. A moment is ISO
8601 text in UTC with milliseconds and "Z".
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from continuations.core import jsontext
from continuations.core.decisions import Decision
from continuations.core.withheld_waits import withheld
from continuations.wire import report
from continuations.wire.report import utc_text

if TYPE_CHECKING:
    from collections.abc import Collection
    from datetime import datetime

    from continuations.core.audit import AuditLine
    from continuations.core.messages import Detail
    from continuations.core.quorum import Vote
    from continuations.core.waits import Wait, WaitSummary
    from continuations.engine.outcomes import Outcome, SendResult
    from continuations.engine.sweeping import SweepResult
    from continuations.ledger.erasing import ErasedRun
    from continuations.ledger.pruning import PruneResult
    from continuations.ledger.published_events import Publication
    from continuations.ledger.run_listing import RunSummary
    from continuations.ledger.worklist import ListedWait
    from continuations.wire.continuation import Continuation

__all__ = [
    "MAX_TEXT_CHARS",
    "audit_line_json",
    "decide_json",
    "decision_json",
    "erased_run_json",
    "indented_json",
    "outcome_json",
    "prune_result_json",
    "publication_json",
    "reply_json",
    "run_json",
    "run_summary_json",
    "sweep_result_json",
    "thread_json",
    "utc_text",
    "wait_json",
    "wait_notice_json",
    "wait_summary_json",
]

# The model reads a reason or an answer again in every later turn.
MAX_TEXT_CHARS = 4000


def wait_json(
    wait: Wait, *, now: datetime | None = None, agent_state: str = ""
) -> dict[str, Any]:
    """Return a wait as JSON values (`wait`).

    Args:
        wait: A wait that is not decided.
        now: The time of the report. With it, the form has a `state`: "expired" after
            the deadline, otherwise "open".
        agent_state: The stored state of the agent that waits, as JSON; empty without
            one. Only the form of a single wait has it.
    """
    form = report.wait_json(withheld(wait))
    if agent_state:
        form["agent_state"] = jsontext.parse(agent_state)
    if now is not None:
        is_expired = wait.deadline is not None and now > wait.deadline
        form["state"] = "expired" if is_expired else "open"
    return form


def wait_summary_json(summary: WaitSummary) -> dict[str, Any]:
    """Return a wait of the listing as JSON values (`wait_summary`)."""
    return {
        "id": summary.id,
        "run_id": summary.run_id,
        "kind": summary.kind,
        "created_at": utc_text(summary.created_at),
        "state": "expired" if summary.expired else "open",
    }


def listed_wait_json(row: ListedWait) -> dict[str, Any]:
    """Return a wait of the worklist as JSON values (`wait`)."""
    return {**wait_json(row.wait), "state": "expired" if row.expired else "open"}


def run_summary_json(summary: RunSummary) -> dict[str, Any]:
    """Return a run of the listing as JSON values (`run_summary`)."""
    return {
        "run_id": summary.run_id,
        "status": summary.status,
        "agent": summary.agent,
        "title": summary.title,
        "labels": dict(summary.labels),
        "requester": summary.requester,
        "thread": summary.thread,
        "messages": summary.messages,
        "created_at": report.optional_utc_text(summary.created_at),
        "updated_at": report.optional_utc_text(summary.updated_at),
        "version": summary.version,
        "cursor": summary.cursor,
    }


def erased_run_json(receipt: ErasedRun) -> dict[str, Any]:
    """Return the receipt of an erasure as JSON values (`erased_run`)."""
    return {
        "run_id": receipt.run_id,
        "erased_at": utc_text(receipt.erased_at),
        "versions": receipt.versions,
        "arrivals": receipt.arrivals,
        "files": receipt.files,
        "keys": receipt.keys,
    }


def prune_result_json(result: PruneResult) -> dict[str, Any]:
    """Return the result of `prune` as JSON values (`prune_result`)."""
    from continuations.present.problems import find_problem_type  # noqa: PLC0415 - only a prune needs it

    return {
        "run_ids": list(result.run_ids),
        "erased": [erased_run_json(receipt) for receipt in result.erased],
        "failed": {
            run_id: find_problem_type(type(error)).slug
            for run_id, error in result.errors.items()
        },
    }


def wait_notice_json(wait: Wait, *, with_arguments: bool) -> dict[str, Any]:
    """Return the part of a wait that a notification contains (`wait_notice`).

    The fields have the names and values of `wait_json`. Arguments may be private, so
    they and what is made from them are added only on request.
    """
    names: tuple[str, ...] = (
        "id",
        "run_id",
        "kind",
        "path",
        "tool",
        "created_at",
        "deadline",
        "approvers",
        "votes_needed",
        "reversible",
        "requester",
    )
    form = report.wait_json(withheld(wait))
    if with_arguments:
        names = (*names, "arguments", "title", "readings", "secrets", "evidence")
    return {name: form[name] for name in names}


def decision_json(decision: Decision) -> dict[str, Any]:
    """Return a decision as JSON values (`decision`).

    `groups` is present if the groups of the person are known, and `voters` if several
    persons decided. `shown` is present if the digest is known that the person saw.
    `arguments` is present if the arguments were edited, `value` for an answer, and
    `form` if the approver filled in a form.
    """
    form: dict[str, Any] = {
        "id": decision.id,
        "wait_id": decision.wait_id,
        "kind": decision.kind,
        "at": utc_text(decision.at),
        "by": decision.by,
        "reason": decision.reason,
        "digest": decision.digest,
    }
    if decision.groups:
        form["groups"] = list(decision.groups)
    if decision.voters:
        form["voters"] = list(decision.voters)
    if decision.shown is not None:
        form["shown"] = decision.shown
    for name in ("arguments", "value", "form"):
        text: str | None = getattr(decision, name)
        if text is not None:
            form[name] = jsontext.parse(text)
    if decision.grant_json is not None:
        form["grant"] = decision.id
    return form


def decide_json(result: Decision | Vote, *, woken: bool) -> dict[str, Any]:
    """Return the response to a decision (`recorded_decision` or `recorded_vote`)."""
    if isinstance(result, Decision):
        return {"decision": decision_json(result), "woken": woken}
    return {"vote": report.vote_json(result), "woken": woken}


def audit_line_json(line: AuditLine) -> dict[str, Any]:
    """Return a line of an audit as JSON values (`audit_line`).

    `identity` is null if no door established who acted.
    """
    identity = None
    if line.groups or line.authentication is not None:
        identity = {
            "name": line.by,
            "groups": list(line.groups),
            "authentication": line.authentication,
        }
    return {
        "at": utc_text(line.at),
        "run": line.run,
        "wait": line.wait,
        "kind": line.kind,
        "verdict": line.verdict,
        "by": line.by,
        "identity": identity,
        "door": line.door,
        "digest": line.digest,
        "shown": line.shown,
        "reason": line.reason,
        "rule": line.rule,
    }


def publication_json(publication: Publication) -> dict[str, Any]:
    """Return the result of a publication as JSON values (`published_event`)."""
    return {"id": publication.id, "run_ids": list(publication.run_ids)}


def run_json(
    run: Continuation,
    *,
    decided: Collection[str],
    now: datetime,
    with_stack: bool = False,
    detail: Detail = "states",
) -> dict[str, Any]:
    """Return a run as JSON values (`run`).

    Args:
        run: One version of the run.
        decided: The ids of waits that are decided, from `decided_wait_ids`. The version
            may still contain them: it changes when the run is resumed. They are in
            `decided` and not in `waits`.
        now: The time of the report, for the `state` of each wait.
        with_stack: Add `frames` (with their messages) and `calls`.
        detail: Which texts of models and tools the form has.
    """
    # A process that only decides describes no run.
    from continuations.core.operator_waits import operator_reasons  # noqa: PLC0415
    from continuations.core.withheld_texts import shown_text  # noqa: PLC0415

    form = report.run_json(run.run_state, run.version)
    form["output"] = shown_text(form["output"], detail)
    form["waits"] = [
        wait_json(wait, now=now) for wait in run.waits if wait.id not in decided
    ]
    form["decided"] = [wait.id for wait in run.waits if wait.id in decided]
    form["reasons"] = list(operator_reasons(run.waits))
    if run.root.state:
        form["state"] = run.root.state
    if with_stack:
        from continuations.wire import stack_report  # noqa: PLC0415 - decisions need no stack

        form |= stack_report.stack_json(run.run_state, detail)
    return form


def outcome_json(
    outcome: Outcome,
    *,
    decided: Collection[str],
    now: datetime,
    detail: Detail = "states",
) -> dict[str, Any]:
    """Return the outcome of a start or resume as JSON values (`outcome`).

    The form is the run's form with two more fields: `paused`, and `code_changes`.
    """
    form = run_json(outcome.continuation, decided=decided, now=now, detail=detail)
    form["paused"] = bool(getattr(outcome, "paused", False))
    form["code_changes"] = [
        {"kind": change.kind, "where": change.where, "what": change.what}
        for change in outcome.code_changes
    ]
    return form


def thread_json(
    run: Continuation,
    *,
    decided: Collection[str],
    now: datetime,
    detail: Detail = "states",
) -> dict[str, Any]:
    """Return a thread as JSON values (`thread`)."""
    from continuations.core.messages import shown_message  # noqa: PLC0415 - only threads need it

    form = run_json(run, decided=decided, now=now)
    names = ("agent", "thread", "run_id", "status", "version", "title", "labels")
    answered = run.run_state.run.answered
    others = ("usage", "waits", "decided", "state")
    return {
        **{name: form[name] for name in (*names, *others) if name in form},
        "answered": answered,
        "messages": [
            shown_message(each, detail, of_sub_agent=False)
            for each in run.root.messages
        ],
    }


def reply_json(
    result: SendResult[Any] | None,
    *,
    run_id: str,
    number: int,
    now: datetime,
    decided: Collection[str] = (),
    detail: Detail = "states",
) -> dict[str, Any]:
    """Return the result of a message of a thread as JSON values (`thread_reply`).

    Args:
        result: The result; `None` for a message that was only posted.
        run_id: Id of the thread's run.
        number: Number of the message.
        now: The time of the report, for the `state` of each wait.
        decided: As for `run_json`.
        detail: As for `run_json`.
    """
    from continuations.core.withheld_texts import shown_text  # noqa: PLC0415 - only threads need it
    from continuations.engine.outcomes import (  # noqa: PLC0415 - only threads need them
        Failed,
        Replied,
        Suspended,
    )

    form: dict[str, Any] = {
        "status": "queued",
        "run_id": run_id,
        "number": number,
        "output": None,
        "failure": None,
        "waits": [],
    }
    if isinstance(result, Replied):
        text = result.continuation.run_state.run.output
        form |= {"status": "replied", "output": shown_text(text, detail)}
    elif isinstance(result, Failed):
        error = {"code": result.error.code, "message": result.error.message}
        form |= {"status": "failed", "failure": error}
    elif isinstance(result, Suspended):
        waits = [w for w in result.waits if w.id not in decided]
        shown = [wait_json(wait, now=now) for wait in waits]
        form |= {"status": "suspended", "waits": shown}
    return form


def sweep_result_json(result: SweepResult) -> dict[str, Any]:
    """Return the result of a sweep as JSON values (`sweep_result`).

    A resumed run has its id and status only: one sweep may resume many runs, and a
    response of AWS Lambda has at most 6 MB.
    """
    from continuations.present.problems import find_problem_type  # noqa: PLC0415 - only a sweep needs it

    return {
        "runs_checked": result.runs_checked,
        "resumed": [
            {"run_id": outcome.run_id, "status": outcome.continuation.status}
            for outcome in result.resumed
        ],
        "failed": {
            run_id: find_problem_type(type(error)).slug
            for run_id, error in result.errors.items()
        },
        "skipped": sorted(result.skipped),
    }


def indented_json(text: str) -> str:
    """Return a JSON text with one value on each line."""
    try:
        return json.dumps(jsontext.parse(text), indent=2, ensure_ascii=False)
    except (jsontext.NotJson, RecursionError):
        # The value is nested too deeply for `json`: show it on one line.
        return text
