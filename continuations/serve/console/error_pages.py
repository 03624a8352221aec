"""The pages of errors: what happened, what was recorded, and what to do next."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from continuations import errors
from continuations.present.times import PageText, time_view
from continuations.present.wait_words import DECISION_WORDS
from continuations.serve.console.page import html_page
from continuations.serve.http import problems

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

    from continuations.core.rows.decisions import Decision
    from continuations.serve.http.request_response import Response
    from continuations.serve.pages.environment import Shell


_UNIDENTIFIED, _FORBIDDEN, _NOT_FOUND = 401, 403, 404


class _Words(NamedTuple):
    title: str
    text: str


# By the name of the problem for programs. Another problem has its own title and text.
_WORDS: Mapping[str, _Words] = {
    "run-not-found": _Words(
        "This run does not exist",
        "The address may be misspelled, or the run is in another store.",
    ),
    "version-not-found": _Words(
        "This version does not exist",
        "The run has no version with this number. Its page leads to its versions.",
    ),
    "wait-not-found": _Words(
        "This wait does not exist",
        "The address may be misspelled, or another wait has replaced this one.",
    ),
    "invalid-id": _Words("This address does not exist", "It contains no valid id."),
    "no-such-path": _Words(
        "This page does not exist", "The address may be misspelled."
    ),
    "run-erased": _Words(
        "This run was erased",
        "Everything that the store held of it was deleted. Its id stays taken.",
    ),
    "already-decided": _Words(
        "Somebody else decided first",
        "Your decision was not recorded. The first decision of a wait counts.",
    ),
    "wait-expired": _Words(
        "The deadline has passed",
        "Your decision was not recorded. The run goes on as its tool or policy says.",
    ),
    "cancelled": _Words(
        "This wait was closed with its run",
        "The run was cancelled, has failed or was repaired. Nothing was recorded.",
    ),
    "decision-refused": _Words(
        "This decision was not recorded", "Open the wait again, and decide there."
    ),
    "link-invalid": _Words(
        "This link is over",
        "It has ended, or it is not complete. Ask for a new one.",
    ),
    "forbidden": _Words("This is not yours to do", "Nothing was changed."),
    "foreign-post": _Words(
        "This did not come from a page of this console", "Nothing was changed."
    ),
    "unidentified": _Words("Who are you?", "The console does not know you."),
    "agent-changed": _Words(
        "The code has changed",
        "What was decided is recorded. The run refuses to go on until a worker with "
        "fitting code resumes it.",
    ),
    "run-busy": _Words(
        "A worker holds this run", "Nothing was changed. Try again in a moment."
    ),
    "stale-run": _Words(
        "The run moved on meanwhile", "Open the page again, and look before you repeat."
    ),
    "store-unavailable": _Words(
        "The store does not answer",
        "Nothing is lost. This page works again as soon as the store does. The log of "
        "the server says why it does not answer, and what to do.",
    ),
    "inconclusive": _Words(
        "The store did not confirm the write",
        "It may have been recorded. Open the page again before you repeat it.",
    ),
    "internal": _Words(
        "Something went wrong here", "The error is in the log of the server."
    ),
}
_NEWER = _Words(
    "A newer release wrote this",
    "This process cannot read it, and changed nothing. Update continuations here.",
)
_DAMAGED = _Words(
    "A stored object is damaged",
    "Nothing was changed. The doctor lists what is damaged, and repairs what it can.",
)


def error_page(
    error: Exception, *, shell: Shell, now: datetime, operation: str
) -> Response:
    """Return the page of an error; a server error is logged under its id.

    Args:
        error: Any exception.
        shell: The frame of the page.
        now: The time, for "try again".
        operation: The method and the path's pattern, for the log.
    """
    problem = problems.from_error(error, now=now, operation=operation)
    return problem_page(problem, shell=shell, error=error)


def problem_page(
    problem: problems.Problem, *, shell: Shell, error: Exception | None = None
) -> Response:
    """Return the page of a problem."""
    words = _words_of(problem, error)
    context: Mapping[str, object] = {
        "shell": shell,
        "title": words.title,
        "text": words.text,
        "facts": _facts(problem, error),
        "values": {},
        "links": _links(problem, shell),
    }
    return html_page(
        "message.html", context, status=problem.type.status, headers=problem.headers
    )


def _words_of(problem: problems.Problem, error: Exception | None) -> _Words:
    if isinstance(error, errors.NewerFormat):
        return _NEWER
    if isinstance(error, errors.FormatError):
        return _DAMAGED
    own = _Words(problem.type.title, "Nothing was changed.")
    return _WORDS.get(problem.type.slug, own)


def _facts(problem: problems.Problem, error: Exception | None) -> dict[str, PageText]:
    facts: dict[str, PageText] = {}
    if isinstance(error, errors.AlreadyDecided):
        facts |= decision_facts(error.decision)
    elif isinstance(error, errors.FormatError):
        facts["Object"] = str(error)
        if error.run_id is not None:
            facts["Doctor"] = f"continuations doctor {error.run_id}"
    elif problem.detail is not None:
        facts["Details"] = problem.detail
    error_id = problem.members.get("error_id")
    if error_id is not None:
        facts["Error id"] = str(error_id)
    return facts


def decision_facts(decision: Decision) -> dict[str, PageText]:
    """Return who decided what, when, and by which way."""
    facts = {
        "Decision": DECISION_WORDS[decision.kind],
        "By": decision.rule or ", ".join(decision.voters) or decision.by,
        "At": time_view(decision.at),
        "Reason": decision.reason,
        "Through": decision.door,
    }
    return {label: fact for label, fact in facts.items() if fact}


def _links(problem: problems.Problem, shell: Shell) -> dict[str, str]:
    links: dict[str, str] = {}
    run_id = problem.members.get("run_id")
    if run_id is not None and problem.type.status not in (_FORBIDDEN, _NOT_FOUND):
        links[f"{shell.root}/runs/{run_id}"] = f"Open the run {run_id}"
    if problem.type.status != _UNIDENTIFIED:
        links[f"{shell.root}/inbox"] = "Back to the inbox"
    return links
