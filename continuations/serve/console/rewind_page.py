"""Rewind a live run: first the consequences, then the act, then what is not undone."""

from __future__ import annotations

from typing import TYPE_CHECKING

from continuations.core.run_stream import RunRewound
from continuations.core.withheld_texts import shown_rewind, shown_state
from continuations.errors import StaleRun
from continuations.ledger import layout
from continuations.serve.console.page import Page, PageRoute
from continuations.serve.console.run_page import number_of
from continuations.serve.http import problems
from continuations.serve.pages.rewind_view import RewindView, moved_on, rewind_view
from continuations.serve.pages.run_addresses import RunAddresses

if TYPE_CHECKING:
    from continuations.serve.http.request_response import Response

_OK, _CONFLICT = 200, 409


async def ask(page: Page) -> Response:
    """Show what the rewind ends, and what it does not undo."""
    run_id = layout.check_run_id(page.params["run"])
    await page.require("view", run_id)
    await page.require("fork", run_id)
    return await _plan_page(page, run_id, _version(page.query.get("version")))


async def _plan_page(
    page: Page, run_id: str, version: int, shown: str | None = None
) -> Response:
    """Return the page of a plan; `shown` is the digest of an earlier page."""
    view = await _view(page, run_id, version)
    return page.render(
        "rewind.html",
        status=_OK if shown is None else _CONFLICT,
        here=RunAddresses(root=page.shell.root, run_id=run_id),
        rewind=view,
        moved=None if shown is None else moved_on(shown, view),
    )


async def rewind(page: Page) -> Response:
    """Rewind the run, if it is still as the page showed it."""
    run_id = layout.check_run_id(page.params["run"])
    await page.require("fork", run_id)
    form = page.form
    version, shown = _version(form.get("version")), form.get("shown")
    if not shown:
        raise problems.malformed(
            "The form does not name the version that it showed. Open the page of the "
            "rewind again, and send its form."
        )
    try:
        rewound = await page.runner.rewind(
            run_id, version, shown=shown, by=page.identity, door=page.door
        )
    except StaleRun:
        # Only the page that was shown is confirmed.
        if not await page.can("view", run_id):
            raise
        return await _plan_page(page, run_id, version, shown=shown)
    return page.see_other(f"/runs/{run_id}/rewound?version={rewound.version}")


async def done(page: Page) -> Response:
    """Show what a rewind did; all of it is read from the store."""
    run_id = layout.check_run_id(page.params["run"])
    await page.require("view", run_id)
    number = _version(page.query.get("version"))
    earlier = await _rewound_to(page, run_id, number)
    if earlier is None:
        raise problems.malformed(
            f"Version {number} does not begin with a rewind. See the versions of the "
            "run."
        )
    # The claim of the rewind is a version of its own.
    view = await _view(page, run_id, earlier, newest=number - 2)
    here = RunAddresses(root=page.shell.root, run_id=run_id)
    return page.render("rewound.html", here=here, rewind=view, number=number)


async def _rewound_to(page: Page, run_id: str, number: int) -> int | None:
    """Return the version to which a run was rewound by another version."""
    if number < 1:
        return None
    async for version in page.runner.history(run_id, after=number - 1):
        found = (e.version for e in version.events if isinstance(e, RunRewound))
        return next(found, None)
    return None


async def _view(
    page: Page, run_id: str, version: int, newest: int | None = None
) -> RewindView:
    plan = await page.runner.plan_rewind(run_id, version, newest=newest)
    run = await page.runner.look(run_id, version=plan.newest)
    detail = await page.detail(run_id)
    return rewind_view(shown_rewind(plan, detail), shown_state(run.run_state, detail))


def _version(text: str | None) -> int:
    number = number_of(text, "version")
    if number is None:
        raise problems.malformed('The page needs "version". Use a link of "Versions".')
    return number


ROUTES = (
    PageRoute("/runs/{run}/rewind", ask),
    PageRoute("/runs/{run}/rewind", rewind, ("POST",)),
    PageRoute("/runs/{run}/rewound", done),
)
