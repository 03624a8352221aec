"""The two actions of a signed link: show the wait, and decide it.

Link scanners, previews, reloads and the back button send GET or HEAD, which never
decide. After the decision, every request shows the recorded decision.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from continuations.core.rows.decisions import (
    UNNAMED_LINK_HOLDER,
    VERDICT_KINDS,
    Decision,
    Door,
)
from continuations.errors import (
    AlreadyDecided,
    Cancelled,
    ContinuationsError,
    DecisionRefused,
    WaitExpired,
    WaitNotFound,
)
from continuations.ledger import layout
from continuations.serve.http import decision_bodies, pages, problems, request_fields
from continuations.serve.http.links import LinkInvalid
from continuations.serve.http.request_response import Response

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

    from continuations.core.rows.decisions import Verdict
    from continuations.core.rows.quorum import Vote
    from continuations.core.rows.waits import Wait
    from continuations.serve.http.links import LinkPayload, VerdictKind
    from continuations.serve.http.request_context import RequestContext
    from continuations.serve.pages.decision_view import Decider

LINK = Door("link", "signed link")
_EXPIRED_TEXT = (
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
    if isinstance(subject, Decision):
        return pages.already_decided(subject)
    if subject.deadline is not None and context.clock.now() > subject.deadline:
        return pages.wait_ended(*_EXPIRED_TEXT)
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

    person = link.actor or UNNAMED_LINK_HOLDER
    decider = decider_of(wait, person, link.allowed)
    if errors:
        fields = request_fields.form_fields(context.request)
        decider = decider.with_errors(fields, errors)
    return wait_page(wait, decider, context.clock.now(), status=status)


def wait_page(
    wait: Wait, decider: Decider, now: datetime, *, status: int = 200
) -> Response:
    """Return the page of a wait. After a vote it has a bar that says so."""
    # Not to decide: these load Jinja2.
    from continuations.present.wait_view import wait_view  # noqa: PLC0415
    from continuations.serve.pages.decision_view import decision_view  # noqa: PLC0415
    from continuations.serve.pages.environment import render  # noqa: PLC0415

    html = render(
        "wait.html",
        shell=None,
        wait=wait_view(wait),
        decision=decision_view(wait, decider, now),
        bar=_bar(decider),
        crumbs=None,
        events=None,
        others={},
        links={},
    )
    return Response(status=status, headers=pages.page_headers(), body=html)


def _bar(decider: Decider) -> tuple[str, ...]:
    vote = decider.own_vote
    if vote is None:
        return ()
    rule = "Your vote cannot be changed."
    if decider.verdicts:
        rule += " You can still end the wait, so that nothing runs."
    return ("Your vote is recorded.", pages.vote_sentence(vote), rule)


async def decide(context: RequestContext) -> Response:
    """Decide the wait of a link, once.

    Raises `LinkInvalid` for a bad link and `RequestRefused` for a bad form.
    """
    link = _read_link(context)
    person = link.actor or UNNAMED_LINK_HOLDER
    try:
        posted = decision_bodies.decision_from_form(context.request, person)
    except problems.RequestRefused as error:
        return await _form_again(context, link, error, status=400)
    if _verdict_kind(posted.verdict) not in link.allowed:
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
        return pages.already_decided(error.decision, status=409)
    except (WaitExpired, Cancelled) as error:
        return _ended_page(error, status=410)
    if not isinstance(result, Decision):
        return await _vote_page(context, link, result)
    woken = await context.wake(layout.parse_wait_id(result.wait_id).run_id)
    return pages.decision_recorded(result, woken=woken)


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
    errors = {} if isinstance(subject, Decision) else field_errors(subject, fields)
    if isinstance(subject, Decision) or not errors:
        raise error
    return _open_page(context, subject, link, errors, status=status)


async def _vote_page(
    context: RequestContext, link: LinkPayload, vote: Vote
) -> Response:
    """Return the page after a vote. The vote is recorded, whatever happens here."""
    try:
        subject = await _wait_or_decision(context, link)
    except ContinuationsError:
        return pages.vote_recorded(vote)
    if isinstance(subject, Decision):
        return pages.vote_recorded(vote)
    return _open_page(context, subject, link)


def _read_link(context: RequestContext) -> LinkPayload:
    if context.links is None:
        raise LinkInvalid
    return context.links.read(context.path_params["token"])


async def _wait_or_decision(
    context: RequestContext, link: LinkPayload
) -> Wait | Decision:
    """Return the open wait of a link, or its recorded decision.

    Raises `LinkInvalid` if the link is for another wait, or if the wait is gone.
    """
    subject: Wait | Decision
    try:
        subject = await context.runner.wait(link.wait_id)
    except AlreadyDecided as error:
        subject = error.decision
    except WaitNotFound:
        raise LinkInvalid from None
    link.check_digest(subject.digest)
    return subject


def _verdict_kind(verdict: Verdict) -> VerdictKind:
    return VERDICT_KINDS[type(verdict)]


def _ended_page(error: WaitExpired | Cancelled, *, status: int) -> Response:
    title, text = _EXPIRED_TEXT if isinstance(error, WaitExpired) else _CANCELLED_TEXT
    return pages.wait_ended(title, text, status=status)
