"""The lists of runs: with filters, with the grants of live runs, and with their drift.

`/grants` has the approvals that live runs remember, and revokes them. `/drift` shows
the effect of the code of this console on the waiting runs.
"""

from __future__ import annotations

from asyncio import gather
from collections import Counter
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from continuations.core.visible_text import shorten
from continuations.engine.past.drift import allowed_changes
from continuations.errors import ContinuationsError, InvalidInput
from continuations.ledger.layout import is_thread_id
from continuations.present.times import counted, time_view
from continuations.serve.console.page import Page, PageRoute, RunAddresses
from continuations.serve.http import problems
from continuations.serve.http.cursors import ListPage
from continuations.serve.pages.run_states import StatePill, status_pill

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from continuations.core.rows.grants import KeptGrant
    from continuations.engine.past.drift import DriftRow, DriftVerdict
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
        "started": None if started is None else time_view(started, now),
        "changed": None if changed is None else time_view(changed, now),
        "awaits": awaits[:_SHOWN_WAITS],
        "more_waits": max(len(awaits) - _SHOWN_WAITS, 0),
        "messages": messages,
    }


# The grants of a run are in the run: one page shows those of so many live runs. It
# reads more rows if some are hidden.
_RUNS_PER_PAGE = 50


async def show_grants(page: Page) -> Response:
    """Show the grants of some live runs."""
    after = page.cursors().open(page.query.get("after", ""))
    runs = await page.read_list(
        page.runner.runs(status="live", after=after),
        limit=_RUNS_PER_PAGE,
        max_read=_MAX_READ,
        cursor_of=lambda each: each.cursor,
    )
    found = await gather(*(_grants(page, each) for each in runs.rows))
    return page.render(
        "grants.html",
        rows=[row for rows in found for row in rows],
        next=page.next_page("/grants", runs.next),
    )


async def _grants(page: Page, run: RunSummary) -> list[dict[str, Any]]:
    try:
        grants = await page.runner.grants(run.run_id)
    except ContinuationsError:
        return []  # erased or damaged meanwhile
    if not grants:
        return []
    may_revoke = await page.may("decide", run.run_id)
    now = page.clock.now()
    return [grant_row(each, run, now, may_revoke=may_revoke) for each in grants]


def grant_row(
    grant: KeptGrant, run: RunSummary, now: datetime, *, may_revoke: bool
) -> dict[str, Any]:
    """Return a grant of a run, and the words that the page shows."""
    at = time_view(grant.at, now)
    return {
        "grant": grant,
        "run_id": run.run_id,
        "title": run.title or run.thread or run.run_id,
        "given": (f"{grant.by}, ", at) if grant.by else at,
        # Without a time, it ends with the run.
        "until": None if grant.until is None else time_view(grant.until, now),
        "may_revoke": may_revoke and not grant.revoked,
    }


# `drift` reads 20 runs at a time, so a page reads at most 40.
_DRIFT_ROWS_PER_PAGE = 30
_NOTHING: ListPage[DriftRow] = ListPage(rows=(), next=None)


async def show_drift(page: Page) -> Response:
    """Show a page of waiting runs, by run id; the refused ones stand first."""
    query = page.query
    if not query.keys() <= {"after"}:
        raise problems.malformed('The query may have "after". Use a link of this page.')
    has_agents, found = await _read_drift(page, query.get("after", ""))
    # The refused ones first.
    rows = sorted(found.rows, key=lambda row: (_ORDER.index(row.verdict), row.run_id))
    keys = await gather(*(_thread_key(page, row) for row in rows))
    root = page.shell.root
    return page.render(
        "drift.html",
        rows=[drift_row(*each, root) for each in zip(rows, keys, strict=True)],
        counts=counts_text(rows),
        kinds=_CHANGES,
        has_agents=has_agents,
        is_first="after" not in query,
        next=page.next_page("/drift", found.next),
    )


async def _thread_key(page: Page, row: DriftRow) -> str:
    """Return the key of a thread, whose id has a digest in its place; or ""."""
    if row.status != "unreadable" and is_thread_id(row.run_id):
        with suppress(ContinuationsError):  # erased or damaged meanwhile
            run = await page.runner.look(row.run_id)
            return run.run_state.run.thread_key or ""
    return ""


async def _read_drift(page: Page, after: str) -> tuple[bool, ListPage[DriftRow]]:
    """Return whether the runner has agents, and the rows that the person may see."""
    try:
        rows = page.runner.drift(after=page.cursors().open(after))
    except InvalidInput:
        return False, _NOTHING
    return True, await page.read_list(
        rows,
        limit=_DRIFT_ROWS_PER_PAGE,
        max_read=_DRIFT_ROWS_PER_PAGE,
        cursor_of=lambda row: row.run_id,
    )


# The first one needs a person most.
_VERDICTS: dict[DriftVerdict, tuple[StatePill, str]] = {
    "refuse": (StatePill("warn", "Refuses", "is-danger"), "refused"),
    "reopen": (StatePill("shield", "Asks again", "is-wait"), "asked about again"),
    "accept": (StatePill("ok", "Goes on", "is-ok"), "accepted"),
}
_ORDER = tuple(_VERDICTS)
_CHANGES = {
    "removed": "An agent or a tool is missing",
    "schema": "The tool has other parameters",
    "contract": "The tool has another contract",
    "approval": "The approval is not valid any more",
    "state": "A stored state does not fit the type of its agent",
    "model": "An agent has no model that can answer",
    "context": "The context has another type",
    "prices": "A price is missing, and the run has a budget in money",
    "policy": "The approval policy raised an exception",
    "stored": "A stored object cannot be read",
}


def counts_text(rows: Sequence[DriftRow]) -> str:
    """Return how many runs are refused, asked about again, and accepted."""
    counts = Counter(row.verdict for row in rows)
    parts = (f"{counts[name]} {_VERDICTS[name][1]}" for name in _ORDER if counts[name])
    return ", ".join(parts)


def drift_row(row: DriftRow, thread: str, root: str) -> dict[str, Any]:
    """Return a waiting run, and the words that the page shows.

    Args:
        row: The run, with the effect of the code on it.
        thread: Its key, if it is a thread; or "".
        root: The mount point of the console.
    """
    changes, more = allowed_changes(row)
    return {
        "row": row,
        "here": RunAddresses(root=root, run_id=row.run_id),
        "thread": thread,
        "state": status_pill(row.status),
        "verdict": _VERDICTS[row.verdict][0],
        "changes": (*changes, f"{more} more") if more else changes,
    }


ROUTES = (
    PageRoute("/runs", show),
    PageRoute("/drift", show_drift),
    PageRoute("/grants", show_grants),
)
