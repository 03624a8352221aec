"""The effect of the code of this console on the waiting runs."""

from __future__ import annotations

from asyncio import gather
from collections import Counter
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from continuations.errors import ContinuationsError, InvalidInput
from continuations.ledger.thread_ids import is_thread_id
from continuations.present.drift_words import allowed_changes
from continuations.serve.console.page import Page, PageRoute, RunAddresses
from continuations.serve.http import problems
from continuations.serve.http.cursors import ListPage
from continuations.serve.pages.run_view import StatePill, status_pill

if TYPE_CHECKING:
    from collections.abc import Sequence

    from continuations.engine.past.drift import DriftRow, DriftVerdict
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


async def _read(page: Page, after: str) -> tuple[bool, ListPage[DriftRow]]:
    """Return whether the runner has agents, and the rows that the person may see."""
    try:
        rows = page.runner.drift(after=page.cursors().open(after))
    except InvalidInput:
        return False, _NOTHING
    return True, await page.read_list(
        rows,
        limit=ROWS_PER_PAGE,
        max_read=ROWS_PER_PAGE,
        cursor_of=lambda row: row.run_id,
    )


ROUTES = (PageRoute("/drift", show),)


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
