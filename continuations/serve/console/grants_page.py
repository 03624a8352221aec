"""Grants: the approvals that live runs remember."""

from __future__ import annotations

from asyncio import gather
from typing import TYPE_CHECKING
from urllib.parse import urlencode

from continuations.errors import ContinuationsError
from continuations.present.times import moment_text
from continuations.serve.console.page import Page, PageRoute
from continuations.serve.http.cursors import read_page
from continuations.value_class import dataclass

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
    after = page.cursors.open(page.query.get("after", ""))
    runs = await read_page(
        page.runner.runs(status="live", after=after),
        limit=_RUNS_PER_PAGE,
        max_read=_MAX_READ,
        cursor_of=lambda each: each.cursor,
        is_shown=lambda each: page.can("view", each.run_id),
        seal=page.cursors.seal,
    )
    found = await gather(*(_grants(page, each) for each in runs.rows))
    following = urlencode({"after": runs.next}) if runs.next else ""
    return page.render(
        "grants.html",
        rows=[row for rows in found for row in rows],
        next=page.url(f"/grants?{following}") if following else "",
    )


async def _grants(page: Page, run: RunSummary) -> list[GrantRow]:
    try:
        grants = await page.runner.grants(run.run_id)
    except ContinuationsError:
        return []  # erased or damaged meanwhile
    if not grants:
        return []
    may_revoke = await page.can("decide", run.run_id)
    now = page.clock.now()
    title = run.title or run.thread or run.run_id
    return [grant_row(each, run.run_id, title, now, may_revoke) for each in grants]


ROUTES = (PageRoute("/grants", show),)


@dataclass(frozen=True, slots=True, kw_only=True)
class GrantRow:
    """One grant.

    Attributes:
        grant: Its id.
        run_id: Id of its run.
        title: Title of its run.
        tool: Name of the tool.
        path: Names from the root agent down to the tool.
        arguments: JSON Schema of the arguments that it covers, or "" for all.
        until: When it ends, or "" if it ends with the run.
        given: The giver and the time.
        is_revoked: Whether it is revoked, and no worker has taken that in.
        may_revoke: Whether the person may revoke it.
    """

    grant: str
    run_id: str
    title: str
    tool: str
    path: str
    arguments: str
    until: str
    given: str
    is_revoked: bool
    may_revoke: bool


def grant_row(
    grant: KeptGrant, run_id: str, title: str, now: datetime, may_revoke: bool
) -> GrantRow:
    """Return the row of a grant."""
    at = moment_text(grant.at, now)
    return GrantRow(
        grant=grant.id,
        run_id=run_id,
        title=title,
        tool=grant.tool,
        path=" > ".join(grant.path),
        arguments=grant.arguments_json or "",
        until="" if grant.until is None else moment_text(grant.until, now),
        given=f"{grant.by}, {at}" if grant.by else at,
        is_revoked=grant.revoked,
        may_revoke=may_revoke and not grant.revoked,
    )
