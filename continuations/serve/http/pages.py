"""Short HTML pages of signed links: a recorded decision, an ended link, an error.

The answer to a posted decision is the last request of many cold processes. So these
pages are made without Jinja2; `serve.pages` has the page of an open wait. They have the
markup of its template `message.html`, and contain their style.

All text is HTML-escaped, and invisible characters are shown as escapes, so a call
cannot forge the page that shows it.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

from continuations.core.visible_text import escape_invisible
from continuations.present.json_forms import indented_json
from continuations.present.wait_words import DECISION_WORDS, votes_text
from continuations.serve.http.request_response import NO_STORE_HEADERS, Response
from continuations.serve.pages.asset_files import style_text
from continuations.wire.fields import readable_time

if TYPE_CHECKING:
    from collections.abc import Mapping

    from continuations.core.rows.decisions import Decision
    from continuations.core.rows.quorum import Vote
    from continuations.serve.http.problems import Problem

# As `html.escape`: the import of `html` takes 2 % of a cold decision.
_HTML_ESCAPES = str.maketrans(
    {"&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;", "'": "&#x27;"}
)


def decision_recorded(decision: Decision, *, woken: bool) -> Response:
    """Return the page after a decision, also after the same decision again."""
    text = "The run continues." if woken else "The run continues with the next sweep."
    html = _decision_html(decision)
    return _titled_page(200, "Your decision is recorded", text, html)


def vote_recorded(vote: Vote) -> Response:
    """Return the page after a vote whose wait cannot be shown any more."""
    text = vote_sentence(vote)
    html = f"{_decision_html(vote)}<p>Your vote cannot be changed.</p>"
    return _titled_page(200, "Your vote is recorded", text, html)


def vote_sentence(vote: Vote) -> str:
    """Return how far a wait is after a vote that did not end it."""
    return (
        f"This wait has {votes_text(vote)} for this decision. It is open until the "
        "others have voted, and nothing runs before."
    )


def already_decided(decision: Decision, *, status: int = 200) -> Response:
    """Return the page that shows an earlier decision."""
    text = (
        "This call was decided before. The decision below is recorded and cannot be "
        "changed."
    )
    return _titled_page(status, "Already decided", text, _decision_html(decision))


def wait_ended(title: str, text: str, *, status: int = 200) -> Response:
    """Return the page of a wait that ended without a person's decision."""
    return _titled_page(status, title, text)


def problem_page(problem: Problem) -> Response:
    """Return a problem as a page."""
    text = problem.detail or "Nothing was changed."
    page = wait_ended(problem.type.title, text, status=problem.type.status)
    headers = {**page.headers, **problem.headers}
    return Response(status=page.status, headers=headers, body=page.body)


@cache
def page_headers() -> Mapping[str, str]:
    """Return the headers of a page that contains its style and has no script."""
    from base64 import b64encode  # noqa: PLC0415 - HTML only
    from hashlib import sha256  # noqa: PLC0415 - HTML only

    style_hash = b64encode(sha256(style_text().encode()).digest()).decode()
    return {
        **NO_STORE_HEADERS,
        "content-type": "text/html; charset=utf-8",
        # default-src does not cover base-uri, form-action and frame-ancestors.
        "content-security-policy": (
            f"default-src 'none'; style-src 'sha256-{style_hash}'; "
            "form-action 'self'; frame-ancestors 'none'; base-uri 'none'"
        ),
        "x-frame-options": "DENY",
        "x-robots-tag": "noindex, nofollow",
    }


def decision_facts(decision: Decision | Vote) -> dict[str, str]:
    """Return a recorded decision as labels and texts."""
    facts = {
        "Decision": DECISION_WORDS[decision.kind],
        "By": ", ".join(getattr(decision, "voters", ())) or decision.by,
        "At": readable_time(decision.at),
        "Reason": decision.reason,
        "Wait": decision.wait_id,
    }
    return {label: fact for label, fact in facts.items() if fact is not None}


def decision_values(decision: Decision | Vote) -> dict[str, str]:
    """Return the JSON of a recorded decision by its labels."""
    values = {
        "Edited arguments": decision.arguments,
        "Answer": decision.value,
        "Form": decision.form,
    }
    return {k: indented_json(text) for k, text in values.items() if text is not None}


def _decision_html(decision: Decision | Vote) -> str:
    rows = "".join(
        f"<dt>{label}</dt><dd>{_html_text(fact)}</dd>\n"
        for label, fact in decision_facts(decision).items()
    )
    values = "".join(
        f'<section class="card"><header><h2>{label}</h2></header>'
        f"<pre>{_lines(text)}</pre></section>\n"
        for label, text in decision_values(decision).items()
    )
    return f'<section class="card"><dl class="facts">\n{rows}</dl></section>\n{values}'


def _lines(text: str) -> str:
    return "\n".join(map(_html_text, text.split("\n")))


def _html_text(text: str) -> str:
    return escape_invisible(text).translate(_HTML_ESCAPES)


def _titled_page(status: int, title: str, text: str, body: str = "") -> Response:
    html = (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta name="color-scheme" content="light dark">\n'
        f"<title>{_html_text(title)} · continuations</title>\n"
        f"<style>{style_text()}</style>\n</head>\n<body>\n"
        '<a class="skip" href="#main">Skip to content</a>\n'
        '<header class="top"><div>\n<span class="brand"><span>continuations</span>'
        '</span>\n</div></header>\n<main id="main">\n'
        f'<header class="lead"><h1>{_html_text(title)}</h1><p>{_html_text(text)}</p>'
        f"</header>\n{body}</main>\n</body>\n</html>\n"
    )
    return Response(status=status, headers=page_headers(), body=html)
