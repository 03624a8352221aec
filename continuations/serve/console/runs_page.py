"""The page of the runs of the store, with filters, one page at a time."""

from __future__ import annotations

from asyncio import gather
from typing import TYPE_CHECKING

from continuations.core.visible_text import shorten
from continuations.errors import ContinuationsError
from continuations.present.times import counted, moment_text
from continuations.serve.console.page import Page, PageRoute
from continuations.serve.http import problems
from continuations.serve.http.cursors import read_page
from continuations.serve.pages.run_view import StatePill, status_pill
from continuations.value_class import dataclass

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


@dataclass(frozen=True, slots=True, kw_only=True)
class RunListRow:
    """One run of the listing.

    Attributes:
        run_id: Its id.
        title: Its title, or its id.
        state: Its state in words.
        agent: Its root agent, or "".
        requester: Its requester, or "".
        labels: Its labels, as `team=finance`.
        started: When it was started.
        changed: When its newest version was written.
        awaits: The first of its waits, in words.
        more_waits: How many waits `awaits` leaves out.
        messages: Number of messages that a thread has read, in words; or "".
    """

    run_id: str
    title: str
    state: StatePill
    agent: str
    requester: str
    labels: tuple[str, ...]
    started: str
    changed: str
    awaits: tuple[str, ...]
    more_waits: int
    messages: str


def list_row(summary: RunSummary, awaits: Sequence[str], now: datetime) -> RunListRow:
    """Return the row of a run.

    Args:
        summary: The run.
        awaits: All its waits, in words.
        now: The time of the report.
    """
    started, changed = summary.created_at, summary.updated_at
    title = summary.title or summary.thread or summary.run_id
    messages = ""
    if summary.thread is not None:
        messages = counted(summary.messages, "message")
    return RunListRow(
        run_id=summary.run_id,
        title=shorten(title, _TITLE_CHARS),
        state=status_pill(summary.status),
        agent=summary.agent,
        requester=summary.requester or "",
        labels=tuple(f"{name}={value}" for name, value in summary.labels.items()),
        started="" if started is None else moment_text(started, now),
        changed="" if changed is None else moment_text(changed, now),
        awaits=tuple(awaits[:_SHOWN_WAITS]),
        more_waits=max(len(awaits) - _SHOWN_WAITS, 0),
        messages=messages,
    )
