"""The pages of errors, and the pages of people whom the console does not know.

Each says in a sentence what happened and what was recorded, has one button, and folds
the text for the person who runs the console.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, NamedTuple

from continuations import errors
from continuations.serve.console.page import RunAddresses, html_page
from continuations.serve.http import problems
from continuations.serve.http.link_pages import decision_facts
from continuations.serve.pages.environment import Shell

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

    from continuations.present.times import PageText
    from continuations.serve.http.request_response import Response


_FORBIDDEN, _NOT_FOUND = 403, 404
# Where the one button of the page leads.
_Way = Literal["inbox", "run", "again", "nowhere"]


class _Words(NamedTuple):
    title: str
    text: str
    way: _Way = "run"


# By the name of the problem for programs. Another problem has its own title.
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
        "inbox",
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
        "nowhere",
    ),
    "forbidden": _Words(
        "This is not yours to do",
        "Nothing was changed. Ask the person who gives rights in this console.",
        "inbox",
    ),
    "foreign-post": _Words(
        "This did not come from a page of this console",
        "Nothing was changed. Open the page again, and send its form from there.",
        "inbox",
    ),
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
        "Nothing is lost. This page works again as soon as the store does.",
        "again",
    ),
    "inconclusive": _Words(
        "The store did not confirm the write",
        "It may have been recorded. Open the page again before you repeat it.",
    ),
    "internal": _Words(
        "Something went wrong here",
        "The error is in the log of the server.",
        "again",
    ),
}
_NEWER = _Words(
    "A newer release wrote this",
    "This process cannot read it, and changed nothing. Update continuations here.",
    "inbox",
)
_DAMAGED = _Words(
    "A stored object is damaged",
    "Nothing was changed. The operator of this console can repair the object.",
)
_TECHNICAL = "Technical details"
_FORM_WITHOUT_STORE = _Words(
    "The store does not answer",
    "Your form may not be recorded. Load the page again, and look before you repeat "
    "it. The button Back of your browser has your texts.",
    "again",
)
_REFUSED_FORM = _Words("This was not accepted", "Nothing was changed.")
_REFUSED_ADDRESS = _Words(
    "This page cannot be shown",
    "Its address has a part that this console does not know.",
)
_REFUSED = frozenset({"malformed", "invalid-input"})
# The list that a page belongs to, by the entry of the navigation.
_LISTS = {"runs": "runs", "threads": "threads", "grants": "grants"}


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
    is_form = operation.startswith("POST ")
    return problem_page(problem, shell=shell, error=error, is_form=is_form)


def problem_page(
    problem: problems.Problem,
    *,
    shell: Shell,
    error: Exception | None = None,
    is_form: bool = False,
) -> Response:
    """Return the page of a problem.

    Args:
        problem: The problem.
        shell: The frame of the page.
        error: The error that it tells of, if there is one.
        is_form: Whether a form was refused. Then its reason is not folded.
    """
    words = _words_of(problem, error)
    if problem.type.slug in _REFUSED:
        words = _REFUSED_FORM if is_form else _REFUSED_ADDRESS
    if is_form and problem.type.slug == "store-unavailable":
        words = _FORM_WITHOUT_STORE
    way, address = _way(words.way, problem, shell)
    facts: Mapping[str, PageText] = {}
    if isinstance(error, errors.AlreadyDecided):
        door = error.decision.door
        through = {"Through": door} if door else {}
        facts = {**decision_facts(error.decision), **through}
    context = _context(shell, words.title, words.text, _technical(problem, error))
    links = {address: way} if way else {}
    is_open = is_form and problem.type.status < problems.SERVER_ERROR
    return html_page(
        "problem.html",
        {**context, "facts": facts, "links": links, "is_open": is_open},
        status=problem.type.status,
        headers=problem.headers,
    )


def _context(
    shell: Shell, title: str, text: str, technical: Mapping[str, str]
) -> dict[str, object]:
    return {
        "shell": shell,
        "title": title,
        "text": text,
        "facts": {},
        "values": {},
        "links": {},
        "technical": technical,
        "summary": _TECHNICAL,
        "is_open": False,
    }


def _words_of(problem: problems.Problem, error: Exception | None) -> _Words:
    if isinstance(error, errors.NewerFormat):
        return _NEWER
    if isinstance(error, errors.FormatError):
        return _DAMAGED
    own = _Words(problem.type.title, "Nothing was changed.")
    return _WORDS.get(problem.type.slug, own)


def _technical(problem: problems.Problem, error: Exception | None) -> dict[str, str]:
    """Return what the person who runs the console needs to know, by labels."""
    facts: dict[str, str] = {}
    if isinstance(error, errors.FormatError):
        facts["Object"] = str(error)
        if error.run_id is not None:
            facts["Doctor"] = f"continuations doctor {error.run_id}"
    elif problem.detail is not None and problem.type.slug != "no-such-path":
        facts["Details"] = problem.detail
    error_id = problem.members.get("error_id")
    if error_id is not None:
        facts["Error id"] = str(error_id)
    return facts


def _way(way: _Way, problem: problems.Problem, shell: Shell) -> tuple[str, str]:
    """Return the words of the one button, and its address."""
    run_id = problem.members.get("run_id")
    if way == "nowhere" or not shell.person:
        return "", ""
    if way == "again":
        return "Load the page again", ""
    is_shown = problem.type.status not in (_FORBIDDEN, _NOT_FOUND)
    if way == "run" and run_id is not None and is_shown:
        address = RunAddresses(root=shell.root, run_id=str(run_id)).newest
        return f"Open the run {run_id}", address
    name = _LISTS.get(shell.section, "inbox")
    return f"Back to the {name}", f"{shell.root}/{name}"


# Sign in and out -------------------------------------------------------------------

Unknown = Literal["local", "no verifier", "not accepted"]


class _Unknown(NamedTuple):
    """The words for a person whom the console does not know, and for programs."""

    title: str
    text: str
    summary: str
    help: str
    technical: str


_NO_VERIFIER = (
    "This console has no verifier, so it refuses every request. Pass verify= to "
    "console.app."
)
UNKNOWN: Mapping[Unknown, _Unknown] = {
    "local": _Unknown(
        "Sign in",
        "Open the address that this console printed in its terminal.",
        "The address does not work",
        "It works once, and then for one browser. If another browser has used it, sign "
        "out there, or start the console again: it prints a new address.",
        "Open the address that the console printed. It works once: after that, start "
        "the console again.",
    ),
    "no verifier": _Unknown(
        "This console is closed",
        "Nobody can sign in: its operator has not said who may.",
        _TECHNICAL,
        _NO_VERIFIER,
        _NO_VERIFIER,
    ),
    "not accepted": _Unknown(
        "Sign in",
        "Sign in to the site that this console belongs to, and load this page again.",
        _TECHNICAL,
        "The application's verifier did not accept this request.",
        "The application's verifier did not accept this request. Sign in there.",
    ),
}


def sign_in_page(reason: Unknown, *, shell: Shell) -> Response:
    """Return the page for a person whom the console does not know (status 401)."""
    words = UNKNOWN[reason]
    problem = problems.unidentified(words.technical)
    context = _context(shell, words.title, words.text, {"": words.help})
    links = {} if reason == "no verifier" else {"": "Load this page again"}
    return html_page(
        "problem.html",
        {**context, "links": links, "summary": words.summary},
        status=problem.type.status,
        headers=problem.headers,
    )


def signed_out_page(
    root: str, headers: Mapping[str, str], *, has_new_address: bool
) -> Response:
    """Return the page after a sign-out, which says how to come back.

    Args:
        root: The mount point of the console.
        headers: The headers that take the session from the browser.
        has_new_address: Whether the terminal of the console shows a new address.
    """
    text = (
        "To come back, open the new address in the terminal of this console."
        if has_new_address
        else "To come back, start this console again, and open the address that it "
        "prints."
    )
    shell = Shell(root=root, person="", csrf="")
    context = _context(shell, "You are signed out", text, {})
    return html_page("problem.html", context, headers=headers)
