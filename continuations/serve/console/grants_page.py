"""Grants: the approvals that live runs remember, and their revocation."""

from __future__ import annotations

from asyncio import gather
from typing import TYPE_CHECKING, Any

from continuations.errors import ContinuationsError
from continuations.present.times import moment_text
from continuations.serve.console.page import Page, PageRoute

if TYPE_CHECKING:
    from datetime import datetime

    from continuations.core.rows.grants import KeptGrant
    from continuations.ledger.index.run_listing import RunSummary
    from continuations.serve.http.request_response import Response

# The grants of a run are in the run: one page shows those of so many live runs. It
# reads more rows if some are hidden.
_RUNS_PER_PAGE, _MAX_READ = 50, 500


async def show(page: Page) -> Response:
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
    at = moment_text(grant.at, now)
    return {
        "grant": grant,
        "run_id": run.run_id,
        "title": run.title or run.thread or run.run_id,
        "given": f"{grant.by}, {at}" if grant.by else at,
        # Without a time, it ends with the run.
        "until": "" if grant.until is None else moment_text(grant.until, now),
        "may_revoke": may_revoke and not grant.revoked,
    }


ROUTES = (PageRoute("/grants", show),)
