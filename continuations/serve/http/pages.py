"""Plain pages for people who follow a link: no script, no picture, nothing from afar.

A page must not be forged by the call that it shows: all of its texts are escaped, and
what cannot be seen is made visible. It shows arguments whole, never cut.
"""

from __future__ import annotations

from base64 import b64encode
from hashlib import sha256
from html import escape
from typing import TYPE_CHECKING

from continuations.present.escaping import escape_invisible
from continuations.present.json_forms import indented_json
from continuations.serve.http.request_response import NO_STORE_HEADERS, Response

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from datetime import datetime

    from continuations.core.decisions import Decision
    from continuations.core.waits import Wait
    from continuations.serve.http.problems import Problem

_STYLE = (
    "body{font:16px/1.5 system-ui,sans-serif;max-width:46rem;margin:2rem auto;"
    "padding:0 1rem;color:#111;background:#fff}"
    "dt{font-weight:bold}dd{margin:0 0 .6rem}"
    "dd,pre{unicode-bidi:isolate;overflow-wrap:anywhere}"
    "pre{background:#f4f4f4;padding:1rem;white-space:pre-wrap}"
    "form{margin:1rem 0;padding:1rem;border:1px solid #999}"
    "textarea{display:block;width:100%;box-sizing:border-box}"
    "button{font:inherit;padding:.4rem 1.2rem}"
)
_STYLE_HASH = b64encode(sha256(_STYLE.encode()).digest()).decode()

_HEADERS: Mapping[str, str] = {
    **NO_STORE_HEADERS,
    "content-type": "text/html; charset=utf-8",
    # What has no default of its own is named: base-uri, form-action, frame-ancestors.
    "content-security-policy": (
        f"default-src 'none'; style-src 'sha256-{_STYLE_HASH}'; "
        "form-action 'self'; frame-ancestors 'none'; base-uri 'none'"
    ),
    "x-frame-options": "DENY",
    "x-robots-tag": "noindex, nofollow",
}

# What a button says, by the wait's kind and its answer; then, what it would do.
_BUTTONS: Mapping[tuple[str, str], tuple[str, str]] = {
    ("approval", "approve"): ("Approve", "The call runs, exactly as shown."),
    ("approval", "deny"): ("Deny", "The call does not run; the agent is told so."),
    ("unknown", "approve"): (
        "It did not happen: run it",
        "You made sure that the call had no effect. It runs, exactly as shown.",
    ),
    ("unknown", "deny"): (
        "It did not happen: leave it",
        "You made sure that the call had no effect. It is not run again.",
    ),
    ("unknown", "answer"): (
        "It happened",
        "You made sure that the call had its effect. The agent is told this result:",
    ),
}
_FORM_FIELDS: Mapping[str, str] = {
    "deny": '<label>Reason, for the agent (may stay empty)<textarea name="reason" '
    'maxlength="4000" rows="2"></textarea></label>',
    "answer": '<label>Result<textarea name="value" maxlength="4000" rows="3">'
    "</textarea></label>",
}
_TITLES: Mapping[str, str] = {
    "approval": "This call waits for your decision",
    "unknown": "Did this call happen?",
}
_DECISION_WORDS: Mapping[str, str] = {
    "approve": "Approved",
    "deny": "Denied",
    "answer": "Answered",
    "expire": "Expired",
    "cancel": "Cancelled",
}


def decision_form(wait: Wait, verdict_kinds: Iterable[str]) -> Response:
    """Return the page that shows a wait and asks for one of some answers."""
    forms = "".join(_form_html(wait.kind, answer) for answer in verdict_kinds)
    shown = f"<pre>{_html_lines(indented_json(wait.arguments_json))}</pre>"
    facts = {
        "Tool": wait.tool,
        "Path": " > ".join(wait.path),
        "Run": wait.run_id,
        "Wait": wait.id,
        "Note": wait.note,
        "Policy": wait.policy,
        "Since": _utc_text(wait.created_at),
        "Decide until": _utc_text(wait.deadline) if wait.deadline else None,
        "If denied": "the run is stopped" if wait.denial_stops else None,
    }
    body = f"{_facts_html(facts)}<h2>Arguments, all of them</h2>{shown}{forms}"
    return _page(200, _TITLES[wait.kind], body)


def decision_recorded(decision: Decision, *, woken: bool) -> Response:
    """Return the page for who has just decided, or has decided the same before."""
    goes_on = (
        "The run goes on." if woken else "The run goes on when it is next looked at."
    )
    return _page(200, "Your decision is recorded", _decision_html(decision, goes_on))


def already_decided(decision: Decision, *, status: int = 200) -> Response:
    """Return the page that says which decision stands, to who comes later."""
    words = "This was decided before. That decision stands, and no other was recorded."
    return _page(status, "Already decided", _decision_html(decision, words))


def wait_ended(title: str, text: str, *, status: int = 200) -> Response:
    """Return the page of a wait that nobody decided and nobody can any more."""
    return _page(status, title, f"<p>{_html_text(text)}</p>")


def problem_page(problem: Problem) -> Response:
    """Return a problem for people."""
    words = problem.detail or "Nothing was done."
    page = wait_ended(problem.type.title, words, status=problem.type.status)
    headers = {**page.headers, **problem.headers}
    return Response(status=page.status, headers=headers, body=page.body)


def _decision_html(decision: Decision, text: str) -> str:
    facts = {
        "Decision": _DECISION_WORDS[decision.kind],
        "By": decision.by,
        "At": _utc_text(decision.at),
        "Reason": decision.reason,
        "Wait": decision.wait_id,
    }
    edited = decision.arguments
    shown = (
        ""
        if edited is None
        else f"<h2>With these arguments</h2><pre>{_html_lines(indented_json(edited))}</pre>"
    )
    return f"<p>{_html_text(text)}</p>{_facts_html(facts)}{shown}"


def _form_html(kind: str, verdict_kind: str) -> str:
    button, meaning = _BUTTONS[kind, verdict_kind]
    # Without an action a form posts to its own page, wherever the desk is mounted.
    return (
        '<form method="post">'
        f'<input type="hidden" name="decision" value="{verdict_kind}">'
        f"<p>{escape(meaning)}</p>{_FORM_FIELDS.get(verdict_kind, '')}"
        f"<p><button>{escape(button)}</button></p></form>"
    )


def _facts_html(facts: Mapping[str, str | None]) -> str:
    rows = (
        f"<dt>{name}</dt><dd>{_html_text(value)}</dd>"
        for name, value in facts.items()
        if value is not None
    )
    return f"<dl>{''.join(rows)}</dl>"


def _html_lines(text: str) -> str:
    return "\n".join(map(_html_text, text.split("\n")))


def _html_text(text: str) -> str:
    return escape(escape_invisible(text))


def _utc_text(time: datetime) -> str:
    return f"{time:%Y-%m-%d %H:%M:%S} UTC"


def _page(status: int, title: str, body: str) -> Response:
    html = (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width">'
        f"<title>{escape(title)}</title><style>{_STYLE}</style></head>"
        f"<body><h1>{escape(title)}</h1>{body}</body></html>"
    )
    return Response(status=status, headers=_HEADERS, body=html)
