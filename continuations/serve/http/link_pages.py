"""The two actions of a signed link, show the wait and decide it, and their pages.

Link scanners, previews, reloads and the back button send GET or HEAD, which never
decide. After the decision, every request shows the recorded decision.

The answer to a posted decision is the last request of many cold processes. So the short
pages are made without Jinja2: a recorded decision, an ended link, an error. They have
the markup of the template `message.html`, and contain their style. All text is
HTML-escaped, and invisible characters are shown as escapes, so a call cannot forge the
page that shows it.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

from continuations.core.rows import decisions
from continuations.errors import (
    AlreadyDecided,
    Cancelled,
    ContinuationsError,
    DecisionRefused,
    WaitExpired,
    WaitNotFound,
)
from continuations.ledger import layout
from continuations.present.json_forms import decided_values
from continuations.present.times import TimeView, time_view
from continuations.present.wait_words import decider_text, decision_word, votes_text
from continuations.serve.http import decision_bodies, problems, request_fields
from continuations.serve.http.html_pages import html_response, page_query, text_response
from continuations.serve.http.links import LinkInvalid, LinkPayload
from continuations.serve.http.request_response import NO_STORE_HEADERS, Response
from continuations.serve.pages.environment import style_text
from continuations.serve.pages.long_texts import LongTexts, html_line

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

    from continuations.core.rows.quorum import Vote
    from continuations.core.rows.waits import Wait
    from continuations.serve.http.request_context import RequestContext
    from continuations.serve.pages.decision_view import Decider

LINK = decisions.Door("link", "signed link")
EXPIRED_TEXT = (
    "Expired",
    "The deadline passed before anyone decided. Nothing was approved.",
)
_CANCELLED_TEXT = (
    "Closed",
    "The run was cancelled, has failed or was repaired, so this link has ended.",
)


async def show(context: RequestContext) -> Response:
    """Show the wait of a link; change nothing. Raise `LinkInvalid` for a bad link."""
    link = _read_link(context)
    try:
        subject = await _wait_or_decision(context, link)
    except (WaitExpired, Cancelled) as error:
        return _ended_page(error, status=200)
    if isinstance(subject, decisions.Decision):
        return already_decided(subject, query=context.request.query)
    if subject.deadline is not None and context.clock.now() > subject.deadline:
        return _titled_page(200, *EXPIRED_TEXT)
    return _open_page(context, subject, link)


def _open_page(
    context: RequestContext,
    wait: Wait,
    link: LinkPayload,
    errors: Mapping[str, str] | None = None,
    *,
    status: int = 200,
) -> Response:
    """Return the page of an open wait, with what this person may still do.

    With errors, it has the posted form again.
    """
    from continuations.serve.pages.decision_view import decider_of  # noqa: PLC0415 - not to decide

    person = link.actor or decisions.UNNAMED_LINK_HOLDER
    decider = decider_of(wait, person, link.allowed)
    if errors:
        fields = request_fields.form_fields(context.request)
        decider = decider.with_errors(fields, errors)
    query = page_query(context.request)
    return wait_page(wait, decider, context.clock.now(), status=status, query=query)


def wait_page(
    wait: Wait,
    decider: Decider,
    now: datetime,
    *,
    status: int = 200,
    query: Mapping[str, str] | None = None,
) -> Response:
    """Return the page of a wait. After a vote it has a bar that says so."""
    # Not to decide: these load Jinja2.
    from continuations.present.wait_view import wait_view  # noqa: PLC0415
    from continuations.serve.pages.decision_view import decision_view  # noqa: PLC0415

    shown = {
        "shell": None,
        "wait": wait_view(wait, now=now),
        "decision": decision_view(wait, decider, now),
        "bar": _bar(decider),
        "crumbs": None,
        "events": None,
        "others": {},
        "links": {},
        "is_refused": False,
        "run_title": "",
        "started": {},
    }
    return html_response(
        "wait.html", shown, status=status, headers=page_headers(), query=query
    )


def _bar(decider: Decider) -> tuple[str, ...]:
    vote = decider.own_vote
    if vote is None:
        return ()
    rule = "Your vote cannot be changed."
    if decider.verdicts:
        rule += " You can still end the wait, so that nothing runs."
    return ("Your vote is recorded.", vote_sentence(vote), rule)


async def decide(context: RequestContext) -> Response:
    """Decide the wait of a link, once.

    Raises `LinkInvalid` for a bad link and `RequestRefused` for a bad form.
    """
    link = _read_link(context)
    person = link.actor or decisions.UNNAMED_LINK_HOLDER
    try:
        posted = decision_bodies.decision_from_form(context.request, person)
    except problems.RequestRefused as error:
        return await _form_again(context, link, error, status=400)
    if decisions.VERDICT_KINDS[type(posted.verdict)] not in link.allowed:
        raise problems.link_forbids()
    try:
        result = await context.runner.decide(
            link.wait_id,
            posted.verdict,
            shown=posted.shown,
            check_digest=link.check_digest,
            door=LINK,
        )
    except WaitNotFound:
        raise LinkInvalid from None
    except DecisionRefused as error:
        return await _form_again(context, link, error, status=422)
    except AlreadyDecided as error:
        query = page_query(context.request)
        return already_decided(error.decision, status=409, query=query)
    except (WaitExpired, Cancelled) as error:
        return _ended_page(error, status=410)
    if not isinstance(result, decisions.Decision):
        return await _vote_page(context, link, result)
    woken = await context.wake(layout.parse_wait_id(result.wait_id).run_id)
    return decision_recorded(result, woken=woken)


async def _form_again(
    context: RequestContext, link: LinkPayload, error: Exception, *, status: int
) -> Response:
    """Return the page with the posted form, and the errors at its fields.

    Raises the error if it is not about a field of the page.
    """
    fields = request_fields.form_fields(context.request)
    if fields.get("as") != "fields" or fields.get("decision") not in link.allowed:
        raise error
    from continuations.serve.http.answer_forms import field_errors  # noqa: PLC0415 - rarely needed

    subject = await _wait_or_decision(context, link)
    errors = (
        {} if isinstance(subject, decisions.Decision) else field_errors(subject, fields)
    )
    if isinstance(subject, decisions.Decision) or not errors:
        raise error
    return _open_page(context, subject, link, errors, status=status)


async def _vote_page(
    context: RequestContext, link: LinkPayload, vote: Vote
) -> Response:
    """Return the page after a vote. The vote is recorded, whatever happens here."""
    try:
        subject = await _wait_or_decision(context, link)
    except ContinuationsError:
        return vote_recorded(vote)
    if isinstance(subject, decisions.Decision):
        return vote_recorded(vote)
    return _open_page(context, subject, link)


def _read_link(context: RequestContext) -> LinkPayload:
    if context.links is None:
        raise LinkInvalid
    return context.links.read(context.path_params["token"])


async def _wait_or_decision(
    context: RequestContext, link: LinkPayload
) -> Wait | decisions.Decision:
    """Return the open wait of a link, or its recorded decision.

    Raises `LinkInvalid` if the link is for another wait, or if the wait is gone.
    """
    subject: Wait | decisions.Decision
    try:
        subject = await context.runner.wait(link.wait_id)
    except AlreadyDecided as error:
        subject = error.decision
    except WaitNotFound:
        raise LinkInvalid from None
    link.check_digest(subject.digest)
    return subject


def _ended_page(error: WaitExpired | Cancelled, *, status: int) -> Response:
    text = EXPIRED_TEXT if isinstance(error, WaitExpired) else _CANCELLED_TEXT
    return _titled_page(status, *text)


# Short pages --------------------------------------------------------------------


def decision_recorded(decision: decisions.Decision, *, woken: bool) -> Response:
    """Return the page after a decision, also after the same decision again."""
    text = "The run continues." if woken else "The run continues once a worker sees it."
    html = _decision_html(decision)
    return _titled_page(200, "Your decision is recorded", text, html, is_done=True)


def vote_recorded(vote: Vote) -> Response:
    """Return the page after a vote whose wait cannot be shown any more."""
    text = vote_sentence(vote)
    html = f"{_decision_html(vote)}<p>Your vote cannot be changed.</p>"
    return _titled_page(200, "Your vote is recorded", text, html, is_done=True)


def vote_sentence(vote: Vote) -> str:
    """Return how far a wait is after a vote that did not end it."""
    return (
        f"This wait has {votes_text(vote)} for this decision. It is open until the "
        "others have voted, and nothing runs before."
    )


def already_decided(
    decision: decisions.Decision,
    *,
    status: int = 200,
    query: Mapping[str, str] | None = None,
) -> Response:
    """Return the page that shows an earlier decision."""
    text = (
        "This call was decided before. The decision below is recorded and cannot be "
        "changed."
    )
    texts = LongTexts(query)
    html = _decision_html(decision, texts)
    if texts.wanted is not None:
        return text_response(texts, None, page_headers())
    return _titled_page(status, "Already decided", text, html)


_UNCHANGED = "Nothing was changed."
# The details of these problems are for the person who made the form.
_TECHNICAL = frozenset({"malformed", "invalid-input", "unsupported-media-type"})


def problem_page(problem: problems.Problem) -> Response:
    """Return a problem as a page."""
    title, text, html = problem.type.title, problem.detail or _UNCHANGED, ""
    if problem.type.slug in _TECHNICAL:
        html = (
            '<section class="card"><details open><summary>Technical details</summary>\n'
            f'<p class="pad">{html_line(text)}</p>\n</details></section>\n'
        )
        title, text = "This was not accepted", _UNCHANGED
    page = _titled_page(problem.type.status, title, text, html)
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


def decision_facts(decision: decisions.Decision | Vote) -> dict[str, str | TimeView]:
    """Return who decided what, when and why, by labels."""
    facts: dict[str, str | TimeView | None] = {
        "Decision": decision_word(decision.wait_id, decision.kind),
        "By": decider_text(decision),
        "At": time_view(decision.at),
        "Reason": decision.reason,
    }
    return {label: fact for label, fact in facts.items() if fact}


def _decision_html(
    decision: decisions.Decision | Vote, texts: LongTexts | None = None
) -> str:
    texts = texts or LongTexts()
    facts = {**decision_facts(decision), "Wait": decision.wait_id}
    rows = "".join(
        f"<dt>{label}</dt><dd>{_html_fact(fact, texts)}</dd>\n"
        for label, fact in facts.items()
    )
    values = "".join(
        f'<section class="card"><header><h2>{label}</h2></header>'
        f"<pre>{texts.html(text, keeps_lines=True)}</pre></section>\n"
        for label, text in decided_values(decision).items()
    )
    return f'<section class="card"><dl class="facts">\n{rows}</dl></section>\n{values}'


def _html_fact(fact: str | TimeView, texts: LongTexts) -> str:
    if isinstance(fact, TimeView):
        return fact.html
    return texts.html(fact, keeps_lines=False)


def _titled_page(
    status: int, title: str, text: str, body: str = "", *, is_done: bool = False
) -> Response:
    lead = 'div class="notice is-ok recorded" role="status"' if is_done else ""
    lead = lead or 'header class="lead"'
    html = (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta name="color-scheme" content="light dark">\n'
        f"<title>{html_line(title)} · continuations</title>\n"
        f"<style>{style_text()}</style>\n</head>\n<body>\n"
        '<a class="skip" href="#main">Skip to content</a>\n'
        '<header class="top"><div>\n<span class="brand"><span>continuations</span>'
        '</span>\n</div></header>\n<main id="main">\n'
        f"<{lead}><h1>{html_line(title)}</h1><p>{html_line(text)}</p>"
        f"</{lead.partition(' ')[0]}>\n{body}</main>\n</body>\n</html>\n"
    )
    return Response(status=status, headers=page_headers(), body=html)
