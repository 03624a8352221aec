"""All pages of the console: each module of pages has a table of routes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from continuations.serve.console import (
    decided_page,
    drift_page,
    fork_page,
    grants_page,
    inbox_page,
    messages_page,
    rewind_page,
    run_acts_page,
    run_page,
    runs_page,
    threads_page,
    versions_page,
    wait_edits,
    wait_grants,
    wait_pages,
)

if TYPE_CHECKING:
    from continuations.serve.console.page import PageRoute


ROUTES: tuple[PageRoute, ...] = (
    *runs_page.ROUTES,
    *run_page.ROUTES,
    *run_acts_page.ROUTES,
    *messages_page.ROUTES,
    *versions_page.ROUTES,
    *threads_page.ROUTES,
    *fork_page.ROUTES,
    *rewind_page.ROUTES,
    *drift_page.ROUTES,
    *grants_page.ROUTES,
)


PAGES: tuple[PageRoute, ...] = (
    *inbox_page.ROUTES,
    *decided_page.ROUTES,
    *ROUTES,
    *wait_pages.ROUTES,
    *wait_edits.ROUTES,
    *wait_grants.ROUTES,
)
