"""All pages of the console: each module of pages has a table of routes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from continuations.serve.console import (
    decided_page,
    inbox_page,
    run_pages,
    wait_answers,
    wait_edits,
    wait_grants,
    wait_pages,
)

if TYPE_CHECKING:
    from continuations.serve.console.page import PageRoute

PAGES: tuple[PageRoute, ...] = (
    *inbox_page.ROUTES,
    *decided_page.ROUTES,
    *run_pages.ROUTES,
    *wait_pages.ROUTES,
    *wait_answers.ROUTES,
    *wait_edits.ROUTES,
    *wait_grants.ROUTES,
)
