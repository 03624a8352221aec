"""All pages of the console: each module of pages has a table of routes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from continuations.serve.console import decided_page, inbox_page, run_pages

if TYPE_CHECKING:
    from continuations.serve.console.page import PageRoute

PAGES: tuple[PageRoute, ...] = (
    *inbox_page.ROUTES,
    *decided_page.ROUTES,
    *run_pages.ROUTES,
)
