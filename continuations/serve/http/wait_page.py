"""The page of an open wait for the holder of a signed link."""

from __future__ import annotations

from typing import TYPE_CHECKING

from continuations.present.wait_view import wait_view
from continuations.serve.http.pages import page_headers, vote_sentence
from continuations.serve.http.request_response import Response
from continuations.serve.pages.decision_view import decision_view
from continuations.serve.pages.environment import render

if TYPE_CHECKING:
    from datetime import datetime

    from continuations.core.waits import Wait
    from continuations.serve.pages.decision_view import Decider


def wait_page(
    wait: Wait, decider: Decider, now: datetime, *, status: int = 200
) -> Response:
    """Return the page of a wait. After a vote it has a bar that says so."""
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
    return Response(status=status, headers=page_headers(), body=html)


def _bar(decider: Decider) -> tuple[str, ...]:
    vote = decider.own_vote
    if vote is None:
        return ()
    rule = "Your vote cannot be changed."
    if decider.verdicts:
        rule += " You can still end the wait, so that nothing runs."
    return ("Your vote is recorded.", vote_sentence(vote), rule)
