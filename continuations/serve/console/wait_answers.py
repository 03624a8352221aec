"""Answer instead of the tool: the agent gets the result, and the call does not run."""

from __future__ import annotations

from typing import TYPE_CHECKING

from continuations.present.wait_view import wait_view
from continuations.serve.console import wait_pages
from continuations.serve.console.page import PageRoute
from continuations.serve.console.wait_lists import WaitList
from continuations.serve.pages.decision_view import form_view

if TYPE_CHECKING:
    from continuations.serve.console.page import Page
    from continuations.serve.http.request_response import Response


async def show(page: Page) -> Response:
    """Show the form for an answer, below the whole call."""
    wait_id = page.params["wait"]
    wait = await page.runner.wait(wait_id)
    person = await wait_pages.decider(page, wait)
    if "answer" not in person.verdicts:
        return await wait_pages.wait_page(page, wait, person)
    return page.render(
        "wait_answer.html",
        wait=wait_view(wait),
        form=form_view(wait, "answer", person, page.clock.now()),
        back=page.url(f"/waits/{wait.id}{WaitList.of(page).query}"),
    )


ROUTES = (
    PageRoute("/waits/{wait}/answer", show, rights=("decide",)),
    PageRoute("/waits/{wait}/answer", wait_pages.decide, ("POST",), ("decide",)),
)
