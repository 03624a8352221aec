"""HTML pages for signed links, without scripts, images or external resources.

A page shows text from models and tools. All text is HTML-escaped, and invisible
characters are shown as escapes, so a call cannot forge its own page. Arguments are
shown whole, never shortened.
"""

from __future__ import annotations

from base64 import b64encode
from hashlib import sha256
from html import escape
from typing import TYPE_CHECKING

from continuations.present.escaping import escape_invisible
from continuations.present.json_forms import indented_json
from continuations.present.wait_text import (
    DECISION_WORDS,
    votes_text,
    wait_facts,
)
from continuations.serve.http.request_response import NO_STORE_HEADERS, Response
from continuations.wire.fields import readable_time

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from continuations.core.decisions import Decision, VerdictKind
    from continuations.core.quorum import Vote
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
    # default-src does not cover base-uri, form-action and frame-ancestors.
    "content-security-policy": (
        f"default-src 'none'; style-src 'sha256-{_STYLE_HASH}'; "
        "form-action 'self'; frame-ancestors 'none'; base-uri 'none'"
    ),
    "x-frame-options": "DENY",
    "x-robots-tag": "noindex, nofollow",
}

_FORM_FIELDS: Mapping[str, str] = {
    "deny": '<label>Reason (optional)<textarea name="reason" '
    'maxlength="4000" rows="2"></textarea></label>',
    "fail": '<label>Error<textarea name="error" maxlength="4000" rows="2">'
    "</textarea></label>",
}


def decision_form(wait: Wait, verdict_kinds: Iterable[VerdictKind]) -> Response:
    """Return the page that shows a wait, with one form for each kind of decision."""
    rules = wait.rules
    forms = "".join(_form_html(wait, kind) for kind in verdict_kinds)
    body = (
        f"<p>{escape(rules.explanation)}</p>"
        f"{_facts_html(wait_facts(wait))}"
        f"<h2>All arguments</h2>{_json_html(wait.arguments_json)}{forms}"
    )
    return _page(200, rules.title, body)


def decision_recorded(decision: Decision, *, woken: bool) -> Response:
    """Return the page after a decision, also after the same decision again."""
    text = "The run continues." if woken else "The run continues with the next sweep."
    return _page(200, "Your decision is recorded", _decision_html(decision, text))


def vote_recorded(vote: Vote) -> Response:
    """Return the page after a vote that did not end the wait, also later."""
    text = (
        f"This wait has {votes_text(vote)} for this decision. It is open until the "
        "others have voted, and nothing runs before."
    )
    return _page(200, "Your vote is recorded", _decision_html(vote, text))


def already_decided(decision: Decision, *, status: int = 200) -> Response:
    """Return the page that shows an earlier decision."""
    text = (
        "This call was decided before. The decision below is recorded and cannot be "
        "changed."
    )
    return _page(status, "Already decided", _decision_html(decision, text))


def wait_ended(title: str, text: str, *, status: int = 200) -> Response:
    """Return the page of a wait that ended without a person's decision."""
    return _page(status, title, f"<p>{_html_text(text)}</p>")


def problem_page(problem: Problem) -> Response:
    """Return a problem as a page."""
    text = problem.detail or "Nothing was changed."
    page = wait_ended(problem.type.title, text, status=problem.type.status)
    headers = {**page.headers, **problem.headers}
    return Response(status=page.status, headers=headers, body=page.body)


def _decision_html(decision: Decision | Vote, text: str) -> str:
    voters = getattr(decision, "voters", ())
    facts = {
        "Decision": DECISION_WORDS[decision.kind],
        "By": ", ".join(voters) or decision.by,
        "At": readable_time(decision.at),
        "Reason": decision.reason,
        "Wait": decision.wait_id,
    }
    edited = (
        ""
        if decision.arguments is None
        else f"<h2>Edited arguments</h2>{_json_html(decision.arguments)}"
    )
    answer = (
        "" if decision.value is None else f"<h2>Answer</h2>{_json_html(decision.value)}"
    )
    return f"<p>{_html_text(text)}</p>{_facts_html(facts)}{edited}{answer}"


def _form_html(wait: Wait, verdict_kind: VerdictKind) -> str:
    words = wait.rules.verdicts[verdict_kind]
    explanation = words.meaning
    if verdict_kind == "deny" and wait.denial_stops:
        explanation = "The call does not run, and the run stops."
    fields = _FORM_FIELDS.get(verdict_kind, "")
    if verdict_kind == "answer":
        as_json = wait.answer_type_name not in (None, "string")
        fields = _value_field(words.value_label, as_json=as_json)
    # A form without an action posts to its own URL, under every mount prefix.
    return (
        '<form method="post">'
        f'<input type="hidden" name="decision" value="{verdict_kind}">'
        f'<input type="hidden" name="shown" value="{_html_text(wait.digest)}">'
        f"<p>{escape(explanation)}</p>{fields}"
        f"<p><button>{escape(words.label)}</button></p></form>"
    )


def _value_field(label: str, *, as_json: bool) -> str:
    note = '<input type="hidden" name="as" value="json">' if as_json else ""
    label = f"{label}, as JSON" if as_json else label
    return (
        f'{note}<label>{escape(label)}<textarea name="value" maxlength="4000" '
        'rows="3"></textarea></label>'
    )


def _facts_html(facts: Mapping[str, str | None]) -> str:
    rows = (
        f"<dt>{label}</dt><dd>{_html_text(fact)}</dd>"
        for label, fact in facts.items()
        if fact is not None
    )
    return f"<dl>{''.join(rows)}</dl>"


def _json_html(text: str) -> str:
    lines = "\n".join(map(_html_text, indented_json(text).split("\n")))
    return f"<pre>{lines}</pre>"


def _html_text(text: str) -> str:
    return escape(escape_invisible(text))


def _page(status: int, title: str, body: str) -> Response:
    html = (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width">'
        f"<title>{escape(title)}</title><style>{_STYLE}</style></head>"
        f"<body><h1>{escape(title)}</h1>{body}</body></html>"
    )
    return Response(status=status, headers=_HEADERS, body=html)
