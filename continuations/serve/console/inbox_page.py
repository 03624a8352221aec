"""The page of what waits for people."""

from __future__ import annotations

from typing import TYPE_CHECKING

from continuations.serve.console.page import Page, PageRoute

if TYPE_CHECKING:
    from continuations.serve.http.request_response import Response


async def home(page: Page) -> Response:
    """Redirect to the inbox."""
    return page.see_other("/inbox")


async def show(page: Page) -> Response:
    """Show what waits."""
    found = await page.runner.worklist(limit=50)
    links = {
        page.url(f"/waits/{row.wait.id}"): row.wait.title or row.wait.tool
        for row in found.waits
    }
    return page.render(
        "message.html", title="Inbox", text="", facts={}, values={}, links=links
    )


ROUTES = (PageRoute("/", home), PageRoute("/inbox", show))
