"""The JSON forms of runs, waits, decisions and outcomes.

Every form has a definition in `docs/schemas/continuations.schema.json`. A value whose
form is no more than its fields is passed to `to_json`.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, NamedTuple

from continuations.core import jsontext
from continuations.core.rows.decisions import Decision
from continuations.core.visible_text import escape_invisible
from continuations.wire import report
from continuations.wire.report import JsonForm, to_json

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping
    from datetime import datetime

    from continuations.core.messages import Detail
    from continuations.core.reading.live_events import RunEvent
    from continuations.core.reading.notices import Notice
    from continuations.core.reading.run_past import (
        RewindPlan,
        Rewound,
        RunDifference,
        RunVersion,
    )
    from continuations.core.rows.quorum import Vote
    from continuations.core.rows.waits import Wait
    from continuations.engine.outcomes import Outcome, SendResult
    from continuations.ledger.decisions.worklist import ListedWait
    from continuations.wire.continuation import Continuation

# The model reads a reason or an answer again in every later turn.
MAX_TEXT_CHARS = 4000

# Waits ----------------------------------------------------------------------------

# The part of a wait that a notification contains.
WAIT_NOTICE = (
    "id run_id kind path tool created_at deadline approvers votes_needed reversible "
    "requester"
)
# Arguments may be private, so they and their words are added only on request.
WAIT_NOTICE_OPTIONS = "arguments title readings secrets evidence"


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
    form: dict[str, Any] = to_json(wait)
    if agent_state:
        form["agent_state"] = jsontext.parse(agent_state)
    if now is not None:
        is_expired = wait.deadline is not None and now > wait.deadline
        form["state"] = report.wait_state(is_expired=is_expired)
    return form


def listed_wait_json(row: ListedWait) -> dict[str, Any]:
    """Return a wait of the worklist as JSON values (`wait`)."""
    return {**to_json(row.wait), "state": report.wait_state(is_expired=row.expired)}


def wait_notice_json(wait: Wait, *, with_arguments: bool) -> dict[str, Any]:
    """Return the part of a wait that a notification contains (`wait_notice`).

    The fields have the names and values of `wait_json`.
    """
    names = WAIT_NOTICE.split()
    if with_arguments:
        names += WAIT_NOTICE_OPTIONS.split()
    form = to_json(wait)
    return {name: form[name] for name in names}


# The fields of notices. The reason of a decision may be private.
DECISION_NOTICE = "kind by edited voters door authentication rule"
CHILD_NOTICE = "run_id agent path call end version"
RUN_NOTICE = "run_id agent status version failure_code"
# The part of an open wait that the notice of its run contains.
WAIT_OF_RUN = "id kind path tool created_at deadline"


def notice_json(notice: Notice, *, with_arguments: bool) -> dict[str, Any]:
    """Return the `data` of a notice as JSON values.

    Args:
        notice: The notice.
        with_arguments: Add the arguments of the wait and the reason of its decision.
    """
    from continuations.core.reading.notices import ChildNotice, DecisionNotice  # noqa: PLC0415 - only for notices

    form = to_json(notice)
    if isinstance(notice, ChildNotice):
        return {"child": {name: form[name] for name in CHILD_NOTICE.split()}}
    if isinstance(notice, DecisionNotice):
        has_reason = with_arguments and notice.reason is not None
        names = DECISION_NOTICE.split() + ["reason"] * has_reason
        wait = wait_notice_json(notice.wait, with_arguments=with_arguments)
        return {"wait": wait, "decision": {name: form[name] for name in names}}
    shown = {name: form[name] for name in RUN_NOTICE.split()}
    names = WAIT_OF_RUN.split()
    waits = [{name: wait[name] for name in names} for wait in form["waits"]]
    return {"run": {**shown, "waits": waits}}


# Decisions and other acts ---------------------------------------------------------


def decide_json(result: Decision | Vote, *, woken: bool) -> dict[str, Any]:
    """Return the response to a decision (`recorded_decision` or `recorded_vote`)."""
    name = "decision" if isinstance(result, Decision) else "vote"
    return {name: to_json(result), "woken": woken}


# Runs and threads -----------------------------------------------------------------


def _slugs(result: Any) -> dict[str, str]:
    """Return for each run with an error the last part of its problem's `type`."""
    from continuations.present.problems import find_problem_type  # noqa: PLC0415 - decisions need none

    errors: Mapping[str, Exception] = result.errors
    found = {run_id: find_problem_type(type(each)) for run_id, each in errors.items()}
    return {run_id: problem.slug for run_id, problem in found.items()}


_FAILED = {"failed": _slugs}
PRUNE_RESULT = JsonForm(names="run_ids erased failed=errors", values=_FAILED)
COPY_RESULT = JsonForm(
    names="copied unchanged moved_on failed=errors objects unknown_keys",
    values=_FAILED,
)
# A resumed run has its id and status only: one sweep may resume many runs, and a
# response of AWS Lambda has at most 6 MB.
SWEEP_RESULT = JsonForm(
    names="runs_checked resumed failed=errors skipped erased",
    values={
        **_FAILED,
        "resumed": lambda result: [
            {"run_id": outcome.run_id, "status": outcome.continuation.status}
            for outcome in result.resumed
        ],
        "skipped": lambda result: sorted(result.skipped),
        "erased": lambda result: [receipt.run_id for receipt in result.erased],
    },
)


class Report(NamedTuple):
    """The facts that the form of a run has beside its version.

    Attributes:
        at: The time of the report, for the `state` of each wait.
        decided: The ids of waits that are decided, from `decided_wait_ids`. The version
            may still contain them: it changes when the run is resumed. They are in
            `decided` and not in `waits`.
        detail: Which texts of models and tools the form has.
    """

    at: datetime
    decided: Collection[str] = ()
    detail: Detail = "states"


