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
from continuations.serve import pages, problems, verdicts
from continuations.serve.links import FITTING, LinkInvalid

if TYPE_CHECKING:
    from continuations.core.decisions import Verdict
    from continuations.core.waits import Wait
    from continuations.serve.answers import Ask
    from continuations.serve.http import Response
    from continuations.serve.links import Allowed, Ticket

# Who decided, of a link that names nobody.
ANYBODY = "the holder of a signed link"


async def show(ask: Ask) -> Response:
    """Show what a link is about; changes nothing. Raises `LinkInvalid`."""
    ticket = _ticket(ask)
    try:
        found = await _standing(ask, ticket)
    except (WaitExpired, Cancelled) as error:
        return _over(error, status=200)
    if isinstance(found, Decision):
        return pages.decided(found)
    if found.deadline is not None and ask.clock.now() > found.deadline:
        return pages.over(*_EXPIRED)
    fitting = FITTING[found.kind]
    return pages.confirm(found, [each for each in fitting if each in ticket.allowed])


async def decide(ask: Ask) -> Response:
    """Decide what a link is about, once; raises `LinkInvalid` and `Refused`."""
    ticket = _ticket(ask)
    verdict = verdicts.from_form(ask.request, ticket.actor or ANYBODY)
    if _answer(verdict) not in ticket.allowed:
        raise problems.Refused(problems.plain("link-forbids"))
    try:
        decision = await ask.runner.decide(ticket.wait_id, verdict, check=ticket.check)
    except WaitNotFound:
        raise LinkInvalid from None
    except AlreadyDecided as error:
        return pages.decided(problems.standing(error), status=409)
    except (WaitExpired, Cancelled) as error:
        return _over(error, status=410)
    run_id = decision.wait_id.partition("@")[2]
    return pages.recorded(decision, woken=await ask.wake(run_id))


def _ticket(ask: Ask) -> Ticket:
    if ask.links is None:
        raise LinkInvalid
    return ask.links.read(ask.names["token"])


async def _standing(ask: Ask, ticket: Ticket) -> Wait | Decision:
    """Return the open wait of a link, or the decision that stands.

    Raises `LinkInvalid` if it was made for another wait, or for one that is gone.
    """
    found: Wait | Decision
    try:
        found = await ask.runner.wait(ticket.wait_id)
    except AlreadyDecided as error:
        found = problems.standing(error)
    except WaitNotFound:
        raise LinkInvalid from None
    ticket.check(found.digest)
    return found


def _answer(verdict: Verdict) -> Allowed:
    if isinstance(verdict, Approve):
        return "approve"
    return "answer" if isinstance(verdict, Answer) else "deny"


_EXPIRED = (
    "Expired",
    "The deadline has passed and nobody decided in time. The call does not run.",
)
_CANCELLED = (
    "Cancelled",
    "The run was cancelled, and this question with it. The call does not run.",
)


def _over(error: WaitExpired | Cancelled, *, status: int) -> Response:
    title, words = _EXPIRED if isinstance(error, WaitExpired) else _CANCELLED
    return pages.over(title, words, status=status)
