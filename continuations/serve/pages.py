"""Plain pages for people who follow a link: no script, no picture, nothing from afar.

A page must not be forged by the call that it shows: all of its texts are escaped, and
what cannot be seen is made visible. It shows arguments whole, never cut.
"""

from __future__ import annotations

from base64 import b64encode
from hashlib import sha256
from html import escape
from typing import TYPE_CHECKING

from continuations.engine.reports import laid_out
from continuations.engine.visible import visible
from continuations.serve.http import NEVER_KEPT, Response

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from datetime import datetime

    from continuations.core.decisions import Decision
    from continuations.core.waits import Wait
    from continuations.serve.problems import Problem

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
    **NEVER_KEPT,
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
_FIELDS: Mapping[str, str] = {
    "deny": '<label>Reason, for the agent (may stay empty)<textarea name="reason" '
    'maxlength="4000" rows="2"></textarea></label>',
    "answer": '<label>Result<textarea name="value" maxlength="4000" rows="3">'
    "</textarea></label>",
}
_KINDS: Mapping[str, str] = {
    "approval": "This call waits for your decision",
    "unknown": "Did this call happen?",
}
_ENDS: Mapping[str, str] = {
    "approve": "Approved",
    "deny": "Denied",
    "answer": "Answered",
    "expire": "Expired",
    "cancel": "Cancelled",
}


def confirm(wait: Wait, answers: Iterable[str]) -> Response:
    """Return the page that shows a wait and asks for one of some answers."""
    forms = "".join(_form(wait.kind, answer) for answer in answers)
    shown = f"<pre>{_lines(laid_out(wait.arguments_json))}</pre>"
    facts = {
        "Tool": wait.tool,
        "Path": " > ".join(wait.path),
        "Run": wait.run_id,
        "Wait": wait.id,
        "Note": wait.note,
        "Policy": wait.policy,
        "Since": _when(wait.created_at),
        "Decide until": _when(wait.deadline) if wait.deadline else None,
        "If denied": "the run is stopped" if wait.denial_stops else None,
    }
    body = f"{_facts(facts)}<h2>Arguments, all of them</h2>{shown}{forms}"
    return _page(200, _KINDS[wait.kind], body)


def recorded(decision: Decision, *, woken: bool) -> Response:
    """Return the page for who has just decided, or has decided the same before."""
    goes_on = (
        "The run goes on." if woken else "The run goes on when it is next looked at."
    )
    return _page(200, "Your decision is recorded", _stands(decision, goes_on))


def decided(decision: Decision, *, status: int = 200) -> Response:
    """Return the page that says which decision stands, to who comes later."""
    words = "This was decided before. That decision stands, and no other was recorded."
    return _page(status, "Already decided", _stands(decision, words))


def over(title: str, words: str, *, status: int = 200) -> Response:
    """Return the page of a wait that nobody decided and nobody can any more."""
    return _page(status, title, f"<p>{_shown(words)}</p>")


def trouble(problem: Problem) -> Response:
    """Return a problem for people."""
    words = problem.detail or "Nothing was done."
    page = over(problem.title, words, status=problem.status)
    headers = {**page.headers, **problem.headers}
    return Response(status=page.status, headers=headers, body=page.body)


def _stands(decision: Decision, words: str) -> str:
    facts = {
        "Decision": _ENDS[decision.kind],
        "By": decision.by,
        "At": _when(decision.at),
        "Reason": decision.reason,
        "Wait": decision.wait_id,
    }
    edited = decision.arguments
    shown = (
        ""
        if edited is None
        else f"<h2>With these arguments</h2><pre>{_lines(laid_out(edited))}</pre>"
    )
    return f"<p>{_shown(words)}</p>{_facts(facts)}{shown}"


def _form(kind: str, answer: str) -> str:
    button, meaning = _BUTTONS[kind, answer]
    # Without an action a form posts to its own page, wherever the desk is mounted.
    return (
        '<form method="post">'
        f'<input type="hidden" name="decision" value="{answer}">'
        f"<p>{escape(meaning)}</p>{_FIELDS.get(answer, '')}"
        f"<p><button>{escape(button)}</button></p></form>"
    )


def _facts(facts: Mapping[str, str | None]) -> str:
    rows = (
        f"<dt>{name}</dt><dd>{_shown(value)}</dd>"
        for name, value in facts.items()
        if value is not None
    )
    return f"<dl>{''.join(rows)}</dl>"


def _lines(text: str) -> str:
    return "\n".join(map(_shown, text.split("\n")))


def _shown(text: str) -> str:
    return escape(visible(text))


def _when(time: datetime) -> str:
    return f"{time:%Y-%m-%d %H:%M:%S} UTC"


def _page(status: int, title: str, body: str) -> Response:
    html = (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width">'
        f"<title>{escape(title)}</title><style>{_STYLE}</style></head>"
        f"<body><h1>{escape(title)}</h1>{body}</body></html>"
    )
    return Response(status=status, headers=_HEADERS, body=html)
