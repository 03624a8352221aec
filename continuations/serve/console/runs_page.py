"""The page of the runs of the store, with filters, one page at a time."""

from __future__ import annotations

from asyncio import gather
from typing import TYPE_CHECKING
from urllib.parse import urlencode

from continuations.errors import ContinuationsError
from continuations.serve.console.page import Page, PageRoute
from continuations.serve.http import problems
from continuations.serve.list_page import read_page
from continuations.serve.pages.runs_view import (
    STATUS_CHOICES,
    RunListRow,
    RunsFilter,
    list_row,
)

if TYPE_CHECKING:
    from continuations.ledger.run_listing import RunSummary
    from continuations.serve.http.request_response import Response

ROWS_PER_PAGE = 25
# A page reads at most so many runs, also if it shows few of them.
_MAX_READ = 500
_FILTERS = ("agent", "status", "label")


async def show(page: Page) -> Response:
    """Show a page of runs."""
    query = page.query
    if not query.keys() <= {*_FILTERS, "after"}:
        raise problems.malformed("The query may have agent, status, label, after.")
    chosen = {name: query[name] for name in _FILTERS if query.get(name)}
    rows, after = await list_page(page, chosen, query.get("after", ""))
    following = {**chosen, "after": after}
    return page.render(
        "runs.html",
        rows=rows,
        filter=RunsFilter(
            agent=chosen.get("agent", ""),
            status=chosen.get("status", ""),
            label=chosen.get("label", ""),
        ),
        statuses=STATUS_CHOICES,
        is_filtered=bool(chosen),
        is_first="after" not in query,
        next=page.url(f"/runs?{urlencode(following)}") if after else "",
    )


async def list_page(
    page: Page, chosen: dict[str, str], after: str, *, threads: bool = False
) -> tuple[tuple[RunListRow, ...], str]:
    """Return the rows of one page that the person may see, and the next cursor.

    Only the runs of the page are read, and for each that waits its newest version.
    """

    async def is_shown(each: RunSummary) -> bool:
        is_wanted = each.thread is not None or not threads
        return is_wanted and await page.can("view", each.run_id)

    found = await read_page(
        page.runner.runs(**chosen, after=page.cursors.open(after)),
        limit=ROWS_PER_PAGE,
        max_read=_MAX_READ,
        cursor_of=lambda each: each.cursor,
        is_shown=is_shown,
        seal=page.cursors.seal,
    )
    now = page.clock.now()
    awaited = await gather(*(_awaited(page, each) for each in found.rows))
    rows = zip(found.rows, awaited, strict=True)
    return tuple(list_row(each, words, now) for each, words in rows), found.next or ""


async def _awaited(page: Page, summary: RunSummary) -> tuple[str, ...]:
    """Return what a suspended run waits for, in words."""
    if summary.status != "suspended":
        return ()
    try:
        run = await page.runner.look(summary.run_id)
    except ContinuationsError:
        return ()  # erased or damaged meanwhile
    return tuple(wait.title or wait.rules.awaited for wait in run.waits)


ROUTES = (PageRoute("/runs", show),)
