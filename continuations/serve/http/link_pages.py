"""What people do with a signed link: they look, and they decide.

A link scanner, a preview, a refresh and the way back only ever look. What was decided
is told to whoever comes later, with what stands and by whom.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from continuations.core.decisions import Answer, Approve, Decision
from continuations.errors import (
    AlreadyDecided,
    Cancelled,
    WaitExpired,
    WaitNotFound,
)
from continuations.serve.http import decision_bodies, pages, problems
from continuations.serve.http.links import VERDICT_KINDS_BY_WAIT, LinkInvalid

if TYPE_CHECKING:
    from continuations.core.decisions import Verdict
    from continuations.core.waits import Wait
    from continuations.serve.http.links import LinkPayload, VerdictKind
    from continuations.serve.http.request_response import Response
    from continuations.serve.http.routes import RequestContext

# Who decided, of a link that names nobody.
UNNAMED_LINK_HOLDER = "the holder of a signed link"


async def show(context: RequestContext) -> Response:
    """Show what a link is about; changes nothing. Raises `LinkInvalid`."""
    ticket = _read_link(context)
    try:
        found = await _wait_or_decision(context, ticket)
    except (WaitExpired, Cancelled) as error:
        return _ended_page(error, status=200)
    if isinstance(found, Decision):
        return pages.already_decided(found)
    if found.deadline is not None and context.clock.now() > found.deadline:
        return pages.wait_ended(*_EXPIRED_TEXT)
    fitting = VERDICT_KINDS_BY_WAIT[found.kind]
    return pages.decision_form(
        found, [each for each in fitting if each in ticket.allowed]
    )


async def decide(context: RequestContext) -> Response:
    """Decide what a link is about, once; raises `LinkInvalid` and `Refused`."""
    ticket = _read_link(context)
    verdict = decision_bodies.verdict_from_form(
        context.request, ticket.actor or UNNAMED_LINK_HOLDER
    )
    if _verdict_kind(verdict) not in ticket.allowed:
        raise problems.link_forbids()
    try:
        decision = await context.runner.decide(
            ticket.wait_id, verdict, check_digest=ticket.check_digest
        )
    except WaitNotFound:
        raise LinkInvalid from None
    except AlreadyDecided as error:
        return pages.already_decided(problems.recorded_decision(error), status=409)
    except (WaitExpired, Cancelled) as error:
        return _ended_page(error, status=410)
    run_id = decision.wait_id.partition("@")[2]
    return pages.decision_recorded(decision, woken=await context.wake(run_id))


def _read_link(context: RequestContext) -> LinkPayload:
    if context.links is None:
        raise LinkInvalid
    return context.links.read(context.path_params["token"])


async def _wait_or_decision(
    context: RequestContext, link: LinkPayload
) -> Wait | Decision:
    """Return the open wait of a link, or the decision that stands.

    Raises `LinkInvalid` if it was made for another wait, or for one that is gone.
    """
    found: Wait | Decision
    try:
        found = await context.runner.wait(link.wait_id)
    except AlreadyDecided as error:
        found = problems.recorded_decision(error)
    except WaitNotFound:
        raise LinkInvalid from None
    link.check_digest(found.digest)
    return found


def _verdict_kind(verdict: Verdict) -> VerdictKind:
    if isinstance(verdict, Approve):
        return "approve"
    return "answer" if isinstance(verdict, Answer) else "deny"


_EXPIRED_TEXT = (
    "Expired",
    "The deadline has passed and nobody decided in time. The call does not run.",
)
_CANCELLED_TEXT = (
    "Cancelled",
    "The run was cancelled, and this question with it. The call does not run.",
)


def _ended_page(error: WaitExpired | Cancelled, *, status: int) -> Response:
    title, words = _EXPIRED_TEXT if isinstance(error, WaitExpired) else _CANCELLED_TEXT
    return pages.wait_ended(title, words, status=status)