def run_json(
    run: Continuation, about: Report, *, with_stack: bool = False
) -> dict[str, Any]:
    """Return a version of a run as JSON values (`run`).

    `with_stack` adds `frames` (with their messages) and `calls`.
    """
    # A process that only decides describes no run.
    from continuations.core.changes.operator_changes import operator_reasons  # noqa: PLC0415
    from continuations.core.reading.withheld_texts import shown_text  # noqa: PLC0415

    form = report.run_json(run.run_state, run.version)
    form["output"] = shown_text(form["output"], about.detail)
    form["waits"] = _open_waits(run.waits, about)
    form["decided"] = [wait.id for wait in run.waits if wait.id in about.decided]
    form["reasons"] = list(operator_reasons(run.waits))
    if run.root.state:
        form["state"] = run.root.state
    if with_stack:
        from continuations.wire.stack_json import stack_json  # noqa: PLC0415 - decisions need no stack

        form |= stack_json(run.run_state, about.detail)
    return form


def _open_waits(waits: Iterable[Wait], about: Report) -> list[dict[str, Any]]:
    return [wait_json(w, now=about.at) for w in waits if w.id not in about.decided]


def outcome_json(outcome: Outcome, about: Report) -> dict[str, Any]:
    """Return the outcome of a start or resume as JSON values (`outcome`).

    The form is the run's form with two more fields: `paused`, and `code_changes`.
    """
    form = run_json(outcome.continuation, about)
    form["paused"] = bool(getattr(outcome, "paused", False))
    form["code_changes"] = to_json(outcome.code_changes)
    return form


# The fields that the form of a thread has of that of its run.
THREAD_FIELDS = (
    *("agent", "thread", "run_id", "status", "version", "title", "labels"),
    *("usage", "waits"),
)


def thread_json(run: Continuation, about: Report) -> dict[str, Any]:
    """Return a thread as JSON values (`thread`)."""
    from continuations.core.messages import shown_message  # noqa: PLC0415 - only threads need it

    form = run_json(run, about)
    names = (*THREAD_FIELDS, "decided", "state")
    return {
        **{name: form[name] for name in names if name in form},
        "answered": run.run_state.run.answered,
        "messages": [
            shown_message(each, about.detail, of_sub_agent=False)
            for each in run.root.messages
        ],
    }


def reply_json(
    result: SendResult[Any] | None, about: Report, *, run_id: str, number: int
) -> dict[str, Any]:
    """Return the result of a message of a thread as JSON values (`thread_reply`).

    Args:
        result: The result; `None` for a message that was only posted.
        about: The report.
        run_id: Id of the thread's run.
        number: Number of the message.
    """
    from continuations.core.reading.withheld_texts import shown_text  # noqa: PLC0415 - only threads need it
    from continuations.engine.outcomes import Failed, Replied, Suspended  # noqa: PLC0415 - only threads need them

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
        form |= {"status": "replied", "output": shown_text(text, about.detail)}
    elif isinstance(result, Failed):
        form |= {"status": "failed", "failure": to_json(result.error)}
    elif isinstance(result, Suspended):
        form |= {"status": "suspended", "waits": _open_waits(result.waits, about)}
    return form


# Events and the past --------------------------------------------------------------

RUN_VERSION = JsonForm(
    names="number at status worker words events waits",
    values={
        "words": lambda version: [escape_invisible(each) for each in version.words],
        "events": lambda version: [event_json(e, "transcript") for e in version.events],
    },
)


def event_json(event: RunEvent, detail: Detail = "states") -> dict[str, Any]:
    """Return an event as JSON values: its fields and its `type`.

    The form of a stored event is `event`, that of a live one `live_event`.

    Args:
        event: The event.
        detail: Which texts of models and tools the form has.
    """
    from continuations.core.reading.withheld_texts import shown_event  # noqa: PLC0415 - decisions need no events

    return {"type": type(event).__name__, **to_json(shown_event(event, detail))}


def version_json(version: RunVersion, detail: Detail = "states") -> dict[str, Any]:
    """Return a version as JSON values (`run_version`)."""
    from continuations.core.reading.withheld_texts import shown_version  # noqa: PLC0415 - decisions need no past

    return RUN_VERSION.of(shown_version(version, detail))


def difference_json(found: RunDifference, detail: Detail = "states") -> dict[str, Any]:
    """Return the differences of two versions as JSON values (`run_difference`)."""
    from continuations.core.reading.withheld_texts import shown_difference  # noqa: PLC0415 - decisions need no past

    form: dict[str, Any] = to_json(shown_difference(found, detail))
    return form


def rewind_json(rewind: RewindPlan | Rewound, detail: Detail = "states") -> Any:
    """Return a rewind (`rewound`), or the plan of one (`rewind_plan`)."""
    from continuations.core.reading.withheld_texts import shown_rewind  # noqa: PLC0415 - decisions need no past

    return to_json(shown_rewind(rewind, detail))


def indented_json(text: str) -> str:
    """Return a JSON text with one value on each line."""
    try:
        return json.dumps(jsontext.parse(text), indent=2, ensure_ascii=False)
    except (jsontext.NotJson, RecursionError):
        # The value is nested too deeply for `json`: show it on one line.
        return text


def decided_values(decided: Decision | Vote) -> dict[str, str]:
    """Return the edit, answer and form of a decision, as JSON texts by their labels."""
    values = {
        "Edited arguments": decided.arguments,
        "Answer": decided.value,
        "Form": decided.form,
    }
    return {k: indented_json(text) for k, text in values.items() if text is not None}
