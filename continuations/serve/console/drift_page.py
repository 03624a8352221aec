"""The effect of the code of this console on the waiting runs."""

from __future__ import annotations

from asyncio import gather
from contextlib import suppress
from typing import TYPE_CHECKING
from urllib.parse import urlencode

from continuations.errors import ContinuationsError, InvalidInput
from continuations.ledger.thread_ids import is_thread_id
from continuations.serve.console.page import Page, PageRoute
from continuations.serve.http import problems
from continuations.serve.list_page import ListPage, read_page
from continuations.serve.pages.drift_view import drift_view

if TYPE_CHECKING:
    from continuations.engine.drift_rows import DriftRow
    from continuations.serve.http.request_response import Response

# `drift` reads 20 runs at a time, so a page reads at most 40.
ROWS_PER_PAGE = 30
_NOTHING: ListPage[DriftRow] = ListPage(rows=(), next=None)


async def show(page: Page) -> Response:
    """Show a page of waiting runs, by run id; the refused ones stand first."""
    query = page.query
    if not query.keys() <= {"after"}:
        raise problems.malformed('The query may have "after". Use a link of this page.')
    has_agents, found = await _read(page, query.get("after", ""))
    keys = await gather(*(_thread_key(page, row) for row in found.rows))
    ids = (row.run_id for row in found.rows)
    threads = dict(zip(ids, keys, strict=True))
    following = urlencode({"after": found.next or ""})
    return page.render(
        "drift.html",
        drift=drift_view(found.rows, threads, page.shell.root),
        has_agents=has_agents,
        is_first="after" not in query,
        next=page.url(f"/drift?{following}") if found.next else "",
    )


async def _thread_key(page: Page, row: DriftRow) -> str:
    """Return the key of a thread, whose id has a digest in its place; or ""."""
    if row.status != "unreadable" and is_thread_id(row.run_id):
        with suppress(ContinuationsError):  # erased or damaged meanwhile
            run = await page.runner.look(row.run_id)
            return run.run_state.run.thread_key or ""
    return ""


async def _read(page: Page, after: str) -> tuple[bool, ListPage[DriftRow]]:
    """Return whether the runner has agents, and the rows that the person may see."""
    try:
        rows = page.runner.drift(after=page.cursors.open(after))
    except InvalidInput:
        return False, _NOTHING
    found = await read_page(
        rows,
        limit=ROWS_PER_PAGE,
        max_read=ROWS_PER_PAGE,
        cursor_of=lambda row: row.run_id,
        is_shown=lambda row: page.can("view", row.run_id),
        seal=page.cursors.seal,
    )
    return True, found


ROUTES = (PageRoute("/drift", show),)
