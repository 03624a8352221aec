"""The versions of a run, and the differences between two of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from continuations.core.run import ENDED_STATUSES
from continuations.core.withheld_texts import shown_difference, shown_version
from continuations.ledger import layout
from continuations.serve.console.page import Page, PageRoute
from continuations.serve.console.run_page import number_of
from continuations.serve.pages.run_addresses import RunAddresses
from continuations.serve.pages.run_view import run_title
from continuations.serve.pages.versions_view import difference_view, version_row

if TYPE_CHECKING:
    from continuations.serve.http.request_response import Response
    from continuations.serve.pages.versions_view import VersionRow

VERSIONS_PER_PAGE = 25


async def show(page: Page) -> Response:
    """Show the versions of a run, the newest first, or compare two of them."""
    run_id = layout.check_run_id(page.params["run"])
    await page.require("view", run_id)
    query = page.query
    first, second = (
        number_of(query.get("from"), "from"),
        number_of(query.get("to"), "to"),
    )
    here = RunAddresses(root=page.shell.root, run_id=run_id)
    detail = await page.detail(run_id)
    if first is not None and second is not None:
        found = await page.runner.diff(run_id, first, second)
        return page.render(
            "difference.html",
            here=here,
            difference=difference_view(shown_difference(found, detail)),
        )
    run = await page.runner.look(run_id)
    last = min(number_of(query.get("before"), "before") or run.version, run.version)
    begin = max(last - VERSIONS_PER_PAGE, 0)
    rows: list[VersionRow] = []
    async for version in page.runner.history(run_id, after=begin):
        if version.number > last:
            break
        rows.append(version_row(shown_version(version, detail), page.clock.now()))
    rows.reverse()
    return page.render(
        "versions.html",
        here=here,
        title=run_title(await page.shown(run.run_state)),
        newest=run.version,
        rows=rows,
        before=begin,
        may_fork=await page.can("fork", run_id),
        has_ended=run.status in ENDED_STATUSES,
    )


ROUTES = (PageRoute("/runs/{run}/versions", show),)
