"""The page of the runs of the store, with filters, one page at a time."""

from __future__ import annotations

from asyncio import gather
from typing import TYPE_CHECKING, Any

from continuations.core.visible_text import shorten
from continuations.errors import ContinuationsError
from continuations.present.times import counted, moment_text
from continuations.serve.console.page import Page, PageRoute
from continuations.serve.http import problems
from continuations.serve.pages.run_view import status_pill

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from continuations.ledger.index.run_listing import RunSummary
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
    return page.render(
        "runs.html",
        rows=rows,
        filter={name: chosen.get(name, "") for name in _FILTERS},
        statuses=STATUS_CHOICES,
        is_filtered=bool(chosen),
        is_first="after" not in query,
        next=page.next_page("/runs", after, **chosen),
    )


async def list_page(
    page: Page, chosen: dict[str, str], after: str, *, threads: bool = False
) -> tuple[list[dict[str, Any]], str]:
    """Return the rows of one page that the person may see, and the next cursor.

    Only the runs of the page are read, and for each that waits its newest version.
    """
    found = await page.read_list(
        page.runner.runs(**chosen, after=page.cursors().open(after)),
        limit=ROWS_PER_PAGE,
        max_read=_MAX_READ,
        cursor_of=lambda each: each.cursor,
        is_wanted=lambda each: each.thread is not None or not threads,
    )
    now = page.clock.now()
    awaited = await gather(*(_awaited(page, each) for each in found.rows))
    rows = zip(found.rows, awaited, strict=True)
    return [list_row(each, words, now) for each, words in rows], found.next or ""


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


_SHOWN_WAITS = 2
_TITLE_CHARS = 120
STATUS_CHOICES = (
    ("", "All"),
    ("live", "Live"),
    ("suspended", "Suspended"),
    ("running", "Works"),
    ("ended", "Ended"),
    ("failed", "Failed"),
)


def list_row(
    summary: RunSummary, awaits: Sequence[str], now: datetime
) -> dict[str, Any]:
    """Return the row of a run: its summary, and the words that the page shows.

    Args:
        summary: The run.
        awaits: All its waits, in words. The row has the first ones.
        now: The time of the report.
    """
    started, changed = summary.created_at, summary.updated_at
    title = summary.title or summary.thread or summary.run_id
    messages = ""
    if summary.thread is not None:
        messages = counted(summary.messages, "message")
    return {
        "run": summary,
        "title": shorten(title, _TITLE_CHARS),
        "state": status_pill(summary.status),
        "started": "" if started is None else moment_text(started, now),
        "changed": "" if changed is None else moment_text(changed, now),
        "awaits": awaits[:_SHOWN_WAITS],
        "more_waits": max(len(awaits) - _SHOWN_WAITS, 0),
        "messages": messages,
    }
